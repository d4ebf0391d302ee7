// What theory says, before anything runs.

import { brief } from "metastable/numbers";
import { Plot } from "metastable/plot";

export class PredictionPanel {
  constructor(find) {
    this.find = find;
    this.place = find("facts");
    this.counts = new Plot(find("chart-counts"));
    this.rates = new Plot(find("chart-rates"));
    this.counts.onresize = this.rates.onresize = () => this.draw();
    this.prediction = null;
  }

  show(prediction) {
    this.prediction = prediction;
    const first = leadSentence(prediction);
    const rest = (prediction?.sentences ?? []).filter((text) => text !== first);
    this.find("lead").textContent = first;
    this.find("lead").classList.toggle("long", first.length > 90);
    const facts = document.createElement("dl");
    facts.className = "facts";
    for (const [name, value] of factsOf(prediction)) {
      const pair = document.createElement("div");
      pair.append(
        Object.assign(document.createElement("dt"), { textContent: name }),
        Object.assign(document.createElement("dd"), { textContent: value }),
      );
      facts.append(pair);
    }
    this.place.replaceChildren(facts);
    if (rest.length) this.place.append(inWords(rest));
    this.find("counts-figure").hidden = !Object.keys(prediction?.counts ?? {}).length;
    this.find("rates-figure").hidden = !prediction?.rates?.some(Number.isFinite);
    this.draw();
  }

  draw() {
    const { counts, rates, dominant } = this.prediction ?? {};
    if (counts && this.counts.due() && !this.find("counts-figure").hidden) this.#drawCounts(counts);
    if (rates && this.rates.due() && !this.find("rates-figure").hidden)
      this.#drawRates(rates, dominant);
  }

  #drawCounts(counts) {
    const rows = Object.entries(counts)
      .map(([k, p]) => [Number(k), p])
      .filter(([, p]) => p >= 0.005);
    if (!rows.length) return;
    const ks = rows.map(([k]) => k);
    const [low, high] = [Math.min(...ks) - 1, Math.max(...ks) + 1];
    const every = Math.ceil((high - low) / 12);
    const plot = this.counts;
    plot.begin(
      {
        low: low - 0.1,
        high: high + 0.1,
        label: "clusters",
        ticks: ks.filter((k) => k % every === 0),
      },
      { low: 0, high: 112 * Math.max(...rows.map(([, p]) => p)), label: "probability, %" },
    );
    for (const [k, p] of rows) plot.bar(k - 0.38, k + 0.38, 100 * p, plot.colours.theory);
    const words = rows.map(([k, p]) => `${k}: ${Math.round(100 * p)} %`).join(", ");
    plot.canvas.setAttribute("aria-label", `Predicted number of first clusters: ${words}`);
  }

  #drawRates(rates, dominant) {
    const last = Math.min(rates.length, Math.max(8, 2 * (dominant ?? 4)));
    const known = rates.slice(0, last).map((rate) => (Number.isFinite(rate) ? rate : NaN));
    const finite = known.filter(Number.isFinite);
    const high = Math.max(0, ...finite);
    const low = Math.max(Math.min(0, ...finite), -high || -Infinity);
    const air = 0.1 * (high - low || 1);
    const plot = this.rates;
    plot.begin(
      { low: 0, high: last + 0.6, label: "mode k", whole: true },
      {
        low: low < 0 ? low - air : 0,
        high: high + air,
        label: this.prediction.clock ? `rate, 1/(${this.prediction.clock} time)` : "rate",
      },
    );
    const zero = plot.y(0);
    known.forEach((rate, i) => {
      if (!Number.isFinite(rate)) return;
      const [x0, x1] = [plot.x(i + 0.68), plot.x(i + 1.32)];
      const top = plot.y(Math.max(rate, low - air));
      plot.pen.fillStyle = plot.colours.theory;
      plot.pen.globalAlpha = i + 1 === dominant ? 1 : 0.38;
      plot.pen.fillRect(x0, Math.min(top, zero), x1 - x0, Math.abs(zero - top));
      plot.pen.globalAlpha = 1;
    });
  }
}

function inWords(sentences) {
  const details = document.createElement("details");
  details.append(Object.assign(document.createElement("summary"), { textContent: "In words" }));
  for (const text of sentences) {
    details.append(
      Object.assign(document.createElement("p"), { className: "note", textContent: text }),
    );
  }
  return details;
}

function leadSentence(prediction) {
  if (!prediction) return "–";
  const { counts, dominant, exit_time: exit, sentences = [] } = prediction;
  const likely = Object.entries(counts ?? {}).sort((a, b) => b[1] - a[1])[0];
  const when = exit > 0 ? `, near time ${brief(exit)}` : "";
  if (likely) {
    const many = likely[0] === "1" ? "1 cluster forms" : `${likely[0]} clusters form`;
    return `Most likely ${many} first${when}.`;
  }
  if (dominant)
    return `Mode ${dominant} grows fastest${when ? `; tokens leave uniformity${when}` : ""}.`;
  return sentences[0] ?? "No theorem covers this experiment: watch it, and you may be the first.";
}

function factsOf(prediction) {
  if (!prediction) return [];
  const clock = prediction.clock ? ` (${prediction.clock} time)` : "";
  const rate = prediction.dominant_rate ?? prediction.rates?.[(prediction.dominant ?? 0) - 1];
  return [
    ["dominant mode", prediction.dominant],
    ["its growth rate", rate],
    [`exit from uniform${clock}`, prediction.exit_time],
    ["first clusters, mean", prediction.expected_clusters],
    ["first plateau lasts", prediction.plateau_lifetime],
  ]
    .filter(([, value]) => value !== null && value !== undefined)
    .map(([name, value]) => [name, typeof value === "number" ? brief(value) : String(value)]);
}
