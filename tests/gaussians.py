"""Gaussians as weighted tokens, exact to rounding, and random cases; oracles for several tests."""

import numpy as np

import metastable as ms


def hermite(mean, cov, order=24):
    """Gauss–Hermite tokens: their means of smooth functions are those of N(mean, cov)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(order)
    dim = len(mean)
    grid = np.stack(np.meshgrid(*[nodes] * dim, indexing="ij"), axis=-1).reshape(-1, dim)
    masses = np.prod(np.stack(np.meshgrid(*[weights] * dim, indexing="ij"), axis=-1), axis=-1)
    places = np.asarray(mean) + grid @ np.linalg.cholesky(cov).T
    return ms.Points(places, masses.ravel(), on_sphere=False)


def moments(points):
    """Mean and covariance of weighted tokens."""
    weights, x = np.asarray(points.weights), np.asarray(points.points)
    mean = weights @ x
    return mean, (x - mean).T @ ((x - mean) * weights[:, None])


def covariance(random, dim):
    """A well conditioned random covariance: eigenvalues from 0.3 to 1.5."""
    basis = np.linalg.qr(random.standard_normal((dim, dim)))[0]
    return basis * random.uniform(0.3, 1.5, dim) @ basis.T


def layered(start, field, depth, step=1.0, *, frames=None, **how):
    """That many layers, all of them kept unless `frames` says fewer."""
    kept = depth + 1 if frames is None else frames
    return ms.flow(start, field, depth * step, stepper=ms.Layers(step, **how), frames=kept)
