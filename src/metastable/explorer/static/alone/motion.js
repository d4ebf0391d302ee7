// Attention moving tokens of the circle or the sphere, in float64. Coordinates lie one after the
// other: all x, all y, all z (zeros on the circle). Runs inside a worker.

import { UNIT, power } from "./power.js";

/** One head with Q = K = I and V = sign·I. */
export class Attention {
  constructor({ beta, sign, normalized, causal }, count) {
    Object.assign(this, { beta, sign, normalized, causal, count });
    this.mass = new Float64Array(count);
  }

  /** Rate of contraction to a cluster of all tokens: the stiffest that occurs. */
  get stiffness() {
    return this.normalized ? 1 : Math.exp(this.beta);
  }

  /** Velocities at `x` into `out`. Weights are taken times e^{−β}: a token gives itself about 1. */
  velocity(x, out) {
    const { beta, count: n, mass } = this;
    const unit = beta * UNIT;
    for (let i = 0; i < n; i++) {
      const [xi, yi, zi] = [x[i], x[n + i], x[2 * n + i]];
      const weight = power(unit * (xi * xi + yi * yi + zi * zi - 1));
      mass[i] = weight;
      out[i] = weight * xi;
      out[n + i] = weight * yi;
      out[2 * n + i] = weight * zi;
    }
    if (this.causal) addEarlier(x, out, mass, unit);
    else addPairs(x, out, mass, unit);
    const whole = n * Math.exp(-beta);
    for (let i = 0; i < n; i++) {
      const scale = this.sign / (this.normalized ? mass[i] : whole);
      const along = x[i] * out[i] + x[n + i] * out[n + i] + x[2 * n + i] * out[2 * n + i];
      for (let k = i; k < 3 * n; k += n) out[k] = scale * (out[k] - along * x[k]);
    }
  }
}

/** Σ_j w_ij and Σ_j w_ij x_j over all j ≠ i, each pair once; two rows at a time read j once. */
function addPairs(points, out, mass, unit) {
  const n = mass.length;
  const [x, y, z] = coordinates(points);
  const [a, b, c] = coordinates(out);
  for (let i = n % 2; i < n; i += 2) {
    const k = i + 1;
    const [xi, yi, zi, xk, yk, zk] = [x[i], y[i], z[i], x[k], y[k], z[k]];
    const next = power(unit * (xi * xk + yi * yk + zi * zk - 1));
    let [mi, ai, bi, ci] = [next, next * xk, next * yk, next * zk];
    let [mk, ak, bk, ck] = [next, next * xi, next * yi, next * zi];
    for (let j = 0; j < i; j++) {
      const xj = x[j];
      const yj = y[j];
      const zj = z[j];
      const u = power(unit * (xi * xj + yi * yj + zi * zj - 1));
      const v = power(unit * (xk * xj + yk * yj + zk * zj - 1));
      mi += u;
      ai += u * xj;
      bi += u * yj;
      ci += u * zj;
      mk += v;
      ak += v * xj;
      bk += v * yj;
      ck += v * zj;
      mass[j] += u + v;
      a[j] += u * xi + v * xk;
      b[j] += u * yi + v * yk;
      c[j] += u * zi + v * zk;
    }
    mass[i] += mi;
    a[i] += ai;
    b[i] += bi;
    c[i] += ci;
    mass[k] += mk;
    a[k] += ak;
    b[k] += bk;
    c[k] += ck;
  }
}

/** The same over j < i: tokens that see only those before them. */
function addEarlier(points, out, mass, unit) {
  const n = mass.length;
  const [x, y, z] = coordinates(points);
  for (let i = 0; i < n; i++) {
    const [xi, yi, zi] = [x[i], y[i], z[i]];
    let [m, a, b, c] = [0, 0, 0, 0];
    for (let j = 0; j < i; j++) {
      const weight = power(unit * (xi * x[j] + yi * y[j] + zi * z[j] - 1));
      m += weight;
      a += weight * x[j];
      b += weight * y[j];
      c += weight * z[j];
    }
    mass[i] += m;
    out[i] += a;
    out[n + i] += b;
    out[2 * n + i] += c;
  }
}

/** All x, all y, all z. */
function coordinates(points) {
  const n = points.length / 3;
  return [0, 1, 2].map((k) => points.subarray(k * n, (k + 1) * n));
}

/** Back to the unit sphere. */
export function normalise(x) {
  const n = x.length / 3;
  for (let i = 0; i < n; i++) {
    const length = Math.sqrt(x[i] ** 2 + x[n + i] ** 2 + x[2 * n + i] ** 2);
    for (let k = i; k < 3 * n; k += n) x[k] /= length;
  }
  return x;
}

// Dormand and Prince 5(4), and the continuous extension of Hairer, Nørsett and Wanner.
const STAGES = [
  [1 / 5],
  [3 / 40, 9 / 40],
  [44 / 45, -56 / 15, 32 / 9],
  [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
  [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
  [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
];
const ERROR = [71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40];
const BEND = [
  -12715105075 / 11282082432,
  0,
  87487479700 / 32700410799,
  -10690763975 / 1880347072,
  701980252875 / 199316789632,
  -1453857185 / 822651844,
  69997945 / 29380423,
];

/** Steps as long as the error of one, in root mean square over coordinates, stays below `tolerance`. */
export class Adaptive {
  constructor(field, x, horizon, tolerance) {
    Object.assign(this, { field, x, horizon, tolerance });
    this.time = 0;
    this.step = Math.min(horizon, 0.05 / field.stiffness);
    this.slopes = Array.from({ length: 7 }, () => new Float64Array(x.length));
    this.next = new Float64Array(x.length);
    this.evaluations = 1;
    field.velocity(x, this.slopes[0]);
  }

  /** One accepted step, then `at(time)` answers within it. */
  advance() {
    if (this.time > 0) {
      [this.x, this.next] = [normalise(this.next), this.x];
      [this.slopes[0], this.slopes[6]] = [this.slopes[6], this.slopes[0]];
    }
    for (;;) {
      const left = this.horizon - this.time;
      // A step that nearly reaches the end goes there: no sliver is left for the next.
      const step = this.step > 0.999 * left ? left : this.step;
      const error = this.#try(step) / this.tolerance;
      const factor = Math.min(5, Math.max(0.2, 0.9 * Math.max(error, 1e-10) ** -0.2));
      if (error <= 1) {
        Object.assign(this, { from: this.time, taken: step });
        this.time = step === left ? this.horizon : this.time + step;
        if (step === this.step || factor < 1) this.step = step * factor;
        return;
      }
      this.step = step * factor;
      if (!(this.step > 1e-14)) throw new Error("The steps became too short: a blow-up.");
    }
  }

  #try(step) {
    const { x, slopes, next } = this;
    STAGES.forEach((row, s) => {
      combine(next, x, slopes, row, step);
      this.field.velocity(next, slopes[s + 1]);
    });
    this.evaluations += 6;
    let square = 0;
    for (let k = 0; k < x.length; k++) {
      let off = 0;
      for (let s = 0; s < 7; s++) off += ERROR[s] * slopes[s][k];
      square += (step * off) ** 2;
    }
    return Math.sqrt(square / x.length);
  }

  at(time, out = new Float64Array(this.x.length)) {
    const { x, next, slopes, taken } = this;
    const u = Math.min(1, (time - this.from) / taken);
    for (let k = 0; k < x.length; k++) {
      let bend = 0;
      for (let s = 0; s < 7; s++) bend += BEND[s] * slopes[s][k];
      const rise = next[k] - x[k];
      const start = taken * slopes[0][k] - rise;
      const end = rise - taken * slopes[6][k] - start;
      out[k] = x[k] + u * (rise + (1 - u) * (start + u * (end + (1 - u) * taken * bend)));
    }
    return normalise(out);
  }
}

function combine(out, x, slopes, row, step) {
  for (let k = 0; k < x.length; k++) {
    let sum = 0;
    for (let s = 0; s < row.length; s++) sum += row[s] * slopes[s][k];
    out[k] = x[k] + step * sum;
  }
}

/**
 * Noise √(2/κ) dW: half a Brownian step along geodesics, the midpoint rule for the drift, half a
 * Brownian step; 2 % of the fastest time scale each.
 */
export class Noisy {
  constructor(field, x, dim, kappa, random) {
    Object.assign(this, { field, x, dim, kappa, random });
    this.longest = 0.02 / Math.max(1, field.stiffness, (dim - 1) / kappa);
    this.slope = new Float64Array(x.length);
    this.middle = new Float64Array(x.length);
  }

  advance(span) {
    const { field, x, slope, middle } = this;
    const steps = Math.max(1, Math.ceil(span / this.longest - 1e-9));
    const step = span / steps;
    for (let s = 0; s < steps; s++) {
      this.#wander(step / 2);
      field.velocity(x, slope);
      for (let k = 0; k < x.length; k++) middle[k] = x[k] + 0.5 * step * slope[k];
      field.velocity(normalise(middle), slope);
      for (let k = 0; k < x.length; k++) x[k] += step * slope[k];
      normalise(x);
      this.#wander(step / 2);
    }
  }

  /** Each token along the geodesic of a Gaussian tangent vector. */
  #wander(step) {
    const { x, dim, random } = this;
    const n = x.length / 3;
    const size = Math.sqrt((2 * step) / this.kappa);
    const push = [0, 0, 0];
    for (let i = 0; i < n; i++) {
      let along = 0;
      for (let c = 0; c < 3; c++) {
        push[c] = c < dim ? size * random.normal() : 0;
        along += push[c] * x[c * n + i];
      }
      for (let c = 0; c < 3; c++) push[c] -= along * x[c * n + i];
      const angle = Math.hypot(...push);
      const ratio = angle > 0 ? Math.sin(angle) / angle : 1;
      for (let c = 0; c < 3; c++) {
        x[c * n + i] = Math.cos(angle) * x[c * n + i] + ratio * push[c];
      }
    }
    normalise(x);
  }
}
