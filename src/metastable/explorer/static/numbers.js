// Numbers as people read them.

const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

export const power = (exponent) =>
  "10" +
  String(exponent)
    .replace(/\d/g, (d) => SUPERSCRIPTS[d])
    .replace("-", "⁻");

/** Three digits; 2.5 × 10⁻⁷ outside the range in which zeros can be counted at a glance. */
export function brief(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e-3 && size < 1e5) {
    const text = Number(value.toPrecision(3)).toString();
    return text.replace("-", "−");
  }
  const exponent = Math.floor(Math.log10(size));
  const mantissa = Number((value / 10 ** exponent).toPrecision(2));
  return (mantissa === 1 ? power(exponent) : `${mantissa} × ${power(exponent)}`).replace("-", "−");
}

/** The same for a number given by its decimal logarithm, which may pass the range of doubles. */
export function briefLog(exponent) {
  if (exponent < 300) return brief(10 ** exponent);
  const whole = Math.floor(exponent);
  return `${(10 ** (exponent - whole)).toPrecision(2)} × ${power(whole)}`;
}

/** Round places between two ends, about `count` of them. */
export function ticks(low, high, count) {
  const rough = (high - low) / Math.max(1, count);
  if (!(rough > 0) || !Number.isFinite(rough)) return [low];
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * [1, 2, 5, 10].find((s) => s * unit >= rough * 0.75);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) {
    found.push(Math.abs(k * step) < step * 1e-9 ? 0 : k * step);
  }
  return found;
}

/** Logarithms of round numbers: whole exponents, thinned to about `count`; 1, 2, 5 where few fit. */
export function decades(low, high, count) {
  if (high - low < 1.6) {
    const round = [];
    for (let k = Math.floor(low); k <= high; k++)
      round.push(k, k + Math.log10(2), k + Math.log10(5));
    return round.filter((at) => at >= low - 1e-9 && at <= high + 1e-9);
  }
  return ticks(low, high, Math.min(count, high - low)).filter(Number.isInteger);
}
