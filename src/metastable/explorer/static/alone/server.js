// Answers that a server would give, from what the page holds.

import { jobOf, places } from "metastable/starts";
import { embedded, predictJob } from "metastable/tables";

export const autoplay = !matchMedia("(prefers-reduced-motion: reduce)").matches;

const STARTS = ["uniform", "von_mises_fisher", "tokens", "given"];
const VALUES = ["identity", "minus"];

export async function about() {
  keep("measure", STARTS);
  keep("value", VALUES);
  const { version, presets, limits } = embedded();
  return { version, presets, limits };
}

/** Of a choice only what this page can do. */
function keep(id, values) {
  const select = document.getElementById(id);
  for (const option of [...select.options]) if (!values.includes(option.value)) option.remove();
}

export const predict = async (spec) =>
  predictJob(jobOf(spec), (spec.measure?.kind ?? "uniform") === "uniform");

export async function place(spec) {
  const positions = places(jobOf(spec).points);
  // All in one: where they are spread out the stage takes them for a crowd, which is grey.
  const cluster = new Uint16Array(positions.length / 3);
  return { header: { index: 0, time: 0 }, arrays: { positions, cluster } };
}

const STARTED = {
  uniform: (m) => `ms.uniform(tokens=${m.tokens ?? 1000}, dim=${m.dim ?? 2}, seed=${m.seed ?? 0})`,
  von_mises_fisher: (m) =>
    `ms.von_mises_fisher(tokens=${m.tokens ?? 1000}, centre=[${m.centre}], ` +
    `concentration=${m.concentration ?? 5}, seed=${m.seed ?? 0})`,
  tokens: (m) => `ms.Points(${JSON.stringify(m.points)})`,
};

export async function exported(spec) {
  const { measure = {}, flow = {} } = spec;
  const { head, kappa, horizon, frames } = jobOf(spec);
  const given = [`beta=${head.beta}`];
  if (head.sign < 0) given.push("value=-1");
  if (!head.normalized) given.push("normalized=False");
  if (head.causal) given.push("causal=True");
  const noise = kappa ? ` + ms.Noise(${kappa})` : "";
  const drawn = (measure.kind ?? "uniform") === "tokens" ? "" : "  # other draws than the page's";
  const seed = flow.seed ? `, seed=${flow.seed}` : "";
  const python = `import metastable as ms

start = ${STARTED[measure.kind ?? "uniform"](measure)}${drawn}
field = ms.SelfAttention(${given.join(", ")})${noise}
ms.predict(field, start).print()
run = ms.flow(start, field, horizon=${horizon}, frames=${frames}${seed})
ms.compare(run).print()
`;
  return { python };
}

const absent = async () => {
  throw new Error("This page has no server: start one with `metastable explore`.");
};
export const [folder, sweep, cell, recording] = [absent, absent, absent, absent];
export const downloadAddress = () => "";
