"""Sphinx configuration."""

import json
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx import addnodes
from sphinx.util import logging

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))

from gallery import write_changed, write_examples  # noqa: E402
from messages import page as page_of_messages  # noqa: E402

import metastable as ms  # noqa: E402
from metastable.reproduce.atlas import write_map  # noqa: E402

project = "Metastable"
author = "The Metastable authors"
release = ms.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
html_theme = "furo"
html_title = f"Metastable {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
exclude_patterns = ["_build"]
myst_enable_extensions = ["attrs_inline", "colon_fence", "dollarmath"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_class_signature = "separated"
autodoc_default_options = {"members": True, "exclude-members": "__init__, __new__"}
# Links of the README into the repository lead nowhere in these pages.
suppress_warnings = ["myst.header", "myst.xref_missing"]

logger = logging.getLogger(__name__)
LIVE = DOCS / "_static" / "live.html"
PICTURE = "images/explorer_desktop_light.png"  # where the page could not be made


def write_pages(app):
    """What is made from the code: pages of the examples and messages, and the page that moves."""
    write_examples()
    write_changed(DOCS / "messages.md", page_of_messages())
    sources = (Path(ms.__file__).parent / "explorer").rglob("*.*")
    newest = max(file.stat().st_mtime for file in sources if file.suffix != ".pyc")
    if not LIVE.is_file() or LIVE.stat().st_mtime < newest:
        _export_live()
    # The map of claims, with links to the pages of their sources.
    write_map(DOCS / "_static", pages="../reproductions/{source}.html")


def _export_live():
    with TemporaryDirectory() as place:
        command = [sys.executable, "-m", "metastable", "explore", "--export", f"{place}/live"]
        done = subprocess.run(command, capture_output=True, text=True)
        made = list(Path(place).rglob("*.html"))
        if done.returncode != 0 or len(made) != 1:
            logger.info("the page that moves was not made: %s", done.stderr.strip())
            return
        LIVE.write_bytes(made[0].read_bytes())


class Live(Directive):
    """The page that moves, at the spec which is the directive's content (TOML); else a picture."""

    has_content = True

    def run(self):
        env = self.state.document.settings.env
        up = "../" * env.docname.count("/")
        spec = tomllib.loads("\n".join(self.content))
        state = quote(json.dumps({"spec": spec} if spec else {}, separators=(",", ":")))
        page = f"{up}_static/live.html#{state}"
        if not LIVE.is_file():
            return [nodes.image(uri=f"/{PICTURE}", alt="The explorer: tokens on the sphere")]
        html = (
            f'<iframe class="live" loading="lazy" title="Tokens that move" src="{page}"></iframe>'
        )
        html += f'<p><a href="{page}">Open the page by itself</a></p>'
        return [nodes.raw("", html, format="html")]


def as_restructured_text(app, what, name, obj, options, lines):
    """Docstrings are plain text with Unicode formulas: keep |x|, x_i and a*b from being markup."""
    paragraphs = re.split(r"\n(?:\s*\n)+", "\n".join(lines).strip("\n"))
    lines[:] = [*"\n\n".join(map(_paragraph, paragraphs)).split("\n"), ""]


def _paragraph(text):
    if text.lstrip().startswith(">>>"):
        return text
    # An indented line that continues no list item belongs to text in columns.
    if "\n " in text and text[0] not in " -1":
        return "::\n\n    " + text.replace("\n", "\n    ")
    parts = re.split(r"(`[^`]+`|\*\*[^*]+\*\*)", text)
    parts[::2] = [re.sub(r"([\\|*_`])", r"\\\1", part) for part in parts[::2]]
    parts[1::2] = [f"`{part}`" if part[0] == "`" else part for part in parts[1::2]]
    return "".join(parts)


# x_i, I_{ℓ+ν}, e^{β⟨x,y⟩}, κ_#: one letter or a bracket, then what stands lower or higher.
BRACED = r"\{((?:[^{}]|\{[^{}]*\})*)\}"
RAISED = re.compile(
    r"(?:(?<=(?<![A-Za-z_])[^\W\d_])_|(?<=[∂∇)\]⟩}|])_|(?<=\S)\^)"
    rf"(?:{BRACED}|(\d+|[^\W\d_]+|[#*∞+−-]\w*))"
)


def set_formulas(app, doctree):
    """Subscripts and superscripts of formulas that are written as plain text, also in docstrings.

    Inline code that names something public becomes a link to it.
    """
    kept = (nodes.literal, nodes.literal_block, nodes.math, nodes.math_block, nodes.raw)
    kept += (nodes.Invisible, addnodes.desc_signature, nodes.image, nodes.comment)
    for text in list(doctree.findall(nodes.Text)):
        parents, node = [], text.parent
        while node is not None:
            parents.append(node)
            node = node.parent
        if any(isinstance(parent, kept) for parent in parents):
            continue
        pieces = list(_set(str(text)))
        if len(pieces) > 1:
            text.parent.replace(text, pieces)
    for code in list(doctree.findall(nodes.literal)):
        match = re.fullmatch(r"(?:ms\.|metastable\.)?([\w.]+)(?:\(.*\))?", code.astext())
        target = match and public_names().get(match[1])
        if target and not isinstance(code.parent, nodes.reference | addnodes.pending_xref):
            link = addnodes.pending_xref(
                "", refdomain="py", reftype="obj", reftarget=target, refwarn=False
            )
            code.replace_self(link)
            link += code


def _set(text):
    """The nodes of a text with sub- and superscripts."""
    at = 0
    for match in RAISED.finditer(text):
        if match.start() > at:
            yield nodes.Text(text[at : match.start()])
        kind = nodes.subscript if match[0][0] == "_" else nodes.superscript
        yield kind("", "", *_set(match[1] if match[1] is not None else match[2]))
        at = match.end()
    if at < len(text):
        yield nodes.Text(text[at:])


@cache
def public_names():
    """Each public name as people write it, to where it is defined."""
    found = {}
    for package in ("", "theory.", "observe.", "report."):
        module = import_module(f"metastable.{package}".rstrip("."))
        for name in module.__all__:
            obj = getattr(module, name, None)
            if callable(obj) and hasattr(obj, "__qualname__"):
                place = f"{obj.__module__}.{obj.__qualname__}"
                found.setdefault(name, place)
                found[f"{package}{name}"] = place
    return found


def visit_math(self, node):
    """MathML, which browsers draw by themselves: no script, no network."""
    block = isinstance(node, nodes.math_block)
    self.body.append(tex2mathml(node.astext(), as_block=block))
    raise nodes.SkipNode


def setup(app):
    app.add_directive("live", Live)
    app.connect("builder-inited", write_pages)
    app.connect("autodoc-process-docstring", as_restructured_text)
    app.connect("doctree-read", set_formulas, priority=400)  # before titles are collected
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math, None))
