"""Sphinx configuration."""

import re

from metastable import __version__

project = "Metastable"
author = "The Metastable authors"
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
html_theme = "furo"
html_title = f"Metastable {release}"
exclude_patterns = ["_build"]
myst_enable_extensions = ["attrs_inline"]
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_class_signature = "separated"
autodoc_default_options = {"members": True, "exclude-members": "__init__, __new__"}
# The README is included in the index; its links into the repository lead nowhere in these pages.
suppress_warnings = ["myst.header", "myst.xref_missing"]


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


def setup(app):
    app.connect("autodoc-process-docstring", as_restructured_text)
