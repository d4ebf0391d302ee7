"""Scores of one item: from ids, texts and log-probabilities to numbers.

Ids are sequences of integers (tokens, characters, pixels). `EVIDENCE` says which way each score
points: +1 where a larger value speaks against the null, −1 where a smaller one does.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from itertools import takewhile

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ids = Sequence[int] | NDArray[np.integer]

EVIDENCE: dict[str, float] = {
    **dict.fromkeys("lira rmia combined".split(), 1),
    **dict.fromkeys("trajectory slope".split(), -1),
    **dict.fromkeys("near exact common_run min_k min_k_pp extract_p compression".split(), 1),
    **dict.fromkeys("foresight coverage best_coverage".split(), 1),
    **dict.fromkeys("hamming edit squared_error nll zlib_ratio reference_ratio".split(), -1),
}

WORDS = {
    "near": "near-verbatim",
    "hamming": "share of wrong tokens",
    "edit": "edit distance, share of the passage",
    "squared_error": "mean squared error",
    "nll": "mean −log p",
    "min_k": "Min-K%",
    "min_k_pp": "Min-K%++",
    "zlib_ratio": "−log p over zlib",
    "reference_ratio": "−log p over that of a reference",
    "lira": "likelihood ratio to references (LiRA)",
    "rmia": "items dominated, by references (RMIA)",
    "trajectory": "mean −log p over checkpoints",
    "slope": "slope of −log p over checkpoints",
    "combined": "scores combined (dataset inference)",
    "foresight": "share of the next characters foreseen",
    "coverage": "share of the passage in samples, runs of 4",
    "best_coverage": "share of the passage in the best sample, runs of 12",
}


def score_in_words(score: str) -> str:
    """The name of a score as readers meet it.

    >>> score_in_words("nll")
    'mean −log p'
    """
    return WORDS.get(score, score)


def exact(target: Ids, output: Ids) -> bool:
    """Whether the output is the target, place by place; a longer output must begin with it.

    >>> exact([1, 2, 3], [1, 2, 3, 9]), exact([1, 2, 3], [1, 2])
    (True, False)
    """
    return hamming(target, output) == 0.0


def hamming(target: Ids, output: Ids) -> float:
    """Share of the target's places where the output holds something else, or nothing.

    >>> hamming([1, 2, 3, 4], [1, 9, 3])
    0.5
    """
    a, b = _ids(target, output)
    b = b[: len(a)]
    return 1.0 - float(np.sum(a[: len(b)] == b)) / len(a)


def edit(target: Ids, output: Ids) -> float:
    """Levenshtein distance over the longer length, from 0 (equal) to 1.

    >>> round(edit([*b"kitten"], [*b"sitting"]), 4)
    0.4286
    """
    a, b = _ids(target, output)
    places = np.arange(len(b) + 1)
    row = places
    for k, symbol in enumerate(a):
        step = np.concatenate([[k + 1], np.minimum(row[1:] + 1, row[:-1] + (b != symbol))])
        # An insertion costs one for each place passed: a running minimum, once slopes are removed.
        row = np.minimum.accumulate(step - places) + places
    return float(row[-1]) / max(len(a), len(b))


def common_run(target: Ids, output: Ids) -> float:
    """Length of the longest run of ids that stands in both, over the target's length.

    >>> common_run([*b"the state of the union"], [*b"state of things"]) * 22
    11.0
    """
    a, b = _ids(target, output)
    runs, longest = np.zeros(len(b) + 1, int), 0
    for symbol in a:
        runs = np.concatenate([[0], np.where(b == symbol, runs[:-1] + 1, 0)])
        longest = max(longest, int(runs.max()))
    return longest / len(a)


def foresight(target: str, output: str) -> float:
    """Share of the target that the output begins with, spaces before either aside.

    >>> foresight(" of the union", "of thee") * 12
    6.0
    """
    wanted, told = target.lstrip(), output.lstrip()
    right = takewhile(lambda pair: pair[0] == pair[1], zip(wanted, told, strict=False))
    return sum(1 for _ in right) / max(len(wanted), 1)


def coverage(target: str, output: str, run: int) -> float:
    """Share of the target's characters inside runs of at least `run` that the output has too.

    The n-gram coverage of Hallinan et al. (arXiv:2508.09603), there of tokens: text that was seen
    comes back in pieces long before it comes back whole. A target shorter than `run` is one run.

    >>> round(coverage("the state of the union", "a state of mind", run=8) * 22, 6)
    10.0
    """
    n = min(run, len(target))
    known = {output[k : k + n] for k in range(len(output) - n + 1)}
    covered = np.zeros(len(target), bool)
    for k in range(len(target) - n + 1):
        covered[k : k + n] |= target[k : k + n] in known
    return float(np.mean(covered))


def squared_error(target: ArrayLike, output: ArrayLike) -> float:
    """Mean squared difference of two images of one shape.

    >>> squared_error([[0.0, 1.0]], [[0.0, 0.5]])
    0.125
    """
    a, b = np.asarray(target, float), np.asarray(output, float)
    if a.shape != b.shape or a.size == 0:
        raise ValueError(
            f"target and output must be images of one shape; got {a.shape} and {b.shape}."
        )
    return float(np.mean((a - b) ** 2))


def nll(logp: ArrayLike) -> float:
    """Mean of −log p(x_t | x_{<t}) over the item's tokens, in nats.

    >>> nll([-1.0, -3.0])
    2.0
    """
    return -float(np.mean(_logs(logp)))


def min_k(logp: ArrayLike, share: float = 0.2) -> float:
    """Mean log-probability of the least likely `share` of the tokens (Min-K%, arXiv:2310.16789).

    Text that was seen has few surprises, so that even its rarest tokens are likely.

    >>> min_k([-1.0, -9.0, -2.0, -3.0, -7.0], share=0.4)
    -8.0
    """
    return _lowest(_logs(logp), share)


def min_k_pp(logp: ArrayLike, mean: ArrayLike, std: ArrayLike, share: float = 0.2) -> float:
    """The same after each place is standardised: Min-K%++ (arXiv:2404.02936).

    (log p(x_t) − μ_t) / σ_t, with μ_t and σ_t the mean and deviation of log p(z) when z follows
    the model's own law at place t: how far x_t stands above what the model expects of itself.

    >>> min_k_pp([-1.0, -2.0], mean=[-2.0, -2.0], std=[0.5, 1.0], share=1.0)
    1.0
    """
    logs, mu, sigma = _logs(logp), np.asarray(mean, float), np.asarray(std, float)
    # Where the model is certain of one token σ is 0, and so is the numerator if it came.
    return _lowest((logs - mu) / np.maximum(sigma, 1e-6), share)


def zlib_ratio(nll: float, text: str | bytes) -> float:
    """`nll` over the nats per character that zlib needs for the same text (arXiv:2012.07805).

    Tells what a model has learnt by heart from what is easy for anyone. Deflate without header, so
    that short texts are not ruled by a constant.

    >>> round(zlib_ratio(2.0, "abcdefgh"), 3)
    0.289
    """
    data = text.encode() if isinstance(text, str) else text
    if not data:
        raise ValueError("text must not be empty; got an empty one: drop the item.")
    squeezed = zlib.compress(data, level=9, wbits=-15)
    return nll / (8 * math.log(2) * len(squeezed) / len(text))


def reference_ratio(nll: float, reference: float) -> float:
    """`nll` under M over `nll` under a model that has not seen the item.

    >>> reference_ratio(0.5, 2.0)
    0.25
    """
    return nll / reference


def extractability(logp: ArrayLike, draws: int) -> float:
    """Chance that one of `draws` samples is the item: 1 − (1 − p_z)^n with p_z = exp Σ log p.

    An item is (n, p)-extractable where it is at least p (Hayes et al., arXiv:2410.19482).

    >>> round(extractability([-1.0, -2.0], draws=100), 4)
    0.9939
    """
    if draws < 1:
        raise ValueError(f"draws must be >= 1; got {draws}.")
    total = float(np.sum(_logs(logp)))
    return 1.0 if total >= 0 else -math.expm1(draws * math.log1p(-math.exp(total)))


def compression(length: int, shortest: int | None) -> float:
    """Tokens of the item per token of the shortest prompt that elicits it (arXiv:2404.15146).

    Zero where no prompt was found: a search that ended at its cap has found no ratio. Above 1 the
    prompt is shorter than the item.

    >>> compression(48, 12), compression(48, None)
    (4.0, 0.0)
    """
    return 0.0 if shortest is None else length / shortest


def _ids(target: Ids, output: Ids) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.asarray(target), np.asarray(output)
    if a.ndim != 1 or len(a) == 0 or b.ndim != 1:
        raise ValueError(
            "target and output must be sequences of ids, the target not empty; "
            f"got shapes {a.shape} and {b.shape}."
        )
    return a, b


def _logs(logp: ArrayLike) -> np.ndarray:
    logs = np.asarray(logp, float)
    if logs.ndim != 1 or len(logs) == 0 or np.isnan(logs).any() or (logs > 1e-6).any():
        raise ValueError(
            "logp must be log-probabilities of one item's tokens, at least one and none above 0; "
            f"got shape {logs.shape}, largest {np.max(logs, initial=-np.inf):g}."
        )
    return logs


def _lowest(values: np.ndarray, share: float) -> float:
    if not 0 < share <= 1:
        raise ValueError(f"share must lie in (0, 1]; got {share}.")
    kept = max(1, int(share * len(values)))
    return float(np.mean(np.sort(values)[:kept]))
