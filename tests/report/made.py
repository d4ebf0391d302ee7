"""Runs made by hand, whose every frame is known: no solver, and expected values by arithmetic."""

import numpy as np

import metastable as ms

BETA = 9.0


def trajectory(frames, times, field=None, clock="SA"):
    return ms.Trajectory(
        times=np.asarray(times, float),
        frames=tuple(frames),
        clock=clock,
        outcome=ms.Outcome.done(),
        statistics={"steps": 1, "evaluations": 1, "sum": "dense", "seconds": 0.5},
        field=field,
    )


def on_circle(theta, weights=None):
    theta = np.asarray(theta)
    return ms.Points(np.column_stack([np.cos(theta), np.sin(theta)]), weights)


def circle(times=None, centres=(0.3, np.pi, -1.8), shares=(12, 20, 8)):
    """Tokens within 0.5 rad of their centre approach it like e^{−t}; one centre is at the cut."""
    times = np.linspace(0, 12, 13) if times is None else times
    home = np.repeat(centres, shares)
    offset = np.concatenate([np.linspace(-0.5, 0.5, share) for share in shares])
    frames = [on_circle(home + offset * np.exp(-t)) for t in times]
    return trajectory(frames, times, ms.SelfAttention(beta=BETA))


def sphere(dim=3, tokens=30):
    """Tokens that leave random places for ±e_1: two thirds go to +e_1, one third to −e_1."""
    start = np.asarray(ms.uniform(tokens, dim, seed=1).points)
    pole = np.zeros(dim)
    pole[0] = 1.0
    goal = np.where(np.arange(tokens)[:, None] % 3 == 0, -pole, pole)
    times = np.linspace(0, 10, 11)
    mixed = lambda t: np.exp(-2 * t) * start + (1 - np.exp(-2 * t)) * goal
    return trajectory([ms.from_array(mixed(t)) for t in times], times, ms.SelfAttention(beta=BETA))


def square():
    """Corners of a square that shrinks like 1/(1+t), and its centre."""
    corners = np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [0.0, 0.0]])
    times = np.linspace(0, 4, 9)
    frames = [ms.Points(corners / (1 + t), on_sphere=False) for t in times]
    return trajectory(frames, times, ms.Rescaled(ms.SelfAttention(beta=1.0)))


def merging():
    """Four weighted tokens on the circle, then three, then two."""
    frames = [
        on_circle([0.0, 0.5, 2.0, -2.0]),
        on_circle([0.25, 2.0, -2.0], [0.5, 0.25, 0.25]),
        on_circle([0.25, 2.1], [0.5, 0.5]),
    ]
    return trajectory(frames, [0.0, 1.0, 2.0], ms.SelfAttention(beta=BETA))


RUNS = {
    "circle": circle,
    "slow circle": lambda: circle(np.geomspace(1e-2, 1e4, 25)),
    "sphere": sphere,
    "high": lambda: sphere(dim=8),
    "square": square,
    "merging": merging,
}
