// Taking it along: Python, TOML, a link, the run, its recording, a page that plays by itself.

import { downloadAddress, exported } from "metastable/server";

const FILES = [
  ["download-run", "zip"],
  ["download-recording", "msr"],
  ["download-page", "html"],
];

export class Takeaway {
  /** `spec()` is the specification now shown; `say(sentence)` reports. */
  constructor(find, spec, say) {
    this.find = find;
    for (const kind of ["python", "toml"]) {
      find(`copy-${kind}`).addEventListener("click", () => {
        this.#copy(
          exported(spec()).then((both) => both[kind]),
          kind === "python" ? "Python" : "TOML",
          say,
        );
      });
    }
    // Without the query, which may hold the token of this reader.
    const link = () => location.origin + location.pathname + location.hash;
    find("copy-link").addEventListener("click", () =>
      this.#copy(Promise.resolve(link()), "The link", say),
    );
    this.offer(null);
  }

  /** Links to a finished run, or none. */
  offer(run) {
    for (const [id, kind] of FILES) {
      const link = this.find(id);
      link.setAttribute("aria-disabled", String(!run));
      if (run) {
        link.href = downloadAddress(run, kind);
        link.download = `${run}.${kind}`;
      } else {
        link.removeAttribute("href");
      }
    }
  }

  async #copy(text, name, say) {
    let words;
    try {
      words = await text;
    } catch (error) {
      say(error.message);
      return;
    }
    try {
      await navigator.clipboard.writeText(words);
      say(`${name} copied.`);
    } catch {
      // No clipboard for this page: the reader takes it by hand.
      this.find("export-text").value = words;
      this.find("export").showModal();
      this.find("export-text").select();
    }
  }
}
