"""Two spirals: a neural ODE steers the points of two classes apart, and they collapse.

One control (a, b, c) moves all points by ẋ = c tanh(a x + b) in R³, two coordinates of which are
the data; a linear classifier reads the end. The flow is cut into layers: a ResNet. Afterwards the
same weights with more layers show how near a network is to its flow: the distance falls like 1/L.

Source: E, Commun. Math. Stat. 5 (2017); Papyan, Han, Donoho, arXiv:2008.08186. Time: about fifteen
seconds.

    python examples/11_two_spirals.py [OUT]
"""

import os
import sys
from pathlib import Path

import numpy as np
import optax

from metastable.core.numerics import jnp
from metastable.learn.curves import Frames
from metastable.learn.neural.datasets import draw_spirals
from metastable.learn.neural.ode import (
    Continuous,
    ResidualLayers,
    classification_loss,
    final_state,
    initial_classifier,
    trace,
)
from metastable.learn.spec import FlowNet
from metastable.learn.training import Gradient, train
from metastable.observe.neural_collapse import neural_collapse
from metastable.report import save_figure, write_film
from metastable.report.figures.learning import film_frames, plot_frames

# Parameters
fast = os.environ.get("METASTABLE_FAST") == "1"
out = Path(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("METASTABLE_OUT", "out"))
network = FlowNet(widths=(3,), neurons=16, horizon=4.0, layers=16)
steps = 60 if fast else 800

# Data
data, held = draw_spirals(600, seed=1), draw_spirals(600, seed=2)
x, labels = jnp.asarray(data.points), jnp.asarray(data.labels)

# Training
start = initial_classifier(network, classes=2, seed=0)
method = Gradient(
    classification_loss(network, decay=1e-3), optax.adam(optax.cosine_decay_schedule(0.02, steps))
)
training = train(start, method, (x, labels), steps=steps, title="two spirals")
learned = training.parameters


# Analysis: answers, collapse, and the distance of L layers from the flow
def judge(parameters, part):
    matrix, offset = np.asarray(parameters.matrix), np.asarray(parameters.offset)
    state = np.asarray(final_state(parameters, jnp.asarray(part.points), network))
    accuracy = np.mean(np.argmax(state @ matrix.T + offset, axis=1) == part.labels)
    return accuracy, neural_collapse(state, part.labels, matrix, offset).variability


print(f"training {training}")
for name, parameters in (("untrained", start), ("trained", learned)):
    accuracy, variability = judge(parameters, held)
    print(f"{name}: held-out accuracy {accuracy:.3f}, NC1 {variability:.3g}")
end = final_state(learned, x, network, Continuous(1e-9))
for count in (32, 64, 128):
    gap = jnp.sqrt(jnp.mean((final_state(learned, x, network, ResidualLayers(count)) - end) ** 2))
    print(f"{count} layers: distance from the flow {float(gap):.4f}")

# Figures
states = np.asarray(trace(learned, x, network))
times = np.linspace(0, network.horizon, len(states))
frames = Frames(times, states[..., :2], data.labels, "Two classes on their way apart.")
for path in save_figure(plot_frames(frames), out, "11_two_spirals"):
    print(path)
print(write_film(film_frames(frames), out / "11_two_spirals.gif"))
