"""Points on the circle, on S², and in R^d up to d = 3, drawn on axes."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.patches import Circle

from metastable.core.figure import Cloud
from metastable.report.styles import CATEGORIES, INK, category_colors, letters, lines, set_title


def draw_cloud(cloud: Cloud, ax: Axes) -> None:
    """Draw a cloud in the way of its space."""
    points = np.asarray(cloud.points, float)
    groups = cloud.groups
    colors = category_colors(np.zeros(len(points), int) if groups is None else np.asarray(groups))
    draw = _draw_unit if cloud.space in ("circle", "sphere") else _draw_space
    draw(ax, cloud, points, colors)
    set_title(ax, cloud.title)


def _draw_unit(ax: Axes, cloud: Cloud, points: np.ndarray, colors: np.ndarray) -> None:
    ax.set_axis_off()
    ax.set_aspect("equal")
    ax.set(xlim=(-1.15, 1.15), ylim=(-1.15, 1.15))
    ax.add_patch(Circle((0, 0), 1, fill=False, edgecolor=INK, linewidth=lines(0.8)))
    masses = np.full(len(points), 0.003) if cloud.masses is None else np.asarray(cloud.masses)
    # Area grows with mass; a token among very many must still be seen.
    sizes = lines(1) ** 2 * np.clip(500 * masses, 2.5, None)
    shown, near = points[:, :2], np.ones(len(points), bool)
    sides = [(near, 0.7, 3)]
    if cloud.space == "sphere":
        view = np.eye(3) if cloud.view is None else np.asarray(cloud.view)
        _draw_graticule(ax, view)
        right, up, depth = view @ points.T
        shown, near = np.column_stack([right, up]), depth >= 0
        sides = [(~near, 0.28, 2), (near, 0.85, 3)]
    for side, alpha, order in sides:
        dots: dict[str, Any] = {"s": sizes[side], "c": colors[side], "lw": 0, "rasterized": True}
        ax.scatter(*shown[side].T, alpha=alpha, zorder=order, **dots)
    _write_words(ax, cloud, shown, near)


def _draw_space(ax: Axes, cloud: Cloud, points: np.ndarray, colors: np.ndarray) -> None:
    dim = points.shape[1]
    flat = np.asarray(cloud.view)[:2] if cloud.view is not None and dim == 3 else np.eye(2, dim)
    reach = cloud.reach
    if cloud.planes is not None:
        functional, levels = cloud.planes
        span = 2 * (reach or 1.0)
        for color, level in zip(CATEGORIES[2:], np.asarray(levels), strict=False):
            corners = _plane(np.asarray(functional, float), float(level), span) @ flat.T
            if dim == 3:
                ax.add_collection(PolyCollection([corners], facecolors=color, alpha=0.18, zorder=0))
            else:
                ax.plot(*corners.T, color=color, lw=1.2, ls="--", zorder=0)
    if cloud.segments is not None and len(cloud.segments):
        edges = np.asarray(cloud.segments) @ flat.T
        ax.add_collection(LineCollection(list(edges), colors=INK, linewidths=0.8, alpha=0.6))
    shown = points @ flat.T
    many = len(points) > 200
    size = 6 if many else 22
    ax.scatter(*shown.T, s=size, c=colors, lw=0, alpha=0.85, zorder=3, rasterized=many)
    if reach is not None:
        ax.set(xlim=(-reach, reach), ylim=(-reach, reach) if dim > 1 else (-0.1, 0.1))
    elif dim > 1:
        # Equal scales, since distances are what matters; the box follows the points.
        low, high = shown.min(axis=0), shown.max(axis=0)
        half, middle = 0.55 * max(float((high - low).max()), 1e-12), (low + high) / 2
        ax.set(xlim=(middle[0] - half, middle[0] + half), ylim=(middle[1] - half, middle[1] + half))
    ax.set(xlabel=cloud.x.text, ylabel=cloud.y.text)
    if dim == 1:
        ax.set_yticks([])
    else:
        ax.set_aspect("equal")
    if dim == 3:
        ax.set_axis_off()
    _write_words(ax, cloud, shown, np.ones(len(points), bool))


def _write_words(ax: Axes, cloud: Cloud, shown: np.ndarray, near: np.ndarray) -> None:
    for place, word, front in zip(shown, cloud.words, near, strict=False):
        if word:
            look: dict[str, Any] = {
                "fontsize": letters(7),
                "color": INK,
                "alpha": 1.0 if front else 0.4,
            }
            ax.annotate(word, tuple(place), (3, 2), textcoords="offset points", **look)


def _draw_graticule(ax: Axes, view: np.ndarray) -> None:
    """Meridians and parallels every 30°, on the near side only."""
    s = np.linspace(-np.pi, np.pi, 241)
    cos, sin = np.cos(s), np.sin(s)
    meridians, parallels = np.radians(np.arange(0, 180, 30)), np.radians(np.arange(-60, 61, 30))
    curves = [(cos * np.cos(angle), cos * np.sin(angle), sin) for angle in meridians]
    curves += [(np.cos(h) * cos, np.cos(h) * sin, np.full_like(s, np.sin(h))) for h in parallels]
    parts = []
    for line in curves:
        right, up, depth = view @ np.stack(line)
        parts.append(np.column_stack([np.where(depth >= 0, right, np.nan), up]))
    ax.add_collection(LineCollection(parts, colors=INK, linewidths=0.4, alpha=0.3, zorder=1))


def _plane(functional: np.ndarray, level: float, reach: float) -> np.ndarray:
    """A segment (2, d) or a square (4, d) of the hyperplane φ(z) = c around its nearest point."""
    center = level * functional / (functional @ functional)
    across = np.linalg.svd(functional[None])[2][1:]
    if len(across) == 1:
        return np.array([center - reach * across[0], center + reach * across[0]])
    signs = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    return center + 0.35 * reach * signs @ across
