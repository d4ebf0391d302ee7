"""The field on S²: cost and error against the number of tokens and β."""

from __future__ import annotations

from benchmarks import draw as figures
from benchmarks import lowdim


def measure(quick: bool = False) -> dict:
    largest = 10**5 if quick else 10**6
    return lowdim.measure(
        3, betas=[9.0, 25.0], peer_limit=8192 if quick else 65536, largest=largest
    )


def draw(result: dict, path) -> None:
    figures.costs(result, path, "Self-attention on S²")
