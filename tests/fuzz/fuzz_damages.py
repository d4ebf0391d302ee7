"""Cases of damaged results: one file of a finished or cut-short folder is spoiled."""

from __future__ import annotations

import random

from tests.fuzz.fuzz_bases import ACTIONS
from tests.fuzz.fuzz_case import Case

__all__ = ["damage_case"]

# How often each is asked; pages take seconds to draw, audits to judge.
SHARES = {
    ("run", "compare"): 30, ("run", "report"): 3, ("run", "again"): 6, ("cut run", "again"): 12,
    ("learn", "again"): 5, ("cut learn", "again"): 10, ("sweep", "status"): 12,
    ("sweep", "report"): 3, ("sweep", "again"): 12, ("audit", "report"): 3, ("audit", "again"): 6,
    ("cut audit", "again"): 2, ("reproduce", "again"): 6,
}  # fmt: skip


def damage_case(chance: random.Random, *, cheap: bool = False) -> Case:
    """A base, what is asked of it, and one damage; `cheap`: of a run, and no page."""
    known = [(base, action) for base, actions in ACTIONS.items() for action in actions]
    if cheap:
        known = [one for one in known if "run" in one[0] and one[1] != "report"]
    base, action = chance.choices(known, [SHARES.get(one, 1) for one in known])[0]
    how = chance.choices(["delete", "empty", "halve", "flip", "replace"], [2, 2, 2, 4, 1])[0]
    damage = (base, action, how, chance.random(), chance.random())
    return Case(
        kind="damage",
        name=f"{base}: {how} file at {damage[3]:.3f}, {action}",
        argv=tuple(ACTIONS[base][action]),
        damage=damage,
        out=None if action in ("compare", "status") else "it",
    )
