"""What theory draws over a sweep: lines for each observable that some theory speaks of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray

from metastable.sweep.spec import Sweep
from metastable.theory.causal import greedy_centres, separation, strong_centres
from metastable.theory.counts import count_distribution, expected_count, too_few
from metastable.theory.equiangular import phase_curve
from metastable.theory.noise import critical_kappa
from metastable.theory.normalization import SCHEMES, clustering_law
from metastable.theory.ring import plateau_lifetime
from metastable.theory.spectrum import dominant_mode

Lines = dict[Any, dict[str, tuple[Any, Any]]]


def curves_for(name: str, sweep: Sweep, values: xarray.DataArray) -> Lines:
    """Lines of theory by panel (or by line) and label; empty where no theory applies."""
    draw = _DRAWN.get(name)
    if draw is None or (values.ndim > 1 and "beta" not in values.dims and name != "similarity"):
        return {}
    return draw(sweep, values)


def _phase(sweep: Sweep, values: xarray.DataArray) -> Lines:
    """Γ_∞, the time at which orthogonal tokens meet; the limit of many dimensions."""
    beta = _betas(values, 200)
    curve = {"Γ_∞": (phase_curve(beta, _get(sweep, "measure.tokens", 1000)), beta)}
    axes = [axis for axis in ("dim", "matrices") if axis in values.dims]
    panels = [None, *(panel for axis in axes for panel in values[axis].values)]
    if "matrices" in axes:
        panels = [panel for panel in panels if panel in (None, "identity")]
    return dict.fromkeys(panels, curve)


def _first_clusters(sweep: Sweep, values: xarray.DataArray) -> Lines:
    """Mean of the predicted distribution of counts; √(2β) and β/√3 without the number of tokens."""
    by_dim = "dim" in values.dims
    lines: Lines = {}
    for line in [None] if values.ndim == 1 else values["dim" if by_dim else "tokens"].values:
        dim = int(line) if by_dim else _get(sweep, "measure.dim", 2)
        if dim not in (2, 3):
            continue
        beta = _betas(values, 12)
        if by_dim or line is None:
            lines[line] = {"√(2β), β/√3": (beta, [expected_count(b, dim) for b in beta])}
        else:
            # With too few tokens for its modes a β has no law, and the line ends.
            known = [b for b in beta if too_few(b, dim, int(line)) is None]
            means = [count_distribution(b, dim, int(line), samples=300).mean for b in known]
            lines[line] = {"predicted mean": (np.array(known), means)}
    return lines


def _dominant(sweep: Sweep, values: xarray.DataArray) -> Lines:
    beta = _betas(values, 200)
    dims = values["dim"].values if "dim" in values.dims else [None]
    tell = lambda d: int(_get(sweep, "measure.dim", 2) if d is None else d)
    return {d: {"fastest degree": (beta, [dominant_mode(b, tell(d)) for b in beta])} for d in dims}


def _lifetime(sweep: Sweep, values: xarray.DataArray) -> Lines:
    """ln(1/δ)/max_p μ_p, with δ the displacement at the start as a share of the spacing."""
    if "clusters" not in values.dims:
        return {}
    beta = _betas(values, 60)
    radius = _get(sweep, "measure.radius", 1e-3)
    lines: Lines = {}
    for k in values.clusters.values:
        share = radius * float(k) / (2 * np.pi)
        lives = [plateau_lifetime(b, int(k), perturbation=share) for b in beta]
        lines[k] = {"ln(1/δ)/max μ_p": (beta, lives)}
    return lines


def _order(sweep: Sweep, values: xarray.DataArray) -> Lines:
    """κ_#, above which the uniform measure is unstable."""
    beta = _betas(values, 200)
    return {None: {"κ_#": (critical_kappa(beta, _get(sweep, "measure.dim", 2)), beta)}}


def _clustering(sweep: Sweep, values: xarray.DataArray) -> Lines:
    """Late laws of 1 − γ for each placement of the normalisation, through the run's second half."""
    if "placement" not in values.dims:
        return {}
    time = values.time.values
    beta = float(_get(sweep, "field.field.beta", 1.0))
    tokens = int(_get(sweep, "measure.tokens", 1000))
    lines: Lines = {}
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


def _causal(sweep: Sweep, values: xarray.DataArray) -> Lines:
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


def _betas(values: xarray.DataArray, count: int) -> np.ndarray:
    return np.linspace(float(values.beta.min()), float(values.beta.max()), count)


def _get(sweep: Sweep, key: str, default: Any) -> Any:
    node: Any = sweep.base
    for part in key.split("."):
        if not isinstance(node, Mapping) or part not in node:
            return default
        node = node[part]
    return node


_DRAWN = {"pair_probability": _phase, "near_pairs": _phase, "first_clusters": _first_clusters}
_DRAWN |= {"dominant_mode": _dominant, "lifetime": _lifetime, "late_order": _order}
_DRAWN |= {"similarity": _clustering, "last_clusters": _causal}
