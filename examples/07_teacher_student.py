"""Teacher and student: what covariances tell about an attention layer, and how fast it is learned.

A teacher moves covariances by one layer of Gaussian attention; a student with unknown matrices sees
inputs and outputs. One unknown number β is found exactly by Newton's step; all four matrices by
gradients, plain and adaptive. Only WV and KᵀQ can be recovered, up to one common scale.

Source: E. Ponti's thesis (Pisa 2025), section 3.3, with its gradient repaired. Time: about ten
seconds.

    python examples/07_teacher_student.py [OUT]
"""

import os
import sys
from pathlib import Path

import numpy as np
import optax

from metastable.learn.curves import Curves
from metastable.learn.gaussian.matrices import Epochs, gauge_error, matrix_loss
from metastable.learn.gaussian.scalar import descend, gradient_descent, newton, scalar_loss
from metastable.learn.gaussian.teacher import (
    TruncatedLayer,
    random_covariances,
    random_matrices,
    split,
    teach,
)
from metastable.learn.training import Gradient, train
from metastable.report import save_figure
from metastable.report.figures.learning import plot_curves

# Parameters
fast = os.environ.get("METASTABLE_FAST") == "1"
out = Path(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("METASTABLE_OUT", "out"))
dim, key_dim, samples, epochs, batch = (12, 6, 60, 40, 8) if fast else (24, 12, 160, 250, 8)

# Teacher, student, data
layer = TruncatedLayer(step=0.1)
teacher, student = random_matrices(dim, key_dim, seed=1), random_matrices(dim, key_dim, seed=2)
lessons = teach(layer, teacher, random_covariances(samples, dim, seed=3))
training, validation = split(lessons)

# One unknown number
loss = scalar_loss(layer, teacher, training)
slow = descend(loss, gradient_descent(rate=0.2 / float(loss(0.0))), 20)
quick = descend(loss, newton(), 1)
print(f"beta after 20 gradient steps {slow.betas[-1]:.6f}, after one Newton step {quick.betas[-1]}")

# All four matrices
fading = optax.cosine_decay_schedule(1e-2, epochs * -(-len(training.inputs) // batch))
optimisers = {"SGD": optax.sgd(0.1), "Adam": optax.adam(fading)}
lines = {}
for name, optimiser in optimisers.items():
    run = train(
        student,
        Epochs(Gradient(matrix_loss(layer), optimiser), batch),
        training,
        steps=epochs,
        validation=validation,
    )
    met = run.losses
    error = gauge_error(run.parameters, teacher)
    lines[name] = (np.arange(1, met.size + 1), met)
    print(
        f"{name}: loss {met[0]:.3g} → {met[-1]:.3g}, validation {run.validation[-1]:.3g}; "
        f"error of WV {error.value:.2g}, of KᵀQ {error.score:.2g}"
    )

# Figure
caption = "Loss of a student that learns W, V, Q and K from covariances."
figure = plot_curves(Curves("epoch", "mean squared error", lines, caption=caption))
for path in save_figure(figure, out, "07_teacher_student_loss"):
    print(path)
