"""Which runs texts share: suffix arrays and classes of equal runs, by prefix doubling."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Numbers = NDArray[np.int64]

BORDER = chr(0x10FFFF)  # between documents; no text and no id of a vocabulary is it


def suffix_array(codes: ArrayLike) -> Numbers:
    """Starts of all suffixes of a sequence of whole numbers, in lexicographic order.

    Prefix doubling (Manber and Myers, SIAM J. Comput. 22, 1993): the ranks r_h by the first h
    symbols give those by 2h as ranks of pairs (r_h(i), r_h(i + h)), with −1 past the end. Cost:
    log₂ n sorts at most, O(n log² n).

    >>> suffix_array([*b"banana"]).tolist()
    [5, 3, 1, 0, 4, 2]
    """
    rank, reach = _rank(np.asarray(codes)), 1
    while len(rank) and rank.max() < len(rank) - 1:
        rank, reach = _double(rank, reach), 2 * reach
    return np.argsort(rank)


def run_classes(codes: ArrayLike, length: int) -> Numbers:
    """A number for each run of `length` symbols, by its start: equal if and only if runs are.

    Doubling as in `suffix_array` up to h ≤ length < 2h; a run is then the pair of its first and its
    last h symbols. Cost: log₂ length sorts.

    >>> run_classes([*b"abcabcab"], 3).tolist()
    [0, 1, 2, 0, 1, 2]
    """
    rank, reach = _rank(np.asarray(codes)), 1
    runs = len(rank) - length + 1
    if runs < 1:
        return np.zeros(0, np.int64)
    while 2 * reach <= length:
        rank, reach = _double(rank, reach), 2 * reach
    return _rank(rank[:runs] * (rank.max() + 1) + rank[length - reach :][:runs])


def _rank(values: NDArray) -> Numbers:
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def _double(rank: Numbers, reach: int) -> Numbers:
    after = np.zeros(len(rank), np.int64)
    after[: max(len(rank) - reach, 0)] = rank[reach:] + 1
    return _rank(rank * (len(rank) + 1) + after)


def code_points(text: str) -> Numbers:
    """Characters as numbers."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.int64)


class Index:
    """Texts under one suffix array: where a string stands, and in which text.

    >>> index = Index(["banana", "bandana"])
    >>> index.positions("ana").tolist(), index.owner[index.positions("ban")].tolist()
    ([1, 3, 11], [0, 1])
    """

    def __init__(self, texts: Sequence[str]):
        self.text = "".join(text + BORDER for text in texts)
        self.owner = np.repeat(np.arange(len(texts)), [len(text) + 1 for text in texts])
        self._order = suffix_array(code_points(self.text)).tolist()

    def positions(self, string: str) -> Numbers:
        """Starts of a string in the joined text, in order."""
        size, text = len(string), self.text
        key = lambda start: text[start : start + size]
        first = bisect_left(self._order, string, key=key)
        last = bisect_right(self._order, string, first, key=key)
        return np.sort(np.array(self._order[first:last], np.int64))

    def matches(self, text: str, least: int) -> list[tuple[int, int, int]]:
        """Runs of a text, at least `least` long, that stand here: (start, start here, length).

        From left to right, each as long as can be, none overlapping.
        """
        found, k = [], 0
        while k + least <= len(text):
            size, place = 0, -1
            for start in self.positions(text[k : k + least]).tolist():
                own = least
                while k + own < len(text) and text[k + own] == self.text[start + own]:
                    own += 1
                if own > size:
                    size, place = own, start
            if size:
                found.append((k, place, size))
            k += size or 1
        return found
