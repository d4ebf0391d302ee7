"""Phase oscillators that see their neighbours on a graph."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from metastable.core import checks
from metastable.core.numerics import jnp
from metastable.fields.field import Field, Places, show_value
from metastable.fields.pairwise import turning
from metastable.fields.sums import Sum
from metastable.measures import Points

GRAPHS = ("complete", "ring", "path", "star")


class KuramotoNetwork(Field):
    """Kuramoto oscillators on an undirected graph, and their version on the sphere.

    ẋ_i = P_{x_i}(K Σ_{j~i} w_j x_j) + ω_i J x_i,  J the quarter turn;
    on the circle θ̇_i = ω_i + K Σ_{j~i} w_j sin(θ_j − θ_i).

    Source: Dörfler and Bullo, Automatica 50 (2014), a survey; on spheres Markdahl, Thunberg,
    Gonçalves, IEEE Trans. Automatic Control 63 (2018). Masses sum to 1, so that the complete graph
    is `Kuramoto`; σ Σ_j A_ij sin(θ_j − θ_i) with equal weights has K = nσ.

    - `edges`: pairs of tokens [i, j], numbered from 0, each once; or the name of a graph on all
      tokens in their order: "complete", "ring" (each with the `reach` next on both sides), "path",
      "star" (around the first token).
    - `frequencies`: ω_i, one a token, on the circle only.

    O(edges), O(n) for the complete graph. Without frequencies it climbs K/2 Σ_{i~j} w_i w_j
    ⟨x_i,x_j⟩ over ordered pairs; near synchrony differences decay by the Laplacian of the graph,
    the slowest at K times its spectral gap: `metastable.theory.networks`.

    Good values: a ring of n tokens has K = n for unit couplings; it may end in a twisted state.

    >>> import metastable as ms
    >>> pair = ms.Points([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    >>> KuramotoNetwork([[0, 1]], coupling=3.0).velocity(pair).tolist()
    [[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]
    """

    coupling: Float[Array, ""]
    frequencies: Float[Array, " n"] | None
    edges: tuple[tuple[int, int], ...] | str = eqx.field(static=True)
    reach: int = eqx.field(static=True)

    def __init__(
        self,
        edges: Any,
        coupling: Any = 1.0,
        frequencies: Any = None,
        reach: int = 1,
    ):
        if isinstance(edges, str):
            if edges not in GRAPHS:
                raise ValueError(f"edges must be pairs or one of {', '.join(GRAPHS)}; got {edges}.")
            self.edges = edges
        else:
            self.edges = _checked(edges)
        self.coupling = jnp.asarray(checks.real("coupling", coupling), jnp.float64)
        if frequencies is not None:
            checks.finite_array("frequencies", frequencies, 1)
        given = None if frequencies is None else jnp.asarray(frequencies, jnp.float64)
        self.frequencies = given
        self.reach = checks.integer("reach", reach, 1)

    clock: ClassVar[str] = "Kuramoto"

    def pairs(self, count: int) -> np.ndarray:
        """The edges of the graph on so many tokens, each once, (m, 2)."""
        if isinstance(self.edges, str):
            return named_edges(self.edges, count, self.reach)
        pairs = np.array(self.edges, int).reshape(-1, 2)
        if pairs.size and pairs.max() >= count:
            raise ValueError(
                f"edges must join tokens 0 to {count - 1}; got token {pairs.max()}: number them "
                "from 0."
            )
        return pairs

    def drift(self, measure: Points, at: Places, t: Any, sum: Sum) -> Float[Array, "m d"]:
        if not at.own:
            raise ValueError(
                "a graph joins its own tokens only; ask for the velocity there: leave at unset."
            )
        x, masses = measure.points, measure.weights[:, None] * measure.points
        if self.edges == "complete":
            pull = jnp.broadcast_to(masses.sum(axis=0), x.shape)
        else:
            first, second = self.pairs(measure.count).T
            pull = jnp.zeros_like(x).at[first].add(masses[second]).at[second].add(masses[first])
        return self.coupling * pull + turning(self.frequencies, measure, at)

    def __repr__(self) -> str:
        graph = repr(self.edges) if isinstance(self.edges, str) else f"<{len(self.edges)} edges>"
        shown = [graph, f"coupling={show_value(self.coupling)}"]
        given = self.frequencies
        shown += [] if given is None else [f"frequencies={show_value(given)}"]
        shown += [f"reach={self.reach}"] if self.reach > 1 else []
        return f"KuramotoNetwork({', '.join(shown)})"


def named_edges(graph: str, count: int, reach: int = 1) -> np.ndarray:
    """Edges (m, 2) of a complete graph, ring, path or star on `count` tokens.

    >>> named_edges("ring", 4).tolist()
    [[0, 1], [0, 3], [1, 2], [2, 3]]
    """
    i = np.arange(count)
    if graph == "complete":
        return np.stack(np.triu_indices(count, 1), axis=1)
    if graph == "star":
        return np.stack([np.zeros(max(count - 1, 0), int), i[1:]], axis=1)
    if graph == "path":
        return np.stack([i[:-1], i[1:]], axis=1)
    steps = [np.stack([i, (i + k) % count], axis=1) for k in range(1, reach + 1)]
    pairs = np.sort(np.concatenate(steps), axis=1)
    # A short ring meets itself: no edge twice, and none from a token to itself.
    return np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)


def _checked(edges: Any) -> tuple[tuple[int, int], ...]:
    """Pairs of whole numbers, each once, none from a token to itself."""
    need = "edges must be distinct pairs of different tokens, numbered from 0"
    try:
        pairs = tuple((int(i), int(j)) for i, j in np.asarray(edges).tolist())
        whole = np.array_equal(np.asarray(edges, float).reshape(-1, 2), np.array(pairs, float))
    except (TypeError, ValueError):
        raise ValueError(f"{need}; got {edges!r:.80}.") from None
    seen = {frozenset(pair) for pair in pairs}
    if not pairs or not whole or len(seen) != len(pairs):
        raise ValueError(f"{need}; got {edges!r:.80}.")
    if any(i == j or min(i, j) < 0 for i, j in pairs):
        wrong = next(pair for pair in pairs if pair[0] == pair[1] or min(pair) < 0)
        raise ValueError(f"{need}; got {list(wrong)}.")
    return pairs
