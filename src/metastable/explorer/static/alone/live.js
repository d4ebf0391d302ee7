// One run in a worker of this page. Same words as the connection to a server.

import { firstClusters } from "metastable/outlook";
import { jobOf } from "metastable/starts";
import { predictJob } from "metastable/tables";

const AHEAD = 0.8; // seconds of playback that should be there
const APART = 1000 / 40; // milliseconds between pictures; where they are more the worker rests
const MOST_REST = 3; // in times of its work
const TURNS = 30; // pictures from no rest to the most

let source = null;

/** A worker may not be a module where a page is opened from disk: it is a plain script in a blob. */
function newWorker() {
  const text = document.getElementById("worker").textContent;
  source ??= URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  return new Worker(source);
}

export class Live {
  /** `on` holds started(message), frame(packet), finished(message), failed(sentence). */
  constructor(on) {
    this.on = on;
    this.running = false;
    this.last = null; // the tokens at the end of the run, in float64
  }

  start({ spec, frames }) {
    this.stop();
    let job;
    try {
      job = jobOf(spec);
    } catch (error) {
      this.on.failed(error.message);
      return;
    }
    this.running = true;
    this.seen = [];
    this.pace = { now: null, rest: 0, told: 0 };
    this.prediction = predictJob(job, (spec.measure?.kind ?? "uniform") === "uniform");
    this.worker = newWorker();
    this.worker.onmessage = ({ data }) => this.#hear(data);
    this.worker.onerror = (event) => this.#hear({ failed: event.message });
    const { prediction } = this;
    this.on.started({ dim: job.dim, clock: prediction.clock, prediction });
    this.worker.postMessage({ ...job, frames });
  }

  stop() {
    this.worker?.terminate();
    this.worker = null;
    this.running = false;
    this.last = null;
  }

  /** No more frames: what there is becomes the whole run. */
  end() {
    if (this.running) this.#finish("Stopped.");
  }

  /**
   * Called once for each picture: `ahead` are the seconds of playback there are frames for, null
   * while it stands. Pictures go before frames, which they slide between: where too few come, or
   * frames are ahead of them, the worker rests.
   */
  acknowledge(now, ahead) {
    if (!this.running) return;
    const { pace } = this;
    const slow = pace.now !== null && now - pace.now > APART;
    pace.now = now;
    const turn = (slow || ahead > AHEAD ? MOST_REST : -MOST_REST) / TURNS;
    pace.rest = ahead === null ? 0 : Math.min(MOST_REST, Math.max(0, pace.rest + turn));
    const rest = Math.round(2 * pace.rest) / 2;
    if (rest === pace.told) return;
    pace.told = rest;
    this.worker.postMessage({ rest });
  }

  #hear({ frames, finished, failed }) {
    if (!this.running) return;
    if (frames) {
      for (const frame of frames) {
        const { time, maxima, spread } = frame.header;
        if (maxima !== undefined) this.seen.push({ time, maxima, spread });
        this.on.frame(frame);
      }
    } else if (finished) {
      const { evaluations, last } = finished;
      const cost = evaluations ? `, ${evaluations} evaluations of all pairs` : "";
      this.#finish(`Computed on this page in float64${cost}.`, last);
    } else {
      this.stop();
      this.on.failed(failed);
    }
  }

  #finish(outcome, last = null) {
    this.stop();
    this.last = last;
    const row = firstClusters(this.prediction, this.seen);
    this.on.finished({ outcome, verdicts: row ? [row] : [] });
  }
}
