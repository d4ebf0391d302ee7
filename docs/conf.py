"""Sphinx configuration."""

from metastable import __version__

project = "Metastable"
author = "The Metastable authors"
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
myst_enable_extensions = ["dollarmath"]
html_theme = "furo"
html_title = f"Metastable {release}"
exclude_patterns = ["_build"]
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_class_signature = "separated"
autodoc_default_options = {"members": True, "exclude-members": "__init__, __new__"}
suppress_warnings = ["myst.header", "myst.xref_missing"]
