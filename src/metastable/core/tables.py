"""Tables of results, for pandas and as CSV."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas


class Tabular(ABC):
    """What has a table of its own."""

    @abstractmethod
    def to_dataframe(self) -> pandas.DataFrame:
        """The table, for pandas."""

    def _repr_html_(self) -> str | None:
        return self.to_dataframe()._repr_html_()  # pyright: ignore[reportCallIssue]

    def to_csv(self, path: str | Path) -> Path:
        """Write that table as CSV; refuses to write over anything that exists."""
        return write_csv(self.to_dataframe(), path)


def write_csv(table: pandas.DataFrame, path: str | Path) -> Path:
    """Write a table as CSV; refuses to write over anything that exists."""
    path = Path(path)
    if path.exists():
        raise ValueError(f"path must not exist yet; got {path}: choose another or remove it.")
    if not path.parent.is_dir():
        raise ValueError(f"path must lie in a folder that exists; got {path}: make it first.")
    table.to_csv(path, index=False)
    return path
