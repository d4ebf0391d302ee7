// What is seen of tokens at one moment: energy, clusters, modes, angles, attention.

import { UNIT, power } from "./power.js";

const MODES = 8;
const BINS = 40;
const SAMPLE = 500; // tokens whose pairs make the histogram
const MAPPED = 96; // tokens of the attention map
// In widths of the kernel. Measured (1000 tokens, β = 9, 300 moments up to t = 6): the count is not
// that of `kernel_modes` in 5 of them; with steps ten times as long in 11.
const LEAST_STEP = 1e-4;

/** Σ_j e^{β(⟨x_i,x_j⟩−1)} of each token. */
function potentials(x, beta) {
  const n = x.length / 3;
  const sums = new Float64Array(n).fill(1);
  const unit = UNIT * beta;
  for (let i = 0; i < n; i++) {
    let sum = 0;
    for (let j = 0; j < i; j++) {
      const weight = power(unit * (product(x, i, j, n) - 1));
      sum += weight;
      sums[j] += weight;
    }
    sums[i] += sum;
  }
  return sums;
}

const product = (x, i, j, n) =>
  x[i] * x[j] + x[n + i] * x[n + j] + x[2 * n + i] * x[2 * n + j];

/**
 * Clusters as maxima of the potential Σ_j e^{β⟨x,x_j⟩}: the highest tokens around climb by mean
 * shift, and those that meet are one. A token belongs to the maximum next to it within an angle of
 * the kernel's width β^{−1/2}, else to none (the last label). `spread` is the root mean square
 * angle of all tokens to their nearest maximum, in widths.
 */
export function findClusters(x, beta, sums) {
  const n = x.length / 3;
  const width = 1 / Math.sqrt(Math.max(beta, 1));
  const tops = [];
  const near = 1 - 0.5 * width * width; // the cosine of about one width
  const around = 1 - 0.125 * width * width;
  for (let i = 0; i < n; i++) {
    let highest = true;
    for (let j = 0; j < n && highest; j++) {
      const higher = sums[j] > sums[i] || (sums[j] === sums[i] && j < i);
      highest = !(higher && product(x, i, j, n) > around);
    }
    if (highest) tops.push(climb(x, beta, [x[i], x[n + i], x[2 * n + i]], width));
  }
  const apart = 1 - 0.5 * (0.25 * width) ** 2;
  const peaks = tops.filter((p, k) => !tops.slice(0, k).some((q) => dot(p, q) > apart));
  const labels = new Uint16Array(n);
  let square = 0;
  for (let i = 0; i < n; i++) {
    let best = -1;
    for (let k = 0; k < peaks.length; k++) {
      const cosine = peaks[k][0] * x[i] + peaks[k][1] * x[n + i] + peaks[k][2] * x[2 * n + i];
      if (cosine > best) [best, labels[i]] = [cosine, k];
    }
    square += Math.acos(Math.min(1, best)) ** 2;
    if (best < near) labels[i] = peaks.length;
  }
  return { count: peaks.length, labels, spread: Math.sqrt(square / n) / width };
}

const dot = (p, q) => p[0] * q[0] + p[1] * q[1] + p[2] * q[2];

/**
 * Mean shift on the sphere from `place` to where the potential is highest around. Its steps shrink
 * like powers near the top: what is left of them is taken at once, as far as half a width.
 */
function climb(x, beta, place, width) {
  const n = x.length / 3;
  const unit = UNIT * beta;
  let before = null;
  for (let round = 0; round < 200; round++) {
    const [a, b, c] = place;
    let [p, q, r] = [0, 0, 0];
    for (let j = 0; j < n; j++) {
      const weight = power(unit * (a * x[j] + b * x[n + j] + c * x[2 * n + j] - 1));
      p += weight * x[j];
      q += weight * x[n + j];
      r += weight * x[2 * n + j];
    }
    const length = Math.hypot(p, q, r);
    if (!(length > 0)) return place;
    place = [p / length, q / length, r / length];
    const step = [place[0] - a, place[1] - b, place[2] - c];
    const size = Math.hypot(...step);
    if (size < LEAST_STEP * width) break;
    const ratio = before ? dot(step, before) / dot(before, before) : 0;
    before = step;
    if (ratio < 0.2 || ratio > 1) continue;
    const leap = Math.min(ratio / (1 - ratio), (0.5 * width) / size);
    const far = step.map((value, k) => place[k] + leap * value);
    const whole = Math.hypot(...far);
    place = far.map((value) => value / whole);
    before = null;
  }
  return place;
}

/** √(Σ_i Σ_j P_ℓ(⟨x_i,x_j⟩))/n of degrees 1, …, MODES: |μ̂_ℓ| on the circle. */
function amplitudes(x, dim) {
  return dim === 2 ? onCircle(x) : onSphere(x);
}

function onCircle(x) {
  const n = x.length / 3;
  const found = [];
  for (let k = 1; k <= MODES; k++) {
    let [re, im] = [0, 0];
    for (let i = 0; i < n; i++) {
      const angle = k * Math.atan2(x[n + i], x[i]);
      re += Math.cos(angle);
      im += Math.sin(angle);
    }
    found.push(Math.hypot(re, im) / n);
  }
  return found;
}

/** Through sums over real spherical harmonics, normalised so that Σ_m Y² = 1 (addition theorem). */
function onSphere(x) {
  const n = x.length / 3;
  const size = MODES + 1;
  const sums = new Float64Array(2 * size * size); // cosines, then sines, of degree l and order m
  for (let i = 0; i < n; i++) {
    const [a, b, z] = [x[i], x[n + i], x[2 * n + i]];
    let [cosine, sine] = [1, 0]; // real and imaginary part of (a + ib)^m
    for (let m = 0; m < size; m++) {
      // Of P_l^m/(sin θ)^m with Σ_m = 1: stable upwards in l, and polynomials in z.
      let [before, now] = [0, m === 0 ? 1 : legendreCorner(m)];
      for (let l = m; l < size; l++) {
        sums[l * size + m] += now * cosine;
        sums[size * size + l * size + m] += now * sine;
        const up = Math.sqrt((l + 1) ** 2 - m * m);
        const down = Math.sqrt(l * l - m * m);
        [before, now] = [now, ((2 * l + 1) * z * now - down * before) / up];
      }
      [cosine, sine] = [cosine * a - sine * b, cosine * b + sine * a];
    }
  }
  const squares = new Float64Array(size);
  for (let l = 0; l < size; l++) {
    for (let m = 0; m <= l; m++) {
      squares[l] += sums[l * size + m] ** 2 + sums[size * size + l * size + m] ** 2;
    }
  }
  return [...squares.subarray(1)].map((value) => Math.sqrt(value) / n);
}

/** Value of the harmonic l = m without (sin θ)^m: √(2 (2m)!)/(2^m m!). */
function legendreCorner(m) {
  let square = 2;
  for (let k = 1; k <= m; k++) square *= (2 * k - 1) / (2 * k);
  return Math.sqrt(square);
}

function histogram(x) {
  const n = x.length / 3;
  const counts = new Array(BINS).fill(0);
  const every = Math.max(1, Math.ceil(n / SAMPLE));
  for (let i = 0; i < n; i += every) {
    for (let j = 0; j < i; j += every) {
      const bin = Math.floor(0.5 * BINS * (product(x, i, j, n) + 1));
      counts[Math.min(BINS - 1, Math.max(0, bin))]++;
    }
  }
  return counts;
}

/** Where some tokens look, sorted by cluster; 255 is the largest entry. */
function attention(x, { beta, causal }, labels) {
  const n = x.length / 3;
  const order = [...labels.keys()].sort((a, b) => labels[a] - labels[b] || a - b);
  const few = Math.min(n, MAPPED);
  const chosen = Array.from({ length: few }, (_, k) => order[Math.floor((k * n) / few)]);
  const matrix = new Float64Array(few * few);
  let most = 0;
  chosen.forEach((i, row) => {
    let sum = 0;
    chosen.forEach((j, column) => {
      const seen = !causal || j <= i;
      const weight = seen ? power(UNIT * beta * (product(x, i, j, n) - 1)) : 0;
      matrix[row * few + column] = weight;
      sum += weight;
    });
    for (let k = row * few; k < (row + 1) * few; k++) {
      matrix[k] /= sum;
      most = Math.max(most, matrix[k]);
    }
  });
  return Uint8Array.from(matrix, (value) => Math.round((255 * value) / most));
}

/** Numbers and arrays of one moment, as the frames of a server carry them. */
export function look(x, dim, head) {
  const n = x.length / 3;
  const sums = potentials(x, head.beta);
  const { count, labels, spread } = findClusters(x, head.beta, sums);
  const numbers = {
    energy: sums.reduce((a, b) => a + b, 0) / (n * n),
    amplitudes: amplitudes(x, dim),
    histogram: histogram(x),
    clusters: count,
    maxima: count,
    spread,
  };
  return { numbers, arrays: { cluster: labels, attention: attention(x, head, labels) } };
}
