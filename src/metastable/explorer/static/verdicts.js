// How a run ended, and what theory says to it.

import { brief } from "metastable/numbers";

const NUMBER = /^-?\d+(\.\d+)?(e[+-]?\d+)?$/;
const ORDER = { disagree: 0, agree: 1 };

export class VerdictPanel {
  constructor(find) {
    this.table = find("verdicts");
    this.outcome = find("outcome");
    this.others = find("not-applicable");
    this.button = find("show-others");
    this.button.addEventListener("click", () => this.#unfold(this.others.hidden));
    this.clear();
  }

  clear() {
    this.table.hidden = this.button.hidden = true;
    this.outcome.textContent = "Verdicts stand here when the run has ended.";
  }

  show({ outcome, verdicts = [], note = "" }) {
    const judged = verdicts.filter(({ verdict }) => verdict in ORDER);
    const rest = verdicts.filter(({ verdict }) => !(verdict in ORDER));
    judged.sort((a, b) => ORDER[a.verdict] - ORDER[b.verdict]);
    const said = typeof outcome === "string" ? outcome : outcome?.message;
    const counted = (word) => judged.filter(({ verdict }) => verdict === word).length;
    const sum = verdicts.length
      ? `${counted("agree")} agree, ${counted("disagree")} disagree.`
      : "";
    this.outcome.textContent = [said ?? "The run has ended.", sum, note].filter(Boolean).join(" ");
    this.table.hidden = !verdicts.length;
    this.table.tBodies[0].replaceChildren(...judged.map(verdictRow));
    this.others.replaceChildren(...rest.map(verdictRow));
    this.button.hidden = !rest.length;
    this.#unfold(false);
  }

  #unfold(open) {
    const count = this.others.rows.length;
    this.others.hidden = !open;
    this.button.setAttribute("aria-expanded", String(open));
    this.button.textContent = open
      ? "Hide what does not apply"
      : `Show ${count} that do not apply here`;
  }
}

function verdictRow({ claim, source, expected, observed, verdict, reason, tolerance }) {
  const row = document.createElement("tr");
  const name = Object.assign(document.createElement("th"), { scope: "row", textContent: claim });
  if (source) name.append(Object.assign(document.createElement("small"), { textContent: source }));
  const cells = [cellText(expected), cellText(observed), verdict].map((textContent) =>
    Object.assign(document.createElement("td"), { textContent }),
  );
  const note = reason || (tolerance && verdict in ORDER ? `tolerance ${tolerance}` : "");
  if (note) cells[2].append(Object.assign(document.createElement("small"), { textContent: note }));
  cells[2].className = verdict in ORDER ? verdict : "open";
  row.append(name, ...cells);
  return row;
}

function cellText(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "number" || NUMBER.test(value)) return brief(Number(value));
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value)) return value.slice(0, 6).map(cellText).join(", ");
  if (typeof value === "object")
    return Object.entries(value)
      .map(([k, v]) => `${k}: ${cellText(v)}`)
      .join(", ");
  return String(value);
}
