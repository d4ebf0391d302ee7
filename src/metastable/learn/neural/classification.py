"""Neural ODEs trained: classes that flow apart and collapse, and networks of many layers."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from metastable.core.numerics import jax, jnp
from metastable.core.result import Answer
from metastable.learn.curves import Curves, Frames, losses, make_answer
from metastable.learn.neural.datasets import Labeled, draw_data
from metastable.learn.neural.ode import (
    Classifier,
    Continuous,
    ResidualLayers,
    average_and_spread,
    classification_loss,
    depth_of,
    final_state,
    initial_classifier,
    resampled_layers,
    resize,
    split_neurons,
    trace,
)
from metastable.learn.spec import Classification, DeepLimit, FlowNet
from metastable.learn.training import Training, adam, last, options_in, train, whole
from metastable.observe.neural_collapse import neural_collapse

FRAMES = 32  # of a flow, all stages together
SHOWN = 600  # points in a picture
FEW = 100  # points that networks of many layers move: draws of weights matter more than points
WATCHED = ("NC1", "NC2", "NC3", "NC4", "accuracy, training", "accuracy, held-out")


def learn_classes(
    spec: Classification, checkpoint: Path | None = None, progress: bool | None = None
) -> Answer:
    """Train a network to tell classes apart; follow its neural collapse in training and depth."""
    data, held = draw_data(spec.data, spec.seed)
    training, first = _train(spec, data, held, checkpoint, progress)
    looks = np.vstack([first, training.watched])
    steps = np.append(0, training.checks)
    times, states = _through_depth(training.parameters, data.points, spec.network)
    depthwise = np.array([neural_collapse(state, data.labels) for state in states])
    end = dict(zip(WATCHED, looks[-1].tolist(), strict=True))
    many = len(np.unique(data.labels)) > 2  # two centred means are always a simplex
    facts = _setting(spec, training.parameters) | {
        "training accuracy": end["accuracy, training"],
        "held-out accuracy": end["accuracy, held-out"],
        "NC1 at first, at last": [float(looks[0, 0]), float(looks[-1, 0])],
        "NC1 fell by": float(looks[0, 0] / looks[-1, 0]),
        **({"NC2, distance from a simplex": end["NC2"]} if many else {}),
        "NC3, distance of classifier and means": end["NC3"],
        "NC4, answers that are not the nearest mean": end["NC4"],
        "seconds in steps": last(training.seconds),
    }
    collapse = {n: (steps, looks[:, k]) for k, n in enumerate(WATCHED[:4]) if many or n != "NC2"}
    wrong = {name: (steps, 1 - looks[:, k]) for k, name in list(enumerate(WATCHED))[4:]}
    depth = {n: (times, depthwise[:, k]) for k, n in enumerate(WATCHED[: 2 if many else 1])}
    measures = (
        "Neural collapse in training: variability inside classes (NC1), distance of the class "
        "means from a simplex (NC2), of the classifier from the means (NC3), and answers other "
        "than the nearest mean (NC4)."
    )
    through = "Neural collapse of the trained network through its depth."
    wrong_class = "Points put into a wrong class."
    figures: dict[str, Curves | Frames] = {
        "loss": losses(training, "The loss, its decay included."),
        "collapse": Curves("step", "0 at full collapse", collapse, caption=measures),
        "accuracy": Curves("step", "share of errors", wrong, caption=wrong_class),
        "depth": Curves("depth t", "0 at full collapse", depth, caption=through),
        "flow": _frames(times, states, data.labels),
    }
    sentence = (
        f"{end['accuracy, held-out']:.2%} of held-out points are told apart; the variability "
        f"inside classes fell {looks[0, 0] / looks[-1, 0]:.3g} times."
    )
    return make_answer(sentence, facts, figures, training.outcome)


def learn_deep_limit(
    spec: DeepLimit, checkpoint: Path | None = None, progress: bool | None = None
) -> Answer:
    """Train a flow; then give it L layers, whole or with neurons drawn anew for each layer."""
    data, held = draw_data(spec.data, spec.seed)
    training, _ = _train(spec, data, held, checkpoint, progress)
    network, parameters = spec.network, training.parameters
    if training.outcome.name == "interrupted":
        return make_answer("Interrupted.", _setting(spec, parameters), {}, training.outcome)
    held = Labeled(held.points[:FEW], held.labels[:FEW])
    x = jnp.asarray(held.points)
    end = final_state(parameters, x, network, Continuous(1e-11))
    pool = split_neurons(parameters.stages[0], spec.groups)
    start = resize(x, network.widths[0])
    _, spread = average_and_spread(pool, start, network.horizon)
    variance = network.horizon * jnp.trace(spread, axis1=1, axis2=2)  # of each point, times L
    keys = jax.random.split(jax.random.key(spec.seed), spec.draws)
    size_of = lambda x: float(jnp.sqrt(jnp.mean(jnp.sum(x**2, axis=1))))
    size = size_of(end)
    euler, noisy, wrong = [], [], []
    for count in spec.layers:
        deep = final_state(parameters, x, network, ResidualLayers(count))
        euler.append(size_of(deep - end) / size)
        answers = jnp.argmax(parameters.scores(deep), axis=1)
        wrong.append(float(jnp.mean(answers != held.labels)))
        draw = partial(resampled_layers, pool, start, network.horizon, count)
        drawn = jax.vmap(draw)(keys)
        each = jnp.sqrt(jnp.mean(jnp.sum((drawn - end) ** 2, axis=2), axis=0))  # (points,)
        noisy.append(float(jnp.median(each)) / size)
    layers = np.array(spec.layers)
    # The median point: some of the others stand where the flow parts, and are linear much later.
    predicted = float(jnp.median(jnp.sqrt(variance))) / np.sqrt(layers) / size
    slope = lambda errors: float(np.polyfit(np.log(layers), np.log(errors), 1)[0])
    by_layers = lambda values: dict(zip(map(str, spec.layers), values, strict=True))
    facts = _setting(spec, parameters) | {
        "slope of the ResNet's error": slope(euler),
        "slope of the resampled error": slope(noisy),
        "resampled error over predicted": by_layers((np.array(noisy) / predicted).tolist()),
        "held-out errors of the ResNets": by_layers(wrong),
        "groups of neurons": spec.groups,
        "draws": spec.draws,
    }
    lines = {
        "same weights in all layers": (layers, np.array(euler)),
        "neurons drawn anew for each layer": (layers, np.array(noisy)),
        "predicted, 1/√L": (layers, predicted),
    }
    caption = (
        "Networks of L layers beside the trained flow, relative to the size of its states. Same "
        "weights: root mean square over held-out points. Drawn neurons: root mean square over the "
        "draws, of the median point."
    )
    error = Curves("layers L", "distance from the flow", lines, caption=caption, powers=True)
    sentence = (
        f"A network of L layers is L^{slope(euler):.2f} away from its flow; with neurons drawn "
        f"anew for each layer, L^{slope(noisy):.2f}."
    )
    return make_answer(sentence, facts, {"error": error}, training.outcome)


def _train(
    spec: Classification, data: Labeled, held: Labeled, folder: Path | None, progress: bool | None
) -> tuple[Training, np.ndarray]:
    """The training of a spec, watched, and what is seen before its first step."""
    network, descent = spec.network, spec.training
    parameters = initial_classifier(network, int(data.labels.max()) + 1, spec.seed)
    look = jax.jit(lambda parameters, x: final_state(parameters, x, network))

    def watch(parameters: Classifier) -> np.ndarray:
        reader = jax.tree.map(np.asarray, parameters._replace(stages=()))
        states = [np.asarray(look(parameters, part.points)) for part in (data, held)]
        collapse = neural_collapse(states[0], data.labels, reader.matrix, reader.offset)
        answers = [np.argmax(reader.scores(state), axis=1) for state in states]
        right = [np.mean(answers[0] == data.labels), np.mean(answers[1] == held.labels)]
        return np.array([*collapse, *right])

    def batch(data: Any, key: Any, step: Any) -> Any:
        size = (descent.batch or 0,)
        chosen = jax.random.randint(jax.random.fold_in(key, step), size, 0, len(data[1]))
        return tuple(part[chosen] for part in data)

    loss = classification_loss(network, descent.loss, descent.decay)
    method = adam(loss, descent.rate, descent.steps)
    pairs, others = (tuple(map(jnp.asarray, part)) for part in (data, held))
    options: dict[str, Any] = options_in(folder, "training", progress) | {
        "title": spec.name or spec.kind
    }
    options |= {"validation": others, "watch": watch, "seed": spec.seed}
    draw = whole if descent.batch is None else batch
    training = train(parameters, method, pairs, steps=descent.steps, draw=draw, **options)
    return training, watch(parameters)


def _through_depth(
    parameters: Classifier, points: np.ndarray, network: FlowNet
) -> tuple[np.ndarray, np.ndarray]:
    """Times and states (m, n, d) of the trained network."""
    depth = depth_of(network)
    pieces = network.pieces * len(network.widths)
    if isinstance(depth, Continuous):
        depth = Continuous(frames=max(1, FRAMES // pieces))
    states = np.asarray(trace(parameters, jnp.asarray(points), network, depth))
    return np.linspace(0, network.horizon * len(network.widths), len(states)), states


def _frames(times: np.ndarray, states: np.ndarray, labels: np.ndarray) -> Frames:
    """The states in one plane: the two axes along which first and last states spread most."""
    states, labels = states[:, :SHOWN], labels[:SHOWN]
    ends = [states[k] - states[k].mean(axis=0) for k in (0, -1)]
    both = np.concatenate([end / np.linalg.norm(end) for end in ends])
    axes = np.linalg.svd(both, full_matrices=False)[2][:2]
    caption = (
        "The points through the depth of the trained network, in the plane along whose axes the "
        "first and the last states spread most; colours are classes."
    )
    return Frames(times, states @ axes.T, labels, caption)


def _setting(spec: Classification, parameters: Classifier) -> dict[str, Any]:
    network = spec.network
    constant = network.pieces == 1 and network.path == "steps"
    weights = "constant" if constant else f"{network.pieces} {network.path} a stage"
    depth = "flow" if network.layers is None else f"{network.layers} layers a stage"
    return {
        "data": spec.data.kind,
        "network": f"widths {', '.join(map(str, network.widths))}; {network.neurons} neurons; "
        f"{weights}; {depth}",
        "parameters": sum(leaf.size for leaf in jax.tree.leaves(parameters)),
        "training": f"{spec.training.steps} steps of Adam, {spec.training.loss}, "
        f"decay {spec.training.decay:g}",
        "seed": spec.seed,
    }
