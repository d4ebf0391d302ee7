// What is asked of the server when a specification changes: what theory says, where tokens stand.
// Only the last specification matters.

import * as server from "metastable/server";

// Milliseconds: after the last change before anything is asked; after the first prediction before a
// sharper distribution is, which takes some fifty times as long, and only where the first was quick.
const PATIENCE = 140;
const REST = 900;
const QUICK = 700;

export class Questions {
  /** `on` holds predicted(prediction or null), placed(spec, packet), refused(sentence). */
  constructor(on) {
    this.on = on;
    this.asked = new AbortController();
  }

  drop() {
    this.asked.abort();
    clearTimeout(this.timer);
  }

  ask(spec, places) {
    this.drop();
    this.asked = new AbortController();
    const { signal } = this.asked;
    this.timer = setTimeout(() => {
      this.#try(this.#theory(spec, signal), () => this.on.predicted(null));
      if (places) this.#try(this.#places(spec, signal));
    }, PATIENCE);
  }

  async #theory(spec, signal) {
    const began = performance.now();
    const first = await server.predict(spec, false, signal);
    this.on.predicted(first);
    if (first.fine !== false || performance.now() - began > QUICK) return;
    await new Promise((resolve) => setTimeout(resolve, REST));
    if (!signal.aborted) this.on.predicted(await server.predict(spec, true, signal));
  }

  async #places(spec, signal) {
    this.on.placed(spec, await server.place(spec, signal));
  }

  async #try(answer, failed = () => {}) {
    try {
      await answer;
    } catch (error) {
      if (error.name === "AbortError") return;
      failed();
      this.on.refused(error.message);
    }
  }
}
