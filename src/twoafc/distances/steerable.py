"""The steerable pyramid (Simoncelli and Freeman, 1995) with two orientations, as PIM takes it, on torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from twoafc.distances.batches import Batch
from twoafc.distances.weights import Tensors
from twoafc.errors import require

FILTERS = ("hi0filt", "lo0filt", "bfilt0", "bfilt1", "lofilt")


def filters() -> Tensors:
    """Read the pyramid's filters, each of shape (1, 1, 9, 9) or (1, 1, 17, 17)."""
    torch = require("torch", extra="torch")
    table = json.loads(Path(__file__).with_name("steerable.json").read_text(encoding="utf-8"))
    return {name: torch.from_numpy(np.array(table[name], dtype=np.float32)[None, None]) for name in FILTERS}


def pyramid(tensors: Tensors, images: Batch, levels: int) -> list[Batch]:
    """Bands of images, each channel by itself, from the low-pass image to the high-pass one.

    Parameters
    ----------
    tensors : dict of str to tensor
        Holds the `filters`.
    images : tensor, shape (N, C, H, W)
    levels : int
        How often the image is halved; each level has two bands.

    Returns
    -------
    list of tensor
        2 levels + 2 bands (N, C, h, w), with sides of ceil(H / 2^level).
    """
    count, channels = images.shape[:2]
    single = images.reshape(count * channels, 1, *images.shape[2:])
    bands, low = [_filtered(single, tensors["hi0filt"])], _filtered(single, tensors["lo0filt"])
    for _ in range(levels):
        bands += [_filtered(low, tensors["bfilt0"]), _filtered(low, tensors["bfilt1"])]
        low = _filtered(low, tensors["lofilt"], stride=2)
    return [band.reshape(count, channels, *band.shape[2:]) for band in (low, *reversed(bands))]


def _filtered(images: Batch, window: Any, *, stride: int = 1) -> Batch:
    """Correlate with a window; beyond the borders all is 0."""
    torch = require("torch", extra="torch")
    return torch.conv2d(images, window, stride=stride, padding=window.shape[-1] // 2)
