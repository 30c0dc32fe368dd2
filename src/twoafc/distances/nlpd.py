"""The normalised Laplacian pyramid distance (Laparra, Ballé, Berardino and Simoncelli, 2016), and its form on RGB.

Each band of a Laplacian pyramid is divided by what its neighbourhood leads one to expect, as responses of the early
visual system are; the distance is taken between the quotients. Several distances go by this name: see also
`nlpd_2017`.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from twoafc.distances.batches import Batch, in_pieces
from twoafc.distances.pyramid import LOW_PASS, Border, Operator, along, banded, filtering, laplacian
from twoafc.distances.ssim import luma

# Fitted by the authors to natural images, from the finest band to the low-pass image: the constant, and the weights of
# the neighbours above and below, left and right, as the kernels are printed.
SIGMAS = (0.0248, 0.0185, 0.0179, 0.0191, 0.0220, 0.2782)
VERTICAL = ((0.1011, 0.1015), (0.0757, 0.0837), (0.0477, 0.0467), (0.0, 0.0), (0.0, 0.0), (0.0, 0.0))
HORIZONTAL = (
    (0.1493, 0.1460),
    (0.1986, 0.1846),
    (0.2138, 0.2243),
    (0.2503, 0.2616),
    (0.2598, 0.2552),
    (0.2215, 0.0717),
)
# Two pixels to the right, in the finest band alone; the RGB form leaves it out.
FAR = 0.0072
EXPONENT = 0.6
# Operators of so many sizes are kept, enough for a few shapes of images; those of a large data set may be too many.
SIZES = 64

# A sum of separable kernels: for each the taps down a column and those along a row.
Kernel = tuple[tuple[tuple[float, ...], tuple[float, ...]], ...]
HERE = (1.0,)


def nlpd(ref: Batch, x: Batch) -> Batch:
    """NLPD as published in 2016, on luma: the mean over six bands of the root mean square difference.

    Parameters
    ----------
    ref, x : array or tensor of float, shape (B, 3, H, W)
        Images in [0, 1], at least 17 x 17 pixels, so that each of the five halvings has two pixels to average.

    Returns
    -------
    array or tensor, shape (B,)
        At least 0; 0 for equal lumas.

    Examples
    --------
    >>> ref = np.zeros((1, 3, 32, 32))
    >>> nlpd(ref, ref), nlpd(ref, ref + 0.5).round(6)
    (array([0.]), array([0.299545]))
    """
    return in_pieces(_nlpd, ref, x, least=17)


def nlpd_rgb(ref: Batch, x: Batch, *, levels: int = 5) -> Batch:
    """NLPD of RGB images in the form of A. Hepburn's code: Laplacian bands alone, and the 0.6-norm of their errors.

    Parameters
    ----------
    ref, x : array or tensor of float, shape (B, 3, H, W)
        Images in [0, 1], more than 2^levels pixels on each side.
    levels : int
        Number of bands, 1 to 6. The code has no default; 5 is the most that 64 pixels allow.

    Returns
    -------
    array or tensor, shape (B,)
        At least 0; 0 for equal images.

    Examples
    --------
    >>> ref = np.zeros((1, 3, 64, 64))
    >>> x = ref.copy()
    >>> x[:, :, ::2] = 1.0
    >>> nlpd_rgb(ref, ref), nlpd_rgb(ref, x, levels=1).round(4)
    (array([0.]), array([1.8265]))
    """
    if not 1 <= levels <= len(SIGMAS):
        raise ValueError(f"levels must lie in 1..{len(SIGMAS)}; got {levels}")
    return in_pieces(lambda a, b: _nlpd_rgb(a, b, levels), ref, x, least=2**levels + 1)


def normalised(band: Batch, sigma: float, kernel: Kernel, border: Border) -> Batch:
    """Divide a band by a constant plus the weighted magnitudes of each pixel's neighbours.

    Examples
    --------
    >>> band = np.array([[[[1.0, -2.0, 4.0]]]])
    >>> normalised(band, 1.0, (((1.0,), (0.5, 0.0, 0.5)),), "constant")
    array([[[[ 0.5       , -0.57142857,  2.        ]]]])
    """
    magnitude, total = abs(band), sigma
    for taps in kernel:
        down, across = (
            None if side == HERE else _neighbours(size, side, border)
            for size, side in zip(band.shape[2:], taps, strict=True)
        )
        total = total + along(magnitude, down, across)
    return band / total


def _nlpd(ref: Batch, x: Batch) -> Batch:
    total: Batch = 0.0
    pairs = zip(*(laplacian(luma(images), 5, reduce=_halve, expand=_double) for images in (ref, x)), strict=True)
    for level, (a, b) in enumerate(pairs):
        a, b = (normalised(band, SIGMAS[level], _kernel(level), "constant") for band in (a, b))
        total = total + ((a - b) ** 2).mean(axis=(1, 2, 3)) ** 0.5
    return total / len(SIGMAS)


def _nlpd_rgb(ref: Batch, x: Batch, levels: int) -> Batch:
    total: Batch = 0.0
    pairs = zip(*(laplacian(images, levels, reduce=_halve_rgb, expand=_double_rgb) for images in (ref, x)), strict=True)
    for level, (a, b) in zip(range(levels), pairs, strict=False):  # the low-pass image has no part in this form
        a, b = (normalised(band, SIGMAS[level], _kernel_rgb(level), "reflect") for band in (a, b))
        total = total + ((a - b) ** 2).mean(axis=(1, 2, 3)) ** (EXPONENT / 2)
    return total ** (1 / EXPONENT)


def _kernel(level: int) -> Kernel:
    """Give the neighbours' weights as they meet the pixels: the published code convolves, so the kernel is turned."""
    (up, down), (left, right) = VERTICAL[level], HORIZONTAL[level]
    across = ((HERE, (0.0 if level else FAR, right, 0.0, left, 0.0)),)
    return (*across, ((down, 0.0, up), HERE)) if up else across


def _kernel_rgb(level: int) -> Kernel:
    (up, down), (left, right) = VERTICAL[level], HORIZONTAL[level]
    across = ((HERE, (left, 0.0, right)),)
    return (*across, ((up, 0.0, down), HERE)) if up else across


@lru_cache(maxsize=SIZES)
def _neighbours(size: int, taps: tuple[float, ...], border: Border) -> Operator:
    return banded(filtering(size, taps, border))


@lru_cache(maxsize=SIZES)
def _halve(size: int) -> Operator:
    return banded(filtering(size, LOW_PASS, "symmetric", stride=2))


@lru_cache(maxsize=SIZES)
def _double(size: int) -> Operator:
    """Repeat the border, put zeros between the pixels, filter; the borders of that are the published code's own."""
    half = (size + 1) // 2
    spread = np.zeros((2 * (half + 2), half))
    spread[::2] = 2 * np.pad(np.eye(half), ((1, 1), (0, 0)), mode="edge")
    doubled = filtering(len(spread), LOW_PASS, "constant") @ spread
    return banded(doubled[2 : 2 + size])


@lru_cache(maxsize=SIZES)
def _halve_rgb(size: int) -> Operator:
    """Halve with the padding that makes the result ceil(size / 2) long, the smaller half of it in front."""
    padding = 2 * ((size + 1) // 2) + 3 - size
    return banded(filtering(size, LOW_PASS, "reflect", pad=(padding // 2, padding - padding // 2), stride=2))


@lru_cache(maxsize=SIZES)
def _double_rgb(size: int) -> Operator:
    """Interpolate linearly from one end to the other, then filter."""
    half = (size + 1) // 2
    places = np.arange(size) * (half - 1) / (size - 1)
    between = np.maximum(0, 1 - abs(places[:, None] - np.arange(half)))
    return banded(filtering(size, LOW_PASS, "reflect") @ between)
