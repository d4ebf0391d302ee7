// A phase diagram: one observable of a sweep over two of its axes. A cell is a run.

import { brief } from "metastable/numbers";
import { SCALE, scaleCss, themeColours } from "metastable/palette";

const INSET = { left: 80, right: 92, top: 54, bottom: 58 };
const SYMBOLS = { beta: "β", tokens: "tokens n", dim: "dimension d", kappa: "noise κ" };
const TITLE = "17px 'Iowan Old Style', Palatino, Georgia, 'DejaVu Serif', serif";
const FONT = "12px system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif";

export class PhaseDiagram {
  /** `on` holds chosen(name, index). */
  constructor(find, on) {
    this.find = find;
    this.on = on;
    this.canvas = find("map");
    this.pen = this.canvas.getContext("2d");
    this.sweep = null;
    this.cursor = [0, 0];
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    find("observable").addEventListener("change", () => this.draw());
    find("sweep-axes").addEventListener("change", () => this.draw());
    this.canvas.addEventListener("pointermove", (event) => this.#point(event));
    this.canvas.addEventListener("click", (event) => this.#point(event) && this.#choose());
    this.canvas.addEventListener("keydown", (event) => this.#key(event));
  }

  open(sweep) {
    this.sweep = sweep;
    const select = this.find("observable");
    select.replaceChildren(
      ...Object.entries(sweep.observables).map(
        ([name, { label }]) => new Option(label ?? name, name),
      ),
    );
    this.find("observable-label").hidden = false;
    const others = sweep.axes.slice(0, -2).map(({ key, values }, k) => {
      const label = Object.assign(document.createElement("label"), {
        className: "field wide",
        textContent: symbol(key),
      });
      const choice = document.createElement("select");
      choice.dataset.axis = k;
      values.forEach((value, i) => choice.add(new Option(text(value), i)));
      label.append(choice);
      return label;
    });
    this.find("sweep-axes").replaceChildren(...others);
    this.cursor = [0, 0];
    this.draw();
  }

  /** The last two axes span the map; the others are held. */
  get #axes() {
    const { axes } = this.sweep;
    const none = { key: "", values: [""] };
    return { y: axes.length > 1 ? axes.at(-2) : none, x: axes.at(-1) };
  }

  #index(column, row) {
    const { axes } = this.sweep;
    const held = [...this.find("sweep-axes").querySelectorAll("select")].map((s) =>
      Number(s.value),
    );
    const places = axes.length > 1 ? [...held, row, column] : [column];
    return places.reduce((flat, place, k) => flat * axes[k].values.length + place, 0);
  }

  draw() {
    const { canvas, pen } = this;
    const { clientWidth: width, clientHeight: height } = canvas;
    if (!this.sweep || !width) return;
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const colours = themeColours();
    const { x, y } = this.#axes;
    const { values } = this.sweep.observables[this.find("observable").value];
    const known = values.filter(Number.isFinite);
    const [low, high] = known.length ? [Math.min(...known), Math.max(...known)] : [0, 1];
    const log = low > 0 && high / low > 200;
    const share = (v) =>
      high === low
        ? 0.5
        : log
          ? Math.log(v / low) / Math.log(high / low)
          : (v - low) / (high - low);
    this.box = {
      left: INSET.left,
      top: INSET.top,
      w: (width - INSET.left - INSET.right) / x.values.length,
      h: (height - INSET.top - INSET.bottom) / y.values.length,
    };
    const { left, top, w, h } = this.box;
    pen.font = FONT;
    for (let row = 0; row < y.values.length; row++) {
      for (let column = 0; column < x.values.length; column++) {
        const value = values[this.#index(column, row)];
        const py = top + (y.values.length - 1 - row) * h;
        if (Number.isFinite(value)) {
          pen.fillStyle = scaleCss(share(value));
          pen.fillRect(left + column * w, py, w - 1, h - 1);
        } else {
          pen.strokeStyle = colours.line;
          pen.strokeRect(left + column * w + 0.5, py + 0.5, w - 2, h - 2);
        }
      }
    }
    pen.fillStyle = colours.ink;
    pen.textAlign = "left";
    pen.textBaseline = "middle";
    pen.font = TITLE;
    pen.fillText(this.sweep.title || this.sweep.name, left, 28);
    pen.font = FONT;
    this.#labels(colours, x, y, height);
    this.#scale(colours, width, height, low, high, log);
    const [column, row] = this.cursor;
    // Dark in light, or light in dark: seen on every colour of the scale.
    for (const [colour, width] of [
      [colours.card, 6],
      [colours.ink, 2.5],
    ]) {
      pen.strokeStyle = colour;
      pen.lineWidth = width;
      pen.strokeRect(left + column * w, top + (y.values.length - 1 - row) * h, w - 1, h - 1);
    }
    pen.lineWidth = 1;
    this.#say();
  }

  #labels(colours, x, y, height) {
    const { pen } = this;
    const { left, top, w, h } = this.box;
    const bottom = top + h * y.values.length;
    pen.fillStyle = colours.soft;
    pen.textAlign = "center";
    pen.textBaseline = "top";
    const skipX = Math.ceil(46 / w);
    x.values.forEach(
      (value, i) => i % skipX === 0 && pen.fillText(text(value), left + (i + 0.5) * w, bottom + 5),
    );
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    const skipY = Math.ceil(16 / h);
    y.values.forEach((value, i) => {
      if (i % skipY === 0) pen.fillText(text(value), left - 7, bottom - (i + 0.5) * h);
    });
    pen.fillStyle = colours.ink;
    pen.textAlign = "center";
    pen.textBaseline = "bottom";
    pen.fillText(symbol(x.key), left + (w * x.values.length) / 2, height - 10);
    pen.save();
    pen.translate(20, top + (h * y.values.length) / 2);
    pen.rotate(-Math.PI / 2);
    pen.textBaseline = "middle";
    pen.fillText(symbol(y.key), 0, 0);
    pen.restore();
  }

  #scale(colours, width, height, low, high, log) {
    const { pen } = this;
    const x = width - INSET.right + 18;
    const long = height - INSET.top - INSET.bottom;
    for (let i = 0; i < 128; i++) {
      const at = 3 * (2 * i);
      pen.fillStyle = `rgb(${SCALE[at]}, ${SCALE[at + 1]}, ${SCALE[at + 2]})`;
      pen.fillRect(x, INSET.top + long * (1 - (i + 1) / 128), 12, long / 128 + 1);
    }
    pen.fillStyle = colours.soft;
    pen.textAlign = "left";
    for (const [share, base] of [
      [0, "bottom"],
      [0.5, "middle"],
      [1, "top"],
    ]) {
      const value = log ? low * (high / low) ** share : low + share * (high - low);
      pen.textBaseline = base;
      pen.fillText(brief(value), x + 17, INSET.top + long * (1 - share));
    }
  }

  #point(event) {
    if (!this.box) return false;
    const frame = this.canvas.getBoundingClientRect();
    const { x, y } = this.#axes;
    const column = Math.floor((event.clientX - frame.left - this.box.left) / this.box.w);
    const row =
      y.values.length - 1 - Math.floor((event.clientY - frame.top - this.box.top) / this.box.h);
    if (column < 0 || row < 0 || column >= x.values.length || row >= y.values.length) return false;
    if (column !== this.cursor[0] || row !== this.cursor[1]) {
      this.cursor = [column, row];
      this.draw();
    }
    return true;
  }

  #key(event) {
    if (!this.sweep) return;
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    if (event.key === "Enter") this.#choose();
    else if (moves[event.key]) {
      const { x, y } = this.#axes;
      const [column, row] = this.cursor.map((c, k) => c + moves[event.key][k]);
      this.cursor = [
        Math.min(x.values.length - 1, Math.max(0, column)),
        Math.min(y.values.length - 1, Math.max(0, row)),
      ];
      this.draw();
    } else return;
    event.preventDefault();
  }

  #choose() {
    this.on.chosen(this.sweep.name, this.#index(...this.cursor));
  }

  #say() {
    const { x, y } = this.#axes;
    const [column, row] = this.cursor;
    const name = this.find("observable").value;
    const value = this.sweep.observables[name].values[this.#index(column, row)];
    const where = [
      [x, column],
      [y, row],
    ]
      .filter(([a]) => a.key)
      .map(([a, i]) => `${symbol(a.key)} = ${text(a.values[i])}`);
    this.find("cell").textContent = `${where.join(", ")}: ${name} = ${brief(value)}`;
  }
}

const symbol = (key) => SYMBOLS[key.split(".").at(-1)] ?? key;
const text = (value) => (typeof value === "number" ? brief(value) : String(value));
