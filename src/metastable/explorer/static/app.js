// The page as a whole: where a specification comes from, and what follows from it.

import { readAddress, writeAddress } from "metastable/address";
import { Controls } from "metastable/controls";
import { Library } from "metastable/library";
import { Live } from "metastable/live";
import { decodeRecording, embeddedRecording } from "metastable/packet";
import { Placing } from "metastable/placing";
import { PredictionPanel } from "metastable/prediction";
import { Questions } from "metastable/questions";
import { readout } from "metastable/readout";
import * as server from "metastable/server";
import { Show } from "metastable/show";
import { describe, dimOf, lean, viewOf } from "metastable/spec";
import { Stage } from "metastable/stage";
import { Takeaway } from "metastable/takeaway";
import { watchTheme } from "metastable/theme";
import { Transport } from "metastable/transport";
import { VerdictPanel } from "metastable/verdicts";

const GUIDE = document.getElementById("guide").textContent;

const find = (id) => document.getElementById(id);

class App {
  constructor() {
    this.preset = "";
    this.ran = false; // whether a run of the specification now shown was started
    this.framed = false; // whether its frames have begun to come
    this.source = "server";
    this.stage = new Stage(find("sphere"), (event) => this.placing?.takes(event));
    this.show = new Show(find, this.stage);
    this.predictionPanel = new PredictionPanel(find);
    this.verdicts = new VerdictPanel(find);
    this.transport = new Transport(find, this.show, {
      play: (paused) => this.play(paused),
      changed: () => this.#address(),
    });
    this.controls = new Controls(find, {
      changed: (spec, name, preset) => this.#specChanged(name, preset),
      complained: (sentence) => this.complain(sentence),
    });
    this.live = new Live({
      started: (message) => this.#started(message),
      frame: (packet) => this.#frame(packet),
      judging: () => this.say("All frames are there; comparing with theory."),
      finished: (message) => this.#finished(message),
      failed: (sentence) => this.#failed(sentence),
    });
    this.questions = new Questions({
      predicted: (prediction) => this.#predict(prediction),
      placed: (spec, packet) => this.#showStart(spec, packet),
      refused: (sentence) => this.complain(sentence),
    });
    this.takeaway = new Takeaway(
      find,
      () => this.controls.spec,
      (sentence) => this.say(sentence),
    );
    this.placing = new Placing(find("place"), this.stage, this.show, {
      rewound: ({ header, positions, cluster }) => this.#rewind(header, { positions, cluster }),
      points: (points, places) => this.#placed(points, places),
      refused: (sentence) => this.complain(sentence),
    });
    this.library = new Library(find, {
      recording: (buffer) => this.openRecording(buffer),
      cell: (spec) => this.#cell(spec),
      left: () => this.transport.pause(),
      say: (sentence) => this.say(sentence),
    });
    watchTheme(find("theme"), () => this.#recolour());
    this.#listen();
  }

  async begin() {
    const inside = embeddedRecording();
    this.#animate();
    if (inside) {
      this.#offline();
      this.openRecording(inside);
      return;
    }
    try {
      const { version, presets, limits } = await server.about();
      find("version").textContent = version ? `Metastable ${version}` : "";
      this.controls.offer({ presets, limits });
    } catch (error) {
      this.#offline();
      this.#overlay(`${error.message} A recording can still be opened: drop a .msr file here.`);
      return;
    }
    const kept = readAddress();
    this.#restore();
    if (server.autoplay && (kept?.play ?? !kept)) this.play();
  }

  say(sentence) {
    find("status").textContent = sentence;
  }

  #guide(sentence) {
    find("guide").textContent = sentence;
  }

  complain(sentence) {
    find("complaint").textContent = sentence;
  }

  /** Play what is there, or run what is specified; `paused` computes without moving on. */
  play(paused = false) {
    this.placing.set(false);
    if (this.source === "server" && !this.ran && !this.live.running) this.#run();
    if (!paused) this.transport.play();
  }

  openRecording(buffer) {
    let recording;
    try {
      recording = decodeRecording(buffer);
    } catch (error) {
      this.say(error.message);
      return;
    }
    const { head, frames, end } = recording;
    this.live.stop();
    this.questions.drop();
    this.source = "recording";
    this.ran = this.framed = true;
    this.show.running = false;
    this.#predict(head.prediction ?? null);
    this.show.open(head);
    frames.forEach((packet) => this.show.album.add(packet));
    if (head.play_clock) this.transport.set({ ...this.transport.view, clock: head.play_clock });
    this.show.fit();
    if (head.spec) this.controls.show(head.spec);
    this.verdicts.clear();
    if (end) this.verdicts.show(end);
    this.takeaway.offer(null);
    document.body.dataset.words = head.words ? "yes" : "no";
    const what = head.title ? `${head.title}. ` : "";
    this.#guide(
      head.words
        ? `${what}Every dot is a word of a text; the slider moves through the layers.`
        : `${what}A recording${head.spec ? ` of ${describe(head.spec)}` : ""}.`,
    );
    this.say(`${frames.length} frames.`);
    this.#overlay("");
    this.transport.refresh();
  }

  #restore() {
    const kept = readAddress();
    const preset =
      this.controls.presets.find(({ name }) => name === kept?.preset) ??
      (kept?.spec ? null : this.controls.presets[0]);
    this.transport.set(kept?.view ?? (preset?.clock ? { clock: preset.clock } : {}));
    const spec = kept?.spec ?? preset?.spec ?? {};
    this.preset = preset?.name ?? "";
    this.controls.show(spec, this.preset);
    this.#address();
    this.#refresh();
  }

  #specChanged(name, preset) {
    this.preset = name;
    if (preset?.clock) this.transport.set({ ...this.transport.view, clock: preset.clock });
    this.#address();
    this.#refresh();
  }

  #address() {
    const state = { spec: lean(this.controls.spec) };
    if (this.preset) state.preset = this.preset;
    const { view } = this.transport;
    if (Object.keys(view).length) state.view = view;
    if (this.source === "server") writeAddress(state);
  }

  /** A new specification: stop what ran, ask theory, show the start. */
  #refresh() {
    this.live.stop();
    this.source = "server";
    this.framed = false;
    document.body.dataset.words = "no";
    this.#guide(GUIDE);
    this.ran = false;
    this.show.running = false;
    this.show.playhead.playing = false;
    this.verdicts.clear();
    this.takeaway.offer(null);
    this.complain("");
    this.transport.refresh();
    find("theory").setAttribute("aria-busy", "true");
    this.questions.ask(this.controls.spec, !this.placing.active);
  }

  #predict(prediction) {
    find("theory").removeAttribute("aria-busy");
    this.show.prediction = prediction;
    this.show.stale = true;
    this.predictionPanel.show(prediction);
  }

  #showStart(spec, packet) {
    if (this.framed) return;
    const head = { spec, view: viewOf(spec), dim: dimOf(spec), clock: this.show.prediction?.clock };
    this.#open(head, packet);
  }

  get #horizon() {
    const horizon = this.controls.spec.flow?.horizon ?? 20;
    return typeof horizon === "number" ? horizon : null;
  }

  #run() {
    const { spec } = this.controls;
    this.ran = true;
    this.show.running = true;
    this.complain("");
    // What another specification left on the stage must not pass for the start of this one.
    if (this.show.album.head.spec !== spec) this.show.open({ spec }, this.#horizon);
    this.say("Computing the first frames; a new kind of run takes some seconds to prepare.");
    this.live.start({
      spec,
      frames: spec.flow?.frames ?? 101,
      clock: this.show.playhead.clock,
      merge: spec.flow?.stepper?.kind === "merging",
    });
  }

  #started(message) {
    this.run = message.run_id;
    if (!this.show.prediction) this.#predict(message.prediction ?? null);
    const { spec } = this.controls;
    this.pending = { view: viewOf(spec), clock: this.show.prediction?.clock, ...message, spec };
  }

  #frame(packet) {
    // The start stays on the stage until the run's own first frame is there.
    if (this.pending) {
      const { playing } = this.show.playhead;
      this.show.open(this.pending, this.#horizon);
      this.show.playhead.playing = playing;
      this.pending = null;
      this.framed = true;
      this.say("Running.");
    }
    this.show.add(packet);
  }

  #finished(message) {
    this.show.running = false;
    this.show.fit();
    this.transport.refresh();
    this.verdicts.show(message);
    this.takeaway.offer(message.run_id ?? this.run);
    const count = this.show.album.clusters.at(-1);
    this.say(
      `Finished: ${this.show.album.length} frames${Number.isFinite(count) ? `, ${count} clusters at the end` : ""}.`,
    );
  }

  #failed(sentence) {
    this.ran = this.show.running = false;
    this.transport.pause();
    this.say("");
    this.complain(sentence);
  }

  /** Only the start is left of a run. */
  #rewind(header, arrays) {
    const { head } = this.show.album;
    this.#refresh();
    this.#open(head, { header, arrays });
  }

  /** The start as the reader made it: shown at once, without asking the server where it is. */
  #placed(points, positions) {
    const { measure, ...rest } = this.controls.spec;
    const { head } = this.show.album;
    this.controls.show({ ...rest, measure: { kind: "tokens", points } });
    this.#specChanged("");
    this.#open(
      { ...head, spec: this.controls.spec },
      { header: { index: 0, time: 0 }, arrays: { positions } },
    );
  }

  #open(head, packet) {
    this.show.open(head, this.#horizon);
    this.show.add(packet);
    this.show.restage();
    this.#overlay("");
    this.transport.refresh();
  }

  #cell(spec) {
    this.library.show("run");
    this.controls.show(spec);
    this.#specChanged("");
    this.play();
  }

  #offline() {
    document.body.dataset.server = "none";
    this.source = "recording";
  }

  #overlay(sentence) {
    find("overlay").textContent = sentence;
    find("overlay").hidden = !sentence;
  }

  #recolour() {
    this.stage.recolour();
    this.show.recolour();
    this.predictionPanel.draw();
    this.library.diagram.draw();
  }

  #listen() {
    find("stop").addEventListener("click", () => this.live.end());
    find("open-file").addEventListener("click", () => find("file").click());
    find("file").addEventListener("change", (event) => this.#file(event.target.files[0]));
    document.addEventListener("dragover", (event) => event.preventDefault());
    document.addEventListener("drop", (event) => {
      event.preventDefault();
      this.#file(event.dataTransfer.files[0]);
    });
    find("sphere").addEventListener("keydown", (event) => {
      if (this.placing.key(event) || this.stage.orbit.key(event)) event.preventDefault();
    });
    window.addEventListener("hashchange", () => this.#restore());
  }

  async #file(file) {
    if (file) this.openRecording(await file.arrayBuffer());
    find("file").value = "";
  }

  #animate() {
    let last = performance.now();
    const turn = (now) => {
      this.show.tick(now, Math.min(0.1, (now - last) / 1000));
      last = now;
      this.live.acknowledge(now, this.show.playhead.ahead);
      requestAnimationFrame(turn);
    };
    requestAnimationFrame(turn);
  }
}

export function start() {
  let app;
  try {
    app = new App();
  } catch (error) {
    const overlay = find("overlay");
    overlay.hidden = false;
    overlay.textContent = `The sphere cannot be drawn here: this browser gives no WebGL. (${error.message})`;
    return;
  }
  Object.defineProperty(window, "metastable", { value: readout(app) });
  app.begin();
}
