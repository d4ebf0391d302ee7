// Charts over time: the energy staircase, the number of clusters, the amplitudes of the modes.
// Blue is what happened, vermilion is theory.

import { Plot } from "metastable/plot";
import { scaleCss } from "metastable/palette";
import { write } from "metastable/text";

const SLOPES = 4; // modes whose predicted growth is drawn

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

  /** `time` is {clock, low, high, label, now, exit, plays}: all charts share one axis. */
  draw(album, prediction, time) {
    const places = album.places(time.clock);
    const x = { low: time.low, high: time.high, label: time.label, log: time.clock === "log" };
    this.#energy(album, places, x, time);
    this.#clusters(album, places, x, time, prediction);
    this.#modes(album, places, x, time, prediction);
  }

  #energy(album, places, x, time) {
    const plot = this.#ready("energy", time, album.energy.some(Number.isFinite) || album.length < 2);
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
    const wanted = album.clusters.some(Number.isFinite) || album.length < 2;
    const plot = this.#ready("clusters", time, wanted);
    if (!plot) return;
    const [, most] = range(album.clusters, 1, 10);
    const log = most > 24;
    const values = log ? album.logClusters : album.clusters;
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
    const { modes } = album;
    const plot = this.#ready("modes", time, modes.length > 0 || album.length < 2);
    if (!plot) return;
    const low = Math.min(-1, album.faintest - 0.3);
    plot.begin(x, { low, high: 0.25, log: true, label: "amplitude of mode k" });
    const dominant = (prediction?.dominant ?? 0) - 1;
    for (let k = modes.length - 1; k >= 0; k--) {
      if (k === dominant) continue;
      plot.line(places, modes[k], {
        colour: scaleCss(k / Math.max(1, modes.length - 1)),
        width: 1.1,
        alpha: 0.55,
      });
    }
    write(this.modesNote, modes[dominant] ? `bold: k = ${dominant + 1}` : "");
    if (modes[dominant])
      plot.line(places, modes[dominant], { colour: plot.colours.accent, width: 2.4 });
    const rates = prediction?.slopes ?? prediction?.rates ?? [];
    const until = 1.15 * (prediction?.exit_time ?? 0);
    for (const k of fastest(rates, SLOPES)) {
      const bold = k === dominant;
      if (Number.isFinite(modes[k]?.[0]))
        slope(plot, modes[k][0], rates[k], until, time.clock, bold);
    }
    marks(plot, time);
  }

  #ready(name, { plays }, wanted) {
    this.figures[name].hidden = !wanted;
    return wanted && this.plots[name].due(plays) ? this.plots[name] : null;
  }
}

/** Indices of the largest rates that are positive. */
const fastest = (rates, most) =>
  [...rates.keys()]
    .filter((k) => rates[k] > 0)
    .sort((a, b) => rates[b] - rates[a])
    .slice(0, most);

/** e^{λt} from where a mode begins, up to a little after the exit. */
function slope(plot, start, rate, until, clock, bold) {
  const times = Array.from({ length: 49 }, (_, i) => (until * i) / 48);
  plot.line(
    clock === "log" ? times.map(Math.log10) : times,
    times.map((t) => start + (rate * t) / Math.LN10),
    { colour: plot.colours.theory, width: bold ? 2 : 1, alpha: bold ? 1 : 0.45, dash: [5, 4] },
  );
}

function marks(plot, time) {
  plot.mark(time.exit, plot.colours.theory, [2, 3]);
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
  if (most - least > 1e-12 * Math.abs(most)) return [least, most];
  return most ? [Math.min(0, 2 * most), Math.max(0, 2 * most)] : [low, high];
}
