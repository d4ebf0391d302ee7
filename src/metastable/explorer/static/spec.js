// Between the controls and the specification. The specification is the truth: what the controls
// cannot express is shown and edited as it is.

const KNOWN = [
  "uniform",
  "planted",
  "von_mises_fisher",
  "orthogonal",
  "polygon",
  "simplex",
  "gaussian_points",
  "tokens",
];
const DEFAULTS = {
  normalized: true,
  causal: false,
  sum: "auto",
  check: false,
  scale: 1,
  alpha: 1,
  until: 1,
  euclidean: false,
  positional: false,
  seed: 0,
};

/** A specification without what is default, in one order of keys: equal runs give equal text. */
export function lean(node) {
  if (Array.isArray(node)) return node.map(lean);
  if (!node || typeof node !== "object") return node;
  const kept = Object.entries(node)
    .map(([key, value]) => [key, lean(value)])
    .filter(([key, value]) => value !== null && value !== undefined && value !== DEFAULTS[key])
    .filter(([key, value]) => !(Array.isArray(value) && !value.length) && key !== "name")
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(kept);
}

const sameSpec = (a, b) => JSON.stringify(lean(a)) === JSON.stringify(lean(b));

export function operatorSpec({ kind, seed = 0, rows }, head = 0) {
  if (kind === "identity") return null;
  if (kind === "minus") return -1;
  if (kind === "own") return rows;
  return { draw: kind, seed: seed + head };
}

export function operatorSettings(spec) {
  if (spec === null || spec === undefined || spec === 1) return { kind: "identity", seed: 0 };
  if (spec === -1) return { kind: "minus", seed: 0 };
  if (typeof spec === "object" && spec.draw) return { kind: spec.draw, seed: spec.seed ?? 0 };
  return { kind: "own", seed: 0, rows: spec };
}

export function toSpec(s) {
  const attention = (head) => ({
    kind: "self_attention",
    beta: s.beta,
    query: operatorSpec(s.query, head),
    key: operatorSpec(s.key, head),
    value: operatorSpec(s.value, head),
    normalized: s.weights !== "usa",
    causal: s.causal,
  });
  let field = attention(0);
  if (s.rescaled) field = { kind: "rescaled", attention: field };
  else if (s.heads > 1) {
    field = { kind: "multi_head", heads: Array.from({ length: s.heads }, (_, h) => attention(h)) };
  }
  if (s.placement && !s.rescaled) field = { kind: "block", field, placement: s.placement };
  if (s.kappa > 0) field = [field, { kind: "noise", kappa: s.kappa }];
  const flow = { horizon: s.toTheEnd ? "end" : s.horizon, frames: s.frames };
  flow.seed = s.noiseSeed;
  const kind = s.weights === "hardmax" ? "hardmax" : s.merging || s.toTheEnd ? "merging" : null;
  // A stepper of the kind asked for keeps its tolerances; others stay unless one is asked for.
  const fits = kind ? s.stepper?.kind === kind : !["hardmax", "merging"].includes(s.stepper?.kind);
  flow.stepper = fits ? s.stepper : kind && { kind };
  return lean({ measure: measureSpec(s.measure), field, flow });
}

function measureSpec({ kind, tokens, dim, seed, clusters, concentration, points, given }) {
  if (kind === "planted") return { kind, tokens, dim, seed, clusters, concentration };
  if (kind === "von_mises_fisher") {
    const centre = Array.from({ length: dim }, (_, k) => (k === dim - 1 ? 1 : 0));
    return { kind, tokens, seed, centre, concentration };
  }
  if (kind === "polygon") return { kind, tokens, dim };
  if (kind === "simplex") return { kind, dim };
  if (kind === "tokens") return { kind, points };
  if (kind === "given") return given;
  return { kind, tokens, dim, seed };
}

/** The settings of a specification, or null when the controls cannot express it. */
export function toSettings(spec) {
  try {
    const settings = guess(spec);
    return sameSpec(toSpec(settings), explicit(spec)) ? settings : null;
  } catch {
    return null;
  }
}

/** Kinds may be left out of a specification where they are the usual ones; its own is left out. */
function explicit({ kind = "flow", measure = {}, field = {}, flow = {}, ...rest }) {
  if (kind !== "flow") return { kind };
  const usual = (part) =>
    (part.kind ?? "self_attention") === "self_attention"
      ? { kind: "self_attention", beta: 1, ...part }
      : part;
  return {
    ...rest,
    measure: { kind: "uniform", ...measure },
    field: Array.isArray(field) ? field.map(usual) : usual(field),
    flow: { horizon: 20, frames: 101, ...flow },
  };
}

function guess({ measure = {}, field = {}, flow = {} }) {
  const parts = Array.isArray(field) ? field : [field];
  const noise = parts.find((part) => part.kind === "noise");
  let core = parts.find((part) => part.kind !== "noise") ?? {};
  const placement = core.kind === "block" ? core.placement : "";
  if (core.kind === "block") core = core.field;
  const rescaled = core.kind === "rescaled";
  if (rescaled) core = core.attention;
  const heads = core.kind === "multi_head" ? core.heads.length : 1;
  if (core.kind === "multi_head") core = core.heads[0];
  const hardmax = flow.stepper?.kind === "hardmax";
  return {
    weights: hardmax ? "hardmax" : core.normalized === false ? "usa" : "sa",
    beta: core.beta ?? 1,
    causal: core.causal ?? false,
    query: operatorSettings(core.query),
    key: operatorSettings(core.key),
    value: operatorSettings(core.value),
    heads,
    placement,
    rescaled,
    kappa: noise?.kappa ?? null,
    measure: {
      kind: KNOWN.includes(measure.kind ?? "uniform") ? (measure.kind ?? "uniform") : "given",
      given: measure,
      tokens: measure.tokens ?? measure.points?.length ?? 1000,
      dim: measure.dim ?? measure.centre?.length ?? measure.points?.[0].length ?? 2,
      seed: measure.seed ?? 0,
      clusters: measure.clusters ?? 5,
      concentration: measure.concentration ?? (measure.kind === "planted" ? 100 : 5),
      points: measure.points,
    },
    horizon: flow.horizon === "end" ? 20 : (flow.horizon ?? 20),
    toTheEnd: flow.horizon === "end",
    frames: flow.frames ?? 101,
    merging: flow.stepper?.kind === "merging",
    stepper: flow.stepper ?? null,
    noiseSeed: flow.seed ?? 0,
  };
}

export const dimOf = ({ measure = {} }) =>
  measure.dim ?? (measure.centre ?? measure.points?.[0] ?? measure.centres?.[0])?.length ?? 2;

/** A specification in a few words. */
export function describe(spec) {
  const { measure = {}, field = {} } = spec;
  const beta = [field].flat()[0]?.beta;
  const tokens = measure.tokens ?? measure.points?.length;
  const parts = [
    tokens && `${tokens} tokens`,
    `d = ${dimOf(spec)}`,
    beta !== undefined && `β = ${beta}`,
  ];
  return parts.filter(Boolean).join(", ");
}

/** What tokens live on: "sphere", "circle", "plane" or "space". */
export function viewOf(spec) {
  const { measure = {}, field = {} } = spec;
  const dim = dimOf(spec);
  const parts = Array.isArray(field) ? field : [field];
  const free =
    measure.kind === "gaussian_points" ||
    measure.euclidean ||
    parts.some(
      (part) =>
        part.kind === "rescaled" ||
        (part.kind === "block" && ["pre", "peri", "mix"].includes(part.placement)),
    );
  if (free) return dim === 2 ? "plane" : "space";
  return dim === 2 ? "circle" : "sphere";
}
