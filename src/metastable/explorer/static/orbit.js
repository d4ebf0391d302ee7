// Turning and zooming the view: mouse, touch (one finger turns, two zoom) and keys.

const TURN = 0.006; // radians a pixel
const KEY_TURN = 0.12;
const LIMIT = Math.PI / 2 - 0.02;

export class Orbit {
  /** `taken(event)` says that a press is for something else, such as a token. */
  constructor(canvas, changed, taken) {
    this.changed = changed;
    this.pointers = new Map();
    this.spread = 0;
    this.home("sphere");
    canvas.addEventListener("pointerdown", (event) => {
      if (taken(event)) return;
      canvas.setPointerCapture(event.pointerId);
      this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
      this.spread = this.#spread();
    });
    canvas.addEventListener("pointermove", (event) => this.#move(event));
    for (const name of ["pointerup", "pointercancel"]) {
      canvas.addEventListener(name, (event) => {
        this.pointers.delete(event.pointerId);
        this.spread = this.#spread();
      });
    }
    canvas.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        this.zoom(Math.exp(0.001 * event.deltaY));
      },
      { passive: false },
    );
  }

  home(view) {
    this.view = view;
    const tilted = view === "sphere" || view === "space";
    this.yaw = tilted ? 0.5 : 0;
    this.pitch = tilted ? 0.32 : 0;
    this.distance = { space: 6.4, plane: 4.7 }[view] ?? 4.1;
    this.changed?.();
  }

  zoom(factor) {
    this.distance = Math.min(12, Math.max(1.35, this.distance * factor));
    this.changed();
  }

  turn(yaw, pitch) {
    this.yaw += yaw;
    this.pitch = Math.min(LIMIT, Math.max(-LIMIT, this.pitch + pitch));
    this.changed();
  }

  /** Whether a key was meant for the view. */
  key(event) {
    const turns = {
      ArrowLeft: [-KEY_TURN, 0],
      ArrowRight: [KEY_TURN, 0],
      ArrowUp: [0, KEY_TURN],
      ArrowDown: [0, -KEY_TURN],
    };
    if (turns[event.key]) this.turn(...turns[event.key]);
    else if (event.key === "+" || event.key === "=") this.zoom(0.9);
    else if (event.key === "-") this.zoom(1 / 0.9);
    else if (event.key === "0") this.home(this.view);
    else return false;
    return true;
  }

  aim(camera) {
    const { yaw, pitch, distance } = this;
    camera.position.set(
      distance * Math.cos(pitch) * Math.sin(yaw),
      distance * Math.sin(pitch),
      distance * Math.cos(pitch) * Math.cos(yaw),
    );
    camera.lookAt(0, 0, 0);
  }

  #move(event) {
    const last = this.pointers.get(event.pointerId);
    if (!last) return;
    const dx = event.clientX - last.x;
    const dy = event.clientY - last.y;
    last.x = event.clientX;
    last.y = event.clientY;
    if (this.pointers.size === 1) {
      this.turn(-TURN * dx, TURN * dy);
    } else {
      const spread = this.#spread();
      if (this.spread > 0 && spread > 0) this.zoom(this.spread / spread);
      this.spread = spread;
    }
  }

  #spread() {
    if (this.pointers.size !== 2) return 0;
    const [a, b] = [...this.pointers.values()];
    return Math.hypot(a.x - b.x, a.y - b.y);
  }
}
