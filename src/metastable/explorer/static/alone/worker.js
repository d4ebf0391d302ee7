// The thread that computes: one run, frame by frame, then the last tokens as they are.

import { Adaptive, Attention, Noisy, normalise } from "./motion.js";
import { Random } from "./random.js";
import { look } from "./sight.js";

const TOLERANCE = 3e-9; // measured: tokens within 1e−7 of a run at 1e−12 after t = 5
const LOOKED = 500; // tokens for which every frame is looked at; of k times as many every k-th
const SPELL = 20; // milliseconds at work before it sends what it has, rests, and listens

/** Frames on their way to the page, many in one message; and when to rest. */
class Sending {
  constructor() {
    this.rest = 0; // how many times longer than it worked
    this.frames = [];
    this.began = performance.now();
  }

  add(frame) {
    this.frames.push(frame);
  }

  /** Pictures need the cores too: between spells this thread leaves them all. */
  async pause() {
    const worked = performance.now() - this.began;
    if (worked < SPELL) return;
    this.flush();
    await new Promise((resolve) => setTimeout(resolve, this.rest * worked));
    this.began = performance.now();
  }

  flush() {
    const { frames } = this;
    if (!frames.length) return;
    this.frames = [];
    // Given away, not copied.
    const buffers = frames.flatMap(({ arrays }) => Object.values(arrays).map(({ buffer }) => buffer));
    postMessage({ frames }, [...new Set(buffers)]);
  }
}

const sending = new Sending();

async function compute({ points, dim, head, kappa, horizon, frames, seed }) {
  const x = normalise(Float64Array.from(points));
  const n = x.length / 3;
  const field = new Attention(head, n);
  const every = Math.ceil(n / LOOKED);
  const step = horizon / (frames - 1);
  const before = Float64Array.from(x);
  const labels = { cluster: new Uint16Array(n), count: null };

  const show = (index, time, at) => {
    const arrays = { positions: new Float32Array(3 * n), speed: new Float32Array(n) };
    for (let i = 0; i < n; i++) {
      let moved = 0;
      for (let c = 0; c < 3; c++) {
        arrays.positions[3 * i + c] = at[c * n + i];
        moved += (at[c * n + i] - before[c * n + i]) ** 2;
      }
      arrays.speed[i] = index ? Math.sqrt(moved) / step : 0;
    }
    const header = { kind: "frame", index, time };
    if (index % every === 0 || index === frames - 1) {
      const seen = look(at, dim, head);
      Object.assign(header, seen.numbers);
      arrays.attention = seen.arrays.attention;
      labels.cluster = seen.arrays.cluster;
      labels.count = seen.numbers.clusters;
    }
    header.clusters = labels.count;
    arrays.cluster = Uint16Array.from(labels.cluster);
    before.set(at);
    sending.add({ header, arrays });
  };

  const moment = (index) => (index === frames - 1 ? horizon : step * index);
  show(0, 0, x);
  sending.flush();
  let last = x;
  let evaluations = 0;
  if (kappa > 0) {
    const noisy = new Noisy(field, x, dim, kappa, new Random(seed, 1));
    for (let index = 1; index < frames; index++) {
      noisy.advance(moment(index) - moment(index - 1));
      show(index, moment(index), x);
      await sending.pause();
    }
  } else {
    const flow = new Adaptive(field, x, horizon, TOLERANCE);
    for (let index = 1; index < frames; index++) {
      while (flow.time < moment(index)) {
        flow.advance();
        await sending.pause();
      }
      last = flow.at(moment(index));
      show(index, moment(index), last);
      await sending.pause();
    }
    evaluations = flow.evaluations;
  }
  sending.flush();
  postMessage({ finished: { last, evaluations } });
}

onmessage = ({ data }) => {
  if (data.rest !== undefined) {
    sending.rest = data.rest;
    return;
  }
  compute(data).catch((error) => {
    sending.flush();
    postMessage({ failed: error.message });
  });
};
