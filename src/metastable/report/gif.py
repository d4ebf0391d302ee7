"""Films written as GIF: one palette for all frames, chosen from their colors, no dithering."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg

from metastable.core.figure import Film
from metastable.report.drawing import draw

DPI = 130
COLORS = 256
EXACT = 64  # colors that are kept as they are: paper, ink, and every flat color
SAMPLE = 20_000  # pixels from which the other colors are chosen


def write_film(film: Film, path: str | Path) -> Path:
    """Write a film as a GIF and return its path; the last picture stays for a second."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode(draw_frames(film), film.seconds))
    return path


def draw_frames(film: Film, dpi: int = DPI) -> np.ndarray:
    """All frames as colors on white, (frames, height, width, 3) bytes."""
    frames = []
    for frame in film.frames:
        picture = draw(frame, size=film.size or (4.0, 4.3), style="default")
        picture.set_facecolor("white")
        picture.set_dpi(dpi)
        canvas = FigureCanvasAgg(picture)
        canvas.draw()
        frames.append(np.asarray(canvas.buffer_rgba())[..., :3].copy())
    return np.stack(frames)


def encode(frames: np.ndarray, seconds: float) -> bytes:
    """A GIF that runs for `seconds`, over and over; its last frame stays for a second more."""
    from PIL import Image

    packed = frames.astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], np.uint32)
    colors, index, counts = np.unique(packed, return_inverse=True, return_counts=True)
    palette = _palette(colors, counts)
    # Nearest in the palette, for each color that occurs.
    nearest = np.empty(len(colors), np.uint8)
    for k in range(0, len(colors), 4096):
        gaps = unpack(colors[k : k + 4096])[:, None] - unpack(palette)
        nearest[k : k + 4096] = np.square(gaps).sum(axis=-1).argmin(axis=1)
    shown = nearest[index.reshape(packed.shape)]
    images = []
    for values in shown:
        image = Image.fromarray(values, "P")
        image.putpalette(unpack(palette).astype(np.uint8).ravel().tolist())
        images.append(image)
    each = [max(int(1000 * seconds / len(images)), 20)] * len(images)
    each[-1] += 1000
    buffer = io.BytesIO()
    rest: dict[str, Any] = {"append_images": images[1:], "duration": each, "loop": 0}
    images[0].save(buffer, format="GIF", save_all=True, optimize=False, **rest)
    return buffer.getvalue()


def unpack(colors: np.ndarray) -> np.ndarray:
    """Red, green and blue of packed colors, (…, 3)."""
    return (colors[..., None] >> np.array([16, 8, 0], np.uint32) & 255).astype(np.int32)


def _palette(colors: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """At most 256 packed colors: the most frequent as they are, the others by median cut."""
    from PIL import Image

    order = np.argsort(-counts, kind="stable")
    if len(colors) <= COLORS:
        return colors[order]
    exact, rest = order[:EXACT], order[EXACT:]
    # Shades at the edges of dots are rare each, and many together: none is left to the frequent.
    weights = np.sqrt(counts[rest])
    draws = np.ceil(SAMPLE * weights / weights.sum()).astype(int)
    sample = unpack(np.repeat(colors[rest], draws)).astype(np.uint8)
    image = Image.fromarray(sample[None]).quantize(COLORS - EXACT, kmeans=2)
    found = np.array((image.getpalette() or [])[: 3 * (COLORS - EXACT)], np.uint32).reshape(-1, 3)
    return np.concatenate([colors[exact], found @ np.array([1 << 16, 1 << 8, 1], np.uint32)])
