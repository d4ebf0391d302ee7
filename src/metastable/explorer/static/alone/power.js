// Powers of two in float64 without a call into the library: half the time of Math.exp, where all
// pairs of tokens ask for one. The exponent is split into a whole number, parts of 1/256 that a
// table holds, and a rest whose series of degree four ends below the rounding of its sum.

const PARTS = 256;
const LEAST = -1075; // 2 to this and below is 0
const MOST = 1024 * PARTS - 0.5; // from here on w/256 would round to 1024
const ROUND = 1.5 * 2 ** 52; // added and taken away, it rounds to whole numbers
const ROOTS = Float64Array.from({ length: PARTS }, (_, k) => 2 ** (k / PARTS));
const WHOLES = Float64Array.from({ length: 1025 - LEAST }, (_, k) => 2 ** (k + LEAST));
const PART = Math.LN2 / PARTS;
const [R2, R3, R4] = [PART ** 2 / 2, PART ** 3 / 6, PART ** 4 / 24];

/** e^z is `power(UNIT * z)`. */
export const UNIT = PARTS / Math.LN2;

/** 2^(w/256). */
export function power(w) {
  if (!(w > LEAST * PARTS && w < MOST)) return w < 0 ? 0 : w > 0 ? Infinity : NaN;
  const whole = w + ROUND - ROUND;
  const rest = w - whole;
  const k = whole | 0;
  const near = ROOTS[k & (PARTS - 1)] * WHOLES[(k >> 8) - LEAST];
  return near + near * rest * (PART + rest * (R2 + rest * (R3 + rest * R4)));
}
