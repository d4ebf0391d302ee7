"""Distances of measures: Wasserstein (exact, sliced, entropic, of Gaussians), and H^{−s}."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from metastable.core import checks
from metastable.core.numerics import is_traced, jax, jnp
from metastable.measures import Density, Gaussian, Points
from metastable.observe.density import density_power, power_between
from metastable.observe.modes import signed_power
from metastable.observe.pairs import carrying

WARM, NEWTON_TOKENS = 200, 1000
QUIET = 4096  # quantiles of a density on the circle


def wasserstein(
    measure: Points | Density | Gaussian, other: Points | Density | Gaussian, order: float = 2.0
) -> float:
    """Wasserstein distance W_p, exact with weights: of angles on the sphere, Euclidean in R^d.

    W_p^p = min over couplings of Σ π_ij dist(x_i, y_j)^p, p = `order` ≥ 1. On the line the optimum
    pairs equal quantiles. On the circle it does so after a shift α of one distribution function,
    and the cost is convex and piecewise linear in α (Delon, Salomon, Sobolevski, SIAM J. Appl.
    Math. 70, 2010): the sign change of its slope is bisected. Time O((n + m) log(n + m)).

    Elsewhere equally many tokens of equal mass are assigned one to one, which is optimal by
    Birkhoff's theorem (linear_sum_assignment of SciPy); other masses need the network simplex of
    POT, the extra [transport]. Both store nm numbers; time grows near n³, 3000 tokens a side take
    seconds. Beyond, use `sliced_wasserstein` or `sinkhorn`.

    A density on the circle is taken by 4096 of its quantiles; between two Gaussians it is
    `bures_wasserstein`, of order 2.

    >>> from metastable.measures import Density, Points
    >>> east, north = Points([[1.0, 0.0]]), Points([[0.0, 1.0]])
    >>> round(wasserstein(east, north), 6)
    1.570796
    """
    _check_order(order)
    if isinstance(measure, Gaussian) and isinstance(other, Gaussian):
        if order != 2:
            raise ValueError(f"order must be 2 between Gaussians; got {order}: take 2.")
        return bures_wasserstein(measure, other)
    measure, other = (
        m.to_points(QUIET) if isinstance(m, Density) and m.dim == 2 else m for m in (measure, other)
    )
    checks.defined_for("wasserstein", other, Points)
    x, v, y, w = _tokens("wasserstein", measure, other)
    assert isinstance(measure, Points)
    if measure.on_sphere and measure.dim == 2:
        turn = 2 * np.pi
        return turn * _circle_cost(_turns(x, v), _turns(y, w), order) ** (1 / order)
    if measure.dim == 1:
        return float(_line_costs(x, v, y, w, order)[0] ** (1 / order))
    return _assigned(_costs(x, y, measure.on_sphere, order), v, w) ** (1 / order)


def bures_wasserstein(measure: Gaussian, other: Gaussian) -> Any:
    """Wasserstein distance W_2 between two Gaussians, singular covariances included.

    W_2² = ‖m_1−m_2‖² + tr(Σ_1 + Σ_2 − 2(Σ_1^{1/2}Σ_2Σ_1^{1/2})^{1/2})
         = ‖m_1−m_2‖² + min_R ‖L_1 − L_2R‖²_F over orthogonal R.

    Source: Dowson, Landau, J. Multivariate Anal. 12 (1982) 450; the second form is Bhatia, Jain,
    Lim, Expo. Math. 37 (2019) 165. It has no root of a product and no cancellation: equal measures
    are at distance 0 to rounding, not to its square root. Differentiable away from equality.

    >>> bures_wasserstein(Gaussian([0.0, 3.0], 1.0), Gaussian([4.0, 0.0], 1.0))
    5.0
    """
    checks.defined_for("bures_wasserstein", measure, Gaussian)
    if measure.dim != other.dim:
        raise ValueError(
            f"other must live in dimension {measure.dim}, like measure; got {other.dim}."
        )
    first, second = measure.factor, other.factor
    width = max(first.shape[1], second.shape[1])
    first, second = (jnp.pad(f, ((0, 0), (0, width - f.shape[1]))) for f in (first, second))
    left, _, right = jnp.linalg.svd(jax.lax.stop_gradient(second.T @ first))
    # At the minimum over R the derivative through R vanishes, so R may be held fixed.
    gap = first - second @ (left @ right)
    distance = jnp.sqrt(jnp.sum((measure.mean - other.mean) ** 2) + jnp.sum(gap**2))
    return distance if is_traced(distance) else float(distance)


def sliced_wasserstein(
    measure: Points, other: Points, order: float = 2.0, projections: int = 128, seed: int = 0
) -> float:
    """Sliced Wasserstein distance in R^d: the mean over directions of one-dimensional distances.

    SW_p^p = E_u W_p^p(⟨u,·⟩_#μ, ⟨u,·⟩_#ν), u uniform on the sphere; `projections` random
    directions give a relative error near projections^{−1/2}. At most W_p of the chord distance.

    >>> from metastable.measures import uniform
    >>> sliced_wasserstein(uniform(50, 3), uniform(50, 3))
    0.0
    """
    x, v, y, w = _tokens("sliced_wasserstein", measure, other)
    _check_order(order)
    checks.integer("projections", projections, 1)
    random = np.random.default_rng(checks.integer("seed", seed, 0))
    directions = random.standard_normal((measure.dim, projections))
    directions /= np.linalg.norm(directions, axis=0)
    costs = _line_costs(x @ directions, v, y @ directions, w, order)
    return float(np.mean(costs) ** (1 / order))


def sinkhorn(
    measure: Points,
    other: Points,
    order: float = 2.0,
    regularization: float = 0.01,
    tolerance: float = 1e-6,
    iterations: int = 20000,
) -> float:
    """Entropic estimate of W_p by Sinkhorn's scaling in log domain, finished by Newton's method.

    (Σ π_ij c_ij)^{1/p} with c = distance^p (angle on the sphere, Euclidean in R^d) and π the
    minimiser of Σ π_ij c_ij + ε KL(π | v⊗w), ε = `regularization` (Cuturi, arXiv:1306.0895).
    At least W_p, and tends to it as ε → 0. Sinkhorn's iterations grow like 1/ε or worse; after 200
    of them, where the smaller measure has 1000 tokens or fewer, Newton's method on the concave dual
    takes over, ε falling to its value in steps of four: about 60 iterations more. Stops when one
    marginal is exact and the other right to `tolerance` in the sum of absolute errors; otherwise
    raises. Stores 3nm numbers; a Newton iteration costs nm·min(n, m).

    >>> from metastable.measures import Density, Points
    >>> round(sinkhorn(Points([[1.0, 0.0, 0.0]]), Points([[0.0, 1.0, 0.0]])), 6)
    1.570796
    """
    x, v, y, w = _tokens("sinkhorn", measure, other)
    _check_order(order)
    checks.positive("regularization", regularization)
    checks.positive("tolerance", tolerance)
    checks.integer("iterations", iterations, 1)
    cost = _costs(x, y, measure.on_sphere, order)
    newton = min(len(v), len(w)) <= NEWTON_TOKENS
    first = min(iterations, WARM) if newton else iterations
    total, error = _sinkhorn(cost, v, w, regularization, tolerance, first)
    if error > tolerance and newton:
        total, error = _newton(cost, v, w, regularization, tolerance, iterations - first)
    if error > tolerance:
        raise ValueError(
            f"regularization must be larger for {iterations} iterations: at {regularization:g} the "
            f"marginal is still wrong by {float(error):.2g}; raise it, or raise iterations."
        )
    return float(total) ** (1 / order)


def sobolev_distance(
    measure: Points | Density, s: float, other: Points | Density | None = None, highest: int = 64
) -> float:
    """Negative Sobolev norm ‖μ − ν‖ in H^{−s} of the sphere, ν = `other` or the uniform measure.

    ‖μ − ν‖² = Σ_{ℓ≥1} (1 + ℓ(ℓ+d−2))^{−s} Σ_m |μ̂_{ℓm} − ν̂_{ℓm}|², harmonics orthonormal for the
    uniform probability: the norm in which arXiv:2410.23228 follows the exit from uniform. Degrees
    above `highest` are left out. The full sum is finite for tokens iff s > (d−1)/2; what is
    left out then falls like highest^{(d−1)/2 − s}. Either measure may be a `Density`. Cost as
    for `power`.

    >>> from metastable.measures import polygon
    >>> round(sobolev_distance(polygon(3), s=1.0, highest=3) ** 2, 12)  # 2 / (1 + 3²)
    0.2
    """
    checks.defined_for("sobolev_distance", measure, Points, Density)
    checks.real("s", s)
    highest = checks.integer("highest", highest, 1)
    if not measure.on_sphere:
        raise ValueError(
            f"measure must be on the sphere for this norm; got {measure!r}. "
            "Use measure.directions()."
        )
    degree = np.arange(1, highest + 1)
    factors = (1.0 + degree * (degree + measure.dim - 2)) ** -s
    return float(np.sqrt(factors @ _gap(measure, other, highest)[1:]))


def _gap(measure: Points | Density, other: Points | Density | None, highest: int) -> np.ndarray:
    """Power of μ − ν in each degree from 0 to `highest`."""
    if isinstance(measure, Density):
        if other is None:
            return density_power(measure, highest)
        return power_between(measure, other, highest)
    if isinstance(other, Density):
        return power_between(other, measure, highest)
    if other is None:
        return signed_power(*carrying(measure)[:2], highest)
    x, v, y, w = _tokens("sobolev_distance", measure, other)
    return signed_power(np.concatenate([x, y]), np.concatenate([v, -w]), highest)


@jax.jit
def _sinkhorn(cost: Any, v: Any, w: Any, epsilon: Any, tolerance: Any, most: Any) -> Any:
    log_v, log_w = jnp.log(v), jnp.log(w)
    scaled = -cost / epsilon
    rows = lambda g: -jax.nn.logsumexp(scaled + g + log_w, axis=1)
    columns = lambda f: -jax.nn.logsumexp(scaled + f[:, None] + log_v[:, None], axis=0)

    def step(state: Any) -> Any:
        f, g, _, count = state
        new = columns(f)
        # After the row scaling, the column masses are w e^{g − columns(f)}.
        error = jnp.sum(w * jnp.abs(jnp.expm1(g - new)))
        return rows(new), new, error, count + 1

    unfinished = lambda state: (state[2] > tolerance) & (state[3] < most)
    start = jnp.zeros(len(w))
    f, g, error, _ = jax.lax.while_loop(unfinished, step, (rows(start), start, jnp.inf, 0))
    plan = jnp.exp(scaled + (f + log_v)[:, None] + g + log_w)
    return jnp.sum(plan * cost), error


def _newton(
    cost: np.ndarray, v: np.ndarray, w: np.ndarray, epsilon: float, tolerance: float, most: int
) -> tuple[float, float]:
    """Cost of the entropic plan and the error of its marginal, by Newton's method on the dual.

    J(g) = Σ w_j g_j − Σ v_i log Σ_j w_j e^{g_j − c_ij/ε} is concave; its gradient is w less the
    column masses of the plan, whose rows are exact. ε falls from the size of the costs by factors
    of four, each maximiser the start of the next. At most `most` steps in all.
    """
    if len(v) < len(w):
        cost, v, w = cost.T, w, v
    ladder = [epsilon]
    while ladder[-1] < cost.max() / 4:
        ladder.append(4 * ladder[-1])
    g, taken, plan, error = np.zeros(len(w)), 0, np.outer(v, w), np.inf
    for level in reversed(ladder):
        scaled = np.log(w) - cost / level
        goal = tolerance if level == epsilon else 1e-3

        def dual(g: np.ndarray, scaled: np.ndarray = scaled) -> tuple[float, np.ndarray]:
            exponent = scaled + g
            top = exponent.max(axis=1, keepdims=True)
            plan = np.exp(exponent - top)
            total = plan.sum(axis=1, keepdims=True)
            value = w @ g - v @ (top + np.log(total))[:, 0]
            return float(value), plan * (v[:, None] / total)

        value, plan = dual(g)
        while (error := float(np.abs(w - plan.sum(axis=0)).sum())) > goal and taken < most:
            columns = plan.sum(axis=0)
            hessian = np.diag(columns) - plan.T @ (plan / v[:, None])
            # A constant may be added to g, and far parts hardly feel each other: a little of the
            # diagonal makes the matrix definite and leaves the direction an ascent.
            hessian[np.diag_indices(len(w))] += 1e-12 * w + 1e-6 * error * columns
            step = np.linalg.solve(hessian, w - columns)
            slope, length = float((w - columns) @ step), 1.0
            trial = dual(g + step)
            while trial[0] < value + 1e-4 * length * slope and length > 1e-10:
                length /= 2
                trial = dual(g + length * step)
            g, (value, plan), taken = g + length * step, trial, taken + 1
        # Potentials in units of the cost are what one ε passes on to the next.
        g = 4 * (g - g.max())
    return float(np.sum(plan * cost)), error


def _costs(x: np.ndarray, y: np.ndarray, on_sphere: bool, order: float) -> np.ndarray:
    """Distances of all pairs to the power `order`: angles on the sphere, Euclidean in R^d."""
    checks.fits_memory("the cost matrix", 3.0 * len(x) * len(y), "use sliced_wasserstein(...)")
    distance = cdist(x, y)
    return (2 * np.arcsin(np.minimum(distance / 2, 1)) if on_sphere else distance) ** order


def _assigned(cost: np.ndarray, v: np.ndarray, w: np.ndarray) -> float:
    """The least Σ π_ij c_ij over plans π with rows v and columns w."""
    if len(v) == len(w) and np.ptp(v) <= 1e-12 / len(v) and np.ptp(w) <= 1e-12 / len(w):
        from scipy.optimize import linear_sum_assignment

        return float(cost[linear_sum_assignment(cost)].mean())
    if min(cost.shape) == 1:
        return float(v @ cost @ w)
    try:
        import ot
    except ModuleNotFoundError:
        raise ValueError(
            "wasserstein of unequal masses or counts needs the package POT: install the extra "
            "[transport], as README says, or use sinkhorn(...)."
        ) from None
    solved: Any = ot.emd2(v / v.sum(), w / w.sum(), cost, numItermax=10_000_000, log=True)
    total, log = solved
    if log["warning"]:
        raise ValueError(f"wasserstein did not end: {log['warning']} Use sinkhorn(...).")
    return float(total)


def _line_costs(x: np.ndarray, v: np.ndarray, y: np.ndarray, w: np.ndarray, p: float) -> np.ndarray:
    """W_p^p of each column: ∫ |F^{−1}(u) − G^{−1}(u)|^p du over the merged steps."""
    costs = np.empty(x.shape[1])
    for column in range(x.shape[1]):
        i, j = np.argsort(x[:, column]), np.argsort(y[:, column])
        heights_x, heights_y = np.cumsum(v[i]), np.cumsum(w[j])
        steps = np.sort(np.concatenate([heights_x, heights_y]))
        masses = np.diff(steps, prepend=0.0)
        middles = steps - masses / 2
        at_x = np.minimum(np.searchsorted(heights_x, middles), len(i) - 1)
        at_y = np.minimum(np.searchsorted(heights_y, middles), len(j) - 1)
        gaps = np.abs(x[i[at_x], column] - y[j[at_y], column])
        costs[column] = masses @ gaps**p
    return costs


def _turns(points: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sorted angles in units of a full turn, in [0, 1), and their masses."""
    places = np.arctan2(points[:, 1], points[:, 0]) / (2 * np.pi) % 1.0
    order = np.argsort(places)
    return places[order], weights[order]


def _circle_cost(first: Any, second: Any, p: float) -> float:
    (x, v), (y, w) = first, second
    heights_x, heights_y = np.cumsum(v), np.cumsum(w)
    heights_x, heights_y = heights_x / heights_x[-1], heights_y / heights_y[-1]

    def quantile(places: np.ndarray, heights: np.ndarray, u: np.ndarray) -> np.ndarray:
        # The distribution function of the unrolled circle: F(t + 1) = F(t) + 1.
        turns = np.floor(u)
        index = np.minimum(np.searchsorted(heights, u - turns), len(places) - 1)
        return places[index] + turns

    ahead = np.append(y[1:], y[0] + 1)

    def slope(alpha: float) -> float:
        # Moving G's steps to the right by dα pairs more mass with the atom below each step.
        at = quantile(x, heights_x, heights_y + alpha)
        return float(np.sum(np.abs(at - y) ** p - np.abs(at - ahead) ** p))

    low, high = -1.5, 1.5
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (low, middle) if slope(middle) > 0 else (middle, high)
    steps = np.sort(np.concatenate([heights_x, (heights_y + middle) % 1.0]))
    masses = np.diff(steps, prepend=0.0)
    middles = steps - masses / 2
    gaps = quantile(x, heights_x, middles) - quantile(y, heights_y, middles - middle)
    return float(masses @ np.abs(gaps) ** p)


def _tokens(name: str, measure: Any, other: Any) -> tuple[np.ndarray, ...]:
    """Points and weights of two measures of tokens in one space."""
    checks.defined_for(name, measure, Points)
    if (measure.dim, measure.on_sphere) != (other.dim, other.on_sphere):
        raise ValueError(
            f"other must live where measure does; got {measure!r} and {other!r}. "
            "Use .euclidean() or .directions() to bring them together."
        )
    return *carrying(measure)[:2], *carrying(other)[:2]


def _check_order(order: float) -> None:
    checks.real("order", order)
    if order < 1:
        raise ValueError(f"order must be >= 1 for a distance; got {order}.")
