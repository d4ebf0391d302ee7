// The axis under the sphere: time on its clock, how far frames have come, and the predicted exit.

import { brief, decades, power, ticks } from "metastable/numbers";
import { themeColours } from "metastable/palette";

const THUMB = 9; // half the thumb of the slider, which never reaches the very ends
const FONT = "11px system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif";
const WORDS = ["exit, by theory", "exit"]; // at the predicted exit, the longest that has room
const GAP = 8;

export class Timeline {
  constructor(canvas) {
    this.canvas = canvas;
    this.pen = canvas.getContext("2d", { willReadFrequently: true }); // as in `Plot`
    this.onresize = null;
    new ResizeObserver(() => this.#fit()).observe(canvas);
    this.#fit();
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
    this.onresize?.();
  }

  draw({ first, known, last, clock }, exit, label) {
    const { pen, width, height } = this;
    if (!width) return;
    const colours = themeColours();
    const x = (place) => THUMB + ((place - first) / (last - first)) * (width - 2 * THUMB);
    pen.clearRect(0, 0, width, height);
    pen.font = FONT;
    pen.textBaseline = "bottom";
    pen.fillStyle = colours.soft;
    const marked = exit >= first && exit <= last ? x(exit) : null;
    const spread = clock === "log" ? decades : ticks;
    for (const at of spread(first, last, (width - 2 * THUMB) / 74)) {
      const exponent = clock === "log" && Number.isInteger(at) && Math.abs(at) > 2;
      const text = exponent ? power(at) : brief(clock === "log" ? 10 ** at : at);
      const px = x(at);
      pen.fillRect(px - 0.5, 17, 1, 5);
      const half = 0.5 * pen.measureText(text).width;
      if (px + half > width - 2 || px - half < 0) pen.textAlign = px < width / 2 ? "left" : "right";
      else pen.textAlign = "center";
      pen.fillText(text, pen.textAlign === "center" ? px : px < width / 2 ? 0 : width, height);
    }
    pen.fillStyle = colours.line;
    pen.fillRect(THUMB, 19, width - 2 * THUMB, 2);
    pen.fillStyle = colours.accent;
    pen.globalAlpha = 0.55;
    pen.fillRect(THUMB, 18.5, Math.max(0, x(known) - THUMB), 3);
    pen.globalAlpha = 1;
    pen.textBaseline = "top";
    const { word, leftwards, side } = this.#room(marked, label);
    if (marked !== null) {
      pen.fillStyle = colours.theory;
      pen.fillRect(marked - 1, 2, 2, 24);
      pen.textAlign = leftwards ? "right" : "left";
      pen.fillText(word, marked + (leftwards ? -5 : 5), 0);
    }
    if (!side) return;
    pen.fillStyle = colours.soft;
    pen.textAlign = side;
    pen.fillText(label, side === "left" ? THUMB : width - THUMB, 0);
  }

  /** The word at the mark, and the side on which the name of the axis does not touch it, if any. */
  #room(marked, label) {
    if (marked === null) return { side: "right" };
    const { pen, width } = this;
    const long = pen.measureText(label).width + THUMB + GAP;
    for (const word of WORDS) {
      const room = pen.measureText(word).width + 5;
      const leftwards = marked + room > width;
      const [from, to] = leftwards ? [marked - room, marked] : [marked, marked + room];
      const side = to < width - long ? "right" : from > long ? "left" : null;
      if (side || word === WORDS.at(-1)) return { word, leftwards, side };
    }
  }
}
