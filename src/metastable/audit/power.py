"""Power before the fact: what an audit of this size can see, and how large it must be.

The level of one question is the audit's level over the two findings and over the questions of its
family: the worst case of Holm's steps, so that true power is no less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from scipy import optimize, stats

from metastable.core import checks

POWER = 0.8
SIZES = (10, 20, 50, 100, 200, 500, 1000)
FINDINGS = 2  # trained on, reproduces: the level holds for both together


def area_power(area: float, protected: int, control: int, level: float) -> float:
    """Power of the one-sided permutation test of means, for evidence that is normal in both sets.

    A shift of δ deviations gives the area Φ(δ/√2); the permutation test has the power of Student's
    (Hoeffding, Ann. Math. Stat. 23, 1952): P[t(δ√(nm/(n+m)), n + m − 2) > t_{1−α}]. Validity: many
    relabellings, and evidence without far outliers; those add power where they are members.

    >>> round(area_power(0.5, 50, 50, 0.05), 6)
    0.05
    """
    shift = math.sqrt(2) * float(stats.norm.ppf(area))
    freedom = protected + control - 2
    center = shift * math.sqrt(protected * control / (protected + control))
    # SciPy's noncentral t loses its tail for far centers, where the normal law is exact enough.
    critical = float(stats.t.isf(level, freedom))
    if center > critical + 8:
        return 1.0
    return float(stats.nct.sf(critical, freedom, center))


def detectable_area(protected: int, control: int, level: float, power: float = POWER) -> float:
    """The smallest area under the curve that is found with this power; 1 where none is.

    >>> round(detectable_area(100, 100, 0.001), 2)
    0.65
    """
    missing = lambda area: area_power(area, protected, control, level) - power
    most = 1 - 1e-9
    root = lambda: optimize.brentq(missing, 0.5, most)
    return float(root()) if missing(most) > 0 else 1.0  # pyright: ignore[reportArgumentType]


def fewest_hits(protected: int, control: int, level: float) -> int | None:
    """Protected documents that must come out, where no control does, for p ≤ level.

    Of C(n + m, k) relabellings of k hits C(n, k) have them all among the protected: Fisher's test.

    >>> fewest_hits(20, 20, 0.01), fewest_hits(2, 2, 0.01)
    (7, None)
    """
    chance = 1.0
    for k in range(protected):
        chance *= (protected - k) / (protected + control - k)
        if chance <= level:
            return k + 1
    return None


def detectable_rate(protected: int, control: int, level: float, power: float = POWER) -> float:
    """The smallest share of protected documents that come out which is found with this power.

    Where no control comes out: P[Bin(n, r) ≥ k] = power with k of `fewest_hits`; 1 where none is.

    >>> round(detectable_rate(100, 100, 0.005), 3)
    0.101
    """
    hits = fewest_hits(protected, control, level)
    if hits is None:
        return 1.0
    return float(stats.beta.ppf(power, hits, protected - hits + 1))


@dataclass(frozen=True)
class Power:
    """What this many documents can show at the level of one question of each family."""

    protected: int
    control: int
    level: float  # of the whole audit
    likelihood: int  # questions
    prompts: int

    def question_level(self, count: int) -> float:
        return self.level / (FINDINGS * max(count, 1))

    def to_dict(self) -> dict[str, Any]:
        """Smallest effects seen with a power of `power`, by finding."""
        sizes = (self.protected, self.control)
        area = detectable_area(*sizes, self.question_level(self.likelihood))
        rate = detectable_rate(*sizes, self.question_level(self.prompts))
        return {
            "power": POWER,
            "documents": list(sizes),
            "level": self.level,
            "auc": area,
            # Known by heart, a member stands above every control: AUC = (1 + ρ)/2.
            "share_by_heart": 2 * area - 1,
            "rate": rate if self.prompts else None,
        }

    def table(self) -> list[dict[str, Any]]:
        """The same for other numbers of documents in each set."""
        rows = []
        for size in sorted({*SIZES, self.protected}):
            told = Power(size, size, self.level, self.likelihood, self.prompts).to_dict()
            rows.append(
                {"documents": size} | {k: told[k] for k in ("auc", "share_by_heart", "rate")}
            )
        return rows

    def documents_for(self, area: float, most: int = 10**6) -> int:
        """Documents in each set that show an area with 80 % power."""
        if not 0.5 < checks.real("area", area) < 1:
            raise ValueError(f"area must lie between 0.5 and 1; got {area}: such as 0.65.")
        level, low, high = self.question_level(self.likelihood), 2, 4
        while area_power(area, high, high, level) < POWER:
            low, high = high, 2 * high
            if high > most:
                raise ValueError(f"area {area:g} needs more than {most} documents: ask for more.")
        while high - low > 1:
            middle = (low + high) // 2
            enough = area_power(area, middle, middle, level) >= POWER
            low, high = (low, middle) if enough else (middle, high)
        return high
