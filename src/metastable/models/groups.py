"""Clusters of a text's tokens, followed through depth: which merge, when, and into what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from metastable.core import checks
from metastable.core.progress import Bar
from metastable.core.tables import Tabular
from metastable.flows import Trajectory
from metastable.measures import Points
from metastable.models.cutting import cut_state, density_clusters, own_labels
from metastable.models.depthwise import COSINE, count_changes

if TYPE_CHECKING:
    import pandas

HOW = ("linkage", "adaptive", "kernel", "hdbscan")
FREE = ("adaptive", "hdbscan")  # that know no scale: one cluster where nothing sets tokens apart
SHOWN = 4  # words of a cluster in a sentence


class Merge(NamedTuple):
    """Two clusters that became one: `others` of the cluster `other` came to `words` of `label`.

    They are one from `layer` on, the first state in which they are seen together; `label` is the
    cluster that lives on.
    """

    layer: float
    label: int
    other: int
    words: tuple[str, ...]
    others: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Groups(Tabular):
    """Clusters of n tokens in T states; see `group_tokens`.

    A label is one cluster through depth. Every token has one, a token on its own too.
    """

    times: np.ndarray  # (T,) layers
    labels: np.ndarray  # (T, n) from 0
    words: tuple[str, ...]  # n of them
    how: str
    thresholds: np.ndarray  # (T,) cosine of linkage, β of the density, NaN of HDBSCAN
    smallest: int = 2  # tokens of a cluster that counts as gathered
    clock: str = "layers"

    @cached_property
    def sizes(self) -> np.ndarray:
        """(T, n) tokens in the cluster of each token."""
        return np.array([np.bincount(row)[row] for row in self.labels])

    @cached_property
    def counts(self) -> np.ndarray:
        """(T,) clusters, those of one token too, as `depthwise` counts them."""
        return np.array([len(np.unique(row)) for row in self.labels])

    @cached_property
    def gathered(self) -> np.ndarray:
        """(T,) clusters of at least `smallest` tokens."""
        large = self.sizes >= self.smallest
        rows = zip(self.labels, large, strict=True)
        return np.array([len(np.unique(row[kept])) for row, kept in rows])

    @property
    def shares(self) -> np.ndarray:
        """(T,) share of the tokens in clusters of at least `smallest`."""
        return np.mean(self.sizes >= self.smallest, axis=1)

    @cached_property
    def changes(self) -> np.ndarray:
        """(T, 2) merges and splits since the state before, as `depthwise` counts them."""
        return np.array([(0, 0), *(count_changes(a, b) for a, b in pairwise(self.labels))])

    def merges(self) -> list[Merge]:
        """Every merge, in the order of layers: the edges of the merge tree, from leaf to root.

        Where m clusters, or parts of clusters, become one, these are m − 1 merges into the one
        whose label stays.
        """
        return [merge for state in range(1, len(self.times)) for merge in self._merges_at(state)]

    def _merges_at(self, state: int) -> list[Merge]:
        before, after = self.labels[state - 1], self.labels[state]
        pairs = np.unique(np.column_stack([after, before]), axis=0)
        merges = []
        for label in np.flatnonzero(np.bincount(pairs[:, 0]) > 1):
            old, sizes = np.unique(before[after == label], return_counts=True)
            # A cluster that leaves its old name to a larger part of it has a new one.
            kept = label if label in old else old[sizes.argmax()]
            sides = {each: self._words((after == label) & (before == each)) for each in old}
            for other in old[old != kept]:
                names = int(label), int(other), sides[kept], sides[other]
                merges.append(Merge(float(self.times[state]), *names))
        return merges

    def largest(self, count: int = 5, state: int = -1) -> list[tuple[str, ...]]:
        """Words of the `count` largest clusters of a state, in the order of the text.

        Those of at least `smallest` tokens alone; of equal ones first the one that is older.
        """
        checks.integer("count", count, 1)
        if not -len(self.times) <= state < len(self.times):
            raise ValueError(
                f"state must be one of {len(self.times)}, negative from the end; got {state}."
            )
        row = self.labels[state]
        names, sizes = np.unique(row, return_counts=True)
        order = np.argsort(-sizes, kind="stable")[:count]
        return [self._words(row == names[k]) for k in order if sizes[k] >= self.smallest]

    def _words(self, members: np.ndarray) -> tuple[str, ...]:
        return tuple(self.words[k] for k in np.flatnonzero(members))

    def to_dataframe(self) -> pandas.DataFrame:
        """A pandas table with one row a state.

        `clusters` counts single tokens too; `gathered` those of at least `smallest` tokens, in
        which the share `share` of the tokens is. `merges` and `splits` are since the state before.
        """
        import pandas

        columns = {"layer": self.times, "clusters": self.counts, "gathered": self.gathered}
        columns |= {"share": self.shares, "merges": self.changes[:, 0]}
        columns |= {"splits": self.changes[:, 1], "threshold": self.thresholds}
        return pandas.DataFrame(columns)

    @property
    def rule(self) -> str:
        """What makes tokens a cluster here, in a few words."""
        return {
            "linkage": f"chains of cosine ≥ {self.thresholds[0]:g}",
            "adaptive": "single linkage cut at its widest gap",
            "kernel": f"maxima of the kernel density at β = {self.thresholds[0]:.3g}",
            "hdbscan": "HDBSCAN",
        }[self.how]

    def sentence(self) -> str:
        """One sentence on whether the tokens cluster, when, and into what."""
        parts = [self._start()]
        if self._apart.any() and (self.counts > 1).any() and len(self.times) > 1:
            parts += [self._end(), self._turns()]
        return f"{_count(len(self.words), 'token')}: {'; '.join(filter(None, parts))}."

    @property
    def scale_free(self) -> bool:
        """Whether one cluster only says that nothing sets tokens apart, near or far."""
        return self.how in FREE

    @property
    def _apart(self) -> np.ndarray:
        """(T,) whether there are clusters; for a rule without scale one cluster is none."""
        some = self.gathered > 0
        return some & (self.counts > 1) if self.scale_free else some

    def _at(self, *states: int) -> str:
        unit = "layer" if self.clock == "layers" else "time"
        shown = " and ".join(f"{self.times[state]:g}" for state in states)
        return f"{unit}{'s' if len(states) > 1 else ''} {shown}"

    def _start(self) -> str:
        first = int(self._apart.argmax())
        if not self._apart[first] or first:
            when = f"until {self._at(first)}" if first else f"at {self._at(0)}"
            if not self._apart[first] and len(self.times) > 1:
                when = f"between {self._at(0, -1)}"
            if self.scale_free:
                return f"nothing sets any apart {when} ({self.rule})"
            if self.how == "linkage" and self.smallest == 2:
                return f"no two within cosine {self.thresholds[0]:g} {when}"
            least = "two" if self.smallest == 2 else self.smallest
            return f"no cluster of {least} or more {when} ({self.rule})"
        if self.counts[0] == 1:
            always = len(self.times) > 1 and (self.counts == 1).all()
            when = f"from {self._at(0)} to the end" if always else f"at {self._at(0)}"
            return f"all in one cluster {when} ({self.rule})"
        found = self.largest(len(self.words), 0)
        many = _count(len(found), "cluster")
        if all(len(set(words)) == 1 for words in found):
            return f"at {self._at(0)} only equal words stand together ({many}, {self.rule})"
        return f"{many} at {self._at(0)} already ({self.rule})"

    def _end(self) -> str:
        if self.counts[-1] == 1:
            first = int(np.flatnonzero(self.counts > 1)[-1]) + 1
            told = "nothing sets any apart" if self.scale_free else "all in one cluster"
            return f"{told} from {self._at(first)} on"
        if not self.gathered[-1]:
            return f"none is left from {self._at(int(np.flatnonzero(self.gathered)[-1]) + 1)} on"
        most, many = self.largest(1)[0], int(self.gathered[-1])
        rest = int(np.sum(self.sizes[-1] < self.smallest))
        text = f"{_count(many, 'cluster')} at {self._at(-1)}, {'the largest ' * (many > 1)}of "
        text += f"{len(most)} tokens ({_named(most)})"
        where = "alone" if self.smallest == 2 else f"in clusters of fewer than {self.smallest}"
        return text + (f", and {_count(rest, 'token')} {where}" if rest else "")

    def _turns(self) -> str:
        """When most merges were, and whether there were fewer clusters before the end."""
        if self.scale_free and not self._apart.all():
            return f"told apart in {self._apart.sum()} of {len(self.times)} states"
        merges, splits = self.changes.sum(axis=0)
        if not merges + splits:
            return "none merges or splits"
        if not self.gathered[-1]:
            return ""
        first, last = _densest(self.changes[:, 0])
        most = ", most" if self.changes[first + 1 : last + 1, 0].sum() < merges else ""
        text = f"{_count(merges, 'merge')}{most} between {self._at(first, last)}" if merges else ""
        fewest = len(self.times) - 1 - int(self.counts[::-1].argmin())
        # A token or two that step over a threshold and back are no story.
        if self.counts[-1] - self.counts[fewest] >= max(1, len(self.words) / 20):
            single = ", single tokens counted" if (self.sizes[[fewest, -1]] == 1).any() else ""
            text += f"{'; ' * bool(text)}fewest clusters at {self._at(fewest)} "
            return f"{text}({self.counts[fewest]}{single}), then splits into {self.counts[-1]}"
        return text + (f", and {_count(splits, 'split')}" if splits else "")

    def __repr__(self) -> str:
        return f"Groups({self.how}; {self.sentence()})"


def group_tokens(
    run: Trajectory,
    how: str = "linkage",
    *,
    cosine: float = COSINE,
    beta: float | None = None,
    smallest: int = 2,
    progress: bool | None = None,
) -> Groups:
    """Clusters of the tokens in every state of a trajectory, with labels that hold through depth.

    - "linkage": tokens joined by a chain of cosines of at least `cosine`, as `clusters` does.
    - "adaptive": the same chains, cut in each state where its merge heights have their largest
      relative gap. With h_1 ≤ … ≤ h_{n−1} the heights 1 − cos of single linkage, those below 0.01
      set to 0.01, k maximises h_{k+1}/h_k; the cut is at √(h_k h_{k+1}) if that ratio is at least
      2, and all tokens are one cluster (threshold −1) if not. The rule is ours. Of 100 independent
      uniform tokens, which have no clusters, it sees a gap in none of 300 draws for d ≥ 32, in a
      tenth for d = 8.
    - "kernel": maxima of the kernel density at `beta`, see `kernel_modes`; for a model, give the
      median effective β of its heads, `median(head.beta for head in head_matrices(model))`.
    - "hdbscan": scikit-learn's HDBSCAN of the distances 1 − cos, clusters of at least `smallest`;
      one cluster is allowed, and tokens it calls noise are clusters of their own.

    "adaptive" and "hdbscan" know no scale: where nothing sets tokens apart they are one cluster,
    collapsed or not.

    `smallest` is what counts as gathered in shares and sentences. A cluster keeps the label of the
    cluster before it with which it shares most tokens, the pair that shares most choosing first;
    what is left over has a new label. Labels of the first state are in the order of size.

    Costs O(n²d) a state, "kernel" some hundred times as much.

    >>> import numpy as np
    >>> angles = np.array([[0.0, 1.0, 3.0], [0.0, 0.1, 3.0]])
    >>> states = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    >>> groups = group_tokens(Trajectory.from_states(states, words=["a", "b", "c"]))
    >>> groups.merges()
    [Merge(layer=1.0, label=0, other=1, words=('a',), others=('b',))]
    """
    checks.instance("run", run, Trajectory, "a trajectory, as capture(...) gives")
    if how not in HOW:
        raise ValueError(f"how must be one of {', '.join(HOW)}; got {how!r}.")
    if not -1 < checks.real("cosine", cosine) < 1:
        raise ValueError(f"cosine must lie between −1 and 1; got {cosine}: 0.99 is usual.")
    checks.integer("smallest", smallest, 2, "A token alone is no cluster.")
    if how == "kernel" and beta is None:
        raise ValueError(
            "beta must be a number for how='kernel'; got None: give the median of head.beta over "
            "head_matrices(model)."
        )
    if how != "kernel" and beta is not None:
        raise ValueError(f"beta must be left out for how={how!r}; got {beta}: use how='kernel'.")
    if how == "hdbscan":
        density_clusters()
    for frame in run.frames:
        checks.defined_for("group_tokens", frame, Points)
    counts = {frame.count for frame in run.frames}
    if len(counts) > 1:
        raise ValueError(
            f"run must have the same tokens in every state; got {min(counts)} to {max(counts)}: "
            "run without merging."
        )
    tokens = counts.pop()
    if how in FREE:
        checks.fits_memory(f"{tokens} tokens by {how}", 3.0 * tokens**2, "use how='linkage'")
    rows, thresholds = [], []
    with Bar("clusters", progress) as bar:
        for k, frame in enumerate(run.frames):
            row, threshold = cut_state(frame.directions(), how, cosine, beta, smallest)
            rows.append(own_labels(row))
            thresholds.append(threshold)
            bar.update((k + 1) / len(run.frames))
    words = run.statistics.get("words") or [str(number) for number in range(tokens)]
    return Groups(
        times=np.asarray(run.times, float),
        labels=follow_labels(rows),
        words=tuple(words),
        how=how,
        thresholds=np.array(thresholds),
        smallest=smallest,
        clock=run.clock,
    )


def follow_labels(partitions: Sequence[np.ndarray]) -> np.ndarray:
    """Labels (T, n) of T partitions of n tokens, renamed so that a cluster keeps its name.

    >>> follow_labels([np.array([0, 0, 0, 1, 1]), np.array([1, 1, 0, 0, 0])]).tolist()
    [[0, 0, 0, 1, 1], [0, 0, 1, 1, 1]]
    """
    start, *later = [_renumber(partition) for partition in partitions]
    sizes = np.bincount(start)
    rows, fresh = [np.argsort(np.argsort(-sizes, kind="stable"))[start]], len(sizes)
    for partition in later:
        pairs = np.column_stack([rows[-1], partition])
        pairs, shared = np.unique(pairs, axis=0, return_counts=True)
        names = np.full(partition.max() + 1, -1)
        taken: set[int] = set()
        for old, new in pairs[np.argsort(-shared, kind="stable")].tolist():
            if names[new] < 0 and old not in taken:
                names[new] = old
                taken.add(old)
        left = np.flatnonzero(names < 0)
        names[left] = fresh + np.arange(len(left))
        fresh += len(left)
        rows.append(names[partition])
    return np.array(rows)


def _renumber(labels: np.ndarray) -> np.ndarray:
    """The same clusters numbered in the order of their first tokens."""
    _, first, labels = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[labels]


def _densest(merges: np.ndarray) -> tuple[int, int]:
    """First and last state of the shortest stretch with more than half of the merges."""
    summed = np.cumsum(merges)
    for length in range(1, len(merges)):
        inside = summed[length:] - summed[:-length]
        if 2 * inside.max() > summed[-1]:
            first = int(inside.argmax())
            return first, first + length
    return 0, len(merges) - 1


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _named(words: Sequence[str]) -> str:
    """Different words of a cluster, the commonest first; those of signs alone in quotes."""
    different = [word for word, _ in Counter(words).most_common()]
    shown = [f"“{word}”" if set(word) <= set(",;.:()…") else word for word in different[:SHOWN]]
    return ", ".join([*shown, *(["…"] if len(different) > SHOWN else [])])
