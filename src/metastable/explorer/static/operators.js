// The three matrices of attention: a choice, a seed for random ones, rows for one's own.

import { operatorSettings } from "metastable/spec";

const CHOICES = [
  ["identity", "identity"],
  ["minus", "minus identity"],
  ["gaussian", "random"],
  ["symmetric", "random symmetric"],
  ["orthogonal", "random rotation"],
  ["own", "own matrix"],
];
const NAMES = [
  ["query", "Q"],
  ["key", "K"],
  ["value", "V"],
];

export class Operators {
  constructor(place) {
    this.parts = {};
    for (const [name, letter] of NAMES) {
      const row = document.createElement("div");
      row.className = "field operator";
      const select = document.createElement("select");
      select.id = name;
      for (const [value, word] of CHOICES) select.add(new Option(word, value));
      const seed = Object.assign(document.createElement("input"), {
        type: "number",
        id: `${name}-seed`,
        min: 0,
        step: 1,
        title: `Seed of ${letter}`,
      });
      seed.setAttribute("aria-label", `Seed of ${letter}`);
      const rows = Object.assign(document.createElement("textarea"), {
        id: `${name}-rows`,
        rows: 3,
        placeholder: "0.5 1\n−1 0.5",
        spellcheck: false,
      });
      rows.setAttribute("aria-label", `Rows of ${letter}, one a line`);
      const label = document.createElement("label");
      label.htmlFor = name;
      label.append(Object.assign(document.createElement("i"), { textContent: letter }));
      row.append(label, select, seed, rows);
      place.append(row);
      this.parts[name] = { select, seed, rows };
    }
  }

  show(settings) {
    for (const [name] of NAMES) {
      const { select, seed, rows } = this.parts[name];
      const { kind, seed: number, rows: matrix } = settings[name];
      select.value = kind;
      seed.value = number;
      if (matrix !== undefined) {
        rows.value = Array.isArray(matrix) ? matrix.map((r) => r.join(" ")).join("\n") : matrix;
      }
      this.arrange();
    }
  }

  /** Only what the choice needs is there. */
  arrange() {
    for (const { select, seed, rows } of Object.values(this.parts)) {
      seed.hidden = !["gaussian", "symmetric", "orthogonal"].includes(select.value);
      rows.hidden = select.value !== "own";
    }
  }

  read() {
    return Object.fromEntries(
      NAMES.map(([name, letter]) => {
        const { select, seed, rows } = this.parts[name];
        if (select.value !== "own")
          return [name, { kind: select.value, seed: Number(seed.value) || 0 }];
        return [name, { ...operatorSettings(matrixOf(rows.value, letter)), kind: "own" }];
      }),
    );
  }
}

function matrixOf(text, letter) {
  const lines = text
    .replace(/−/g, "-")
    .split(/[\n;]+/)
    .map((line) => line.trim())
    .filter(Boolean);
  const rows = lines.map((line) => line.split(/[\s,]+/).map(Number));
  const wrong =
    !rows.length || rows.some((row) => row.length !== rows[0].length || row.some(Number.isNaN));
  if (wrong) throw new Error(`${letter} needs rows of numbers of equal length, one row a line.`);
  return rows;
}
