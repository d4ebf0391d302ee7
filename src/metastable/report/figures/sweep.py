"""Figures of a sweep: each observable over its axes, with what theory says where it says it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray

from metastable.core.figure import Axis, Figure, Lines, Map, Series, Strip
from metastable.sweep.observables import ERROR, JUDGED, in_words
from metastable.sweep.spec import Sweep
from metastable.sweep.status import means
from metastable.sweep.words import NAMES as SHORT
from metastable.sweep.words import located
from metastable.theory.causal import greedy_centres, separation, strong_centres
from metastable.theory.context import row_law
from metastable.theory.counts import count_distribution, too_few
from metastable.theory.equiangular import phase_curve
from metastable.theory.noise import critical_kappa
from metastable.theory.normalization import SCHEMES, clustering_law
from metastable.theory.ring import plateau_lifetime
from metastable.theory.spectrum import dominant_mode

# Lines of theory by panel (None for a single one) or line, and by label: arrays x, y.
Curves = dict[Any, dict[str, tuple[Any, Any]]]
NAMES = SHORT | {"time": "time t", "clusters": "k"}
REGIMES = {"hard above": 0.9, "mean field below": 0.1}  # levels of `context_regime`
# Theory of these goes over a map only.
OVER_MAPS = ("late_order", "pair_probability", "near_pairs")
SHARES = ("disagreements",)  # and those of claims of a user
AIR = 0.03  # beyond both ends of a share
TICKS = 12  # values of an axis that have a tick each
PANELS = 6  # small multiples along a third axis, at most
# Counts and lifetimes are read off lines, one for each value of the second axis.
ROWS = ("row_participation", "row_largest")
ON_LINES = ("first_clusters", "last_clusters", "lifetime", "dominant_mode", *ROWS)


def figures_of_sweep(
    data: xarray.Dataset, sweep: Sweep, verdicts: Mapping[str, str] | None = None
) -> dict[str, Figure]:
    """A figure of the mean of each observable: a map over two axes, else lines with error bars.

    A map has a second one of standard errors, NAME_error. Lines of theory carry the verdict on
    their observable, where `verdicts` has one by its name.
    """
    figures: dict[str, Figure] = {}
    mean = means(data)
    for name in sweep.observables:
        label, about = in_words(name, mean[name].attrs.get("long_name", ""))
        whole = mean[name].assign_attrs(label=label, about=about)
        if name in SHARES or name + JUDGED in mean:
            whole.attrs["limits"] = 0.0, 1.0
        values, spread = with_extent(whole), with_extent(mean[name + ERROR])
        mapped = values.ndim > 1 and not _words(values, values.dims[0]) and name not in ON_LINES
        curves = _curves_for(name, sweep, whole) if mapped or name not in OVER_MAPS else {}
        if values.ndim < whole.ndim and None not in curves and len(curves) == 1:
            curves = {None: next(iter(curves.values()))}  # of the only value of an axis
        if name in (verdicts or {}):
            said = f": {(verdicts or {})[name]}"
            curves = {k: {f"{x}{said}": v for x, v in each.items()} for k, each in curves.items()}
        if not mapped:
            figures[name] = plot_observable(values, spread, curves, data)
        else:
            figures[name] = plot_cells(values, spread, curves, data)
            if np.isfinite(spread.values).any():
                named = {
                    key: f"standard error of {values.attrs[key]}" for key in ("label", "about")
                }
                spread = spread.assign_attrs(named)
                figures[name + ERROR] = plot_cells(spread, spread * np.nan, {}, data)
    return figures


def with_extent(values: xarray.DataArray) -> xarray.DataArray:
    """Without axes of a single value, which a picture has no room for; one of them if all are."""
    single = [dim for dim in values.dims if values.sizes[dim] == 1]
    single = single[:-1] if len(single) == values.ndim else single
    said = values.attrs | {"at": ", ".join(located(str(d), values[d].values[0]) for d in single)}
    return values.isel(dict.fromkeys(single, 0), drop=True).assign_attrs(said)


def sides(values: xarray.DataArray) -> tuple[str, str, list[str]]:
    """The axes along a map, up it, and those that are left for its panels."""
    dims = [str(d) for d in values.dims]
    x = "time" if "time" in dims else "kappa" if "kappa" in dims else dims[-1]
    y = "beta" if "beta" in dims and x != "beta" else next(d for d in dims if d != x)
    return x, y, [d for d in dims if d not in (x, y)]


def panels(values: xarray.DataArray, third: list[str]) -> list[Any]:
    """The values of the third axis that have a panel; None alone without one."""
    if not third:
        return [None]
    every = values[third[0]].values
    kept = np.linspace(0, len(every) - 1, min(len(every), PANELS)).round().astype(int)
    return [every[k] for k in kept]


def plot_cells(
    values: xarray.DataArray, spread: xarray.DataArray, curves: Curves, data: Any
) -> Map | Strip:
    """One number over two axes as colors; panels along a third; theory's `curves` by panel."""
    x, y, third = sides(values)
    values = values.isel({d: 0 for d in third[1:]})
    shown = panels(values, third)
    finite = values.values[np.isfinite(values.values)]
    limits = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    limits = values.attrs.get("limits", limits)
    labels = {label for lines in curves.values() for label in lines}
    logs = {dim: _spaced(data[dim].values) for dim in (x, y)}
    across, up = (_axis(dim, data, logs[dim]) for dim in (x, y))
    known = spread.values[np.isfinite(spread.values)]
    error = f"; standard errors up to {known.max():.2g}" if known.size else ""
    caption = f"{_captioned(values)} over {across.text} and {up.text}{_theory(labels)}{error}."
    axes = across, up, Axis(values.attrs["label"], limits=limits)
    edges = _edges(data[x].values, logs[x]), _edges(data[y].values, logs[y])
    maps = []
    for panel in shown:
        part = values if panel is None else values.sel({third[0]: panel})
        lines = (curves.get(panel) or {}).items()
        series = [Series(label, *line, role="theory") for label, line in lines]
        title = "" if panel is None else f"{NAMES.get(third[0], third[0])} = {_short(panel)}"
        cells = *edges, part.transpose(y, x).values, series
        maps.append(Map(*axes, *cells, title=title, caption=caption, size=(5.0, 3.4)))
    if len(maps) == 1:
        return maps[0]
    columns = min(len(maps), 3)
    size = (3.1 * columns + 0.8, 2.7 * -(-len(maps) // columns))
    return Strip(maps, columns=columns, caption=caption, size=size)


def plot_observable(
    values: xarray.DataArray, spread: xarray.DataArray, curves: Curves, data: Any
) -> Lines:
    """One number along one axis, a line for each value of another, with standard errors."""
    dims = [str(d) for d in values.dims]
    x = next((d for d in ("time", "beta") if d in dims), dims[-1])
    others = [d for d in dims if d != x]
    values = values.isel({d: 0 for d in others[1:]})
    spread = spread.isel({d: 0 for d in others[1:]})
    lines: list[Any] = [None] if not others else list(values[others[0]].values)
    wordy = not others or _words(values, others[0])
    clustering = values.name == "similarity" and x == "time"
    limits = values.attrs.get("limits")
    dashes: dict[str, str] = {}
    series = []
    for k, line in enumerate(lines):
        part = values if line is None else values.sel({others[0]: line})
        error = spread if line is None else spread.sel({others[0]: line})
        label = "" if line is None else _short(line)
        shade = k / max(len(lines) - 1, 1)
        color: dict[str, Any] = {"group": k} if wordy else {"shade": shade, "scale": "beta"}
        place, height = data[x].values, part.values
        if clustering:  # 1 − γ tells exponential, stretched and power laws apart
            height = np.where((height < 1 - 1e-13) & (place > 0), 1 - height, np.nan)
            off = np.nan_to_num(error.values)
            band = [np.maximum(height - off, 1e-13), height + off] if off.any() else None
            series.append(Series(label, place, height, band=band, **color))
        else:
            known = np.isfinite(height)
            bars = error.values[known] if np.isfinite(error.values).any() else None
            if bars is not None and limits:  # a share ends at 0 and 1
                bars = np.array([np.minimum(bars, abs(height[known] - end)) for end in limits])
            dots = place[known], height[known], bars
            series.append(Series(label, *dots, style="points", **color))
        for name, curve in (curves.get(line) or {}).items():
            label = "" if name in dashes else name
            dash = dashes.setdefault(name, ("dashed", "dotted")[len(dashes) % 2])
            look = {} if clustering or not others else color
            series.append(Series(label, *curve, role="theory", dash=dash, width=1.1, **look))
    across = _axis(x, data, clustering or _spaced(data[x].values))
    scale = "log" if clustering or values.name in ("lifetime", *ROWS) else "linear"
    ends = (limits[0] - AIR, limits[1] + AIR) if limits else (None, None)
    label = "1 − mean cosine" if clustering else values.attrs["label"]
    up = Axis(label, scale=scale, limits=ends)
    names = NAMES.get(others[0], others[0]) if others else ""
    error = "; bars: standard errors" if any(one.error is not None for one in series) else ""
    caption = f"{_captioned(values)} against {across.text}{_theory(set(dashes))}{error}."
    levels = REGIMES if values.name == "row_participation" else {}
    return Lines(across, up, series, levels=levels, names=names, size=(5.2, 3.5), caption=caption)


def _captioned(values: xarray.DataArray) -> str:
    about, at = str(values.attrs["about"]), str(values.attrs.get("at", ""))
    return f"{about[0].upper()}{about[1:]}{f' at {at}' if at else ''}"


def _theory(labels: set[str]) -> str:
    names = sorted(label.split(": ")[0] for label in labels)  # without their verdicts
    return f"; lines: {', '.join(names)}" if labels else ""


def _axis(dim: str, data: xarray.Dataset, log: bool = False) -> Axis:
    """Ticks at the values of the sweep, where they are few."""
    label, clock = NAMES.get(dim, dim), data[dim].attrs.get("clock") or ""
    values, scale = data[dim].values, "log" if log else "linear"
    if dim == "time" or values.dtype.kind not in "if" or len(values) > TICKS:
        return Axis(label, clock=clock, scale=scale)
    places = values[_apart(np.log(values) if log else values)]
    names = [f"{place:.3g}" if log else f"{place:.6g}" for place in places]
    return Axis(label, clock=clock, scale=scale, places=places.tolist(), names=names)


def _apart(places: np.ndarray) -> list[int]:
    """Those of increasing places whose ticks have room beside each other, both ends among them."""
    room, kept, last = float(np.ptp(places)) / TICKS, [0], len(places) - 1
    for k in range(1, last + 1):
        if places[k] - places[kept[-1]] >= room:
            kept.append(k)
    return kept if kept[-1] == last else [*kept[:-1], last]


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float | np.floating) else str(value)


def _spaced(places: np.ndarray) -> bool:
    """Whether numbers have equal ratios, over a decade at least."""
    if places.dtype.kind not in "if" or len(places) < 3 or not places.min() > 0:
        return False
    ratios = np.diff(np.log(places))
    return bool(places[-1] >= 10 * places[0] and np.ptp(ratios) < 1e-3 * ratios.mean())


def _words(values: xarray.DataArray, dim: Any) -> bool:
    return values[dim].dtype.kind not in "if"


def _edges(places: np.ndarray, log: bool = False) -> np.ndarray:
    """Borders half way between places; the outer ones as far out as in. `log`: in the logarithm.

    What has no negative place has no cell below 0.
    """
    if log:
        return np.exp(_halfway(np.log(places)))
    edges = _halfway(places)
    return np.maximum(edges, 0.0) if places[0] >= 0 else edges


def _halfway(places: np.ndarray) -> np.ndarray:
    if len(places) == 1:
        return places[0] + np.array([-0.5, 0.5])
    middles = (places[1:] + places[:-1]) / 2
    low, high = 2 * places[[0, -1]] - middles[[0, -1]]
    return np.concatenate([[low], middles, [high]])


def _curves_for(name: str, sweep: Sweep, values: xarray.DataArray) -> Curves:
    """Lines of theory by panel (or by line) and label; empty where no theory applies."""
    draw = _DRAWN.get(name)
    if draw is None or ("beta" not in values.dims and name != "similarity"):
        return {}
    return draw(sweep, values)


def _phase(sweep: Sweep, values: xarray.DataArray) -> Curves:
    """Γ_∞, the time at which orthogonal tokens meet; the limit of many dimensions."""
    beta = _betas(values, 200)
    curve = {"Γ_∞": (phase_curve(beta, _get(sweep, "measure.tokens", 1000)), beta)}
    axes = [axis for axis in ("dim", "matrices") if axis in values.dims]
    panels = [None, *(panel for axis in axes for panel in values[axis].values)]
    if "matrices" in axes:
        panels = [panel for panel in panels if panel in (None, "identity")]
    return dict.fromkeys(panels, curve)


def _first_clusters(sweep: Sweep, values: xarray.DataArray) -> Curves:
    """Mean of the predicted distribution of counts."""
    by_dim = "dim" in values.dims
    lines: Curves = {}
    for line in [None] if values.ndim == 1 else values["dim" if by_dim else "tokens"].values:
        dim = int(line or 2) if by_dim else _get(sweep, "measure.dim", 2)
        if dim not in (2, 3):
            continue
        tokens = _get(sweep, "measure.tokens", 1000) if by_dim or line is None else int(line)
        # With too few tokens for its modes a β has no law, and the line ends.
        known = [b for b in _betas(values, 12) if too_few(b, dim, tokens) is None]
        means = [count_distribution(b, dim, tokens, samples=300).mean for b in known]
        lines[line] = {"predicted mean": (np.array(known), means)}
    return lines


def _dominant(sweep: Sweep, values: xarray.DataArray) -> Curves:
    beta = _betas(values, 200)
    dims = values["dim"].values if "dim" in values.dims else [None]
    tell = lambda d: int(_get(sweep, "measure.dim", 2) if d is None else d)
    return {d: {"fastest degree": (beta, [dominant_mode(b, tell(d)) for b in beta])} for d in dims}


def _lifetime(sweep: Sweep, values: xarray.DataArray) -> Curves:
    """ln(1/δ)/max_p μ_p, with δ the displacement at the start as a share of the spacing."""
    if "clusters" not in values.dims:
        return {}
    beta = _betas(values, 60)
    radius = _get(sweep, "measure.radius", 1e-3)
    lines: Curves = {}
    for k in values.clusters.values:
        share = radius * float(k) / (2 * np.pi)
        lives = [plateau_lifetime(b, int(k), perturbation=share) for b in beta]
        lines[k] = {"ln(1/δ)/max μ_p": (beta, lives)}
    return lines


def _order(sweep: Sweep, values: xarray.DataArray) -> Curves:
    """κ_#, above which the uniform measure is unstable."""
    beta = _betas(values, 200)
    return {None: {"κ_#": (critical_kappa(beta, _get(sweep, "measure.dim", 2)), beta)}}


def _clustering(sweep: Sweep, values: xarray.DataArray) -> Curves:
    """Late laws of 1 − γ for each placement of the normalisation, through the run's second half."""
    if "placement" not in values.dims:
        return {}
    time = values.time.values
    beta = float(_get(sweep, "field.field.beta", 1.0))
    tokens = int(_get(sweep, "measure.tokens", 1000))
    lines: Curves = {}
    for scheme in values.placement.values:
        name = {"depth_sqrt": "sqrt"}.get(str(scheme), str(scheme))
        if name not in SCHEMES:
            continue
        law = clustering_law(name, beta, tokens)
        gap = 1 - values.sel(placement=scheme).values
        whole = np.flatnonzero(gap > 1e-9)
        # The constant in front is not part of a law: it is read off three quarters of the way.
        k = whole[3 * len(whole) // 4]
        shape = {
            "exponential": lambda t, a=law.exponent: np.exp(-a * t),
            "power": lambda t, a=law.exponent: t**-a,
            "stretched": lambda t, a=law.exponent: np.exp(-a * np.sqrt(t)),
        }[law.kind]
        late = time[(time >= time[k] / 4) & (time <= time[whole[-1]])]
        lines[scheme] = {"late law": (late, gap[k] * shape(late) / shape(time[k]))}
    return lines


def _causal(sweep: Sweep, values: xarray.DataArray) -> Curves:
    """Rényi centres at the separation 4β^{−1/2}: strong from below, greedy from above."""
    if not _get(sweep, "field.causal", False) or values.dims != ("beta",):
        return {}
    dim, tokens = int(_get(sweep, "measure.dim", 2)), int(_get(sweep, "measure.tokens", 1000))
    beta = np.linspace(max(float(values.beta.min()), 2.0), float(values.beta.max()), 100)
    strong = [strong_centres(separation(b), dim, tokens) for b in beta]
    lines = {"strong Rényi centres": (beta, strong)}
    if dim == 2:
        greedy = [greedy_centres(separation(b), tokens) for b in beta]
        lines = {"greedy Rényi centres": (beta, greedy)} | lines
    return {None: lines}


def _rows(sweep: Sweep, values: xarray.DataArray) -> Curves:
    """Exact expectations over a row of attention of independent uniform tokens."""
    name = str(values.name).removeprefix("row_")
    dim, base = int(_get(sweep, "measure.dim", 2)), int(_get(sweep, "measure.tokens", 1000))
    beta = np.geomspace(max(float(values.beta.min()), 1e-3), float(values.beta.max()), 60)
    lines: Curves = {}
    for line in values["tokens"].values if "tokens" in values.dims else [None]:
        laws = [row_law(b, dim, base if line is None else int(line)) for b in beta]
        lines[line] = {"exact law": (beta, [getattr(law, name) for law in laws])}
    return lines


def _betas(values: xarray.DataArray, count: int) -> np.ndarray:
    spaced = np.geomspace if _spaced(values.beta.values) else np.linspace
    return spaced(float(values.beta.min()), float(values.beta.max()), count)


def _get(sweep: Sweep, key: str, default: Any) -> Any:
    node: Any = sweep.base
    for part in key.split("."):
        if not isinstance(node, Mapping) or part not in node:
            return default
        node = node[part]
    return node


_DRAWN = {"pair_probability": _phase, "near_pairs": _phase, "first_clusters": _first_clusters}
_DRAWN |= {"dominant_mode": _dominant, "lifetime": _lifetime, "late_order": _order}
_DRAWN |= {"similarity": _clustering, "last_clusters": _causal} | dict.fromkeys(ROWS, _rows)
