// The form: shows a specification, and gives a new one when the reader changes something.

import { Operators } from "metastable/operators";
import { lean, toSettings, toSpec } from "metastable/spec";

const KEPT_BYTES = 160e6; // frames the page keeps; a frame takes about 18 bytes a token

export class Controls {
  constructor(find, { changed, complained }) {
    this.find = find;
    this.changed = changed;
    this.complained = complained;
    this.spec = {};
    this.kept = { points: null, given: null, stepper: null, noiseSeed: 0 }; // what has no control of its own
    this.presets = [];
    this.beyond = false;
    this.operators = new Operators(find("operators"));
    const form = find("form");
    form.addEventListener("submit", (event) => event.preventDefault());
    find("settings").addEventListener("input", (event) => this.#edited(event.target));
    find("preset").addEventListener("change", () => this.#choosePreset());
    find("apply-spec").addEventListener("click", () => this.#applyText());
  }

  offer({ presets = [], limits = {} }) {
    this.presets = presets;
    const select = this.find("preset");
    select.replaceChildren(new Option("your own", ""));
    for (const { name, title } of presets) select.add(new Option(title, name));
    const bounds = {
      tokens: limits.tokens,
      dim: limits.dim,
      heads: limits.heads,
      horizon: limits.horizon,
      frames: limits.frames,
    };
    for (const [id, most] of Object.entries(bounds)) if (most) this.find(id).max = most;
  }

  /** Fill the form; `preset` names where the specification comes from. */
  show(spec, preset = "") {
    const { find } = this;
    this.spec = lean(spec);
    find("preset").value = preset;
    const chosen = this.presets.find(({ name }) => name === preset);
    find("preset-note").textContent = chosen?.note ?? chosen?.source ?? "";
    find("spec").value = JSON.stringify(this.spec, null, 1);
    const s = toSettings(spec);
    find("settings").inert = !s;
    find("settings").classList.toggle("beyond", !s);
    if (!s || this.beyond) find("spec-details").open = !s;
    this.beyond = !s;
    if (!s) return;
    find(s.weights).checked = true;
    find("beta").value = s.beta;
    find("beta-slider").value = Math.log10(Math.max(0.1, s.beta));
    find("tokens").value = s.measure.tokens;
    find("dim").value = s.measure.dim;
    find("seed").value = s.measure.seed;
    find("measure").value = s.measure.kind;
    find("planted").value = s.measure.clusters;
    find("concentration").value = s.measure.concentration;
    find("heads").value = s.heads;
    find("placement").value = s.placement;
    find("causal").checked = s.causal;
    find("rescaled").checked = s.rescaled;
    find("kappa").value = s.kappa ?? "";
    find("horizon").value = s.horizon;
    find("frames").value = s.frames;
    find("merging").checked = s.merging;
    find("to-the-end").checked = s.toTheEnd;
    const { points, given } = s.measure;
    this.kept = { points, given, stepper: s.stepper, noiseSeed: s.noiseSeed };
    this.operators.show(s);
    this.#arrange();
  }

  #edited(target) {
    const { find } = this;
    if (target.id === "beta-slider") {
      find("beta").value = Number((10 ** target.value).toPrecision(3));
    } else if (target.id === "beta") {
      find("beta-slider").value = Math.log10(Math.max(0.1, Number(target.value)));
    }
    if (target.id === "to-the-end" && target.checked && !find("hardmax").checked)
      find("merging").checked = true;
    if (target.id === "merging" && !target.checked) find("to-the-end").checked = false;
    this.#arrange();
    try {
      if (target.id === "seed") this.kept.noiseSeed = seedOf(target);
      this.spec = toSpec(this.#read());
    } catch (error) {
      this.complained(error.message);
      return;
    }
    find("preset").value = "";
    find("preset-note").textContent = "";
    find("spec").value = JSON.stringify(this.spec, null, 1);
    this.changed(this.spec, "");
  }

  #arrange() {
    const { find } = this;
    const kind = find("measure").value;
    for (const label of document.querySelectorAll("[data-for]")) {
      label.hidden = !label.dataset.for.split(" ").includes(kind);
    }
    const placed = ["tokens", "given"].includes(kind);
    find("tokens").disabled = kind === "simplex" || placed;
    find("dim").disabled = placed;
    find("seed").disabled =
      (placed || ["polygon", "simplex"].includes(kind)) && !find("kappa").value;
    find("beta").disabled = find("beta-slider").disabled = find("hardmax").checked;
    find("horizon").disabled = find("to-the-end").checked;
    find("measure").querySelector("[value=tokens]").disabled = !this.kept.points;
    find("measure").querySelector("[value=given]").hidden = kind !== "given";
    find("heads").disabled = find("placement").disabled = find("rescaled").checked;
    this.operators.arrange();
  }

  #read() {
    const { find } = this;
    const tokens = whole(find("tokens"), "The number of tokens", 1);
    const most = Math.floor(KEPT_BYTES / (18 * tokens));
    return {
      weights: document.querySelector("[name=normalized]:checked").value,
      beta: real(find("beta"), "β"),
      ...this.operators.read(),
      heads: whole(find("heads"), "The number of heads", 1),
      placement: find("placement").value,
      causal: find("causal").checked,
      rescaled: find("rescaled").checked,
      kappa: find("kappa").value === "" ? null : real(find("kappa"), "κ"),
      measure: {
        kind: find("measure").value,
        tokens,
        dim: whole(find("dim"), "The dimension", 2),
        seed: seedOf(find("seed")),
        clusters: whole(find("planted"), "The number of planted clusters", 1),
        concentration: real(find("concentration"), "The concentration"),
        points: this.kept.points,
        given: this.kept.given,
      },
      horizon: real(find("horizon"), "The horizon"),
      toTheEnd: find("to-the-end").checked,
      frames: Math.min(most, whole(find("frames"), "The number of frames", 2)),
      merging: find("merging").checked,
      stepper: this.kept.stepper,
      noiseSeed: this.kept.noiseSeed,
    };
  }

  #choosePreset() {
    const preset = this.presets.find(({ name }) => name === this.find("preset").value);
    if (!preset) return;
    this.show(preset.spec, preset.name);
    this.changed(this.spec, preset.name, preset);
  }

  #applyText() {
    try {
      this.show(JSON.parse(this.find("spec").value));
    } catch {
      this.complained("The specification must be JSON.");
      return;
    }
    this.changed(this.spec, "");
  }
}

function real(input, name) {
  const value = Number(input.value);
  if (input.value === "" || !Number.isFinite(value) || value < 0) {
    throw new Error(`${name} must be a number ≥ 0; got “${input.value}”.`);
  }
  return value;
}

/** Seeds of sweeps have more digits than a JavaScript number holds: those stay text. */
function seedOf(input) {
  if (!/^\d{1,19}$/.test(input.value)) {
    throw new Error(`The seed must be a whole number ≥ 0; got “${input.value}”.`);
  }
  const number = Number(input.value);
  return Number.isSafeInteger(number) ? number : input.value;
}

function whole(input, name, least) {
  const value = Number(input.value);
  const most = Number(input.max) || Infinity;
  if (input.value === "" || !Number.isInteger(value) || value < least || value > most) {
    const range = most < Infinity ? `from ${least} to ${most}` : `≥ ${least}`;
    throw new Error(`${name} must be a whole number ${range}; got “${input.value}”.`);
  }
  return value;
}
