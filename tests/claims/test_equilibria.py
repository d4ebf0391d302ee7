"""Where flows end: one head, several heads, periodic starts. Shares are recorded as properties."""

import equinox as eqx
import numpy as np
import pytest
from scipy.special import ive

import metastable as ms
from metastable.core.numerics import jax
from metastable.observe.basins import find_equilibria
from metastable.observe.equilibria import Share, polish
from metastable.theory.ring import plateau_lifetime

pytestmark = pytest.mark.claim


@pytest.mark.parametrize("dim", [3, 4])
def test_one_isotropic_head_ends_in_consensus(dim, record_property):
    """d ≥ 3, Q = K = V = I, β ≥ 0: 200 flows and 200 Newton searches, no other stable state."""
    kinds = []
    for beta in (0.0, 0.5, 2.0, 5.0, 9.0):
        field = ms.SelfAttention(beta)
        (found,) = find_equilibria(field, tokens=8, dim=dim, starts=20, seed=7)
        assert (found.kind, found.stability, found.share.hits) == ("consensus", "stable", 20)
        saddles = [polish(ms.uniform(8, dim, seed=seed), field) for seed in range(20)]
        kinds += [(one.kind, one.stability) for one in saddles if one is not None]
    assert len(kinds) >= 90
    assert all(kind == "consensus" or stability == "unstable" for kind, stability in kinds)
    record_property("saddles", {kind: kinds.count(kind) for kind in set(kinds)})


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize(
    "betas, outputs",
    [((4.0, 1.0), (1.0, -0.8)), ((20.0, 5.0, 0.0), (1.5, -1.0, 0.5))],
    ids=["two heads", "three heads"],
)
def test_several_heads_end_in_several_clusters(dim, betas, outputs, record_property):
    """Softmax heads that attract near and repel farther: stable multi-cluster states are the rule.

    Each state found is kept: after a kick of 0.02 the flow returns to the same Gram matrix.
    """
    field = ms.MultiHead([ms.SelfAttention(beta) for beta in betas], outputs=list(outputs))
    found = find_equilibria(field, tokens=6, dim=dim, starts=100)
    assert sum(one.share.hits for one in found) == 100
    assert all(one.stability == "stable" for one in found)
    several = Share(sum(one.share.hits for one in found if one.groups.count > 1), 100)
    assert several.interval[0] > 0.8
    assert any(one.turning > 1e-4 for one in found)
    rng = np.random.default_rng(0)
    for one in found:
        points = np.asarray(one.measure.points)
        kicked = ms.from_array(points + 0.02 * rng.standard_normal(points.shape))
        last = ms.flow(kicked, field, 25 / -one.rate, frames=2, progress=False).frames[-1]
        assert np.abs(last.points @ last.points.T - points @ points.T).max() < 1e-6
    record_property("several", repr(several))
    record_property("states", [repr(one) for one in found])


class Folded(eqx.Module):
    """The potential that k-periodic tokens feel on the circle of ψ = kθ, times e^{−β}.

    USA: h(φ) = e^{β cos φ} sin φ = (2/β) Σ_m m I_m sin mφ, and the sum over k copies keeps m = lk:
    W(cos ψ) = (2k²/β) Σ_l I_{lk}(β) cos lψ. SA divides the velocity by a positive factor, which
    moves neither equilibria nor their stability.
    """

    coefficients: jax.Array

    def __call__(self, s):
        ahead = after = 0.0
        for c in self.coefficients[:0:-1]:  # Clenshaw's recurrence for Chebyshev polynomials
            ahead, after = c + 2 * s * ahead - after, ahead
        return s * ahead - after


def folded(beta, k):
    series = ive(k * np.arange(24), beta) * 2 * k**2 / beta
    return ms.Potential(Folded(jax.numpy.asarray(series)))


def periodic(k, per_sector, noise, seed):
    """Independent uniform tokens in one of k sectors, its k − 1 copies, and noise on each."""
    rng = np.random.default_rng(seed)
    psi = rng.uniform(0, 2 * np.pi, per_sector)
    theta = np.concatenate([(psi + 2 * np.pi * q) / k for q in range(k)])
    theta = theta + noise * rng.standard_normal(theta.size)
    unit = lambda angles: ms.Points(np.stack([np.cos(angles), np.sin(angles)], axis=1))
    return unit(theta), unit(psi)


def test_folding():
    """The folded velocity is k times the angular velocity of the unfolded tokens."""
    spin = lambda tokens, v: np.asarray(
        tokens.points[:, 0] * v[:, 1] - tokens.points[:, 1] * v[:, 0]
    )
    full, one = periodic(3, 5, 0.0, seed=0)
    v = ms.SelfAttention(4.0, normalized=False).velocity(full)
    expected = 3 * np.exp(-4.0) * spin(full, v)[:5]
    assert spin(one, folded(4.0, 3).velocity(one)) == pytest.approx(expected, abs=1e-13)


@pytest.mark.parametrize(
    "beta, k", [(2.0, 2), (2.0, 6), (5.0, 2), (5.0, 3), (5.0, 6), (9.0, 3), (9.0, 4), (20.0, 4)]
)
def test_exactly_periodic_starts_end_in_exactly_k_clusters(beta, k, record_property):
    """The open question of the talk, among k-periodic measures: folding makes k clusters one."""
    found = find_equilibria(folded(beta, k), tokens=6, dim=2, starts=100, horizon=1e12)
    record_property("shares", [repr(one) for one in found])
    assert [(one.kind, one.stability, one.share.hits) for one in found] == [
        ("consensus", "stable", 100)
    ]


def cluster_counts(k, noise, seed, times):
    """Clusters of a k-periodic start with noise under SA at β = 5, at the given times."""
    tokens, _ = periodic(k, 8, noise, seed)
    run = ms.flow(tokens, ms.SelfAttention(5.0), times[-1], frames=[0.0, *times], progress=False)
    return [ms.clusters(frame, 5.0).count for frame in run.frames[1:]]


def test_nearly_periodic_starts_pass_through_k_clusters(record_property):
    """The k clusters form if the perturbation is tiny, whether or not k is the dominant mode 3."""
    shares = {}
    for k in (2, 3, 4, 5):
        for noise in (0.0, 1e-6, 1e-3, 3e-2):
            hits = sum(
                k in cluster_counts(k, noise, seed, [10.0, 20.0, 40.0]) for seed in range(20)
            )
            shares[k, noise] = Share(hits, 20)
    record_property("shares", {key: repr(share) for key, share in shares.items()})
    for k in (2, 3, 4, 5):
        assert shares[k, 0.0].hits == shares[k, 1e-6].hits == 20
    # Mode 3 outgrows mode 5 unless the start is clean.
    assert shares[5, 3e-2].interval[1] < 0.5


def test_k_clusters_last_as_long_as_the_ring():
    """The ring's slowest mode e-folds in 142 SA units: it is intact at 0.3 lifetimes, gone at 3."""
    life = plateau_lifetime(5.0, 3, perturbation=1e-3)
    counts = np.array([cluster_counts(3, 1e-3, seed, [0.3 * life, 3 * life]) for seed in range(20)])
    assert (counts[:, 0] == 3).all() and (counts[:, 1] < 3).all()
