"""Checks that every distance makes on its two batches of images, and how it works through them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from twoafc.arrays import FloatArray

# A numpy array or a torch tensor. Distances are written once, with the operations that both share, and never import
# torch; no common type describes the two.
Batch = Any
Distance = Callable[[Batch, Batch], Batch]

# Four 64 x 64 RGB images: intermediate results in float64 stay in a core's cache.
PIECE = 4 * 3 * 64 * 64
BEYOND = 1e-6  # by which values may lie outside [0, 1], through rounding


def in_pieces(distance: Distance, ref: Batch, x: Batch, *, least: int = 1) -> Batch:
    """Check two batches, and apply a distance to them in pieces that fit a processor's cache.

    Numpy arrays are converted to float64. Torch tensors keep their type and device and are processed whole. `least` is
    the smallest height and width that the distance accepts.
    """
    require_pair(ref, x, least=least)
    if not isinstance(ref, np.ndarray):
        return distance(ref, x)
    step = max(1, PIECE // (ref[:1].size or 1))
    pieces = [slice(start, start + step) for start in range(0, max(1, len(ref)), step)]
    return np.concatenate([distance(ref[piece].astype(np.float64), x[piece].astype(np.float64)) for piece in pieces])


def like(images: Batch, matrix: FloatArray) -> Batch:
    """Convert a matrix to the kind, type and device of images."""
    return matrix if isinstance(images, np.ndarray) else images.new_tensor(matrix)


def require_pair(ref: Batch, *others: Batch, least: int = 1) -> None:
    """Raise an error unless ref and each x are batches of RGB images of one shape, with float values in [0, 1]."""
    _require_images("ref", ref)
    for x in others:
        if isinstance(ref, np.ndarray) != isinstance(x, np.ndarray):
            raise TypeError(f"ref and x must be of one kind; got {type(ref).__name__} and {type(x).__name__}")
        _require_images("x", x)
        if ref.shape != x.shape:
            raise ValueError(f"ref and x must have one shape; got {tuple(ref.shape)} and {tuple(x.shape)}")
    height, width = ref.shape[2:]
    if min(height, width) < least:
        raise ValueError(f"images must be at least {least} x {least} pixels for this distance; got {height} x {width}")


def _require_images(name: str, images: Batch) -> None:
    if len(images.shape) != 4 or images.shape[1] != 3:
        raise ValueError(f"images must have shape (B, 3, H, W); {name} has {tuple(images.shape)}")
    kind = str(images.dtype).removeprefix("torch.")
    # Bytes would have to be rescaled on a guess, and half precision is too coarse for a variance.
    if kind not in ("float32", "float64"):
        raise ValueError(f"images must be float32 or float64 with values in [0, 1]; {name} is {kind}")
    if 0 in images.shape:
        return
    # On a GPU, reading the images twice would take noticeable time.
    extremes = (images.min(), images.max()) if isinstance(images, np.ndarray) else images.aminmax()
    low, high = (float(value.detach() if hasattr(value, "detach") else value) for value in extremes)
    # Written so that NaN, which compares false, is refused too.
    if not (low >= -BEYOND and high <= 1 + BEYOND):
        raise ValueError(f"images must lie in [0, 1]; {name} has values from {low:g} to {high:g}")
