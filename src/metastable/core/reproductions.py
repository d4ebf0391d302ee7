"""Where `reproductions/` lies: reports cite its entries, and `metastable reproduce` runs them."""

from __future__ import annotations

from pathlib import Path

__all__ = ["PACKAGE", "home"]

PACKAGE = "reproductions"


def home() -> Path:
    """`reproductions/`: inside an installed package, or beside the sources."""
    package = Path(__file__).resolve().parents[1]
    for place in (package / PACKAGE, package.parents[1] / PACKAGE):
        if (place / "__init__.py").is_file():
            return place
    raise ValueError(
        f"{PACKAGE}/ must lie beside src/ or inside the installed package; it does neither: "
        "install metastable again."
    )
