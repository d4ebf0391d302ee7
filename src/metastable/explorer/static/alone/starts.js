// From a specification to what the worker moves: the tokens at the start, and the field.

import { Random } from "metastable/random";

const MOST_TOKENS = 1500;
const ELSEWHERE = "`metastable explore` runs everything else.";

/** {points, dim, head, kappa, horizon, frames, seed}; an error says what this page cannot do. */
export function jobOf({ measure = {}, field = {}, flow = {} }) {
  const parts = [field].flat();
  const noise = parts.find(({ kind }) => kind === "noise");
  const heads = parts.filter(({ kind }) => kind !== "noise");
  const head = heads[0] ?? {};
  const plain = ["query", "key"].every((name) => [undefined, null, 1].includes(head[name]));
  const sign = head.value ?? 1;
  if (
    heads.length !== 1 ||
    (head.kind ?? "self_attention") !== "self_attention" ||
    !plain ||
    Math.abs(sign) !== 1 ||
    head.position?.length
  ) {
    throw new Error(`This page moves tokens by one head with Q = K = I and V = ±I; ${ELSEWHERE}`);
  }
  if (flow.stepper || typeof (flow.horizon ?? 20) !== "number") {
    throw new Error(`This page goes on to a fixed time without merging; ${ELSEWHERE}`);
  }
  return {
    ...startOf(measure),
    head: {
      beta: head.beta ?? 1,
      sign,
      normalized: head.normalized ?? true,
      causal: head.causal ?? false,
    },
    kappa: noise?.kappa ?? 0,
    horizon: flow.horizon ?? 20,
    frames: flow.frames ?? 101,
    seed: flow.seed ?? 0,
  };
}

/** Tokens, all x, then all y, then all z. */
function startOf({ kind = "uniform", tokens = 1000, dim = 2, seed = 0, ...rest }) {
  const { points: rows, centre, concentration } = rest;
  const count = kind === "tokens" ? rows.length : tokens;
  const size = kind === "tokens" ? rows[0].length : (centre?.length ?? dim);
  if (!["uniform", "tokens", "von_mises_fisher"].includes(kind)) {
    throw new Error(`This page starts uniform, around a direction, or by hand; ${ELSEWHERE}`);
  }
  if (size < 2 || size > 3 || count > MOST_TOKENS) {
    throw new Error(`This page moves up to ${MOST_TOKENS} tokens for d = 2 and 3; ${ELSEWHERE}`);
  }
  const random = new Random(seed);
  const cap = kind === "von_mises_fisher" ? new Cap(centre, concentration ?? 5) : null;
  const points = new Float64Array(3 * count);
  for (let i = 0; i < count; i++) {
    const row = rows?.[i] ?? cap?.draw(random) ?? Array.from({ length: size }, () => random.normal());
    const length = Math.hypot(...row);
    for (let c = 0; c < size; c++) points[c * count + i] = row[c] / length;
  }
  return { points, dim: size };
}

/** Density ∝ e^{κ⟨x,centre⟩}, by its distribution function in the angle. */
class Cap {
  constructor(centre, concentration) {
    this.centre = centre.map((value) => value / Math.hypot(...centre));
    const steps = 4096;
    this.sums = new Float64Array(steps + 1);
    for (let k = 0; k < steps; k++) {
      const angle = (Math.PI * (k + 0.5)) / steps;
      const round = centre.length === 3 ? Math.sin(angle) : 1;
      this.sums[k + 1] = this.sums[k] + round * Math.exp(concentration * (Math.cos(angle) - 1));
    }
  }

  draw(random) {
    const { sums, centre } = this;
    const steps = sums.length - 1;
    const height = sums[steps] * random.uniform();
    const k = Math.max(1, sums.findIndex((sum) => sum > height));
    const angle = (Math.PI * (k - (sums[k] - height) / (sums[k] - sums[k - 1]))) / steps;
    const side = centre.map(() => random.normal());
    const along = side.reduce((sum, value, c) => sum + value * centre[c], 0);
    const tangent = side.map((value, c) => value - along * centre[c]);
    const size = Math.sin(angle) / Math.hypot(...tangent);
    return centre.map((value, c) => Math.cos(angle) * value + size * tangent[c]);
  }
}

/** Tokens as the stage takes them: x, y, z of each. */
export function places(points) {
  const count = points.length / 3;
  return Float32Array.from(points, (_, k) => points[(k % 3) * count + Math.floor(k / 3)]);
}
