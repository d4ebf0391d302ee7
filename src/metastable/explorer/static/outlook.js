// One sentence for the first screen: what theory expects, and what was seen so far.

import { brief } from "metastable/numbers";

const GATHERED = 0.5; // root mean square distance to the next maximum, in widths β^{−1/2}
const LEVEL = 0.01;

const likely = (counts) =>
  Number(Object.entries(counts ?? {}).sort((a, b) => b[1] - a[1])[0]?.[0] ?? NaN);
const clusters = (count) => (count === 1 ? "1 cluster" : `${count} clusters`);

/** `seen` holds {time, maxima, spread}, in order of time, up to the moment shown. */
export function outlook(prediction, seen, playing = false) {
  if (!prediction) return null;
  const { counts, exit_time: exit, dominant } = prediction;
  const near = exit ? ` near t = ${brief(exit)}` : "";
  const theory = [
    [prediction.uniform === false, "speaks of uniform starts only"],
    [counts, `most likely ${clusters(likely(counts))}${near}`],
    [dominant, `mode ${dominant} leads tokens out of uniformity${near}`],
    [prediction.rates, "tokens stay spread out"],
    [true, "silent on counts"],
  ].find(([holds]) => holds)[1];
  const first = seen.find(({ time }) => time >= (exit ?? Infinity));
  const gathered = seen.find(({ time, spread }) => time > 0 && spread < GATHERED);
  const now = seen.at(-1);
  const parts = [];
  if (first) parts.push(`${first.maxima} at t = ${brief(first.time)}`);
  if (gathered) {
    const many = gathered.maxima === first?.maxima ? "" : `${gathered.maxima} `;
    parts.push(`${many}gathered by t = ${brief(gathered.time)}`);
  }
  if (gathered && now.maxima !== gathered.maxima) parts.push(`now ${now.maxima}`);
  if (!parts.length) parts.push(playing || now?.time > 0 ? "not yet" : "press play");
  return { theory, seen: parts.join(", ") };
}

/** The verdict on the first count, as `metastable compare` gives it; null where theory is silent. */
export function firstClusters({ counts, exit_time: exit, uniform }, seen) {
  const first = seen.find(({ time }) => time >= exit);
  if (!counts || !uniform || !first) return null;
  const tail = (side) =>
    Object.entries(counts).reduce((sum, [k, p]) => sum + (side(Number(k)) ? p : 0), 0);
  const p = Math.min(1, 2 * Math.min(tail((k) => k <= first.maxima), tail((k) => k >= first.maxima)));
  const shown = Object.entries(counts).filter(([, share]) => share >= 0.005);
  return {
    claim: "number of first clusters",
    source: "linear growth of random amplitudes; distribution interpolated in tables",
    expected: Object.fromEntries(shown.map(([k, share]) => [k, share.toFixed(2)])),
    observed: first.maxima,
    verdict: p < LEVEL ? "disagree" : "agree",
    tolerance: `p = ${p.toPrecision(2)}`,
  };
}
