"""Figures of audits: errors against budgets, curves on logarithmic axes, null p-values, images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from metastable.audit.corpus import PIXELS
from metastable.audit.evidence import Question
from metastable.audit.scores import EVIDENCE, score_in_words
from metastable.audit.statistics import auc, roc
from metastable.audit.works import Cover
from metastable.core.figure import Axis, Bars, Lines, Map, Panels, Series

Rows = Sequence[Mapping[str, Any]]

# Rows, color and marker of the lines of each figure.
GROUPS = {
    "members": (("member",), 5, "circle"),
    "protected": (("member", "protected"), 0, "square"),
    "controls": (("control",), -1, "triangle"),
}
DASHES = ("solid", "dashed", "dotted", "dashdot")
LEAST = 1e-6  # probability that still has a color of its own


def plot_familiarity(likely: Question) -> Lines:
    """How familiar each document looks to M, protected above controls."""
    sign, series = EVIDENCE[likely.score], []
    for name, values, group, at in (
        ("control", likely.control, -1, 0),
        ("protected", likely.protected, 0, 1),
    ):
        # Golden steps: near places without a random number.
        places = at + 0.5 * ((np.arange(len(values)) * 0.618) % 1 - 0.5)
        look: dict[str, Any] = {"style": "points", "group": group}
        series.append(Series(name, sign * np.sort(values), places, **look))
    y = Axis("", places=[0, 1], names=["control", "protected"], limits=(-0.5, 1.5))
    x = Axis(f"{likely.title}, by document")
    way = "left, at a lower" if sign < 0 else "right, at a higher"
    caption = (
        f"One dot a document. Further {way} {likely.title}, means more familiar to the model. "
    )
    caption += "If it was not trained on the protected texts, both rows look alike."
    look = {"title": "trained on", "legend": False, "size": (4.6, 3.2), "caption": caption}
    return Lines(x, y, series, **look)


def plot_written(prompts: Sequence[Question]) -> Bars:
    """How much comes out near-verbatim by each prompt, protected beside controls."""
    shares = {"protected": [q.protected.mean() for q in prompts]}
    shares["control"] = [q.control.mean() for q in prompts]
    axes = Axis("prompt"), Axis("share written near-verbatim", limits=(0.0, 1.0))
    caption = "Passages that come out near-verbatim. A prompt that makes controls come out too may "
    caption += "hold the text itself."
    title = "reproduces"
    if not any(np.any(own) for own in shares.values()):
        title, caption = f"{title}: nothing came out", f"Nothing came out. {caption}"
    look: dict[str, Any] = {"title": title, "size": (4.6, 3.2), "caption": caption}
    return Bars([q.name for q in prompts], shares, *axes, **look)


def plot_errors(rows: Rows, score: str) -> Lines:
    """Error against the prompt's length."""
    kinds = list(dict.fromkeys(r["generator"] for r in rows if r["generator"] != "likelihood"))
    series = []
    for kind, dash in zip(kinds, DASHES * 2, strict=False):
        own = [row for row in rows if row["generator"] == kind]
        series += _means(own, score, "budget", dash, kind if len(kinds) > 1 else "")
    x = Axis("length of the prompt (vectors or tokens)", scale="log2")
    caption = "Error of what the model writes, mean over items with 95 % intervals. A long prompt "
    caption += (
        "writes the text itself, seen or not: only the distance from the controls is evidence."
    )
    y = Axis(score_in_words(score), limits=(-0.03, None))
    return Lines(x, y, series, size=(5.2, 4.4), caption=caption)


def _means(rows: Rows, score: str, place: str, dash: str = "", kind: str = "") -> list[Series]:
    """Means of a score over a column, one line for each group that the rows hold."""
    series = []
    for name, (kinds, group, marker) in GROUPS.items():
        scores: dict[float, list[float]] = {}
        for row in rows:
            if row["group"] in kinds:
                scores.setdefault(float(row[place]), []).append(float(row[score]))
        at = sorted(scores)
        if at:
            mean = np.array([np.mean(scores[x]) for x in at])
            half = np.array([1.96 * np.std(scores[x]) / np.sqrt(len(scores[x])) for x in at])
            look: dict[str, Any] = {"style": "both", "dash": dash, "group": group, "marker": marker}
            series.append(Series(f"{name}, {kind}" if kind else name, at, mean, half, **look))
    return series


def plot_roc(asked: Sequence[Question], main: Question) -> Lines:
    """True against false positives: of `main`, the first question and the likelihood."""
    by_name = {question.name: question for question in asked}
    names = dict.fromkeys([main.name, asked[0].name, "nll"])
    series = []
    for group, question in enumerate(by_name[name] for name in names if name in by_name):
        sets = {"protected": question.protected, "members": question.members}
        for (name, values), dash in zip(sets.items(), DASHES, strict=False):
            if len(values):
                false, true = roc(values, question.control)
                # Nothing is zero on a logarithmic axis: rates without a false positive stand at
                # the left edge.
                false = np.maximum(false, 0.5 / len(question.control))
                label = f"{question.title}, {name} ({auc(values, question.control).mid:.2f})"
                series.append(Series(label, false, true, style="steps", dash=dash, group=group))
    low = 0.5 / len(main.control)
    chance = np.geomspace(low, 1, 50)
    series.append(Series("chance", chance, chance, role="theory", dash="solid", width=0.8))
    least = 0.5 / max(len(main.protected), 1)
    x = Axis("false positive rate (controls)", scale="log", limits=(low, 1.1))
    y = Axis("true positive rate", scale="log", limits=(min(least, low), 1.15))
    caption = f"Curves from {len(main.protected)} protected and {len(main.control)} control "
    caption += "documents. Left of the dotted line, one control, nothing can be seen: the curve's "
    caption += "height there is the rate without any false positive. Area in brackets."
    marks = {"": 1 / len(main.control)}
    return Lines(x, y, series, marks=marks, size=(4.8, 3.8), caption=caption)


def plot_calibration(null: Mapping[str, Sequence[float]]) -> Lines:
    """Distribution of null p-values against the uniform law, each set with its 99 % band."""
    line = np.linspace(0, 1, 101)
    series = [Series("", line, line, role="theory", dash="solid", width=0.8)]
    for group, (name, values) in enumerate(null.items()):
        wide = float(stats.kstwo.ppf(0.99, len(values)))
        band = np.array([np.clip(line - wide, 0, 1), np.clip(line + wide, 0, 1)])
        series.append(Series("", line, line, band=band, style="band", group=group))
        share = np.arange(1, len(values) + 1) / len(values)
        x, y = np.concatenate([[0], np.sort(values), [1]]), np.concatenate([[0], share, [1]])
        series.append(Series(f"{name} ({len(values)})", x, y, style="steps", group=group))
    x, y = Axis("p-value under the null", limits=(0.0, 1.0)), "share at or below"
    caption = "Null p-values must be uniform: on the diagonal, inside the band of their color "
    caption += "(99 %). Above it they are too small."
    return Lines(x, Axis(y, limits=x.limits), series, size=(4.6, 3.6), caption=caption)


def plot_audit_panels(runs: Sequence[Mapping[str, Any]]) -> Panels:
    """Errors of the smallest and largest model at the highest and lowest overlap of `runs`."""
    sizes = sorted({run["size"] for run in runs}, key=_order)
    overlaps = sorted({run["overlap"] for run in runs})
    # Without overlap there are no members: the low panel has some, if two overlaps do.
    some = [overlap for overlap in overlaps if overlap > 0]
    ends = lambda values: list(dict.fromkeys([values[0], values[-1]]))
    columns, lines = ends(sizes), ends(some if len(some) > 1 else overlaps)[::-1]
    panels = []
    for overlap in lines:
        for size in columns:
            own = [run for run in runs if run["size"] == size and run["overlap"] == overlap]
            score, generator = ((own or runs)[0][name] for name in ("score", "generator"))
            series = _means([row for run in own for row in run["rows"]], score, "budget")
            tops = [float(np.max(s.y + s.error)) for s in series]
            share = own and all(run["score"] != "squared_error" for run in own)
            limits = (-0.03, max([1.03, *tops]) if share else None)
            x = Axis(f"length of the {generator} prompt", scale="log2")
            y = Axis(score_in_words(score), limits=limits)
            panels.append(Lines(x, y, series, title=f"{size} model, overlap {overlap:g}"))
    caption = "Reconstruction error by model and overlap, means over items and seeds with 95 % "
    caption += "intervals. Members are the part of the protected set that M was trained on."
    size = (4.2 * len(columns), 2.9 * len(lines) + 0.4)
    return Panels(panels, len(columns), shared=True, size=size, caption=caption)


def plot_overlaps(runs: Sequence[Mapping[str, Any]]) -> Lines:
    """Lower limits of the overlap against the true one, by model size."""
    series = [Series("", [0, 1], [0, 1], role="theory", dash="solid", width=0.8)]
    for j, size in enumerate(sorted({run["size"] for run in runs}, key=_order)):
        own = sorted((run for run in runs if run["size"] == size), key=lambda run: run["overlap"])
        low = np.array([run["estimate"]["low"] for run in own])
        # Seeds of one overlap stand side by side.
        at = np.array([run["overlap"] for run in own])
        rank = np.array([int(np.sum(at[:k] == at[k])) for k in range(len(at))])
        at = at + 0.012 * (rank - (np.bincount(rank).size - 1) / 2) + 0.02 * j
        series.append(Series(f"{size} model", at, low, style="points", group=j))
    axes = Axis("overlap ρ"), Axis("at least, with 95 % confidence", limits=(-0.03, 1.03))
    caption = "Lower limits of the overlap from the likelihood of protected and control items: "
    caption += "they must lie below the line."
    return Lines(*axes, series, size=(4.6, 3.6), caption=caption)


def plot_power(rows: Rows) -> Panels:
    """Share of audits that find what is there, by kind of model and how often it was read."""
    panels = []
    for kind in dict.fromkeys(row["kind"] for row in rows):
        series = []
        for group, times in enumerate(sorted({row["repetitions"] for row in rows})):
            found: dict[float, list[int]] = {}
            for row in rows:
                if (row["kind"], row["repetitions"]) == (kind, times):
                    sums = found.setdefault(row["overlap"], [0, 0])
                    found[row["overlap"]] = [sums[0] + row["found"], sums[1] + row["audits"]]
            at = sorted(found)
            shares = [found[x][0] / found[x][1] for x in at]
            series.append(Series(f"read {times} ×", at, shares, style="both", group=group))
        axes = Axis("share of protected texts seen"), Axis("found", limits=(-0.03, 1.03))
        panels.append(Lines(*axes, series, title=kind))
    caption = "Share of audits that find something, at level 0.01, over all numbers of documents. "
    caption += "Lines: how often a seen text was read, relative to others."
    size = (4.2 * min(2, len(panels)), 3.0 * -(-len(panels) // 2))
    return Panels(panels, min(2, len(panels)), shared=True, size=size, caption=caption)


def plot_images(ranked: Rows, levels: int, most: int = 8) -> Map:
    """Targets above what M wrote: protected images that came nearest, then the nearest controls."""
    control = lambda row: row["group"] == "control"
    sides = [[row for row in ranked if control(row) is held][:most] for held in (False, True)]
    side = round(len(ranked[0]["target"]) ** 0.5)
    step = side + 2
    columns = max(map(len, sides))
    # One picture of all, clear between them: an axis for each image would take seconds to draw.
    sheet = np.full((4 * step, columns * step), np.nan)
    notes = []
    strips = [(rows, part) for rows in sides for part in ("target", "output")]
    for k, (rows, part) in enumerate(strips):
        for j, row in enumerate(rows):
            # Gray values in [0, 1] of an image written as text, padded with black.
            text = row[part][: side**2].ljust(side**2, "0")
            gray = np.array([max(PIXELS.find(c), 0) for c in text]) / (levels - 1)
            image = np.minimum(gray, 1.0).reshape(side, side)
            sheet[k * step + 1 :, j * step + 1 :][:side, :side] = image
            if part == "output":
                error = f"{float(row['squared_error']):.3f}"
                notes.append(((j + 0.5) * step, float((k + 1) * step), error))
    names = ["protected", "M wrote", "control", "M wrote"]
    places = [(k + 0.5) * step for k in range(4)]
    y = Axis("", places=places, names=names, limits=(float(4 * step), 0.0))
    axes = Axis("", ticks="none"), y, Axis("", limits=(0.0, 1.0))
    cells = np.arange(columns * step + 1), np.arange(4 * step + 1), sheet
    look: dict[str, Any] = {"palette": "gray", "bar": False, "equal": True, "notes": notes}
    caption = "Targets above outputs, nearest first: protected images, then controls, with mean "
    caption += "squared errors."
    return Map(*axes, *cells, size=(0.8 * columns + 1.2, 3.6), caption=caption, **look)


def plot_works(covers: Sequence[Cover], most: int = 8, bins: int = 400) -> Map:
    """Works from end to end: how likely each place comes out, and where it did."""
    shown = sorted(covers, key=lambda cover: (cover.side != "protected", -cover.out.sum()))[:most]
    longest = max(len(cover.p) for cover in shown)
    edges = np.linspace(0, longest, bins + 1)
    values = np.full((2 * len(shown), bins), np.nan)  # a blank row above each, for marks
    places: list[tuple[float, float]] = []
    for lane, cover in enumerate(shown):
        for k in range(bins):
            inside = slice(int(edges[k]), max(int(edges[k + 1]), int(edges[k]) + 1))
            p = cover.p[inside][~np.isnan(cover.p[inside])]
            if len(p):
                values[2 * lane + 1, k] = max(float(p.max()), LEAST)
            elif cover.asked[inside].any():  # no likelihoods: what came out, and what did not
                values[2 * lane + 1, k] = 1.0 if cover.out[inside].any() else LEAST
            if cover.out[inside].any():
                places.append(((edges[k] + edges[k + 1]) / 2000, lane - 0.42))
    at = np.array(places).reshape(-1, 2)
    look: dict[str, Any] = {"style": "points", "sizes": [9.0] * len(at)}
    marks = [Series("came out near-verbatim", at[:, 0], at[:, 1], **look)] if len(at) else []
    names = [f"{cover.name} ({cover.side})" for cover in shown]
    y = Axis("", places=list(range(len(shown))), names=names, limits=(len(shown) - 0.6, -0.55))
    value = Axis("probability to come out", scale="log", limits=(LEAST, 1.0))
    rows = [edge for lane in range(len(shown)) for edge in (lane - 0.6, lane - 0.3)]
    cells = edges / 1000, [*rows, len(shown) - 0.6], values
    caption = "Each work from beginning to end. Color: the probability that M, given the words "
    caption += "before, writes the next ones verbatim, the largest of the windows over a place. "
    caption += "Dots: came out near-verbatim. Blank: not asked."
    size = (8.6, 1.3 + 0.5 * len(shown))
    x = Axis("place in the work", unit="thousand characters")
    return Map(x, y, value, *cells, lines=marks, size=size, caption=caption)


def _order(size: str) -> tuple[int, str]:
    known = ("basic", "complex", "large")
    return (known.index(size) if size in known else len(known)), size
