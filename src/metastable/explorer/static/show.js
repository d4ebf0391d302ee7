// The performance: an album, the playhead over it, and everything that shows a moment of it.

import { Album } from "metastable/album";
import { Curves } from "metastable/curves";
import { Legend } from "metastable/legend";
import { brief, briefLog } from "metastable/numbers";
import { outlook } from "metastable/outlook";
import { Playhead } from "metastable/playhead";
import { Snapshots } from "metastable/snapshots";
import { write } from "metastable/text";
import { Timeline } from "metastable/timeline";
import { Words } from "metastable/words";
import { viewOf } from "metastable/spec";

// Milliseconds between two changes of the words, and two drawings of the charts: every change of
// the page is painted beside the sphere, which where no graphics card draws takes as long.
const WORDS_APART = 100;
const CHARTS_APART = 250;

export class Show {
  constructor(find, stage) {
    this.find = find;
    this.stage = stage;
    this.album = new Album();
    this.playhead = new Playhead();
    this.curves = new Curves(find);
    this.snapshots = new Snapshots(find);
    this.timeline = new Timeline(find("timeline"));
    this.legend = new Legend(find("legend"));
    this.words = new Words(find("words"), stage);
    this.prediction = null;
    this.colouring = "cluster";
    this.trails = false;
    this.expectedEnd = null; // a live run's horizon, in its own time
    this.index = 0;
    this.stale = true;
    this.told = { at: 0, stale: true };
    this.charted = { at: 0, stale: true };
    this.onmove = () => {};
    this.onend = () => {};
    const redraw = () => (this.stale = true);
    this.curves.onresize(redraw);
    this.snapshots.onresize(redraw);
    this.timeline.onresize = redraw;
  }

  /** Begin a new album; its frames follow. */
  open(head, expectedEnd = null) {
    this.album = new Album(head);
    this.expectedEnd = expectedEnd;
    this.index = 0;
    this.playhead.place = -Infinity;
    this.words.use(head.words);
    this.stage.clear();
    const view = head.view ?? viewOf(head.spec ?? {});
    if (view !== this.stage.view) this.stage.setView(view);
    this.stale = true;
  }

  add(packet) {
    this.album.add(packet);
    this.fit();
  }

  fit() {
    const end = this.expectedEnd === null ? null : this.#place(this.expectedEnd);
    this.playhead.fit(this.album, this.running || this.album.length < 2 ? end : null);
    this.stale = true;
  }

  setClock(clock) {
    const time = this.album.length ? this.album.linear[this.index] : 0;
    this.playhead.clock = clock;
    this.playhead.place = this.album.length
      ? this.album.places(clock)[this.index]
      : this.#place(time);
    this.fit();
  }

  stepFrame(by) {
    if (!this.album.length) return;
    this.playhead.playing = false;
    const exactly = this.album.places(this.playhead.clock)[this.index] === this.playhead.place;
    const index = this.index + (by > 0 || exactly ? by : 0);
    const bounded = Math.min(this.album.length - 1, Math.max(0, index));
    this.playhead.place = this.album.places(this.playhead.clock)[bounded];
    this.stale = true;
  }

  recolour() {
    this.snapshots.drawnAttention = null;
    this.stale = true;
  }

  restage() {
    this.force = true;
    this.stale = true;
  }

  /** Once for each picture: move on, lay out, draw. Returns whether anything was drawn. */
  tick(now, seconds) {
    const { album, playhead, stage } = this;
    if (album.length) {
      const before = playhead.place;
      playhead.advance(seconds, this.running);
      if (playhead.playing && playhead.atKnownEnd && !this.running) this.onend();
      const places = album.places(playhead.clock);
      const index = album.indexAt(playhead.place, playhead.clock);
      const gap = (places[index + 1] ?? Infinity) - places[index];
      const share = Number.isFinite(gap) && gap > 0 ? (playhead.place - places[index]) / gap : 0;
      stage.show(album, index, Math.min(1, share), this.colouring, this.trails, this.force);
      this.force = false;
      if (index !== this.index || before !== playhead.place) this.stale = true;
      this.index = index;
    }
    const drawn = stage.draw();
    if (drawn) this.words.draw();
    if (this.stale) this.told.stale = this.charted.stale = true;
    this.stale = false;
    if (due(this.told, now, WORDS_APART)) this.#tell();
    if (due(this.charted, now, CHARTS_APART)) this.#charts();
    return drawn;
  }

  /** Time as text, from wherever the playhead stands. */
  get timeText() {
    if (!this.album.length) return "0";
    const { clock, place } = this.playhead;
    const begins = this.album.length === 1 || place <= this.album.places(clock)[0];
    if (begins && this.album.linear[0] === 0) return "0";
    return clock === "log" ? briefLog(place) : brief(place);
  }

  get clusterCount() {
    return this.album.clusters[this.index];
  }

  get axisLabel() {
    const { head } = this.album;
    const name = head.axis_label ?? "time t";
    const clock = head.clock ?? this.prediction?.clock;
    return clock && name === "time t" ? `${name} (${clock} clock)` : name;
  }

  #place(time) {
    return this.playhead.clock === "log" ? Math.log10(time) : time;
  }

  #charts() {
    const { playhead, album, prediction } = this;
    const exit = prediction?.exit_time > 0 ? this.#place(prediction.exit_time) : NaN;
    const time = {
      clock: playhead.clock,
      low: playhead.first,
      high: playhead.last,
      label: this.axisLabel,
      now: album.length ? playhead.place : NaN,
      exit,
      plays: playhead.playing,
    };
    if (!album.length && prediction?.exit_time > 0 && playhead.clock === "linear") {
      time.low = 0;
      time.high = Math.max(this.expectedEnd ?? 0, 1.5 * prediction.exit_time);
    }
    this.timeline.draw(
      { first: time.low, known: playhead.known, last: time.high, clock: playhead.clock },
      exit,
      this.axisLabel,
    );
    this.curves.draw(album, prediction, time);
    this.snapshots.draw(album, this.index, playhead.playing);
    this.legend.show(this.colouring, album);
  }

  #tell() {
    this.#outlook();
    this.onmove();
  }

  /** Theory and observation in one sentence, where frames say how many maxima there are. */
  #outlook() {
    if (document.body.dataset.server !== "browser") return;
    const { find, album, prediction, index } = this;
    const words = outlook(
      prediction,
      album.seen.filter((moment) => moment.index <= index),
      this.playhead.playing,
    );
    write(find("outlook-theory"), words?.theory ?? "–");
    write(find("outlook-seen"), words?.seen ?? "–");
  }
}

/** Whether something stale may be made anew; then it is no longer. */
function due(part, now, apart) {
  if (!part.stale || now - part.at < apart) return false;
  part.at = now;
  part.stale = false;
  return true;
}
