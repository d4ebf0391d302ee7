// How a run ended, and what theory says to it.

import { brief } from "metastable/numbers";

export class VerdictPanel {
  constructor(find) {
    this.table = find("verdicts");
    this.outcome = find("outcome");
  }

  clear() {
    this.table.hidden = true;
    this.table.tBodies[0].replaceChildren();
    this.outcome.textContent = "Verdicts stand here when the run has ended.";
  }

  show({ outcome, verdicts = [], note = "" }) {
    const said = typeof outcome === "string" ? outcome : outcome?.message;
    const counted = (word) => verdicts.filter((row) => row.verdict === word).length;
    const sum = verdicts.length ? ` ${counted("agree")} agree, ${counted("disagree")} disagree.` : "";
    this.outcome.textContent = `${said ?? "The run has ended."}${sum} ${note}`;
    this.table.hidden = !verdicts.length;
    const order = { disagree: 0, agree: 1 };
    const rows = [...verdicts].sort((a, b) => (order[a.verdict] ?? 2) - (order[b.verdict] ?? 2));
    this.table.tBodies[0].replaceChildren(...rows.map(verdictRow));
  }
}

function verdictRow({ claim, source, expected, observed, verdict, reason, tolerance }) {
  const row = document.createElement("tr");
  const name = Object.assign(document.createElement("th"), { scope: "row", textContent: claim });
  if (source) name.append(Object.assign(document.createElement("small"), { textContent: source }));
  const cells = [cellText(expected), cellText(observed), verdict].map((textContent) =>
    Object.assign(document.createElement("td"), { textContent }),
  );
  const note = verdict === "agree" ? tolerance : (reason || tolerance);
  if (note) cells[2].append(Object.assign(document.createElement("small"), { textContent: note }));
  cells[2].className = { agree: "agree", disagree: "disagree" }[verdict] ?? "open";
  row.append(name, ...cells);
  return row;
}

function cellText(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "number") return brief(value);
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value)) return value.slice(0, 6).map(cellText).join(", ");
  if (typeof value === "object") return Object.entries(value).map(([k, v]) => `${k}: ${cellText(v)}`).join(", ");
  return String(value);
}
