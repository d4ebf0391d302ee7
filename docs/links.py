"""Do the links of a built site lead anywhere? Pages, anchors, pictures and scripts; no network.

python docs/links.py docs/_build/html
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# The page that computes by itself keeps its state, not an anchor, behind the #.
WITHOUT_ANCHORS = ("live.html",)


class Page(HTMLParser):
    """The links of a page, and the anchors that others may point to."""

    def __init__(self, text: str):
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.links.add(value)


def broken_links(site: Path) -> list[str]:
    """One line for each link inside the site whose page, file or anchor is not there."""
    site = site.resolve()
    pages = {
        file: Page(file.read_text(encoding="utf-8"))
        for file in sorted(site.rglob("*.html"))
        if file.name not in WITHOUT_ANCHORS
    }
    broken = []
    for file, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            target = target / "index.html" if target.is_dir() else target
            anchor = unquote(parts.fragment)
            if not target.is_file():
                why = "is no file"
            elif anchor and target in pages and anchor not in pages[target].anchors:
                why = "has no such anchor"
            elif not target.is_relative_to(site):
                why = "lies outside the site"
            else:
                continue
            broken.append(f"{file.relative_to(site)}: {link} {why}")
    return broken


if __name__ == "__main__":
    found = broken_links(Path(sys.argv[1]))
    print("\n".join(found) or "every link inside the site leads somewhere")
    sys.exit(bool(found))
