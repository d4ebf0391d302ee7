// Where the picture stands in time, and how it moves on.

const LINEAR_SECONDS = 16; // one pass over the whole axis at speed 1
const DECADES_A_SECOND = 0.5;
const LOG_SECONDS = 24;
const DECADES_BEFORE = 4;
const LAG = 0.4; // seconds behind a computation that is slower than the playback

export class Playhead {
  constructor() {
    this.clock = "linear";
    this.speed = 1;
    this.playing = false;
    this.place = 0;
    this.first = 0;
    this.known = 0; // the last place there is a frame for
    this.last = 1; // where the axis ends
  }

  /** The axis of an album; a live run has an end of its own that it is still to reach. */
  fit(album, expectedEnd) {
    const places = album.places(this.clock);
    if (!places.length) return;
    const end = expectedEnd ?? (this.clock === "log" ? 2 : 1);
    // Only t = 0 so far: on a logarithmic clock the axis has to begin somewhere.
    this.first = Number.isFinite(places[0]) ? places[0] : end - DECADES_BEFORE;
    // Times beyond the range of doubles have a place on the logarithmic clock only.
    const reached = places.findLastIndex(Number.isFinite);
    this.known = reached < 0 ? this.first : Math.max(this.first, places[reached]);
    this.last = places.length > 1 && expectedEnd === null ? this.known : Math.max(end, this.known);
    this.last = Math.max(this.last, this.first + 1e-9);
    this.place = Math.min(Math.max(this.place, this.first), this.known);
  }

  /** While frames are still `coming` it slows down before the last one: no stop and go. */
  advance(seconds, coming = false) {
    if (!this.playing) return;
    const wanted = this.place + seconds * this.#pace;
    const eased = this.known - (this.known - this.place) * Math.exp(-seconds / LAG);
    this.place = Math.min(coming ? eased : this.known, wanted);
  }

  /** Of the axis, in a second. */
  get #pace() {
    const span = this.last - this.first;
    const plain =
      this.clock === "log" ? Math.max(DECADES_A_SECOND, span / LOG_SECONDS) : span / LINEAR_SECONDS;
    return this.speed * plain;
  }

  /** Seconds of playback that there are frames for; null while it stands still. */
  get ahead() {
    return this.playing ? (this.known - this.place) / this.#pace : null;
  }

  get share() {
    return (this.place - this.first) / (this.last - this.first);
  }

  seek(share) {
    const place = this.first + share * (this.last - this.first);
    this.place = Math.min(this.known, Math.max(this.first, place));
  }

  get atKnownEnd() {
    return this.place >= this.known;
  }
}
