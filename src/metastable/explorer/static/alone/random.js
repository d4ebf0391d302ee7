// Random numbers of our own, the same for a seed on every machine: sfc32 (Doty-Humphrey), 53 bits.

export class Random {
  /** `seed`: a whole number, or its digits; `stream` separates uses of one seed. */
  constructor(seed, stream = 0) {
    const whole = BigInt(seed);
    this.a = Number(whole & 0xffffffffn) | 0;
    this.b = Number((whole >> 32n) & 0xffffffffn) | 0;
    this.c = (0x9e3779b9 + stream) | 0;
    this.counter = 1;
    this.spare = null;
    for (let k = 0; k < 16; k++) this.#word();
  }

  #word() {
    const sum = (((this.a + this.b) | 0) + this.counter) | 0;
    this.counter = (this.counter + 1) | 0;
    this.a = this.b ^ (this.b >>> 9);
    this.b = (this.c + (this.c << 3)) | 0;
    this.c = (((this.c << 21) | (this.c >>> 11)) + sum) | 0;
    return sum >>> 0;
  }

  /** In [0, 1). */
  uniform() {
    return (this.#word() * 0x200000 + (this.#word() >>> 11)) / 2 ** 53;
  }

  /** Box and Muller's pair, one at a time. */
  normal() {
    if (this.spare !== null) {
      const kept = this.spare;
      this.spare = null;
      return kept;
    }
    const radius = Math.sqrt(-2 * Math.log(1 - this.uniform()));
    const angle = 2 * Math.PI * this.uniform();
    this.spare = radius * Math.sin(angle);
    return radius * Math.cos(angle);
  }
}
