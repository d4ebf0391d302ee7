"""Equilibria, their spectra, basins and branches against closed forms."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binomtest

import metastable as ms
from metastable.core.numerics import jax, jnp
from metastable.geometry.sphere import uniform_points
from metastable.observe.basins import find_equilibria, settle
from metastable.observe.continuation import follow
from metastable.observe.equilibria import Share, equilibrium, polish
from metastable.observe.linearization import linearize, symmetries
from metastable.theory.ring import internal_contraction, ring_rates


def circle(angles, weights=None):
    angles = np.asarray(angles)
    return ms.Points(np.stack([np.cos(angles), np.sin(angles)], axis=1), weights)


def attention(beta, **options):
    """Isotropic attention at any sign of the temperature."""
    return ms.SelfAttention(abs(beta), query=None if beta >= 0 else -1, **options)


def close(found, expected, tolerance=1e-10):
    return np.abs(np.sort(np.real(found)) - np.sort(expected)).max() < tolerance


# Two isotropic heads: attraction at short range, repulsion at long range.
HEADS = {"attract": 4.0, "repel": 1.0}


def two_heads(normalized, repulsion):
    heads = [ms.SelfAttention(beta, normalized=normalized) for beta in HEADS.values()]
    return ms.MultiHead(heads, outputs=[1.0, -repulsion])


# ---------------------------------------------------------------------------------- consensus


@pytest.mark.parametrize("normalized", [True, False])
def test_consensus_of_isotropic_attention(normalized):
    """By hand: δẋ_i = c(Σ_j w_j δ_j − δ_i), c = 1 (SA) or e^β (USA), in each tangent direction."""
    n, d, beta = 6, 3, 2.0
    pull = 1.0 if normalized else np.exp(beta)
    field = ms.SelfAttention(beta, normalized=normalized)
    tokens = ms.Points(np.tile([0.6, 0.0, 0.8], (n, 1)), weights=[1, 2, 3, 4, 5, 6])
    found = equilibrium(tokens, field)
    assert (found.kind, found.stability) == ("consensus", "stable")
    assert found.symmetry == found.zeros == d - 1
    assert close(found.spectrum, [0.0] * (d - 1) + [-pull] * (n - 1) * (d - 1))
    assert np.abs(found.spectrum.imag).max() < 1e-10


def test_consensus_of_causal_attention():
    """Token i follows the mean of the first i: a triangular Jacobian, diagonal 1/i − 1."""
    n, d = 6, 3
    found = equilibrium(
        ms.Points(np.tile([1.0, 0.0, 0.0], (n, 1))), ms.SelfAttention(3.0, causal=True)
    )
    assert close(found.spectrum, np.repeat(1 / np.arange(1, n + 1) - 1, d - 1))


def test_consensus_on_an_eigenvector_of_the_value_matrix():
    """By hand at e_1: the mean moves at λ_k − λ_1, the differences shrink at λ_1."""
    field = ms.SelfAttention(1.5, value=np.diag([2.0, 1.0, 0.5]))
    found = equilibrium(ms.caps(4, [[1.0, 0.0, 0.0]], 0.3), field)
    assert found.kind == "consensus"
    assert np.abs(np.abs(found.measure.points[:, 0]) - 1).max() < 1e-12
    assert found.symmetry == 0
    assert close(found.spectrum, [-1.0, -1.5] + [-2.0] * 6)


def test_a_turning_value_matrix_turns_consensus():
    """V = aI + bJ on the circle: tokens together turn at rate b and gather at rate a."""
    a, b = 0.5, 1.25
    found = equilibrium(circle([0.0, 0.2, 0.3]), ms.SelfAttention(2.0, value=[[a, -b], [b, a]]))
    assert found.kind == "consensus"
    assert found.turning == pytest.approx(b, abs=1e-12)
    assert close(found.modes, [-a, -a])


# --------------------------------------------------------------------------------------- rings


@pytest.mark.parametrize(
    "clusters, beta, normalized",
    [(3, 5.0, True), (5, 2.0, False), (3, -1.0, True), (3, -3.0, False)],
)
def test_ring_rates(clusters, beta, normalized):
    found = equilibrium(ms.polygon(clusters), attention(beta, normalized=normalized))
    expected = ring_rates(beta, clusters, normalized=normalized)
    assert found.kind == "polygonal"
    assert (found.symmetry, found.zeros) == (1, 1)
    assert close(found.modes, expected, 1e-8)
    assert found.stability == ("stable" if expected.max() < 0 else "unstable")


def test_ring_of_clusters_has_inner_modes():
    """Two tokens in each place: k inner modes at minus the rate of internal contraction."""
    beta, k = 5.0, 3
    tokens = ms.Points(np.repeat(ms.polygon(k).points, 2, axis=0))
    found = equilibrium(tokens, ms.SelfAttention(beta))
    assert (found.kind, found.groups.count) == ("polygonal", k)
    inner = [-internal_contraction(beta, k)] * k
    assert close(found.modes, [*ring_rates(beta, k), *inner], 1e-8)


def test_newton_returns_to_the_ring_and_keeps_its_orientation():
    rng = np.random.default_rng(0)
    angles = 2 * np.pi * np.arange(3) / 3 + 1e-2 * rng.standard_normal(3)
    found = equilibrium(circle(angles), ms.SelfAttention(5.0))
    assert found.kind == "polygonal" and found.residual < 1e-14
    # The shortest correction leaves the mean angle alone, up to second order.
    turn = np.mean(np.angle(np.exp(1j * (np.asarray(found.measure.angles) - angles))))
    assert abs(turn) < 1e-4


@pytest.mark.parametrize("normalized", [True, False])
def test_the_three_ring_is_stable_below_minus_two_thirds(normalized):
    """By hand: μ_1 ∝ (1 + 3β/2) for k = 3. The family crosses β = 0 as well."""
    start = equilibrium(ms.polygon(3), attention(-1.5, normalized=normalized))
    branch = follow(start, lambda b: attention(b, normalized=normalized), np.linspace(-1.5, 1, 6))
    assert len(branch.changes) == 1 and branch.end is None
    assert branch.changes[0] == pytest.approx(-2 / 3, abs=1e-6)
    expected = [ring_rates(b, 3, normalized=normalized).max() for b in branch.betas]
    assert branch.rates == pytest.approx(expected, abs=1e-10)


def test_a_change_on_the_grid_is_found():
    start = equilibrium(ms.polygon(3), attention(-1.0))
    branch = follow(start, attention, [-1.0, -2 / 3, -0.5])
    assert branch.changes == pytest.approx((-2 / 3,), abs=1e-7)


# ------------------------------------------------------------------------------- other systems


def test_phase_locking_and_its_fold():
    """Two Kuramoto oscillators: φ̇ = Δω − K sin φ locks for Δω < K, and turns at the mean ω."""
    field_at = lambda gap: ms.Kuramoto(1.0, [0.3 - gap / 2, 0.3 + gap / 2])
    locked = equilibrium(circle([0.0, 0.4]), field_at(0.5))
    assert np.diff(locked.measure.angles)[0] == pytest.approx(np.arcsin(0.5), abs=1e-12)
    assert locked.rate == pytest.approx(-np.cos(np.arcsin(0.5)), abs=1e-12)
    assert locked.turning == pytest.approx(0.3, abs=1e-12)
    branch = follow(locked, field_at, np.linspace(0.5, 1.5, 5))
    assert branch.end == pytest.approx(1.0, abs=1e-6)
    with pytest.raises(ValueError, match="near an equilibrium"):
        equilibrium(locked.measure, field_at(1.5))


def test_kinds():
    repel, attract = ms.SelfAttention(2.0, value=-1), ms.SelfAttention(2.0)
    assert equilibrium(ms.simplex(3), repel).kind == "other"
    assert equilibrium(ms.polygon(4, dim=3), repel).kind == "polygonal"
    opposite = circle([0.1, 0.1, 0.1, 0.1, 0.1 + np.pi, 0.1 + np.pi])
    assert equilibrium(opposite, attract).kind == "bipartite"
    lopsided = circle([0.0, 2.2, 2.2, 4.1, 4.1, 4.1])
    assert equilibrium(lopsided, attract).kind == "clustering"


def test_simplex_is_a_stable_state_of_repulsion():
    """Cohn and Kumar: the simplex minimises the energy, and rotations are all that is free."""
    found = equilibrium(ms.simplex(3), ms.SelfAttention(2.0, value=-1))
    assert found.stability == "stable" and found.symmetry == found.zeros == 3


@pytest.mark.parametrize(
    "count, diagonal, expected",
    [
        (4, [1, 1, 1], 3),
        (4, [2, 1, 1], 1),
        (4, [3, 2, 1], 0),
        # Fewer tokens than axes: rotations of the unused axes must not pass for symmetries.
        (2, [5, 4, 3, 2, 1], 0),
        (2, [2, 1, 1, 1, 1], 6),
    ],
)
def test_symmetries_are_the_rotations_of_equal_eigenvalues(count, diagonal, expected):
    """so(m) for each eigenvalue of multiplicity m: m(m−1)/2 generators."""
    field = ms.SelfAttention(1.0, value=np.diag(np.array(diagonal, float)))
    assert len(symmetries(ms.uniform(count, len(diagonal)), field)) == expected


def test_softmax_does_not_change_stability():
    """SA is USA divided by Z_i > 0: same equilibria, and by Sylvester's law the same inertia."""
    for seed in range(6):
        saddle = polish(ms.uniform(6, 3, seed=seed), ms.SelfAttention(2.0))
        assert saddle is not None
        usa = ms.SelfAttention(2.0, normalized=False)
        same = linearize(saddle.measure, usa, symmetries(saddle.measure, usa))
        assert same.speed < 1e-11
        signs = lambda rates, zero: (np.sum(rates > zero), np.sum(rates < -zero))
        rates = np.linalg.eigvals(same.jacobian).real
        assert signs(saddle.spectrum.real, 1e-9) == signs(rates, 1e-9)
        assert saddle.stability == "unstable"


# --------------------------------------------------------------------------------- multi-head


@pytest.mark.parametrize("dim", [2, 3])
def test_two_heads_hold_two_antipodal_groups(dim):
    """By hand with g(s) = e^{4s} − e^s, the force of the two USA heads at inner product s.

    Groups of masses a, b: their angle relaxes at g(−1) < 0, tokens inside at −(a g(1) − b g(−1)).
    """
    force = lambda s: np.exp(HEADS["attract"] * s) - np.exp(HEADS["repel"] * s)
    axis = np.eye(dim)[0]
    tokens = ms.Points(np.array([axis, axis, axis, axis, -axis, -axis]))
    field = two_heads(normalized=False, repulsion=1.0)
    found = equilibrium(tokens, field)
    inner = lambda mass: -(mass * force(1) - (1 - mass) * force(-1))
    expected = [force(-1)] + 3 * [inner(4 / 6)] + [inner(2 / 6)]
    assert (found.kind, found.stability, found.symmetry) == ("bipartite", "stable", dim - 1)
    assert close(found.modes, np.repeat(expected, dim - 1))
    # Kept under perturbation: the flow from a disturbed state comes back.
    rng = np.random.default_rng(dim)
    disturbed = ms.from_array(tokens.points + 0.1 * rng.standard_normal(tokens.points.shape))
    last = ms.flow(disturbed, field, 60.0, frames=2, progress=False).frames[-1]
    assert np.abs(last.points @ last.points.T - tokens.points @ tokens.points.T).max() < 1e-7


def test_softmax_heads_hold_a_turning_pair():
    """Three softmax heads and two groups at an angle φ, solved by hand and by root finding.

    θ̇_1 = Σ_h c_h b e^{β_h cos φ} sin φ/(a e^{β_h} + b e^{β_h cos φ}) and −θ̇_2 with a, b exchanged:
    the groups keep their angle where both are equal, and then turn together at that speed.
    """
    betas, outputs, a, b = np.array([20.0, 5.0, 0.0]), np.array([1.5, -1.0, 0.5]), 5 / 6, 1 / 6

    def speed(phi, own, other):
        pull = outputs * other * np.exp(betas * (np.cos(phi) - 1)) * np.sin(phi)
        return np.sum(pull / (own + other * np.exp(betas * (np.cos(phi) - 1))))

    phi = brentq(lambda phi: speed(phi, a, b) + speed(phi, b, a), 0.7, 1.2, xtol=1e-14)
    field = ms.MultiHead([ms.SelfAttention(beta) for beta in betas], outputs=list(outputs))
    found = equilibrium(circle([0, 0, 0, 0, 0, phi + 0.02]), field)
    assert (found.kind, found.stability) == ("clustering", "stable")
    cosine = found.groups.centres[0] @ found.groups.centres[1]
    assert cosine == pytest.approx(np.cos(phi), abs=1e-11)
    assert found.turning == pytest.approx(abs(speed(phi, a, b)), abs=1e-12)
    assert found.turning > 0.03


# -------------------------------------------------------------------------------------- basins


def test_one_isotropic_head_on_the_sphere_has_only_consensus():
    """d ≥ 3, Q = K = V = I, β ≥ 0: proved in arXiv:2312.10794 and its sequels."""
    field = ms.SelfAttention(3.0)
    (found,) = find_equilibria(field, tokens=6, dim=3, starts=30)
    assert (found.kind, found.stability) == ("consensus", "stable")
    assert (found.share.hits, found.share.starts) == (30, 30)
    saddles = [polish(ms.uniform(6, 3, seed=seed), field) for seed in range(30)]
    found = [one for one in saddles if one is not None]
    assert len(found) > 20
    assert all(one.stability == "unstable" for one in found if one.kind != "consensus")


def test_shares_account_for_every_start():
    """Softmax heads with many stable states, some of which turn."""
    field = two_heads(normalized=True, repulsion=0.8)
    found = find_equilibria(field, tokens=6, dim=2, starts=40, seed=1)
    hits = [one.share.hits for one in found]
    assert sum(hits) == 40 and hits == sorted(hits, reverse=True)
    assert all(one.stability == "stable" and one.groups.count >= 2 for one in found)
    assert any(one.turning > 1e-4 for one in found)


def test_basins_agree_with_the_flow():
    """Each start ends where an independent solver ends, up to rotation."""
    field = two_heads(normalized=True, repulsion=0.8)
    keys = jax.random.split(jax.random.key(3), 40)
    starts = jax.vmap(lambda key: uniform_points(key, 6, 2))(keys)
    tokens = ms.Points(starts[0])
    generators = jnp.asarray(symmetries(tokens, field))
    ends, rested = settle(tokens, field, generators, starts, jnp.asarray(1e6))
    assert rested.all()
    shapes = set()
    for start, end in zip(starts[:8], ends[:8], strict=True):
        last = ms.flow(tokens.at(start), field, 400.0, frames=2, progress=False).frames[-1]
        assert np.abs(end @ end.T - last.points @ last.points.T).max() < 1e-6
        shapes.add(tuple(ms.clusters(last, angle=1e-2).masses.round(3)))
    assert len(shapes) >= 3


def test_share_has_the_wilson_interval():
    """SciPy as oracle."""
    for hits, starts in [(0, 20), (7, 31), (200, 200)]:
        exact = binomtest(hits, starts).proportion_ci(method="wilson")
        assert Share(hits, starts).interval == pytest.approx((exact.low, exact.high), abs=1e-12)


# -------------------------------------------------------------------------------------- bounds


def test_refusals():
    field = ms.SelfAttention(1.0)
    with pytest.raises(ValueError, match="on the sphere"):
        equilibrium(ms.gaussian_points(4, 2), field)
    with pytest.raises(ValueError, match="noise"):
        equilibrium(ms.polygon(3), field + ms.Noise(2.0))
    with pytest.raises(ValueError, match="starts must be"):
        find_equilibria(field, tokens=3, dim=2, starts=0)
    with pytest.raises(ValueError, match="betas"):
        follow(equilibrium(ms.polygon(3), field), attention, [])
