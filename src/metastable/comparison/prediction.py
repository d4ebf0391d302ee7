"""What theory says of one field, as a result that shows itself."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from metastable.core.show import Shown, print_prediction
from metastable.core.tables import Tabular

if TYPE_CHECKING:
    import pandas

LABELS = {
    "dominant_mode": "dominant mode",
    "max_rate": "its growth rate",
    "exit_time": "time to leave uniform, ln n/(2λ_max)",
    "expected_clusters": "expected first clusters",
    "cluster_distribution": "first clusters",
    "plateau_lifetime": "first plateau, e-folding time",
    "critical_noise": "critical noise κ_#",
    "transition": "order of that transition",
    "single_cluster_theorem": "one cluster in the end",
    "limit_set": "where a cluster goes",
}
# Of other things than tokens under a steady force.
OTHERS = {
    "gaussian": {"blow_up_time": "time of the blow-up"},
    "random depth": {
        "consensus_exponent": "rate of log(1−ρ) of a close pair",
        "mean_exponent": "rate of the mean of 1−ρ of a close pair",
        "antipodal_exponent": "rate of log(1+ρ) of an opposite pair",
        "antipodal_beta": "β above which opposite pairs attract",
        "antipodal_chance": "chance of two orthogonal tokens to end opposite",
    },
}
BEYOND = "outside the range of doubles"


@dataclasses.dataclass(frozen=True, repr=False)
class Prediction(Shown, Tabular):
    """Theory for one field, dimension and number of tokens; what does not apply is None.

    - `rates`: growth rates λ_1, λ_2, … of the first harmonics around the uniform measure (4096 at
      most), per unit time of `clock`; None where one leaves the range of doubles.
      `rates_near_dominant`: those around the dominant mode where it lies beyond `rates`, by degree.
    - `exit_time`: ln n/(2λ_max), when n independent uniform tokens have left uniformity.
    - `cluster_distribution`: probability of each first cluster count at the exit;
      `expected_clusters` its mean (the large-β law when the number of tokens is not given) and
      `cluster_deviation` its standard deviation.
    - `critical_noise`: κ_#; uniform is stable for κ < κ_#. `transition`: its order (USA).
    - `plateau_lifetime`: e-folding time of the ring of `dominant_mode` equal clusters (circle).
    - `log_max_rate`, `log_exit_time`, `log_critical_noise`, `log_plateau_lifetime`: natural
      logarithms, also where the number itself over- or underflows and is None.
    - `limit_set`: where one cluster goes under a matrix V, by its leading eigenvalues.
    - `blow_up_time`: when the covariance of a Gaussian becomes infinite.
    - `consensus_exponent`, `mean_exponent`, `antipodal_exponent`, `antipodal_beta`,
      `antipodal_chance`: of two tokens under random weights (`RandomValue`), see
      `metastable.theory.random_depth`.
    - `about`: "tokens", "gaussian" or "random depth": which of these are shown.
    - `reasons`: for each of the shown quantities that is None, why.
    """

    dim: int
    beta: float | None
    clock: str
    tokens: int | None = None
    noise: float | None = None
    rates: list[float | None] | None = None
    dominant_mode: int | None = None
    max_rate: float | None = None
    log_max_rate: float | None = None
    exit_time: float | None = None
    single_cluster_theorem: str | None = None
    expected_clusters: float | None = None
    cluster_distribution: dict[int, float] | None = None
    cluster_deviation: float | None = None
    critical_noise: float | None = None
    transition: str | None = None
    plateau_lifetime: float | None = None
    log_exit_time: float | None = None
    log_critical_noise: float | None = None
    log_plateau_lifetime: float | None = None
    rates_near_dominant: dict[int, float | None] | None = None
    limit_set: str | None = None
    blow_up_time: float | None = None
    consensus_exponent: float | None = None
    mean_exponent: float | None = None
    antipodal_exponent: float | None = None
    antipodal_beta: float | None = None
    antipodal_chance: float | None = None
    about: str = "tokens"
    reasons: dict[str, str] = dataclasses.field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def to_table(self) -> dict[str, str]:
        """What is known, by a name for people, as text; a dash has its reason beside it."""
        labels = OTHERS.get(self.about, LABELS)
        table = {label: self._text(key) for key, label in labels.items()}
        if self.rates:
            shown = [f"λ_{k + 1} {_brief(r)}" for k, r in enumerate(self.rates[:8])]
            known = any(rate is not None for rate in self.rates[:8])
            table["growth rates"] = ", ".join(shown) if known else f"– ({BEYOND})"
        return table

    def _text(self, key: str) -> str:
        value, log = getattr(self, key), getattr(self, f"log_{key}", None)
        if value is None and log is not None:
            return f"e^{log:.6g}"
        reason = self.reasons.get(key)
        return _brief(value) + (f" ({reason})" if value is None and reason else "")

    def to_dataframe(self) -> pandas.DataFrame:
        """One row a quantity: its name, its value, the value in words, why there is none."""
        import pandas

        labels = OTHERS.get(self.about, LABELS)
        rows = [
            {"quantity": label, "name": name, "value": getattr(self, name),
             "text": self._text(name), "reason": self.reasons.get(name, "")}
            for name, label in labels.items()
        ]  # fmt: skip
        for k, rate in enumerate(self.rates or []):
            label = f"growth rate of mode {k + 1}"
            rows.append({"quantity": label, "name": f"rate_{k + 1}", "value": rate,
                         "text": _brief(rate), "reason": ""})  # fmt: skip
        return pandas.DataFrame(rows)

    def print(self) -> None:
        """The prediction as a table on the terminal."""
        print_prediction(self)

    def __repr__(self) -> str:
        hidden = ("rates", "rates_near_dominant", "reasons")
        shown = {k: v for k, v in self.to_dict().items() if v is not None and k not in hidden}
        return "Prediction(" + ", ".join(f"{k}={_brief(v)}" for k, v in shown.items()) + ")"


def _brief(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, dict):
        likely = [(k, p) for k, p in sorted(value.items()) if p >= 0.005]
        if len(likely) > 16:
            return f"{likely[0][0]} to {likely[-1][0]} ({sum(p for _, p in likely):.0%})"
        return ", ".join(f"{k}: {p:.2f}" for k, p in likely)
    short = isinstance(value, float) or (isinstance(value, int) and value >= 10**15)
    return f"{float(value):.5g}" if short else str(value)
