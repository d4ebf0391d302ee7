// Charts of one moment: the histogram of inner products and the attention matrix.

import { Plot } from "metastable/plot";
import { SCALE } from "metastable/palette";

export class Snapshots {
  constructor(find) {
    this.histogram = new Plot(find("chart-products"));
    this.attention = new Plot(find("chart-attention"));
    this.pixels = document.createElement("canvas");
    this.image = null;
    this.drawnAttention = null;
  }

  onresize(redraw) {
    this.histogram.onresize = this.attention.onresize = () => {
      this.drawnAttention = null;
      redraw();
    };
  }

  draw(album, index, plays) {
    this.#products(album.histograms[index], plays);
    this.#heatmap(album.heatmaps[index], plays);
  }

  #products(counts, plays) {
    const plot = this.histogram;
    plot.canvas.closest("figure").hidden = counts === null;
    if (!plot.due(plays) || counts === null) return;
    const total = counts?.reduce((a, b) => a + b, 0) || 1;
    const most = counts ? Math.max(...counts) / total : 0.05;
    plot.begin(
      { low: -1, high: 1, label: "inner product ⟨x, y⟩", ticks: [-1, -0.5, 0, 0.5, 1] },
      { low: 0, high: 108 * most, label: "% of pairs" },
    );
    counts?.forEach((count, i) => {
      const width = 2 / counts.length;
      plot.bar(-1 + i * width, -1 + (i + 1) * width, (100 * count) / total, plot.colours.accent);
    });
  }

  #heatmap(matrix, plays) {
    const plot = this.attention;
    const figure = plot.canvas.closest("figure");
    if (figure.hidden === Boolean(matrix)) {
      figure.hidden = !matrix;
      this.drawnAttention = null;
    }
    if (!matrix || !plot.due(plays) || matrix === this.drawnAttention) return;
    this.drawnAttention = matrix;
    const m = Math.round(Math.sqrt(matrix.length));
    const pen = this.pixels.getContext("2d");
    if (this.image?.width !== m) {
      this.pixels.width = this.pixels.height = m;
      this.image = pen.createImageData(m, m);
    }
    for (let i = 0; i < m * m; i++) {
      for (let c = 0; c < 3; c++) this.image.data[4 * i + c] = SCALE[3 * matrix[i] + c];
      this.image.data[4 * i + 3] = 255;
    }
    pen.putImageData(this.image, 0, 0);
    plot.begin(
      { low: 0, high: m, label: "token attended to, by cluster", ticks: [] },
      { low: m, high: 0, label: "token, by cluster", ticks: [] },
    );
    plot.pen.imageSmoothingEnabled = false;
    const side = Math.min(plot.x(m) - plot.x(0), plot.y(m) - plot.y(0));
    plot.pen.drawImage(this.pixels, plot.x(0), plot.y(0), side, side);
  }
}
