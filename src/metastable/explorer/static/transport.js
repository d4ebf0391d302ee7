// Play, pause, step, scrub; and the choices of the picture.

import { brief } from "metastable/numbers";
import { write } from "metastable/text";

const STANDARD = { clock: "linear", speed: 1, colour: "cluster", trails: false };

export class Transport {
  /** `on` holds play(), changed(view). */
  constructor(find, show, on) {
    this.find = find;
    this.show = show;
    this.on = on;
    find("play").addEventListener("click", () => this.toggle());
    find("step").addEventListener("click", () => this.step(1));
    find("step-back").addEventListener("click", () => this.step(-1));
    find("scrub").addEventListener("input", (event) => {
      show.playhead.playing = false;
      show.playhead.seek(event.target.value / 1000);
      show.stale = true;
      this.refresh();
    });
    for (const id of ["clock", "speed", "colour", "trails"]) {
      find(id).addEventListener("change", () => {
        this.apply();
        on.changed(this.view);
      });
    }
    find("reset-view").addEventListener("click", () => show.stage.orbit.home(show.stage.view));
    document.addEventListener("keydown", (event) => this.#key(event));
    show.onmove = () => this.refresh();
    show.onend = () => this.pause();
  }

  get view() {
    const { find } = this;
    const all = {
      clock: find("clock").value,
      speed: Number(find("speed").value),
      colour: find("colour").value,
      trails: find("trails").checked,
    };
    return Object.fromEntries(
      Object.entries(all).filter(([key, value]) => value !== STANDARD[key]),
    );
  }

  /** Take over choices, such as those of an address. */
  set(view = {}) {
    const { find } = this;
    const all = { ...STANDARD, ...view };
    find("clock").value = all.clock === "log" ? "log" : "linear";
    find("speed").value = String(all.speed);
    if (find("speed").selectedIndex < 0) find("speed").value = "1";
    find("colour").value = ["cluster", "mass", "speed"].includes(all.colour)
      ? all.colour
      : "cluster";
    find("trails").checked = Boolean(all.trails);
    this.apply();
  }

  apply() {
    const { find, show } = this;
    show.playhead.speed = Number(find("speed").value);
    show.colouring = find("colour").value;
    show.trails = find("trails").checked;
    if (show.playhead.clock !== find("clock").value) show.setClock(find("clock").value);
    show.restage();
  }

  toggle() {
    const { playhead } = this.show;
    if (playhead.playing) this.pause();
    else this.on.play();
  }

  /** Move on from here, or from the beginning when the end was reached. */
  play() {
    const { playhead, running } = this.show;
    if (!running && playhead.atKnownEnd) playhead.place = playhead.first;
    playhead.playing = true;
    this.refresh();
  }

  pause() {
    this.show.playhead.playing = false;
    this.show.stale = true; // charts off the screen stood still
    this.refresh();
  }

  step(by) {
    this.show.stepFrame(by);
    if (by > 0 && this.show.album.length <= 1) this.on.play(true);
    this.refresh();
  }

  refresh() {
    const { find, show } = this;
    const { playhead } = show;
    find("stop").hidden = !show.running;
    write(find("play-sign"), playhead.playing ? "❚❚" : "▶");
    write(find("play-word"), playhead.playing ? "Pause" : "Play");
    const scrub = find("scrub");
    if (show.album.length) {
      scrub.value = Math.round(1000 * playhead.share);
      const clusters = show.clusterCount;
      const many = Number.isFinite(clusters) ? `, ${clusters} clusters` : "";
      scrub.setAttribute("aria-valuetext", `${show.axisLabel} = ${show.timeText}${many}`);
      write(find("time-value"), show.timeText);
      write(find("cluster-value"), Number.isFinite(clusters) ? clusters : "–");
    } else {
      scrub.value = 0;
      write(find("time-value"), "0");
      write(find("cluster-value"), "–");
    }
    const scale = show.album.frames[show.index]?.header.scale ?? 1;
    find("scale").hidden = scale === 1;
    write(find("scale-value"), brief(scale));
    write(find("time-name"), show.album.head.axis_label ?? "time t");
  }

  #key(event) {
    const { target } = event;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (target.closest("input:not([type=range]):not([type=checkbox]), textarea, select")) return;
    const onControl = target.closest("button, summary, a, input");
    if (event.key === " " && !onControl) this.toggle();
    else if (event.key === ".") this.step(1);
    else if (event.key === ",") this.step(-1);
    else return;
    event.preventDefault();
  }
}
