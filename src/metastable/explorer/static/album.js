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
    this.logClusters = [];
    this.modes = []; // of each mode the logarithms of its amplitudes
    this.faintest = 0; // a floor for their axis
    // Costly pictures come with some frames only: for each frame the newest that has one.
    this.heatmaps = [];
    this.histograms = [];
    this.seen = []; // {index, time, maxima, spread} of frames whose maxima were counted
    this.tokens = 0;
    this.fastest = 0;
    this.fromZero = false;
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
    // Uniform tokens hang together in one crowd, which the count calls a cluster and a reader not.
    this.clusters.push(frame.colours.crowd ? NaN : number(header.clusters));
    this.logClusters.push(Math.log10(this.clusters.at(-1)));
    const { maxima, spread } = header;
    if (maxima !== undefined) this.seen.push({ index: this.length - 1, time, maxima, spread });
    this.#addModes(header.amplitudes ?? []);
    this.heatmaps.push(arrays.attention ?? this.heatmaps.at(-1) ?? null);
    this.histograms.push(header.histogram ?? this.histograms.at(-1) ?? null);
    this.tokens = Math.max(this.tokens, count);
    if (arrays.speed) {
      for (let i = 0; i < count; i++) {
        if (arrays.speed[i] > this.fastest) this.fastest = arrays.speed[i];
      }
    }
    // t = 0 has no logarithm: it stands one frame before the first that has.
    if (this.length === 1) this.fromZero = !Number.isFinite(this.log[0]);
    if (this.fromZero && this.length === 2) this.log[0] = this.log[1] - 0.25;
    if (this.fromZero && this.length === 3) {
      this.log[0] = this.log[1] - Math.max(1e-3, this.log[2] - this.log[1]);
    }
  }

  #addModes(amplitudes) {
    const first = !this.modes.length;
    amplitudes.forEach((amplitude, k) => {
      this.modes[k] ??= new Array(this.length - 1).fill(NaN);
      const log = amplitude > 0 ? Math.log10(amplitude) : NaN;
      if (first && log < this.faintest) this.faintest = Math.max(-8, log);
      this.modes[k].push(log);
    });
    for (let k = amplitudes.length; k < this.modes.length; k++) this.modes[k].push(NaN);
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
