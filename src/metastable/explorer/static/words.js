// Words beside tokens, on a canvas of their own over the sphere. Nearer words win where two would
// overlap.

import { themeColours } from "metastable/palette";

const SIZE = 13;
const MOST = 220;

export class Words {
  constructor(canvas, stage) {
    this.canvas = canvas;
    this.stage = stage;
    this.pen = canvas.getContext("2d");
    this.words = null;
    this.position = [0, 0, 0];
    this.spot = [0, 0, 0];
    this.order = [];
    this.taken = [];
  }

  use(words) {
    this.words = words?.length ? words.slice(0, MOST) : null;
    this.order = (this.words ?? []).map((_, i) => ({ i, x: 0, y: 0, front: 0 }));
    this.canvas.hidden = !this.words;
  }

  draw() {
    if (!this.words) return;
    const { pen, canvas, stage } = this;
    const { clientWidth: width, clientHeight: height } = stage.canvas;
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    if (
      canvas.width !== Math.round(width * ratio) ||
      canvas.height !== Math.round(height * ratio)
    ) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = `${SIZE}px system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif`;
    pen.textBaseline = "middle";
    pen.lineJoin = "round";
    pen.lineWidth = 3.5;
    const colours = themeColours();
    for (const entry of this.order) {
      stage.tokenAt(entry.i, this.position);
      stage.project(...this.position, this.spot);
      [entry.x, entry.y, entry.front] = this.spot;
    }
    this.order.sort((a, b) => b.front - a.front);
    this.taken.length = 0;
    for (const { i, x, y, front } of this.order) {
      const wide = pen.measureText(this.words[i]).width;
      const box = {
        left: x + 7,
        right: x + 9 + wide,
        top: y - SIZE / 2 - 1,
        bottom: y + SIZE / 2 + 1,
      };
      const hidden = this.taken.some(
        (other) =>
          box.left < other.right &&
          box.right > other.left &&
          box.top < other.bottom &&
          box.bottom > other.top,
      );
      if (hidden) continue;
      this.taken.push(box);
      pen.globalAlpha = front > 0 ? 1 : 0.3;
      pen.strokeStyle = colours.card;
      pen.strokeText(this.words[i], x + 8, y);
      pen.fillStyle = colours.ink;
      pen.fillText(this.words[i], x + 8, y);
    }
    pen.globalAlpha = 1;
  }
}
