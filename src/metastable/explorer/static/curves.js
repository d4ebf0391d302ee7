// Charts over time: the energy staircase, the number of clusters, the amplitudes of the modes.
// Blue is what happened, vermilion is theory.

import { Plot } from "metastable/plot";
import { scaleCss } from "metastable/palette";

export class Curves {
  constructor(find) {
    this.plots = Object.fromEntries(
      ["energy", "clusters", "modes"].map((name) => [name, new Plot(find(`chart-${name}`))]),
    );
    this.figures = Object.fromEntries(
      ["energy", "clusters", "modes"].map((name) => [
        name,
        find(`chart-${name}`).closest("figure"),
      ]),
    );
    this.modesNote = find("modes-note");
  }

  onresize(redraw) {
    for (const plot of Object.values(this.plots)) plot.onresize = redraw;
  }

  /** `time` is {clock, low, high, label, now, exit}: all charts share one axis. */
  draw(album, prediction, time) {
    const places = album.places(time.clock);
    const x = { low: time.low, high: time.high, label: time.label, log: time.clock === "log" };
    this.#energy(album, places, x, time);
    this.#clusters(album, places, x, time, prediction);
    this.#modes(album, places, x, time, prediction);
  }

  #energy(album, places, x, time) {
    const plot = this.#ready("energy", album.energy.some(Number.isFinite) || !album.length);
    if (!plot) return;
    const [low, high] = range(album.energy, 0, 1);
    plot.begin(x, {
      low: low - 0.06 * (high - low),
      high: high + 0.06 * (high - low),
      label: "energy",
    });
    plot.line(places, album.energy, { colour: plot.colours.accent, width: 2 });
    marks(plot, time);
  }

  #clusters(album, places, x, time, prediction) {
    const plot = this.#ready("clusters", album.clusters.some(Number.isFinite) || !album.length);
    if (!plot) return;
    const [, most] = range(album.clusters, 1, 10);
    const log = most > 24;
    const values = log ? album.clusters.map(Math.log10) : album.clusters;
    const y = log
      ? { low: -0.08, high: Math.log10(most) + 0.12, log, label: "clusters" }
      : { low: 0, high: most + 0.6, whole: true, label: "clusters" };
    plot.begin(x, y);
    const expected = prediction?.expected_clusters;
    if (expected > 0) {
      const level = log ? Math.log10(expected) : expected;
      plot.line([x.low, x.high], [level, level], {
        colour: plot.colours.theory,
        width: 1.5,
        dash: [5, 4],
      });
    }
    plot.line(places, values, { colour: plot.colours.accent, width: 2, steps: true });
    marks(plot, time);
  }

  #modes(album, places, x, time, prediction) {
    const count = album.amplitudes.reduce((most, row) => Math.max(most, row.length), 0);
    const plot = this.#ready("modes", count > 0 || !album.length);
    if (!plot) return;
    const logs = Array.from({ length: count }, (_, k) =>
      album.amplitudes.map((row) => (row[k] > 0 ? Math.log10(row[k]) : NaN)),
    );
    const all = logs.flat().filter(Number.isFinite);
    const low = Math.max(-8, Math.min(0, ...(all.length ? [percentile(all, 0.02)] : [-3])) - 0.2);
    plot.begin(x, { low, high: 0.25, log: true, label: "amplitude of mode k" });
    const dominant = (prediction?.dominant ?? 0) - 1;
    for (let k = count - 1; k >= 0; k--) {
      if (k === dominant) continue;
      plot.line(places, logs[k], {
        colour: scaleCss(k / Math.max(1, count - 1)),
        width: 1.1,
        alpha: 0.55,
      });
    }
    this.modesNote.textContent = logs[dominant] ? `bold: k = ${dominant + 1}` : "";
    if (logs[dominant]) {
      plot.line(places, logs[dominant], { colour: plot.colours.accent, width: 2.4 });
      this.#slope(plot, album, logs[dominant], places, prediction, dominant);
    }
    marks(plot, time);
  }

  /** e^{λt} from where the mode began, up to the exit. */
  #slope(plot, album, logs, places, prediction, k) {
    const rate = prediction.slopes?.[k] ?? prediction.rates?.[k];
    if (!Number.isFinite(rate) || !Number.isFinite(logs[0])) return;
    const until = 1.15 * (prediction.exit_time ?? Infinity);
    const line = album.linear.map((t) => (t <= until ? logs[0] + (rate * t) / Math.LN10 : NaN));
    plot.line(places, line, { colour: plot.colours.theory, width: 2, dash: [5, 4] });
  }

  #ready(name, wanted) {
    this.figures[name].hidden = !wanted;
    return wanted && this.plots[name].ready ? this.plots[name] : null;
  }
}

function marks(plot, time) {
  plot.mark(time.exit, plot.colours.theory, { dash: [2, 3] });
  plot.mark(time.now, plot.colours.ink);
}

function range(values, low, high) {
  let least = Infinity;
  let most = -Infinity;
  for (const value of values) {
    if (value < least) least = value;
    if (value > most) most = value;
  }
  if (least > most) return [low, high];
  return most - least > 1e-12 * Math.abs(most) ? [least, most] : [least - 0.5, most + 0.5];
}

function percentile(values, share) {
  values.sort((a, b) => a - b);
  return values[Math.floor(share * (values.length - 1))];
}
