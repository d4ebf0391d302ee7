// Taking it along: Python, TOML, a link, the run, its recording, a page that plays by itself.

import { downloadAddress, exported } from "metastable/server";

const FILES = [["download-run", "zip"], ["download-recording", "msr"], ["download-page", "html"]];

export class Takeaway {
  /** `spec()` is the specification now shown; `say(sentence)` reports. */
  constructor(find, spec, say) {
    this.find = find;
    for (const kind of ["python", "toml"]) {
      find(`copy-${kind}`).addEventListener("click", () => {
        this.#copy(exported(spec()).then((both) => both[kind]), kind === "python" ? "Python" : "TOML", say);
      });
    }
    find("copy-link").addEventListener("click", () => this.#copy(Promise.resolve(location.href), "The link", say));
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
    try {
      const words = await text;
      this.copied = words;
      await write(words);
      say(`${name} copied.`);
    } catch (error) {
      say(error.message);
    }
  }
}

/** Browsers without a clipboard for this page still have the old way. */
async function write(words) {
  try {
    await navigator.clipboard.writeText(words);
  } catch {
    const area = Object.assign(document.createElement("textarea"), { value: words, className: "hidden-text" });
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    if (!done) throw new Error("The browser does not let this page copy.");
  }
}
