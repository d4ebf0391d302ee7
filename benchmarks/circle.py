"""The field on the circle: cost and error against the number of tokens and β."""

from __future__ import annotations

from benchmarks import draw as figures
from benchmarks import lowdim


def measure(quick: bool = False) -> dict:
    largest = 10**5 if quick else 10**7
    return lowdim.measure(
        2, betas=[9.0, 100.0], peer_limit=8192 if quick else 65536, largest=largest
    )


def draw(result: dict, path) -> None:
    figures.costs(result, path, "Self-attention on the circle")
