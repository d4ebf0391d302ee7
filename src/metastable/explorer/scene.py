"""What the page sees of one moment: places, colors, and the numbers drawn beside the sphere."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from metastable.explorer.packet import pack
from metastable.fields import Field
from metastable.fields.field import Places
from metastable.fields.sums import Sum
from metastable.flows import Frame
from metastable.flows.mergers import log_difference
from metastable.measures import Points
from metastable.observe.attention import attention
from metastable.observe.clusters import clusters
from metastable.observe.energy import energy
from metastable.observe.modes import amplitudes
from metastable.observe.similarity import similarity
from metastable.observe.summary import attention_of, energy_form

BINS = 40
SAMPLE = 500  # tokens whose pairs make the histogram
PAIRS = 2000  # so many tokens have their energy summed pair by pair
MAPPED = 96  # tokens of an attention map
REST = 3.0  # looking takes at most one part in 1 + REST of the time


class Scene:
    """Turns moments of one run into packets.

    Places and speeds go into every packet. What costs more (clusters, energy, modes, histogram,
    attention) is looked at in every frame of a small run; in a large one as often as it takes a
    quarter of the time, and colors stay in between.
    """

    def __init__(self, field: Field | None, sum: Sum | None = None, degrees: int = 8):
        self.field, self.sum, self.degrees = field, sum, degrees
        self.head = attention_of(field) if field is not None else None
        self.index = 0
        self.colors = np.zeros(0, int)
        self.count: int | None = None
        self.names: np.ndarray | None = None
        self.before: Frame | None = None
        self.looks, self.cost, self.looked = 0, 0.0, -math.inf

    def packet(
        self, moment: Frame, *, full: bool = False, shown: np.ndarray | None = None
    ) -> bytes:
        """The next frame; `full` asks for every number whatever it costs.

        `shown` are other places to draw the tokens at.
        """
        x = np.asarray(moment.measure.points)
        scale = 1.0 if moment.measure.on_sphere else max(1.0, float(np.abs(x).max()))
        places = _three(x / scale if shown is None else shown)
        arrays = {"positions": places, "cluster": np.zeros(0), "speed": self._speed(moment)}
        header = {"kind": "frame", "index": self.index, **_clock(moment.log_time), "scale": scale}
        began = time.perf_counter()
        self._carry_colors(moment)
        if full or began - self.looked > REST * self.cost:
            numbers, more = self._look(moment.measure)
            header |= numbers
            arrays |= more
            self.looked = time.perf_counter()
            self.looks += 1
            # The first looks may have compiled something; they say nothing of the next.
            self.cost = self.looked - began if self.looks > 2 else 0.0
        arrays["cluster"] = self.colors.astype("u2")
        if moment.names is not None:
            arrays["mass"] = np.asarray(moment.measure.weights, "f4")
        self.before = moment
        self.index += 1
        return pack(header | {"clusters": self.count}, arrays)

    def _look(self, tokens: Points) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        partition = clusters(tokens, None if self.head is None else float(self.head.beta))
        self.colors = recolored(self.colors, partition.labels)
        self.count = partition.count
        numbers: dict[str, Any] = {"energy": self._energy(tokens), "amplitudes": None}
        if tokens.on_sphere:
            numbers["amplitudes"] = [float(a) for a in amplitudes(tokens, self.degrees)]
        counts = similarity(_some(tokens, SAMPLE), bins=BINS).histogram
        numbers["histogram"] = [float(f"{share:.4g}") for share in counts]
        attends = self.head is not None and tokens.on_sphere
        return numbers, {"attention": self._attention(tokens)} if attends else {}

    def _attention(self, tokens: Points) -> np.ndarray:
        """Where some tokens look, sorted by color; 255 is the largest entry."""
        assert self.head is not None
        few = _some(tokens, MAPPED, np.argsort(self.colors, kind="stable"))
        head, m = self.head, few.count
        # Tokens without mass fill it up to one size, and so to one compilation.
        pad = lambda a: np.pad(a, [(0, MAPPED - m)] + [(0, 0)] * (a.ndim - 1), mode="edge")
        mass = np.pad(np.asarray(few.weights), (0, MAPPED - m))
        filled = Points.unchecked(pad(few.points), mass, pad(few.positions))
        matrix = attention(filled, head.beta, head.query, head.key, head.causal)
        matrix = np.asarray(matrix)[:m, :m]
        return np.round(255 * matrix / matrix.max()).astype("u1")

    def _energy(self, tokens: Points) -> float | None:
        """The energy of a run's report; of many tokens through the sum that moves them."""
        if self.head is None or not tokens.on_sphere:
            return None
        beta, form = float(self.head.beta), energy_form(self.head)
        if tokens.count <= PAIRS:
            value = float(energy(tokens, beta, form, scaled=form is None and beta > 0))
            return value if math.isfinite(value) else None
        plain = self.head.query is None and self.head.key is None and not self.head.position
        if form is not None or beta == 0 or self.sum is None or not plain:
            return None
        here = Places(tokens.points, tokens.positions, own=True)
        log_rows = np.asarray(self.sum.attend(self.head.kernel(tokens, here), tokens.points)[0])
        return float(np.asarray(tokens.weights) @ np.exp(log_rows - beta))

    def _speed(self, moment: Frame) -> np.ndarray:
        """Distance since the frame before, per unit of time; a merged token's from one part."""
        x = np.asarray(moment.measure.points)
        before = self.before
        if before is None:
            return np.zeros(len(x), "f4")
        old = np.asarray(before.measure.points)
        if len(old) != len(x):
            old = old[self._origin(moment)]
        log_step = log_difference(moment.log_time, before.log_time)
        distance = np.linalg.norm(x - old, axis=1)
        with np.errstate(over="ignore", under="ignore", divide="ignore"):
            speed = np.exp(np.log(distance) - log_step) if log_step > -math.inf else 0 * distance
        return np.minimum(speed, 3e38).astype("f4")

    def _origin(self, moment: Frame) -> np.ndarray:
        """For each row now, a row of the frame before that is part of it."""
        assert moment.names is not None and self.names is not None
        known = {int(name): k for k, name in enumerate(self.names)}
        x, old = np.asarray(moment.measure.points), np.asarray(self.before.measure.points)  # type: ignore[union-attr]
        rows = [known.get(int(name), -1) for name in moment.names]
        # A merged token stands where its parts met: the nearest old row is one of them.
        nearest = lambda i: int(np.argmax(old @ x[i]))
        return np.array([k if k >= 0 else nearest(i) for i, k in enumerate(rows)], int)

    def _carry_colors(self, moment: Frame) -> None:
        if len(self.colors) != moment.measure.count:
            if len(self.colors) and moment.names is not None:
                self.colors = self.colors[self._origin(moment)]
            else:
                self.colors = np.zeros(moment.measure.count, int)
        self.names = moment.names


def recolored(old: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Labels renumbered so that each cluster keeps the color most of its tokens had.

    >>> recolored(np.array([0, 0, 1, 1]), np.array([1, 1, 1, 0])).tolist()
    [0, 0, 0, 1]
    """
    labels = np.where(labels < 0, labels.max() + 1, labels)
    new = np.full(int(labels.max()) + 1, -1)
    pairs, weight = np.unique(np.stack([labels, old]), axis=1, return_counts=True)
    taken: set[int] = set()
    for k in np.argsort(-weight, kind="stable"):
        label, color = int(pairs[0, k]), int(pairs[1, k])
        if new[label] < 0 and color not in taken:
            new[label] = color
            taken.add(color)
    free = (color for color in range(2 * len(new) + len(taken) + 1) if color not in taken)
    for label in np.flatnonzero(new < 0):
        new[label] = next(free)
    return new[labels]


def _some(tokens: Points, most: int, order: np.ndarray | None = None) -> Points:
    """At most so many tokens, evenly picked along an order."""
    order = np.arange(tokens.count) if order is None else order
    if len(order) > most:
        order = order[np.linspace(0, len(order) - 1, most).astype(int)]
    x, w = np.asarray(tokens.points)[order], np.asarray(tokens.weights)[order]
    return Points.unchecked(x, w, np.asarray(tokens.positions)[order], on_sphere=tokens.on_sphere)


def _three(x: np.ndarray) -> np.ndarray:
    """The first three coordinates, of fewer with zeros."""
    return np.pad(x[:, :3], ((0, 0), (0, max(0, 3 - x.shape[1])))).astype("f4")


def _clock(log_time: float) -> dict[str, Any]:
    time = math.exp(log_time) if log_time < 709 else None
    return {"time": time, "log10_time": log_time / math.log(10) if log_time > -math.inf else None}
