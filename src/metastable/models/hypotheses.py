"""Which hypotheses of the theorems the heads of a model satisfy, from their weights alone."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from metastable.models.folder import load
from metastable.models.stated import StatedLayer, is_causal, stated_layers
from metastable.models.weights import Head

if TYPE_CHECKING:
    from metastable.models.captured import ModelCase

NEAR = 0.99  # an overlap that counts as equality


@dataclass(frozen=True)
class HeadHypotheses:
    """Overlaps of one head's matrices with what theorems ask for; 1 where they ask is met.

    M = diag(g)QᵀK diag(g) and OV diag(g), g the gain of the norm before attention, act on
    normalised tokens.

    - `beta`: effective inverse temperature, as in `Head.beta`;
    - `symmetric`: ‖sym M‖²/‖M‖²; 1/2 for a random one;
    - `logits_isotropic`: tr M/(√d‖M‖), 1 for Q = K = I; `value_isotropic`: the same of OV;
    - `positive`: share of Σ|λ| of OV on eigenvalues with positive real part;
    - `normal`: Σ|λ|²/‖OV‖², 1 for a normal matrix (Henrici);
    - `aligned`: ⟨sym OV, sym M⟩/(‖sym OV‖‖sym M‖), 1 where V = QᵀK makes attention a gradient.
    """

    layer: int
    head: int
    beta: float
    symmetric: float
    logits_isotropic: float
    value_isotropic: float
    positive: float
    normal: float
    aligned: float

    def to_row(self) -> dict[str, Any]:
        return asdict(self)


def head_hypotheses(source: Any, part: str = "") -> list[HeadHypotheses]:
    """Of every head of every distinct layer."""
    network = load(source)
    anatomy = network.anatomy(part)
    first = anatomy is not None and anatomy.pre_norm
    return [
        _hypotheses(head, layer.first.gain if first and layer.first is not None else 1.0)
        for layer in stated_layers(network, part)
        for head in layer.heads
    ]


def _hypotheses(head: Head, gain: np.ndarray | float) -> HeadHypotheses:
    Q, K, V, O = head.query * gain, head.key * gain, head.value * gain, head.output
    d = Q.shape[1]
    # Every product below is of k × k matrices: M = QᵀK and OV are never formed.
    KQ, VO = K @ Q.T, V @ O
    M2 = float(np.sum((Q @ Q.T) * (K @ K.T)))
    OV2 = float(np.sum((O.T @ O) * (V @ V.T)))
    trace_M2, trace_OV2 = float(np.sum(KQ * KQ.T)), float(np.sum(VO * VO.T))
    straight = float(np.sum((Q @ O) * (K @ V.T)))  # ⟨OV, M⟩ = tr(VᵀOᵀQᵀK)
    crossed = float(np.sum((K @ O) * (Q @ V.T)))  # ⟨OV, Mᵀ⟩
    sym_M, sym_OV = (M2 + trace_M2) / 2, (OV2 + trace_OV2) / 2
    eigenvalues = np.linalg.eigvals(VO)
    sizes = np.abs(eigenvalues)
    safe = lambda x: max(float(x), 1e-300)
    return HeadHypotheses(
        head.layer,
        head.head,
        head.beta,
        symmetric=sym_M / safe(M2),
        logits_isotropic=float(np.trace(KQ)) / safe(np.sqrt(d * M2)),
        value_isotropic=float(np.trace(VO)) / safe(np.sqrt(d * OV2)),
        positive=float(sizes[eigenvalues.real > 0].sum() / safe(sizes.sum())),
        normal=float(np.sum(sizes**2)) / safe(OV2),
        aligned=(straight + crossed) / 2 / safe(np.sqrt(max(sym_M * sym_OV, 0.0))),
    )


@dataclass(frozen=True)
class Theorem:
    """A theorem beside a model: what it asks of a head, and how near the heads come."""

    says: str
    source: str
    asks: str
    heads: int  # that meet what it asks of them
    nearest: float  # overlap of the nearest head
    where: str  # that head
    rest: str = ""  # what else it asks, and this network has not

    def to_row(self) -> dict[str, Any]:
        return {
            "theorem": self.says,
            "source": self.source,
            "asks of a head": self.asks,
            "heads that meet it": self.heads,
            "nearest overlap": self.nearest,
            "nearest head": self.where,
            "and fails by": self.rest,
        }


def theorems(source: Any, part: str = "") -> list[Theorem]:
    """The theorems of the theory beside a model: which heads satisfy what they ask, which is near.

    `pandas.DataFrame(row.to_row() for row in theorems("minilm"))` is the table of the page.
    """
    network = load(source)
    return theorems_beside(head_hypotheses(network, part), is_causal(network, part))


def theorems_beside(heads: list[HeadHypotheses], causal: bool) -> list[Theorem]:
    """The same of heads that are known already."""
    alone = "several heads, a feed-forward net, gains"
    isotropic = lambda h: min(h.value_isotropic, h.logits_isotropic)
    asked = [
        ("tokens cluster and the energy rises", "geshkovski2023mathematical, §3 and §6"),
        ("the energy rises", "geshkovski2023mathematical, remark 3.4"),
        ("clusters stay metastable", "geshkovski2024dynamic"),
    ]
    rows = [
        (*asked[0], "Q = K = V = I", isotropic),
        (*asked[1], "V = QᵀK, symmetric", lambda h: min(h.aligned, 2 * h.symmetric - 1)),
        (*asked[2], "V = I, QᵀK > 0", lambda h: h.value_isotropic),
    ]
    if causal:
        source = "karagodin2024clustering"
        rows.append(
            ("all tokens go to the first", source, "V = I, any Q, K", lambda h: h.value_isotropic)
        )
    return [_theorem(heads, *row, alone) for row in rows]


def _theorem(
    heads: list[HeadHypotheses], says: str, source: str, asks: str, overlap: Any, rest: str
) -> Theorem:
    values = np.array([overlap(head) for head in heads])
    best = heads[int(values.argmax())]
    where = f"layer {best.layer}, head {best.head}"
    return Theorem(says, source, asks, int((values > NEAR).sum()), float(values.max()), where, rest)


def why_not_monotone(case: ModelCase) -> str:
    """Which hypothesis of the energy theorem fails, and by how much; empty where none does."""
    heads = case.hypotheses
    nearest = max(max(head.aligned, head.value_isotropic) for head in heads)
    failed = []
    if nearest < NEAR:
        failed.append(f"no head has V = I or V = QᵀK (nearest overlap {nearest:.2f})")
    fed = np.mean([np.linalg.norm(layer.fed) for layer in case.inside])
    told = np.mean([np.linalg.norm(np.asarray(layer.attended)) for layer in case.inside])
    if fed > 1e-6 * told:
        failed.append(f"the feed-forward net adds {fed / max(told, 1e-30):.1f} times as much")
    return "; ".join(failed)


def why_not_isotropic(case: ModelCase) -> str:
    """Which hypothesis of the one-cosine law fails: Q = K = V = I and attention alone."""
    heads = case.hypotheses
    nearest = max(min(head.value_isotropic, head.logits_isotropic) for head in heads)
    return "" if nearest > NEAR else f"no head has Q = K = V = I (nearest overlap {nearest:.2f})"


def gain_spread(layer: StatedLayer) -> float:
    """Standard deviation over mean size of the gain before attention; 0 for a plain norm."""
    gain = np.ravel(1.0 if layer.first is None else layer.first.gain)
    return float(np.std(gain) / max(float(np.mean(np.abs(gain))), 1e-300))
