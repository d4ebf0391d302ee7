// A small chart on a canvas: axes with labels and round ticks, lines, bars and marks. Values on a
// logarithmic axis are given by their logarithm.

import { themeColours } from "metastable/palette";
import { brief, decades, power, ticks } from "metastable/numbers";

const FONT = "11px system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif";

export class Plot {
  constructor(canvas) {
    this.canvas = canvas;
    // Drawn by the processor: on the graphics card small charts take half the time of the sphere.
    this.pen = canvas.getContext("2d", { willReadFrequently: true });
    this.sized = false;
    this.near = true; // on the screen, or nearly: what is not need not follow a run as it plays
    this.onresize = null;
    new ResizeObserver(() => this.#fit()).observe(canvas);
    new IntersectionObserver((found) => this.#move(found.at(-1).isIntersecting), {
      rootMargin: "150px",
    }).observe(canvas);
    this.#fit();
  }

  /** Whether to draw; while it `plays`, only what the reader sees. */
  due(plays = false) {
    return this.sized && (this.near || !plays);
  }

  #move(near) {
    const came = near && !this.near;
    this.near = near;
    if (came) this.onresize?.();
  }

  #fit() {
    const { clientWidth, clientHeight } = this.canvas;
    if (!clientWidth) return;
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    this.width = clientWidth;
    this.height = clientHeight;
    this.canvas.width = Math.round(clientWidth * ratio);
    this.canvas.height = Math.round(clientHeight * ratio);
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.sized = true;
    this.onresize?.();
  }

  /** Clear, and draw the frame: x and y are {low, high, label, log?, whole?}. */
  begin(x, y) {
    const { pen } = this;
    this.colours = themeColours();
    this.inset = { left: 54, right: 10, top: 8, bottom: 34 };
    Object.assign(this, { xAxis: x, yAxis: y });
    pen.clearRect(0, 0, this.width, this.height);
    pen.font = FONT;
    pen.lineWidth = 1;
    const bottom = this.height - this.inset.bottom;
    const right = this.width - this.inset.right;
    pen.textBaseline = "top";
    pen.textAlign = "center";
    for (const at of this.#ticks(x, (right - this.inset.left) / 62)) {
      const px = this.x(at);
      this.#rule(px, this.inset.top, px, bottom, 0.45);
      pen.fillStyle = this.colours.soft;
      pen.fillText(this.#tickText(x, at), Math.min(px, right - 4), bottom + 4);
    }
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const at of this.#ticks(y, (bottom - this.inset.top) / 34)) {
      const py = this.y(at);
      this.#rule(this.inset.left, py, right, py, 0.45);
      pen.fillStyle = this.colours.soft;
      pen.fillText(this.#tickText(y, at), this.inset.left - 5, py);
    }
    this.#rule(this.inset.left, bottom, right, bottom, 1);
    pen.fillStyle = this.colours.ink;
    pen.textAlign = "right";
    pen.textBaseline = "bottom";
    pen.fillText(x.label, right, this.height);
    pen.save();
    pen.translate(10, this.inset.top);
    pen.rotate(-Math.PI / 2);
    pen.textBaseline = "middle";
    pen.fillText(y.label, 0, 0);
    pen.restore();
  }

  x(value) {
    const { left, right } = this.inset;
    const { low, high } = this.xAxis;
    return left + ((value - low) / (high - low || 1)) * (this.width - left - right);
  }

  y(value) {
    const { top, bottom } = this.inset;
    const { low, high } = this.yAxis;
    return (
      this.height - bottom - ((value - low) / (high - low || 1)) * (this.height - top - bottom)
    );
  }

  line(xs, ys, { colour, width = 1.6, dash = [], steps = false, alpha = 1 } = {}) {
    const { pen } = this;
    this.#clip();
    pen.beginPath();
    let down = false;
    let last = 0;
    for (let i = 0; i < xs.length; i++) {
      if (!Number.isFinite(ys[i]) || !Number.isFinite(xs[i])) continue;
      const px = this.x(xs[i]);
      const py = this.y(ys[i]);
      if (!down) pen.moveTo(px, py);
      else {
        if (steps) pen.lineTo(px, last);
        pen.lineTo(px, py);
      }
      down = true;
      last = py;
    }
    pen.strokeStyle = colour;
    pen.globalAlpha = alpha;
    pen.lineWidth = width;
    pen.lineJoin = "round";
    pen.setLineDash(dash);
    pen.stroke();
    pen.restore();
  }

  bar(x0, x1, value, colour) {
    const base = this.y(this.yAxis.low);
    this.pen.fillStyle = colour;
    this.pen.fillRect(
      this.x(x0),
      this.y(value),
      Math.max(1, this.x(x1) - this.x(x0) - 1),
      base - this.y(value),
    );
  }

  /** A vertical mark. */
  mark(at, colour, dash = []) {
    if (!(at >= this.xAxis.low && at <= this.xAxis.high)) return;
    const { pen } = this;
    const px = this.x(at);
    pen.save();
    pen.strokeStyle = colour;
    pen.lineWidth = 1.5;
    pen.setLineDash(dash);
    pen.beginPath();
    pen.moveTo(px, this.inset.top);
    pen.lineTo(px, this.height - this.inset.bottom);
    pen.stroke();
    pen.restore();
  }

  #clip() {
    const { pen, inset } = this;
    pen.save();
    pen.beginPath();
    pen.rect(
      inset.left,
      inset.top - 2,
      this.width - inset.left - inset.right + 2,
      this.height - inset.top - inset.bottom + 4,
    );
    pen.clip();
  }

  #rule(x0, y0, x1, y1, alpha) {
    const { pen } = this;
    pen.globalAlpha = alpha;
    pen.strokeStyle = this.colours.line;
    pen.beginPath();
    pen.moveTo(x0, Math.round(y0) + 0.5);
    pen.lineTo(x1, Math.round(y1) + 0.5);
    pen.stroke();
    pen.globalAlpha = 1;
  }

  #ticks(axis, count) {
    if (axis.ticks) return axis.ticks;
    if (axis.log) return decades(axis.low, axis.high, count);
    const found = ticks(axis.low, axis.high, Math.min(count, 6));
    return axis.whole ? found.filter(Number.isInteger) : found;
  }

  #tickText(axis, at) {
    if (!axis.log) return brief(at);
    return Number.isInteger(at) && Math.abs(at) > 2 ? power(at) : brief(10 ** at);
  }
}
