"""What theory says of a field before anything is run."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from metastable import checks
from metastable.fields import Field, Potential, SelfAttention
from metastable.fields.heads import MultiHead
from metastable.fields.noise import diffusion
from metastable.observe.summary import attention_of
from metastable.theory import counts, noise, regimes, ring, spectrum

__all__ = ["Prediction", "matrices_of", "predict"]

LABELS = {
    "dominant_mode": "dominant mode",
    "max_rate": "its growth rate",
    "exit_time": "time to leave uniform",
    "expected_clusters": "expected first clusters",
    "cluster_distribution": "first clusters",
    "plateau_lifetime": "first plateau, e-folding time",
    "critical_noise": "critical noise κ_#",
    "transition": "order of that transition",
    "single_cluster_theorem": "one cluster in the end",
}


@dataclasses.dataclass(frozen=True, repr=False)
class Prediction:
    """Theory for one field, dimension and number of tokens; what does not apply is None.

    - `rates`: growth rates λ_1, λ_2, … of the harmonics around the uniform measure, per unit time
      of `clock`; None where one leaves the range of doubles (`log_max_rate` stays).
    - `exit_time`: ln n/(2λ_max), when n independent uniform tokens have left uniformity.
    - `cluster_distribution`: probability of each first cluster count at the exit, and
      `expected_clusters` its mean (the large-β law when the number of tokens is not given).
    - `critical_noise`: κ_#; uniform is stable for κ < κ_#. `transition`: its order (USA).
    - `plateau_lifetime`: e-folding time of the ring of `dominant_mode` equal clusters (circle).
    """

    dim: int
    beta: float | None
    clock: str
    tokens: int | None
    noise: float | None
    rates: list[float | None] | None
    dominant_mode: int | None
    max_rate: float | None
    log_max_rate: float | None
    exit_time: float | None
    single_cluster_theorem: str | None
    expected_clusters: float | None = None
    cluster_distribution: dict[int, float] | None = None
    critical_noise: float | None = None
    transition: str | None = None
    plateau_lifetime: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def to_table(self) -> dict[str, str]:
        """What is known, by a name for people, as text."""
        table = {label: _brief(getattr(self, key)) for key, label in LABELS.items()}
        if self.rates:
            shown = [f"λ_{k + 1} {_brief(r)}" for k, r in enumerate(self.rates[:8])]
            table["growth rates"] = ", ".join(shown)
        return table

    def print(self) -> None:
        """The prediction as a table on the terminal."""
        from metastable.report.text import print_prediction

        print_prediction(self)

    def __repr__(self) -> str:
        shown = {k: v for k, v in self.to_dict().items() if v is not None and k != "rates"}
        return "Prediction(" + ", ".join(f"{k}={_brief(v)}" for k, v in shown.items()) + ")"


def _brief(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, dict):
        return ", ".join(f"{k}: {p:.2f}" for k, p in sorted(value.items()) if p >= 0.005)
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def predict(
    field: Field, dim: int, tokens: int | None = None, *, samples: int = 1000, seed: int = 0
) -> Prediction:
    """What theory says of `field` on S^{dim−1}, from the uniform measure on.

    Linear stability holds for isotropic fields (multiples of the identity, multi-head sums of
    them, any potential of the inner product) with or without noise; the count distribution for a
    single attracting head on the circle or S²; theorems for any matrices. Sources are in the
    functions of `metastable.theory`.

    >>> import metastable as ms
    >>> ms.predict(ms.SelfAttention(beta=5.0), dim=2).dominant_mode
    3
    """
    checks.integer("dim", dim, 2)
    if tokens is not None:
        checks.integer("tokens", tokens, 1)
    rate = float(diffusion(field))
    kappa = math.inf if rate == 0 else 1 / rate
    head = attention_of(field)
    rates, log_max = _rates(field, dim, kappa)
    mode = None if rates is None else _leading(field, rates, dim, kappa)
    fastest = None if rates is None else float(np.max(rates))
    unstable = fastest is not None and fastest > 0
    known: dict[str, Any] = {}
    if head is not None and _plain(head):
        known = _of_plain_head(head, dim, mode if unstable and rate == 0 else None)
        if rate == 0 and dim in (2, 3) and head.beta > 0:
            known |= _counts(float(head.beta), dim, tokens, samples, seed)
    return Prediction(
        dim=dim,
        beta=None if head is None else float(head.beta),
        clock=field.clock or "none",
        tokens=tokens,
        noise=None if math.isinf(kappa) else kappa,
        rates=None if rates is None else [_finite(r) for r in rates],
        dominant_mode=mode if unstable else None,
        max_rate=None if fastest is None else _finite(fastest),
        log_max_rate=log_max,
        exit_time=_exit(tokens, fastest, log_max),
        single_cluster_theorem=_theorem(field, head, tokens, dim),
        **known,
    )


def _of_plain_head(head: SelfAttention, dim: int, mode: int | None) -> dict[str, Any]:
    """What is known for Q = K = V = I only; `mode` is the one that forms the first ring."""
    beta, normalized = float(head.beta), head.normalized
    lifetime = None
    if dim == 2 and mode is not None and mode > 1:
        lifetime = _finite(ring.plateau_lifetime(beta, mode, normalized=normalized))
    return {
        "critical_noise": _finite(noise.critical_kappa(beta, dim, normalized=normalized)),
        "transition": noise.transition_order(beta, dim, normalized=normalized),
        "plateau_lifetime": lifetime,
    }


def _counts(beta: float, dim: int, tokens: int | None, samples: int, seed: int) -> dict[str, Any]:
    if tokens is None or tokens < 2:
        return {"expected_clusters": counts.expected_count(beta, dim)}
    law = counts.count_distribution(beta, dim, tokens, samples=samples, seed=seed)
    return {"expected_clusters": law.mean, "cluster_distribution": dict(law.counts)}


def _plain(head: SelfAttention) -> bool:
    """Q = K = V = I, no mask: the field of the linear theory."""
    return head.isotropic and head.query is None and head.key is None and head.value is None


def _scales(head: SelfAttention) -> tuple[float, float] | None:
    """Effective β and scalar V of an isotropic head; None when it is not isotropic."""
    if not head.isotropic:
        return None
    number = lambda operator: 1.0 if operator is None else float(operator)
    return float(head.beta) * number(head.query) * number(head.key), number(head.value)


def _rates(field: Field, dim: int, kappa: float) -> tuple[np.ndarray | None, float | None]:
    """Growth rates of the modes that matter, and the logarithm of the largest without noise."""
    parts = getattr(field, "parts", (field,))
    movers = [part for part in parts if part.clock is not None]
    if len(movers) != 1:
        return None, None
    mover = movers[0]
    if isinstance(mover, Potential):
        modes = 32
        degrees = np.arange(1, modes + 1)
        free = spectrum.potential_rates(_as_numpy(mover.potential), dim, modes)
        return free - degrees * (degrees + dim - 2) / kappa, None
    if isinstance(mover, MultiHead):
        return _multihead_rates(mover, dim, kappa), None
    scales = _scales(mover) if isinstance(mover, SelfAttention) else None
    if scales is None or not isinstance(mover, SelfAttention):
        return None, None
    beta, value = scales
    if beta < 0:
        modes = 32
    else:
        leading = spectrum.dominant_mode(beta, dim, normalized=mover.normalized)
        modes = min(max(8, 2 * leading + 2), 4096)
    free = value * spectrum.growth_rates(beta, dim, modes, normalized=mover.normalized)
    degrees = np.arange(1, modes + 1)
    log_max = None
    if value > 0 and beta > 0 and math.isinf(kappa):
        logs = spectrum.log_growth_rates(beta, dim, modes, normalized=mover.normalized)
        log_max = float(np.max(logs)) + math.log(value)
    return free - degrees * (degrees + dim - 2) / kappa, log_max


def _leading(field: Field, rates: np.ndarray, dim: int, kappa: float) -> int:
    if np.isfinite(rates).all():
        return int(np.argmax(rates)) + 1
    # USA rates beyond the range of doubles: the dominant mode is known all the same.
    head = attention_of(field)
    assert head is not None
    return spectrum.dominant_mode(float(head.beta), dim, normalized=False, kappa=kappa)


def _multihead_rates(field: MultiHead, dim: int, kappa: float) -> np.ndarray | None:
    betas, weights, kinds = [], [], set()
    for head, output in zip(field.heads, field.outputs, strict=True):
        scales = _scales(head) if isinstance(head, SelfAttention) else None
        if (
            scales is None
            or not isinstance(head, SelfAttention)
            or (output is not None and output.ndim > 0)
        ):
            return None
        betas.append(scales[0])
        weights.append(scales[1] * (1.0 if output is None else float(output)))
        kinds.add(head.normalized)
    if len(kinds) != 1 or min(betas) < 0:
        return None
    modes = max(8, 2 * max(spectrum.dominant_mode(b, dim) for b in betas) + 2)
    return spectrum.multihead_rates(betas, weights, dim, modes, normalized=kinds.pop(), kappa=kappa)


def _as_numpy(potential: Any) -> Any:
    return lambda s: np.asarray(potential(s))


def _exit(tokens: int | None, fastest: float | None, log_max: float | None) -> float | None:
    if tokens is None or fastest is None or tokens < 2 or fastest <= 0:
        return None
    if math.isinf(fastest) and log_max is not None:
        return math.exp(math.log(math.log(tokens) / 2) - log_max)
    return _finite(spectrum.exit_time(tokens, fastest))


def _theorem(field: Field, head: SelfAttention | None, tokens: int | None, dim: int) -> str | None:
    # A theorem speaks of one head alone: no noise, no other force, no positional scheme.
    if head is None or field is not head:
        return None
    if len(head.position) > int(head.causal):
        return None
    found = regimes.single_cluster_theorem(
        10**12 if tokens is None else tokens,
        dim,
        float(head.beta),
        causal=head.causal,
        normalized=head.normalized,
        **matrices_of(head, dim),
    )
    return None if found is None else f"{found.name}: {found.statement} [{found.source}]"


def matrices_of(head: SelfAttention, dim: int) -> dict[str, Any]:
    """Query, key and value as NumPy matrices, None for the identity."""

    def full(operator: Any) -> np.ndarray | None:
        if operator is None:
            return None
        array = np.asarray(operator)
        return array * np.eye(dim) if array.ndim == 0 else array

    return {name: full(getattr(head, name)) for name in ("query", "key", "value")}


def _finite(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None
