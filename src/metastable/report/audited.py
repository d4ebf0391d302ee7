"""Figures of audits: errors against budgets, curves on logarithmic axes, null p-values, images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from metastable.audit.corpus import PIXELS
from metastable.audit.evidence import Question
from metastable.audit.statistics import auc, roc
from metastable.report.style import CATEGORIES, INK, OTHER, legend, new_figure

__all__ = [
    "draw_calibration",
    "draw_errors",
    "draw_images",
    "draw_overlaps",
    "draw_panels",
    "draw_roc",
]

Rows = Sequence[Mapping[str, Any]]

COLOURS = {"members": CATEGORIES[5], "protected": CATEGORIES[0], "controls": OTHER}
SHAPES = {"members": "o", "protected": "s", "controls": "^"}
LINES = ("-", "--", ":", "-.")


def draw_errors(rows: Rows, score: str) -> Figure:
    """Error against the prompt's length and against the bits it can carry."""
    figure, axes = new_figure(1, 2, (9.2, 3.4))
    kinds = list(
        dict.fromkeys(row["generator"] for row in rows if row["generator"] != "likelihood")
    )
    for ax, place, label in (
        (axes[0, 0], "budget", "length of the prompt (vectors or tokens)"),
        (axes[0, 1], "bits", "bits the prompt can carry"),
    ):
        for kind, line in zip(kinds, LINES * 2, strict=False):
            own = [row for row in rows if row["generator"] == kind]
            draw_lines(ax, own, score, place, line, kind if len(kinds) > 1 else "")
        ax.set(xlabel=label, ylim=(-0.03, None))
        ax.set_xscale("log", base=2 if place == "budget" else 10)
    axes[0, 0].xaxis.set_major_formatter("{x:g}")
    axes[0, 0].set_ylabel(told(score))
    legend(axes[0, 1], loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.set_label(
        "Error of what M writes, mean over items with 95 % intervals. A long prompt writes the "
        "text itself, seen or not: only the distance from the controls is evidence."
    )
    return figure


def draw_lines(
    ax: Axes, rows: Rows, score: str, place: str, line: str = "-", kind: str = ""
) -> None:
    """Means of a score over a column, one line for each group that the rows hold."""
    groups = {
        "members": ("member",),
        "protected": ("member", "protected"),
        "controls": ("control",),
    }
    for name, kinds in groups.items():
        found: dict[float, list[float]] = {}
        for row in rows:
            if row["group"] in kinds:
                found.setdefault(float(row[place]), []).append(float(row[score]))
        if not found:
            continue
        at = sorted(found)
        mean = np.array([np.mean(found[x]) for x in at])
        wide = [1.96 * np.std(found[x]) / np.sqrt(len(found[x])) for x in at]
        label = f"{name}, {kind}" if kind else name
        ax.errorbar(
            at, mean, wide, label=label, color=COLOURS[name], linestyle=line, marker=SHAPES[name],
            markersize=4, linewidth=1.4, capsize=2,
        )  # fmt: skip


def draw_roc(asked: Sequence[Question], main: Question) -> Figure:
    """True against false positives on logarithmic axes.

    Curves of `main`, which carries the verdict, of the first question and of the likelihood.
    """
    figure, ax = new_figure(size=(4.8, 3.8))
    shown = {question.name: question for question in asked}
    names = dict.fromkeys([main.name, asked[0].name, "nll"])
    chosen = [shown[name] for name in names if name in shown]
    for colour, question in zip(CATEGORIES, chosen, strict=False):
        sets = {"protected": question.protected, "members": question.members}
        for (name, values), line in zip(sets.items(), LINES, strict=False):
            if len(values):
                area = auc(values, question.control).mid
                _curve(ax, values, question.control, colour, line, f"{question.name}, {name}", area)
    low = 0.5 / len(main.control)
    chance = np.geomspace(low, 1, 50)
    ax.plot(chance, chance, color=INK, linewidth=0.8, alpha=0.5, label="chance")
    ax.axvline(1 / len(main.control), color=INK, linewidth=0.8, linestyle=":", alpha=0.6)
    least = 0.5 / max(len(main.protected), 1)
    ax.set(xscale="log", yscale="log", xlim=(low, 1.1), ylim=(min(least, low), 1.15))
    ax.set(xlabel="false positive rate (controls)", ylabel="true positive rate")
    legend(ax, loc="lower right")
    figure.set_label(
        f"Curves from {len(main.protected)} protected and {len(main.control)} control documents. "
        "Left of the dotted line, one control, nothing can be seen: the curve's height there is "
        "the rate without any false positive. Area in brackets."
    )
    return figure


def draw_calibration(null: Mapping[str, Sequence[float]]) -> Figure:
    """Distribution of null p-values against the uniform law, each set with its 99 % band."""
    figure, ax = new_figure(size=(4.6, 3.6))
    line = np.linspace(0, 1, 101)
    ax.plot(line, line, color=INK, linewidth=0.8, alpha=0.6)
    for colour, (name, values) in zip(CATEGORIES, null.items(), strict=False):
        wide = float(stats.kstwo.ppf(0.99, len(values)))
        band = np.clip(line - wide, 0, 1), np.clip(line + wide, 0, 1)
        ax.fill_between(line, *band, color=colour, alpha=0.12, linewidth=0)
        share = np.arange(1, len(values) + 1) / len(values)
        x, y = np.concatenate([[0], np.sort(values), [1]]), np.concatenate([[0], share, [1]])
        ax.step(x, y, where="post", color=colour, linewidth=1.5, label=f"{name} ({len(values)})")
    ax.set(xlabel="p-value under the null", ylabel="share at or below", xlim=(0, 1), ylim=(0, 1))
    legend(ax, loc="lower right")
    figure.set_label(
        "Null p-values must be uniform: on the diagonal, inside the band of their colour (99 %). "
        "Above it they are too small."
    )
    return figure


def draw_panels(runs: Sequence[Mapping[str, Any]]) -> Figure:
    """Four panels: the smallest and the largest model, at the highest and the lowest overlap.

    Each run holds `size`, `overlap`, `score` and the rows of one `generator`.
    """
    sizes = sorted({run["size"] for run in runs}, key=lambda size: (_order(size), size))
    overlaps = sorted({run["overlap"] for run in runs})
    # Without overlap there are no members: the low panel has some, if two overlaps do.
    some = [overlap for overlap in overlaps if overlap > 0]
    columns, lines = _ends(sizes), _ends(some if len(some) > 1 else overlaps)[::-1]
    figure, axes = new_figure(len(lines), len(columns), (4.2 * len(columns) + 1, 2.9 * len(lines)))
    axes = np.array(axes).reshape(len(lines), len(columns))
    for k, overlap in enumerate(lines):
        for j, size in enumerate(columns):
            ax = axes[k, j]
            own = [run for run in runs if run["size"] == size and run["overlap"] == overlap]
            for run in own[:1]:
                rows = [row for one in own for row in one["rows"]]
                draw_lines(ax, rows, run["score"], "budget")
            ax.set_title(f"{size} model, overlap {overlap:g}")
            ax.set_xscale("log", base=2)
            ax.xaxis.set_major_formatter("{x:g}")
            ax.set_ylim(-0.03, max(1.03, ax.get_ylim()[1]) if own and _is_share(own) else None)
            if k == len(lines) - 1:
                ax.set_xlabel(f"length of the {own[0]['generator'] if own else ''} prompt")
            if j == 0 and own:
                ax.set_ylabel(told(own[0]["score"]))
    handles = {
        label: one
        for ax in axes.flat
        for one, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        handles.values(), handles.keys(), loc="outside right upper", frameon=False, labelcolor=INK,
        fontsize=8.5,
    )  # fmt: skip
    figure.set_label(
        "Reconstruction error by model and overlap, means over items and seeds with 95 % "
        "intervals. Members are the part of the protected set that M was trained on."
    )
    return figure


def draw_overlaps(runs: Sequence[Mapping[str, Any]]) -> Figure:
    """Estimated against true overlap, with intervals, by model size."""
    figure, ax = new_figure(size=(4.6, 3.6))
    ax.plot([0, 1], [0, 1], color=INK, linewidth=0.8, alpha=0.6)
    sizes = sorted({run["size"] for run in runs}, key=lambda size: (_order(size), size))
    for j, (colour, size) in enumerate(zip(CATEGORIES, sizes, strict=False)):
        own = sorted((run for run in runs if run["size"] == size), key=lambda run: run["overlap"])
        low, mid, high = np.array([run["estimate"] for run in own]).T
        # Seeds of one overlap stand side by side.
        at = np.array([run["overlap"] for run in own])
        rank = np.array([int(np.sum(at[:k] == at[k])) for k in range(len(at))])
        at = at + 0.012 * (rank - (np.bincount(rank).size - 1) / 2) + 0.02 * j
        ax.errorbar(
            at, mid, [mid - low, high - mid], label=f"{size} model", color=colour, fmt="o",
            markersize=4, capsize=2, linewidth=1.2,
        )  # fmt: skip
    ax.set(xlabel="overlap ρ", ylabel="estimate, 90 % interval", ylim=(-0.03, 1.03))
    legend(ax, loc="upper left")
    figure.set_label("Overlap estimated from the likelihood of protected and control items.")
    return figure


def draw_images(ranked: Rows, levels: int, most: int = 8) -> Figure:
    """Targets above what M wrote: protected images that came nearest, then the nearest controls."""
    sides = [
        [row for row in ranked if (row["group"] == "control") is held][:most]
        for held in (False, True)
    ]
    side = round(len(ranked[0]["target"]) ** 0.5)
    step = side + 2
    columns = max(map(len, sides))
    # One picture of all, clear between them: an axis for each image would take seconds to draw.
    sheet = np.full((4 * step, columns * step), np.nan)
    figure, ax = new_figure(size=(0.8 * columns + 1.2, 3.6))
    for k, (rows, what) in enumerate(
        (rows, what) for rows in sides for what in ("target", "output")
    ):
        for j, row in enumerate(rows):
            image = picture(row[what], side**2, levels).reshape(side, side)
            sheet[k * step + 1 :, j * step + 1 :][:side, :side] = image
            if what == "output":
                error = f"{float(row['squared_error']):.3f}"
                at = {"x": (j + 0.5) * step - 0.5, "y": (k + 1) * step - 0.5}
                ax.text(s=error, ha="center", va="center", fontsize=7, color=INK, **at)
    ax.imshow(sheet, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    names = ["protected", "M wrote", "control", "M wrote"]
    ax.set_yticks([(k + 0.5) * step - 0.5 for k in range(4)], names)
    ax.tick_params(length=0)
    ax.set_xticks([])
    ax.grid(False)
    ax.spines[:].set_visible(False)
    figure.set_label(
        "Targets above outputs, nearest first: protected images, then controls, with mean squared "
        "errors."
    )
    return figure


def picture(text: str, size: int, levels: int) -> np.ndarray:
    """Grey values in [0, 1] of an image written as text, padded with black."""
    values = [max(PIXELS.find(c), 0) for c in text[:size].ljust(size, "0")]
    return np.minimum(np.array(values) / (levels - 1), 1.0)


def told(score: str) -> str:
    """A score in words."""
    words = {
        "hamming": "share of wrong characters",
        "squared_error": "mean squared error",
        "nll": "mean −log p",
        "min_k": "Min-K%",
        "min_k_pp": "Min-K%++",
        "zlib_ratio": "−log p over zlib",
        "reference_ratio": "−log p over that of a reference",
    }
    return words.get(score, score)


def _curve(
    ax: Axes, x: np.ndarray, y: np.ndarray, colour: str, line: str, name: str, area: float
) -> None:
    false, true = roc(x, y)
    # Nothing is zero on a logarithmic axis: rates without a false positive stand at the left edge.
    false = np.maximum(false, 0.5 / len(y))
    ax.step(
        false, true, where="post", color=colour, linestyle=line, linewidth=1.5,
        label=f"{name} ({area:.2f})",
    )  # fmt: skip


def _order(size: str) -> int:
    known = ("basic", "complex", "large")
    return known.index(size) if size in known else len(known)


def _ends(values: Sequence[Any]) -> list[Any]:
    return list(dict.fromkeys([values[0], values[-1]]))


def _is_share(runs: Sequence[Mapping[str, Any]]) -> bool:
    return all(run["score"] != "squared_error" for run in runs)
