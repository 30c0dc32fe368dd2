"""Distances between images: one file each, and a name for each.

A distance is a callable ``(ref, x) -> (B,)`` on float batches (B, 3, H, W) in [0, 1], numpy arrays or torch tensors.
Its result is at least 0, and 0 for equal images; smaller means closer.
"""

from __future__ import annotations

from twoafc.distances.batches import Batch, Distance
from twoafc.distances.euclidean import euclidean, rmse
from twoafc.distances.ssim import ssim, ssim_luma

__all__ = ["DISTANCES", "Batch", "Distance", "distance", "euclidean", "rmse", "ssim", "ssim_luma"]

DISTANCES: dict[str, Distance] = {
    "euclidean": euclidean,
    "rmse": rmse,
    "ssim": ssim,
    "ssim_luma": ssim_luma,
}


def distance(name: str) -> Distance:
    """Give the distance of that name.

    Examples
    --------
    >>> import numpy as np
    >>> distance("rmse")(np.zeros((1, 3, 8, 8)), np.ones((1, 3, 8, 8)))
    array([1.])
    """
    if name not in DISTANCES:
        raise ValueError(f"there is no distance {name!r}; the names are: {', '.join(DISTANCES)}")
    return DISTANCES[name]
