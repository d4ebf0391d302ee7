"""The energy of captured tokens through the layers: what attention, feed-forward and norms give.

E = (1/n²) Σ_ij e^{β(⟨u_i,u_j⟩−1)}, u the directions of the tokens: 2βe^{−β} times the energy of
arXiv:2312.10794, §3, which attention with V = I never lets fall. Trained layers do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from metastable.core.tables import Tabular
from metastable.models.passes import Inside
from metastable.models.stated import StatedLayer

if TYPE_CHECKING:
    import pandas

BETA = 1.0


@dataclass(frozen=True, eq=False)
class EnergyParts(Tabular):
    """Change of the energy in every layer, and its parts; each (layers,).

    attention + feed_forward + norm = change exactly: the energy is taken along the way from the
    state over what attention adds, its norm, what the feed-forward net adds, and its norm. Of the
    first two, `attention_first` and `feed_forward_first` are the parts of first order, the
    derivative of E along what is added; the rest is what turning directions apart takes away.
    """

    change: np.ndarray
    attention: np.ndarray
    feed_forward: np.ndarray
    norm: np.ndarray
    attention_first: np.ndarray
    feed_forward_first: np.ndarray

    def to_dataframe(self) -> pandas.DataFrame:
        """One row a layer."""
        import pandas

        table = {own.name: getattr(self, own.name) for own in fields(self)}
        return pandas.DataFrame({"layer": np.arange(1, len(self.change) + 1)} | table)


def token_energy(x: np.ndarray, beta: float = BETA) -> float:
    """E of the directions of x (n, d)."""
    u = _directions(x)
    return float(np.mean(np.exp(beta * (u @ u.T - 1))))


def energy_slope(x: np.ndarray, added: np.ndarray, beta: float = BETA) -> float:
    """dE along x + s·added at s = 0: (2β/n²) Σ_ij e^{β(⟨u_i,u_j⟩−1)} ⟨u_j, P_i added_i⟩/‖x_i‖."""
    u, x, added = _directions(x), np.asarray(x, float), np.asarray(added, float)
    kernel = np.exp(beta * (u @ u.T - 1))
    tangent = added - np.sum(u * added, axis=1, keepdims=True) * u
    tangent /= np.linalg.norm(x, axis=1, keepdims=True)
    return float(2 * beta * np.sum((kernel @ u) * tangent) / len(x) ** 2)


def energy_parts(layers: Sequence[Inside], kept: np.ndarray, beta: float = BETA) -> EnergyParts:
    """The parts of every layer, from what happened inside it, over the tokens `kept`."""
    rows = [_parts(layer, kept, beta) for layer in layers]
    return EnergyParts(*np.array(rows).T)


def _parts(layer: Inside, kept: np.ndarray, beta: float) -> list[float]:
    cut = lambda x: np.asarray(x, float)[kept]
    state, middle, leaves, fed = map(cut, (layer.state, layer.middle, layer.leaves, layer.fed))
    added = np.zeros_like(state) if layer.attended is None else cut(layer.attended)
    added = added if layer.crossed is None else added + cut(layer.crossed)
    energies = [token_energy(x, beta) for x in (state, state + added, middle, middle + fed, leaves)]
    attention, norm, feed_forward, closing = np.diff(energies)
    first = energy_slope(state, added, beta), energy_slope(middle, fed, beta)
    return [energies[-1] - energies[0], attention, feed_forward, norm + closing, *first]


def coherent_pull(
    layer: StatedLayer, state: np.ndarray, kept: np.ndarray, pre_norm: bool, beta: float = BETA
) -> float:
    """What the heads would give the energy if each looked at all it sees alike.

    dE along a_i = Σ_h O_hV_h m_i, m_i the mean of the tokens that i sees, as attention reads them:
    E's first-order change, a function of the input's Gram matrices ⟨u_i,u_j⟩ and ⟨u_i,OVu_j⟩, of
    the placement of the norm, and of nothing that the layer computes. Derived here.
    """
    seen = layer.first(state) if pre_norm and layer.first is not None else np.asarray(state, float)
    sees = layer.sees(len(seen)).astype(float)
    mean = (sees / sees.sum(axis=1, keepdims=True)) @ seen
    said = sum(mean @ head.value.T @ head.output.T for head in layer.heads)
    return energy_slope(np.asarray(state)[kept], np.asarray(said)[kept], beta)


@dataclass(frozen=True)
class SignScore:
    """How well a number foretells the sign of the energy's change; see `score_signs`."""

    accuracy: float  # balanced: the mean of the shares of rises and of falls foretold
    low: float  # 95 % by a bootstrap over layers
    high: float
    baseline: float  # the majority of the same layer on the other prompts
    rises: float  # share of all changes

    def __str__(self) -> str:
        return (
            f"balanced accuracy {self.accuracy:.2f} ({self.low:.2f} to {self.high:.2f}), "
            f"majority of the layer on other prompts {self.baseline:.2f}"
        )


def score_signs(
    foretold: np.ndarray, change: np.ndarray, *, folds: int = 6, seed: int = 0
) -> SignScore:
    """Balanced accuracy of sign(foretold − threshold), (prompts, layers), out of sample.

    The threshold is the one that does best on other layers of other prompts: layers go in `folds`
    groups and prompts in two halves, in random order by `seed`.
    """
    prompts, layers = change.shape
    if prompts < 2 or layers < folds:
        raise ValueError(
            f"change must have at least 2 prompts and {folds} layers; got {prompts} and {layers}."
        )
    rng = np.random.default_rng(seed)
    half, group = rng.permutation(prompts) % 2, rng.permutation(layers) % folds
    says, before = np.zeros(change.shape, bool), np.zeros(change.shape, bool)
    for side in (0, 1):
        mine = half == side
        before[mine] = (change[~mine] > 0).mean(axis=0) > 0.5
        for number in range(folds):
            here = group == number
            threshold = _threshold(foretold[~mine][:, ~here], change[~mine][:, ~here])
            says[np.ix_(mine, here)] = foretold[np.ix_(mine, here)] > threshold
    drawn = [rng.integers(0, layers, layers) for _ in range(1000)]
    spread = [_balanced(says[:, k], change[:, k]) for k in drawn]
    low, high = np.nanquantile(spread, [0.025, 0.975])
    accuracy, baseline = _balanced(says, change), _balanced(before, change)
    return SignScore(accuracy, float(low), float(high), baseline, float(np.mean(change > 0)))


def _threshold(values: np.ndarray, change: np.ndarray) -> float:
    order = np.unique(values)
    between = np.concatenate([[order[0] - 1], (order[1:] + order[:-1]) / 2, [order[-1] + 1]])
    return float(between[np.argmax([_balanced(values > t, change) for t in between])])


def _balanced(says: np.ndarray, change: np.ndarray) -> float:
    rises = change > 0
    shares = [np.mean(says[rises])] if rises.any() else []
    shares += [np.mean(~says[~rises])] if (~rises).any() else []
    return float(np.mean(shares)) if len(shares) == 2 else float("nan")


def _directions(x: np.ndarray) -> np.ndarray:
    x = np.asarray(x, float)
    return x / np.linalg.norm(x, axis=1, keepdims=True)
