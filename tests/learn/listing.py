"""The published training loops, transliterated line by line to NumPy: the oracle and the opponent.

Source: E. Ponti's thesis (Pisa 2025), appendix A.2.2, functions training_beta, training_multistep
and training_matrix. Only the random numbers are given from outside.
"""

from __future__ import annotations

import numpy as np


def beta_batch(a, q, k, inputs, targets, alpha, rate, steps):
    """Lines 24 to 41 of training_beta: batch gradient descent from β = 0."""
    dim = a.shape[0]
    beta, betas, losses = 0.0, [0.0], []
    for _ in range(steps):
        loss = grad = 0.0
        for s, target in zip(inputs, targets, strict=True):
            f = a @ s @ k.T @ q @ s + s @ q.T @ k @ s @ a.T
            p = s + alpha * beta * f
            e = p - target
            loss += np.sum((p - target) ** 2) / dim**2
            grad += 2 * alpha * np.sum(e * f) / dim**2
        beta -= rate * grad / len(inputs)
        betas.append(beta)
        losses.append(loss / len(inputs))
    return np.array(betas), np.array(losses)


def beta_batch_hoisted(a, q, k, inputs, targets, alpha, rate, steps):
    """The same with F, which does not depend on β, computed once."""
    dim = a.shape[0]
    fs = [a @ s @ k.T @ q @ s + s @ q.T @ k @ s @ a.T for s in inputs]
    beta, betas = 0.0, [0.0]
    for _ in range(steps):
        loss = grad = 0.0
        for s, target, f in zip(inputs, targets, fs, strict=True):
            p = s + alpha * beta * f
            e = p - target
            loss += np.sum((p - target) ** 2) / dim**2
            grad += 2 * alpha * np.sum(e * f) / dim**2
        beta -= rate * grad / len(inputs)
        betas.append(beta)
    return np.array(betas)


def beta_stochastic(a, q, k, inputs, targets, alpha, rate, samples):
    """Lines 44 to 59 of training_beta, with the drawn samples given."""
    dim = a.shape[0]
    beta, betas, losses = 0.0, [0.0], []
    for j in samples:
        s, target = inputs[j], targets[j]
        f = a @ s @ k.T @ q @ s + s @ q.T @ k @ s @ a.T
        p = s + alpha * beta * f
        e = p - target
        losses.append(np.sum((p - target) ** 2) / dim**2)
        beta -= rate * 2 * alpha * np.sum(e * f) / dim**2
        betas.append(beta)
    return np.array(betas), np.array(losses)


def multistep(a, q, k, inputs, targets, alpha, rate, steps, depth):
    """Lines 29 to 58 of training_multistep: the map applied `depth` times, with sensitivities."""
    dim = a.shape[0]
    beta, betas, losses = 0.0, [0.0], []
    for _ in range(steps):
        loss = grad = 0.0
        for s0, target in zip(inputs, targets, strict=True):
            s, g = s0, np.zeros((dim, dim))
            for _ in range(depth):
                f = alpha * (a @ s @ k.T @ q @ s + s @ q.T @ k @ s @ a.T)
                df_g = alpha * (
                    a @ g @ k.T @ q @ s
                    + a @ s @ k.T @ q @ g
                    + g @ q.T @ k @ s @ a.T
                    + s @ q.T @ k @ g @ a.T
                )
                s = s + beta * f
                g = g + f + beta * df_g
            e = s - target
            loss += np.sum(e**2) / dim**2
            grad += 2 / dim**2 * np.sum(e * g)
        beta -= rate * grad / len(inputs)
        betas.append(beta)
        losses.append(loss / len(inputs))
    return np.array(betas), np.array(losses)


def matrix_gradients(w, v, q, k, s_in, s_out, alpha, *, repaired):
    """Lines 43 to 62 of training_matrix for one pair: squared error and the four gradients.

    `repaired` replaces Y′ by Y in the gradient of A = WV; everything else is as printed.
    """
    dim = w.shape[0]
    a = w @ v
    x = s_in @ k.T @ q @ s_in
    y = s_in @ q.T @ k @ s_in
    s_pred = s_in + alpha * (w @ v @ s_in @ k.T @ q @ s_in + s_in @ q.T @ k @ s_in @ v.T @ w.T)
    e = s_pred - s_out
    se = np.sum(e**2)
    g = (2 / dim**2) * e
    grad_a = alpha * (g @ x.T + g @ (y if repaired else y.T))
    term1_q = k @ s_in @ a.T @ g @ s_in
    term2_q = s_in @ g @ a @ s_in @ k.T
    term_k = s_in @ a.T @ g @ s_in @ q.T
    return se, (
        grad_a @ v.T,
        w.T @ grad_a,
        alpha * (term1_q + term2_q.T),
        2 * alpha * term_k.T,
    )


def matrix_epochs(matrices, inputs, targets, alpha, rate, batch, epochs, *, repaired=False):
    """Lines 32 to 72 of training_matrix: mini-batches in the given order."""
    w, v, q, k = (np.array(m) for m in matrices)
    dim, losses = w.shape[0], []
    for _ in range(epochs):
        total = 0.0
        for b in range(0, len(inputs), batch):
            grads = [np.zeros_like(m) for m in (w, v, q, k)]
            chosen = range(b, min(b + batch, len(inputs)))
            for j in chosen:
                se, found = matrix_gradients(
                    w, v, q, k, inputs[j], targets[j], alpha, repaired=repaired
                )
                total += se
                grads = [old + new for old, new in zip(grads, found, strict=True)]
            w, v, q, k = (
                m - rate * (g / len(chosen)) for m, g in zip((w, v, q, k), grads, strict=True)
            )
        losses.append(total / (len(inputs) * dim**2))
    return (w, v, q, k), np.array(losses)
