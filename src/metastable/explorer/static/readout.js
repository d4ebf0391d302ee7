// The state of the page for tests and curious readers.

/** Nothing in it can be changed. */
export function readout(app) {
  const { show, stage } = app;
  const position = [0, 0, 0];
  return Object.freeze({
    get frames() {
      return show.album.length;
    },
    get index() {
      return show.index;
    },
    get time() {
      return show.album.linear[show.index] ?? null;
    },
    get place() {
      return show.playhead.place;
    },
    get playing() {
      return show.playhead.playing;
    },
    get running() {
      return Boolean(show.running);
    },
    get clusters() {
      return show.clusterCount ?? null;
    },
    get tokens() {
      return show.album.frames[show.index]?.count ?? 0;
    },
    /** The numbers that came with the frame shown. */
    get moment() {
      return structuredClone(show.album.frames[show.index]?.header ?? null);
    },
    get drawn() {
      return stage.drawn;
    },
    get view() {
      return stage.view;
    },
    get prediction() {
      return structuredClone(show.prediction);
    },
    get spec() {
      return structuredClone(app.controls.spec);
    },
    /** Tokens at the end of a run computed on the page: rows of float64; null before. */
    get last() {
      const { last } = app.live;
      if (!last) return null;
      const count = last.length / 3;
      return Array.from({ length: count }, (_, i) => [i, count + i, 2 * count + i].map((k) => last[k]));
    },
    get run() {
      return app.run ?? null;
    },
    /** A number that changes when a drawn token does. */
    get checksum() {
      let sum = 0;
      for (let i = 0; i < this.tokens; i++) {
        stage.tokenAt(i, position);
        sum += ((i % 97) + 1) * (position[0] + 2 * position[1] + 3 * position[2]);
      }
      return sum;
    },
  });
}
