"""Figures of the benchmarks: log-log, one colour per method, the machine in the corner."""

from __future__ import annotations

from pathlib import Path

__all__ = ["costs", "lines"]


def costs(result: dict, path: Path, title: str) -> None:
    """Seconds against tokens, one panel per β."""
    betas = sorted({row["beta"] for row in result["rows"]})
    panels = {
        f"β = {beta:g}": [
            # Peers were run once: their cost does not depend on β.
            row | {"x": row["n"], "y": row["seconds"]}
            for row in result["rows"]
            if row["beta"] == beta or row["relative_error"] is None
        ]
        for beta in betas
    }
    lines(panels, path, title, "tokens n", "seconds per field evaluation", result["machine"])


def lines(
    panels: dict[str, list[dict]], path: Path, title: str, xlabel: str, ylabel: str, machine: str
) -> None:
    """Log-log lines; rows carry "method", "x" and "y"."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    methods = list(dict.fromkeys(row["method"] for rows in panels.values() for row in rows))
    colours = dict(zip(methods, plt.get_cmap("tab10").colors, strict=False))
    figure, axes = plt.subplots(
        1, len(panels), figsize=(2.5 + 4 * len(panels), 4.2), sharey=True, squeeze=False,
        layout="constrained",
    )  # fmt: skip
    for axis, (name, rows) in zip(axes[0], panels.items(), strict=True):
        for method in methods:
            points = sorted((r["x"], r["y"]) for r in rows if r["method"] == method)
            if points:
                axis.loglog(
                    *zip(*points, strict=True), "o-", ms=4, color=colours[method], label=method
                )
        axis.set(title=name, xlabel=xlabel)
        axis.grid(True, which="major", alpha=0.3)
    axes[0][0].set_ylabel(ylabel)
    handles = {
        label: handle
        for axis in axes[0]
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    where = {"loc": "outside right upper", "fontsize": 8, "title_fontsize": 7}
    figure.legend(handles.values(), handles.keys(), title=machine, **where)
    figure.suptitle(title)
    figure.savefig(path, dpi=160)
    plt.close(figure)
