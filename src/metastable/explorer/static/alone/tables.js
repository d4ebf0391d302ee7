// Theory without a server: looked up in tables that Python made, interpolated between their β.

const tables = () => JSON.parse(document.getElementById("tables").textContent);
let kept = null;
export const embedded = () => (kept ??= tables());

const UNKNOWN = "No theorem speaks of this field: watch.";

/** What theory says of a job, with the names the server gives its answers. */
export function predictJob({ points, dim, head, kappa }, uniform) {
  const known = { clock: head.normalized ? "SA" : "USA", sentences: [], fine: true, uniform };
  const table = embedded().tables[dim];
  if (head.causal) {
    const theorem = head.sign > 0 && head.normalized && !kappa ? embedded().causal : null;
    known.sentences = theorem ? [`In the end one cluster. ${theorem}`] : [UNKNOWN];
    return known;
  }
  if (head.beta > table.beta.at(-1)) {
    known.sentences = [`The tables of this page end at β = ${table.beta.at(-1)}: watch.`];
    return known;
  }
  const plain = ratesAt(table, dim, head.beta, head.normalized);
  const rates = plain.map((rate, k) => {
    const laplacian = (k + 1) * (k + dim - 1);
    return head.sign * rate - (kappa ? laplacian / kappa : 0);
  });
  const fastest = Math.max(...rates);
  const growing = fastest > 0;
  const dominant = growing ? rates.indexOf(fastest) + 1 : null;
  const tokens = points.length / 3;
  const exit = growing && tokens > 1 ? Math.log(tokens) / (2 * fastest) : null;
  const attracts = head.sign > 0 && !kappa && head.beta > 0;
  const enough = dominant && tokens >= embedded().per_mode * dominant ** (dim - 1);
  const counts = attracts && enough ? countsAt(table, head.beta, tokens) : null;
  const expected =
    counts && Object.entries(counts).reduce((sum, [k, share]) => sum + Number(k) * share, 0);
  const critical = head.sign > 0 ? (dim - 1) / plain[0] : null;
  const lines = growing
    ? [`Harmonic ${dominant} grows fastest, at rate ${fastest.toPrecision(3)}.`]
    : ["No harmonic grows: the uniform measure is stable."];
  if (kappa && critical) {
    const stable = kappa < critical ? "stable" : "unstable";
    lines.push(`With κ = ${kappa} (critical ${critical.toPrecision(3)}) uniform is ${stable}.`);
  }
  if (head.sign > 0 && !kappa) lines.push(`In the end one cluster. ${table.theorem}`);
  if (counts) lines.push("Numbers interpolated between the β and n of a table.");
  if (!uniform) lines.push("All of this from a uniform start; this one is not.");
  return {
    ...known,
    dominant,
    dominant_rate: growing ? fastest : null,
    rates: rates.slice(0, 16),
    slopes: rates.slice(0, 16),
    counts,
    expected_clusters: expected,
    exit_time: exit,
    critical_noise: critical,
    sentences: lines,
  };
}

/** Growth rates for V = I without noise: logarithms, cubic in log β; a power of β below the table. */
function ratesAt({ beta: grid, log_rates: rows, log_clock: clock }, dim, beta, normalized) {
  if (beta === 0) return rows[0].map((_, k) => (k ? 0 : (dim - 1) / dim));
  const below = beta < grid[0];
  const at = place(grid, beta);
  const first = below ? 0 : Math.min(grid.length - 4, Math.max(0, Math.floor(at) - 1));
  const nodes = below ? [0, 1] : [0, 1, 2, 3];
  const weights = nodes.map((i) =>
    nodes.reduce((w, j) => (i === j ? w : (w * (at - first - j)) / (i - j)), 1),
  );
  const value = (read) => weights.reduce((sum, w, i) => sum + w * read(first + i), 0);
  const shift = normalized ? 0 : below ? beta ** 2 / (2 * dim) : value((i) => clock[i]);
  return rows[0].map((_, k) => Math.exp(value((i) => rows[i][k]) + shift));
}

/** Where β stands among the β of the table, which are evenly spaced in log β. */
const place = (grid, beta) =>
  ((grid.length - 1) * Math.log(beta / grid[0])) / Math.log(grid.at(-1) / grid[0]);

/** The distribution of first clusters: a mixture of the four nearest of the table. */
function countsAt({ counted, tokens: sizes, counts: laws }, beta, tokens) {
  const at = Math.max(0, Math.min(counted.length - 1.001, place(counted, beta)));
  const size = Math.max(0, Math.min(sizes.length - 1.001, place(sizes, tokens)));
  const mixed = {};
  let total = 0;
  for (const [b, n] of [[0, 0], [0, 1], [1, 0], [1, 1]]) {
    const share = Math.abs(1 - b - (at % 1)) * Math.abs(1 - n - (size % 1));
    const law = laws[Math.floor(at) + b][Math.floor(size) + n];
    if (!law) continue;
    total += share;
    for (const [count, p] of Object.entries(law)) mixed[count] = (mixed[count] ?? 0) + share * p;
  }
  for (const count of Object.keys(mixed)) mixed[count] /= total;
  return total > 0.2 ? mixed : null;
}
