"""A training cut short after some looks, then run again: what every resumable lesson must pass."""

import numpy as np

from metastable.core.checkpoint import Checkpoint
from metastable.core.numerics import jax

__all__ = ["goes_on_with_the_same_bits", "slope_error"]


def goes_on_with_the_same_bits(run, folder, monkeypatch, looks=2):
    """`run(checkpoint)` trains; cut after `looks` and resumed it must equal the run in one go."""
    whole = run(None)
    save, saves = Checkpoint.save, []

    def cut(self, state):
        save(self, state)
        saves.append(1)
        if len(saves) == looks:
            raise KeyboardInterrupt

    path = folder / "training.npz"
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", cut)
        broken = run(path)
    assert broken.outcome.name == "interrupted" and broken.losses.size < whole.losses.size
    again = run(path)
    assert np.array_equal(again.losses, whole.losses)
    assert np.array_equal(again.validation, whole.validation)
    for one, other in zip(
        jax.tree.leaves(again.parameters), jax.tree.leaves(whole.parameters), strict=True
    ):
        assert np.array_equal(one, other)


def slope_error(loss, parameters, size=1e-5, seed=0):
    """Relative error of the gradient along a random direction, against central differences."""
    leaves, structure = jax.tree.flatten(parameters)
    random = np.random.default_rng(seed)
    way = structure.unflatten([random.standard_normal(np.shape(leaf)) for leaf in leaves])
    ahead, behind = (
        float(loss(jax.tree.map(lambda p, w: p + sign * size * w, parameters, way)))  # noqa: B023
        for sign in (1, -1)
    )
    products = jax.tree.map(lambda g, w: np.sum(g * w), jax.grad(loss)(parameters), way)
    exact = float(sum(jax.tree.leaves(products)))
    return abs((ahead - behind) / (2 * size) - exact) / abs(exact)
