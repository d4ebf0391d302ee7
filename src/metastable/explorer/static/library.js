// The other two tabs: phase diagrams and stored recordings of the chosen folder.

import * as server from "metastable/server";
import { fillShelf } from "metastable/shelf";
import { PhaseDiagram } from "metastable/sweeps";

const KINDS = [
  ["sweeps", "sweep-list", "No sweep in the chosen folder: make one with `metastable sweep`."],
  ["runs", "run-list", "No run in the chosen folder: make one with `metastable run --out`."],
  [
    "models",
    "model-list",
    "No model in the chosen folder: make one with `metastable inspect --out`.",
  ],
];

export class Library {
  /** `on` holds recording(buffer), cell(spec), left(): the experiment is out of sight, say(sentence). */
  constructor(find, on) {
    this.find = find;
    this.on = on;
    this.diagram = new PhaseDiagram(find, {
      chosen: (name, index) =>
        this.#try(async () => on.cell((await server.cell(name, index)).spec)),
    });
    this.buttons = [...document.querySelectorAll("[data-tab]")];
    for (const button of this.buttons) {
      button.addEventListener("click", () => this.show(button.dataset.tab));
    }
  }

  async show(tab) {
    for (const button of this.buttons) {
      button.setAttribute("aria-pressed", String(button.dataset.tab === tab));
    }
    for (const panel of document.querySelectorAll("[data-show]")) {
      panel.hidden = panel.dataset.show !== tab;
    }
    document.body.dataset.tab = tab;
    this.find("map-panel").hidden = tab !== "sweeps";
    this.find("stage").hidden = tab === "sweeps";
    if (tab === "run") return;
    this.on.left();
    await this.#try(async () => {
      const folder = await server.folder();
      for (const [kind, list, empty] of KINDS) {
        fillShelf(this.find(list), folder[kind] ?? [], empty, (name) => this.#open(kind, name));
      }
    });
  }

  #open(kind, name) {
    this.on.say(`Opening ${name}.`);
    return this.#try(async () => {
      if (kind === "sweeps") {
        this.diagram.open({ name, ...(await server.sweep(name)) });
        this.find("map").focus({ preventScroll: true });
        this.on.say("");
      } else {
        this.on.recording(await server.recording(name));
      }
    });
  }

  async #try(work) {
    try {
      await work();
    } catch (error) {
      this.on.say(error.message);
    }
  }
}
