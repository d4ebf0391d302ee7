// What the colours mean.

import { scaleCss } from "metastable/palette";
import { brief } from "metastable/numbers";

const BAR = { width: 120, height: 8 };

export class Legend {
  constructor(place) {
    this.place = place;
    this.canvas = Object.assign(document.createElement("canvas"), BAR);
    this.canvas.setAttribute("aria-hidden", "true");
    const pen = this.canvas.getContext("2d");
    for (let x = 0; x < BAR.width; x++) {
      pen.fillStyle = scaleCss(x / (BAR.width - 1));
      pen.fillRect(x, 0, 1, BAR.height);
    }
    this.low = document.createElement("span");
    this.high = document.createElement("span");
    this.text = document.createElement("span");
    this.said = "";
  }

  show(colouring, album) {
    const fastest = album.fastest;
    const said = colouring === "cluster" ? colouring : `${colouring} ${fastest} ${album.tokens}`;
    if (said === this.said) return;
    this.said = said;
    if (colouring === "cluster") {
      this.text.textContent = "one colour a cluster; grey: in none yet";
      this.place.replaceChildren(this.text);
      return;
    }
    const bySpeed = colouring === "speed";
    this.low.textContent = bySpeed ? brief(1e-5 * fastest) : "one token";
    this.high.textContent = bySpeed ? `${brief(fastest)} speed` : "all tokens, mass";
    this.place.replaceChildren(this.low, this.canvas, this.high);
  }
}
