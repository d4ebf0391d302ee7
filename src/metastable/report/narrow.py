"""Figures as they are drawn for a telephone: one panel below the other, letters that stay legible.

A wide picture, made as small as a narrow window, has letters of two or three points.
"""

from __future__ import annotations

import dataclasses

from metastable.core.figure import Cloud, Custom, Figure, Film, Map, Panels, Strip

WIDEST = 5.5  # inches of a picture whose letters stand being made as small as a narrow window
WIDTH = 4.2  # inches of one that is drawn for it
LEAST = 1.9  # inches of a panel


def narrow(figure: Figure) -> Figure | None:
    """The same figure for a narrow window; None where its own size will do, or nothing else can.

    >>> from metastable.core.figure import Axis, Lines
    >>> one = Lines(Axis(), Axis(), size=(4.4, 3.0))
    >>> narrow(one), narrow(Panels([one, one], 2, size=(8.8, 3.0))).size
    (None, (4.2, 5.73))
    """
    if figure.size is None or figure.size[0] <= WIDEST or isinstance(figure, Film | Custom):
        return None
    width, height = figure.size
    if not isinstance(figure, Panels | Strip):
        same = isinstance(figure, Cloud) or getattr(figure, "equal", False)
        # Rows of words keep their height, so that none lies on another.
        tall = height if isinstance(figure, Map) and not same else height * WIDTH / width
        return dataclasses.replace(figure, size=(WIDTH, round(max(tall, LEAST), 2)))
    parts = figure.panels if isinstance(figure, Panels) else figure.frames
    columns = figure.columns or len(parts)
    rows = -(-len(parts) // columns)
    each = width / columns, height / rows
    fitting = max(1, min(columns, int(WIDTH / max(each[0], LEAST))))
    down = -(-len(parts) // fitting)
    tall = each[1] * min(WIDTH / fitting / each[0], 1.0) * down
    return dataclasses.replace(figure, columns=fitting, size=(WIDTH, round(tall, 2)))
