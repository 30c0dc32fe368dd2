"""Structural similarity as a distance: 1 - SSIM (Wang, Bovik, Sheikh and Simoncelli, 2004) at one scale or several.

The window is the authors' (Gaussian, 11 x 11 pixels, sigma 1.5), covariances are those of the population, and there is
no padding: the five pixels nearest to the border are not the centre of any window.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from twoafc.arrays import FloatArray
from twoafc.distances.batches import Batch, in_pieces, like

WINDOW, SIGMA = 11, 1.5
C1, C2 = 0.01**2, 0.03**2  # for values in [0, 1]
TILE = 64
LUMA = (0.299, 0.587, 0.114)  # ITU-R BT.601
# Weights of scales from fine to coarse, fitted by Wang, Simoncelli and Bovik (2003) to matches between scales.
WEIGHTS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)
WEIGHTS_3 = tuple(weight / sum(WEIGHTS[:3]) for weight in WEIGHTS[:3])


def ssim(ref: Batch, x: Batch) -> Batch:
    """1 - SSIM of each colour channel, averaged over channels and over all whole windows.

    Parameters
    ----------
    ref, x : array or tensor of float, shape (B, 3, H, W)
        Images in [0, 1], at least 11 x 11 pixels.

    Returns
    -------
    array or tensor, shape (B,)
        From 0 (equal images) to 2.

    Examples
    --------
    >>> ref = np.zeros((1, 3, 16, 16))
    >>> ssim(ref, ref), ssim(ref, ref + 0.01).round(6)
    (array([0.]), array([0.5]))
    """
    return in_pieces(_ssim, ref, x, least=WINDOW)


def ssim_luma(ref: Batch, x: Batch) -> Batch:
    """1 - SSIM of the luma, 0.299 R + 0.587 G + 0.114 B, not rounded; otherwise as `ssim`.

    Examples
    --------
    >>> ref = np.zeros((1, 3, 16, 16))
    >>> ssim_luma(ref, ref), ssim_luma(ref, ref + 0.01).round(6)
    (array([0.]), array([0.5]))
    """
    return in_pieces(lambda a, b: _ssim(luma(a), luma(b)), ref, x, least=WINDOW)


def ms_ssim(ref: Batch, x: Batch) -> Batch:
    """1 - MS-SSIM (Wang, Simoncelli and Bovik, 2003) of each colour channel over five scales, averaged over channels.

    Between two scales images are averaged over 2 x 2 pixels; a side of odd length is first padded with its own edge,
    as in the authors' code. Five scales need 161 x 161 pixels; for patches there is `ms_ssim_3`. From 0 (equal images)
    to 1; otherwise as `ssim`.

    Examples
    --------
    >>> ref = np.zeros((1, 3, 161, 161))
    >>> ms_ssim(ref, ref), ms_ssim(ref, ref + 0.01).round(6)
    (array([0.]), array([0.088256]))
    """
    return in_pieces(lambda a, b: _ms_ssim(a, b, WEIGHTS), ref, x, least=161)


def ms_ssim_3(ref: Batch, x: Batch) -> Batch:
    """1 - MS-SSIM over the three finest scales, their weights divided by their sum, from 41 x 41 pixels.

    Otherwise as `ms_ssim`; the two are not comparable.

    Examples
    --------
    >>> ref = np.zeros((1, 3, 41, 41))
    >>> ms_ssim_3(ref, ref), ms_ssim_3(ref, ref + 0.01).round(6)
    (array([0.]), array([0.281018]))
    """
    return in_pieces(lambda a, b: _ms_ssim(a, b, WEIGHTS_3), ref, x, least=41)


def luma(images: Batch) -> Batch:
    """Luma of RGB images, (B, 3, H, W) to (B, 1, H, W), by the weights of ITU-R BT.601.

    Examples
    --------
    >>> luma(np.ones((1, 3, 1, 1)) * [[[[0.1]], [[0.2]], [[0.3]]]]).ravel().round(4)
    array([0.1815])
    """
    red, green, blue = LUMA
    return red * images[:, 0:1] + green * images[:, 1:2] + blue * images[:, 2:3]


def _ssim(ref: Batch, x: Batch) -> Batch:
    dissimilarity = _mean_over_windows(ref, x, lambda luminance, structure: 1 - luminance * structure)
    # Rounding must not make a distance negative.
    return dissimilarity.mean(axis=1).clip(min=0)


def _ms_ssim(ref: Batch, x: Batch, weights: tuple[float, ...]) -> Batch:
    product: Batch = 1.0
    for scale, weight in enumerate(weights):
        if scale:
            ref, x = _halve(ref), _halve(x)
        if scale < len(weights) - 1:
            similarity = _mean_over_windows(ref, x, lambda luminance, structure: structure)
        else:
            similarity = _mean_over_windows(ref, x, lambda luminance, structure: luminance * structure)
        # A negative similarity has no real power; it is usually taken as 0.
        product = product * similarity.clip(min=0) ** weight
    return (1 - product.mean(axis=1)).clip(min=0)


def _mean_over_windows(ref: Batch, x: Batch, value: Callable[[Batch, Batch], Batch]) -> Batch:
    """Mean over all whole windows of a function of the two `_terms` of SSIM, shape (B, C).

    Large images are processed in tiles, each with the margin that its windows need, so that the cost per pixel does not
    grow with the image, and the intermediate results of a tile stay in the cache.
    """
    height, width = ref.shape[2] - WINDOW + 1, ref.shape[3] - WINDOW + 1
    step = TILE - WINDOW + 1
    total: Batch = 0.0
    for top in range(0, height, step):
        for left in range(0, width, step):
            tile = (..., slice(top, top + TILE), slice(left, left + TILE))
            total = total + value(*_terms(ref[tile], x[tile])).sum(axis=(2, 3))
    return total / (height * width)


def _terms(ref: Batch, x: Batch) -> tuple[Batch, Batch]:
    """Luminance, and contrast times structure, of every whole window, (B, C, H - 10, W - 10); their product is SSIM.

    Only the sum of the two variances enters SSIM, so four windowed means suffice where five are often taken.
    """
    rows, columns = (like(ref, _averaging(size)) for size in ref.shape[2:])
    # Two products with banded matrices: 2.5 times as fast as eleven shifted copies along each axis.
    a, b, squares, product = (rows @ (image @ columns.T) for image in (ref, x, ref * ref + x * x, ref * x))
    ab, aa_bb = 2 * a * b, a * a + b * b
    return (ab + C1) / (aa_bb + C1), (2 * product - ab + C2) / (squares - aa_bb + C2)


@cache
def _averaging(size: int) -> FloatArray:
    """Matrix that takes the Gaussian mean of every whole window along an axis, shape (size - 10, size)."""
    offsets = np.arange(size) - np.arange(size - WINDOW + 1)[:, None] - WINDOW // 2
    weights = np.where(abs(offsets) <= WINDOW // 2, np.exp(-(offsets**2) / (2 * SIGMA**2)), 0)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _halve(images: Batch) -> Batch:
    """Means of 2 x 2 pixels; a last row or column without a partner counts twice."""
    down, across = ([min(first + 1, size - 1) for first in range(0, size, 2)] for size in images.shape[2:])
    rows = (images[:, :, 0::2] + images[:, :, down]) / 2
    return (rows[..., 0::2] + rows[..., across]) / 2
