// A start made by hand: tokens are dragged on the sphere, or moved with keys.

const MOST = 512;
const REACH = 18; // pixels
const STEP = 0.06;

export class Placing {
  /** `on` holds rewound(frame): back to the start; points(rows, places): it has changed; refused(sentence). */
  constructor(button, stage, show, on) {
    Object.assign(this, { button, stage, show, on });
    this.active = false;
    this.dragging = false;
    this.spot = [0, 0, 0];
    button.addEventListener("click", () => this.set(!this.active));
    stage.canvas.addEventListener("pointermove", (event) => this.#drag(event));
    for (const name of ["pointerup", "pointercancel"]) {
      stage.canvas.addEventListener(name, () => this.#drop());
    }
    stage.canvas.addEventListener("dblclick", (event) => {
      if (this.active) this.#add(this.stage.placeUnder(event.clientX, event.clientY));
    });
  }

  set(active) {
    if (active) {
      const frame = this.show.album.frames[0];
      const flat = ["circle", "sphere", "plane"].includes(this.stage.view);
      const dim = this.show.album.head.dim ?? 3;
      if (!frame || frame.count > MOST || !flat || (this.stage.view === "sphere" && dim > 3)) {
        this.on.refused(
          `Tokens can be moved by hand on the circle and the sphere, up to ${MOST} of them: choose fewer tokens first.`,
        );
        return;
      }
      this.on.rewound(frame);
    }
    this.active = active;
    this.chosen = -1;
    this.button.setAttribute("aria-pressed", String(active));
    this.stage.canvas.classList.toggle("placing", active);
    this.show.restage();
    if (active) this.stage.canvas.focus({ preventScroll: true });
  }

  /** Whether a press is for a token. */
  takes(event) {
    if (!this.active) return false;
    const box = this.stage.canvas.getBoundingClientRect();
    this.chosen = this.#nearest(event.clientX - box.left, event.clientY - box.top);
    this.dragging = this.chosen >= 0;
    if (this.dragging) this.stage.canvas.setPointerCapture(event.pointerId);
    return this.dragging;
  }

  /** Whether a key was meant for a token. */
  key(event) {
    if (!this.active) return false;
    const count = this.#positions.length / 3;
    const steps = {
      ArrowLeft: [-STEP, 0],
      ArrowRight: [STEP, 0],
      ArrowUp: [0, STEP],
      ArrowDown: [0, -STEP],
    };
    if (event.key === "n") this.chosen = (this.chosen + 1) % count;
    else if (event.key === "Escape") this.set(false);
    else if (event.key === "a") this.#add([...this.#at(Math.max(0, this.chosen))]);
    else if (event.key === "Delete" && this.chosen >= 0 && count > 1) this.#remove(this.chosen);
    else if (steps[event.key] && this.chosen >= 0) this.#nudge(steps[event.key]);
    else return false;
    return true;
  }

  get chosen() {
    return this.stage.tokens.chosen;
  }

  set chosen(token) {
    this.stage.tokens.chosen = token;
    this.show.restage();
  }

  get #positions() {
    return this.show.album.frames[0].positions;
  }

  #at(i) {
    return this.#positions.subarray(3 * i, 3 * i + 3);
  }

  #nearest(x, y) {
    let [best, least] = [-1, REACH];
    for (let i = 0; i < this.#positions.length / 3; i++) {
      this.stage.project(...this.#at(i), this.spot);
      const distance = Math.hypot(this.spot[0] - x, this.spot[1] - y) + (this.spot[2] < 0 ? 40 : 0);
      if (distance < least) [best, least] = [i, distance];
    }
    return best;
  }

  #drag(event) {
    if (!this.dragging) return;
    this.#at(this.chosen).set(this.stage.placeUnder(event.clientX, event.clientY));
    this.show.restage();
  }

  #drop() {
    if (!this.dragging) return;
    this.dragging = false;
    this.#tell();
  }

  #nudge([dx, dy]) {
    const at = this.#at(this.chosen);
    const box = this.stage.canvas.getBoundingClientRect();
    this.stage.project(...at, this.spot);
    const scale = 0.25 * Math.min(box.width, box.height);
    at.set(
      this.stage.placeUnder(
        box.left + this.spot[0] + dx * scale,
        box.top + this.spot[1] - dy * scale,
      ),
    );
    this.#tell();
  }

  #add(place) {
    this.chosen = this.#positions.length / 3;
    this.#tell(Float32Array.of(...this.#positions, ...place));
  }

  #remove(i) {
    this.chosen = -1;
    this.#tell(this.#positions.filter((_, k) => Math.floor(k / 3) !== i));
  }

  #tell(places = this.#positions) {
    const size = this.stage.view === "sphere" ? 3 : 2;
    const points = Array.from({ length: places.length / 3 }, (_, i) =>
      Array.from(places.subarray(3 * i, 3 * i + size), (value) => Number(value.toFixed(5))),
    );
    this.on.points(points, places);
  }
}
