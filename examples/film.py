"""The film at the head of the README: tokens on the sphere, and the count that theory foretold.

Left, 800 tokens under self-attention, in the color of the cluster they will belong to. Right, how
many clusters have formed, and the law of first clusters at the predicted exit from the uniform
state. Papers: arXiv:2312.10794 (the model), arXiv:2410.23228 (first clusters). Time: a minute.

    python examples/film.py [OUT.gif]
"""

import sys
from pathlib import Path

import numpy as np

import metastable as ms
from metastable.core.figure import Axis, Film, Lines, Panels, Series
from metastable.report import film_on_sphere, write_film

# Parameters
beta, tokens, horizon, frames = 16.0, 800, 9.0, 46
out = Path(sys.argv[1] if len(sys.argv) > 1 else "out/examples/film.gif")

# Theory
field = ms.SelfAttention(beta)
expected = ms.predict(field, dim=3, tokens=tokens)
law, exit_time = expected.cluster_distribution, expected.exit_time
likely = max(law, key=law.get)
span = [count for count, share in law.items() if share > 0.03]

# Flow
run = ms.flow(ms.uniform(tokens, dim=3, seed=1), field, horizon, frames=frames)
final = ms.clusters(run.frames[-1], beta)


def formed(measure):
    """How many of the last clusters have gathered: a mean cosine of 0.98 with their centre."""
    points = np.asarray(measure.points)
    gathered = [points[final.labels == k] for k in np.flatnonzero(final.masses > 0.02)]
    return sum(float(np.linalg.norm(each.mean(axis=0))) > 0.98 for each in gathered)


# Film
counts = [formed(frame) for frame in run.frames]
time_axis = Axis("time t", clock="SA", limits=(0.0, horizon))
count_axis = Axis("clusters", limits=(0.0, max(span) + 2.0), ticks="integer")
theory = Series("theory, at the exit", [exit_time] * 2, [min(span), max(span)], group=5, width=7.0)
pictures = []
for k, sphere in enumerate(film_on_sphere(run, frames=frames).frames):
    past = run.times[: k + 1], counts[: k + 1]
    seen = Series("formed", *past, style="steps", group=0, width=2.5)
    now = f"now: {counts[k]} cluster{'' if counts[k] == 1 else 's'}, t = {run.times[k]:.1f}"
    text = f"theory: {likely} near t = {exit_time:.1f}  ·  {now}"
    pictures.append(Panels([sphere, Lines(time_axis, count_axis, [theory, seen], title=text)], 2))
print(f"theory: {likely} ({min(span)} to {max(span)}) near t = {exit_time:.1f}; formed: {counts}")
print(write_film(Film(pictures, seconds=6.0, size=(8.4, 3.7)), out))
