// The frames kept of one run, and its numbers over time.

import { matchColours } from "metastable/identity";

const number = (value) => (typeof value === "number" && Number.isFinite(value) ? value : NaN);

export class Album {
  constructor(head = {}) {
    this.head = head;
    this.frames = [];
    this.linear = [];
    this.log = [];
    this.energy = [];
    this.clusters = [];
    this.amplitudes = [];
    this.heatmaps = []; // index of the newest frame with an attention matrix, for each frame
    this.tokens = 0;
    this.fastest = 0;
    this.end = null;
  }

  get length() {
    return this.frames.length;
  }

  add({ header, arrays }) {
    const { positions } = arrays;
    if (!positions) throw new Error("A frame holds no positions.");
    const count = positions.length / 3;
    const before = this.frames.at(-1);
    const frame = { header, ...arrays, count, colours: null };
    frame.colours = matchColours(frame, before);
    this.frames.push(frame);
    const log = number(header.log10_time);
    const time = header.time === 0 ? 0 : number(header.time);
    this.linear.push(Number.isNaN(time) ? 10 ** log : time);
    this.log.push(Number.isNaN(log) ? Math.log10(time) : log);
    this.energy.push(number(header.energy));
    this.clusters.push(number(header.clusters));
    this.amplitudes.push(header.amplitudes ?? []);
    const seen = arrays.attention ? this.length - 1 : (this.heatmaps.at(-1) ?? -1);
    this.heatmaps.push(seen);
    this.tokens = Math.max(this.tokens, count);
    if (arrays.speed) {
      for (let i = 0; i < count; i++) {
        if (arrays.speed[i] > this.fastest) this.fastest = arrays.speed[i];
      }
    }
    // t = 0 has no logarithm: it stands one frame before the first that has.
    if (this.length === 2 && !Number.isFinite(this.log[0])) this.log[0] = this.log[1] - 0.25;
    if (this.length === 3 && !Number.isFinite(before?.log ?? 0)) {
      this.log[0] = this.log[1] - Math.max(1e-3, this.log[2] - this.log[1]);
    }
  }

  /** Places of the frames on the chosen clock, rising. */
  places(clock) {
    return clock === "log" ? this.log : this.linear;
  }

  /** The frame at or before a place, found by bisection. */
  indexAt(place, clock) {
    const places = this.places(clock);
    let low = 0;
    let high = places.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (places[middle] <= place) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}
