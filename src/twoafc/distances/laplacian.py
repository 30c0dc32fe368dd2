"""The normalised Laplacian pyramid distance (NLPD) in three published forms.

Each band of a Laplacian pyramid (Burt and Adelson, 1983) is divided by the local activity around each pixel, as
responses of the early visual system are, and the distance is taken between the quotients. The forms differ in input,
filters and pooling: Laparra, Ballé, Berardino and Simoncelli (2016), on luma; A. Hepburn's code, on RGB; and Laparra,
Berardino, Ballé and Simoncelli (2017), on the luminance of a display.

Filtering, halving and doubling act on rows and columns alike, so that each is two matrix products, with the same code
for numpy arrays and torch tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import lru_cache
from typing import Literal

import numpy as np

from twoafc.arrays import FloatArray
from twoafc.distances.batches import Batch, in_pieces, like
from twoafc.distances.structural import luma
from twoafc.errors import require

Border = Literal["constant", "symmetric", "reflect"]
# A sum of separable kernels, each with its taps down a column and along a row.
Kernel = tuple[tuple[tuple[float, ...], tuple[float, ...]], ...]
# A banded matrix as blocks of rows, so that the cost per pixel does not grow with the image: of each block the first
# column that it needs, and its part of the matrix from there on.
Operator = tuple[tuple[int, FloatArray], ...]

LOW_PASS = (0.05, 0.25, 0.4, 0.25, 0.05)
EXPONENT = 0.6
# 2016 and RGB: fitted by the authors to natural images, from the finest band to the low-pass image: the constant, and
# the weights of the neighbours above and below, left and right, as the kernels are printed.
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
# Two pixels to the right, in the finest band only; the RGB form leaves it out.
FAR = 0.0072
# 2017: a display of 5 to 180 cd/m2 with the exponent 2.4, and the eye's compression of its light.
DISPLAY_GAMMA, RANGE, DARKEST, EYE_GAMMA = 2.4, 175.0, 5.0, 2.6
SIGMA_2017, SIGMA_LOW_2017 = 0.17, 4.86
# The 5 x 5 kernel has three different rows: outer, middle, centre.
KERNEL_2017: Kernel = (
    ((1.0, 0.0, 0.0, 0.0, 1.0), (0.04, 0.04, 0.05, 0.04, 0.04)),
    ((0.0, 1.0, 0.0, 1.0, 0.0), (0.04, 0.03, 0.04, 0.03, 0.04)),
    ((1.0,), (0.05, 0.04, 0.05, 0.04, 0.05)),
)
IDENTITY = (1.0,)
BLOCK = 64
# Number of cached operators: enough for a few image shapes; a large data set may have too many for more.
CACHED = 400


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
    return in_pieces(_nlpd_2016, ref, x, least=17)


def nlpd_rgb(ref: Batch, x: Batch, *, levels: int = 5) -> Batch:
    """NLPD of RGB images in the form of A. Hepburn's code: Laplacian bands alone, and the 0.6-norm of their errors.

    There are 1 to 6 bands, or levels, and images have more than 2^levels pixels on each side. The code has no default;
    5 is the most that 64 pixels allow. Otherwise as `nlpd`.

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


def nlpd_2017(ref: Batch, x: Batch) -> Batch:
    """NLPD in its form of 2017, with six levels, on each colour channel; the mean over channels.

    It starts from the luminance of a display, has one filter for all bands, and pools with its own exponents; on R, G
    and B separately, as in the code of google-research/perceptual-quality. Images have at least 65 x 65 pixels: for
    patches of 64 there is `nlpd_2017_5`. Otherwise as `nlpd`.

    Examples
    --------
    >>> ref = np.zeros((1, 3, 80, 80))
    >>> nlpd_2017(ref, ref), nlpd_2017(ref, ref + 1).round(6)
    (array([0.]), array([0.016461]))
    """
    return in_pieces(lambda a, b: _nlpd_2017(a, b, 6), ref, x, least=65)


def nlpd_2017_5(ref: Batch, x: Batch) -> Batch:
    """NLPD in its form of 2017 with five levels, from 33 x 33 pixels; otherwise as `nlpd_2017`, and not comparable.

    Examples
    --------
    >>> ref = np.zeros((1, 3, 64, 64))
    >>> nlpd_2017_5(ref, ref), nlpd_2017_5(ref, ref + 1).round(6)
    (array([0.]), array([0.022306]))
    """
    return in_pieces(lambda a, b: _nlpd_2017(a, b, 5), ref, x, least=33)


def _nlpd_2016(ref: Batch, x: Batch) -> Batch:
    total: Batch = 0.0
    pairs = zip(*(_pyramid(luma(images), 5, _halve, _double) for images in (ref, x)), strict=True)
    for level, (a, b) in enumerate(pairs):
        a, b = (_normalise(band, SIGMAS[level], _kernel(level), "constant") for band in (a, b))
        total = total + ((a - b) ** 2).mean(axis=(1, 2, 3)) ** 0.5
    return total / len(SIGMAS)


def _nlpd_rgb(ref: Batch, x: Batch, levels: int) -> Batch:
    total: Batch = 0.0
    pairs = zip(*(_pyramid(images, levels, _halve_rgb, _double_rgb) for images in (ref, x)), strict=True)
    for level, (a, b) in zip(range(levels), pairs, strict=False):  # this form does not use the low-pass image
        a, b = (_normalise(band, SIGMAS[level], _kernel(level, flipped=False), "reflect") for band in (a, b))
        total = total + ((a - b) ** 2).mean(axis=(1, 2, 3)) ** (EXPONENT / 2)
    return total ** (1 / EXPONENT)


def _nlpd_2017(ref: Batch, x: Batch, levels: int) -> Batch:
    total: Batch = 0.0
    pyramids = (_pyramid(_perceived(images), levels - 1, _halve_2017, _double_2017, trim=1) for images in (ref, x))
    for level, pair in enumerate(zip(*pyramids, strict=True)):
        if level < levels - 1:
            a, b = (_normalise(band, SIGMA_2017, KERNEL_2017, "constant") for band in pair)
        else:
            a, b = (low / (abs(low) + SIGMA_LOW_2017) for low in pair)
        total = total + ((a - b) ** 2).mean(axis=(2, 3)) ** (EXPONENT / 2)
    return ((total / levels) ** (1 / EXPONENT)).mean(axis=1)


def _perceived(images: Batch) -> Batch:
    """Light of a display that shows images, compressed as by the eye."""
    # Rounding may leave values just below 0, which have no such power.
    return (images.clip(min=0) ** DISPLAY_GAMMA * RANGE + DARKEST) ** (1 / EYE_GAMMA)


def _normalise(band: Batch, sigma: float, kernel: Kernel, border: Border) -> Batch:
    """Divide a band by a constant plus the weighted magnitudes of each pixel's neighbours."""
    magnitude, total = abs(band), sigma
    for taps in kernel:
        down, across = (
            None if side == IDENTITY else _operator(_filtering, size, side, border)
            for size, side in zip(band.shape[2:], taps, strict=True)
        )
        total = total + _apply(magnitude, down, across)
    return band / total


def _kernel(level: int, *, flipped: bool = True) -> Kernel:
    """Weights of the neighbours for correlation. The code of 2016 convolves: its kernel is flipped, and has `FAR`."""
    (up, down), (left, right) = VERTICAL[level], HORIZONTAL[level]
    across: tuple[float, ...] = (left, 0.0, right)
    along = (up, 0.0, down)
    if flipped:
        across, along = (0.0 if level else FAR, right, 0.0, left, 0.0), (down, 0.0, up)
    return ((IDENTITY, across), (along, IDENTITY)) if up else ((IDENTITY, across),)


# Linear operators along one side of an image


def _pyramid(
    images: Batch,
    levels: int,
    reduce: Callable[[int], FloatArray],
    expand: Callable[[int], FloatArray],
    *,
    trim: int = 0,
) -> Iterator[Batch]:
    """Yield the bands of a Laplacian pyramid from fine to coarse, and then the low-pass image.

    A band is an image minus itself reduced and expanded again; the next band is that of the reduced image. `reduce` and
    `expand` map the length of the finer side to a matrix. `trim` is the number of pixels that a reduced image has
    beyond each border for `expand` only.
    """
    for _ in range(levels):
        sides = images.shape[2:]
        reduced = _apply(images, *(_operator(reduce, side) for side in sides))
        yield images - _apply(reduced, *(_operator(expand, side) for side in sides))
        images = reduced[:, :, trim : reduced.shape[2] - trim, trim : reduced.shape[3] - trim]
    yield images


def _apply(images: Batch, down: Operator | None, across: Operator | None) -> Batch:
    """Apply one operator down the columns of images and another across their rows; None leaves a side as it is."""
    if across is not None:
        parts = [images[..., at : at + matrix.shape[1]] @ like(images, matrix).T for at, matrix in across]
        images = _concatenate(parts, axis=3)
    if down is not None:
        parts = [like(images, matrix) @ images[:, :, at : at + matrix.shape[1]] for at, matrix in down]
        images = _concatenate(parts, axis=2)
    return images


def _concatenate(parts: list[Batch], *, axis: int) -> Batch:
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts, axis=axis)
    return require("torch", extra="torch").cat(parts, dim=axis)


@lru_cache(maxsize=CACHED)
def _operator(make: Callable[..., FloatArray], size: int, *settings: Hashable) -> Operator:
    """Make the matrix for a side, and cut it into blocks of rows, each without the zeros around it."""
    matrix, blocks = make(size, *settings), []
    for start in range(0, len(matrix), BLOCK):
        rows = matrix[start : start + BLOCK]
        needed = np.flatnonzero(rows.any(axis=0))
        first, last = (int(needed[0]), int(needed[-1])) if len(needed) else (0, 0)
        # In this order the transpose, which a product from the right needs, is the faster one.
        blocks.append((first, np.asfortranarray(rows[:, first : last + 1])))
    return tuple(blocks)


def _filtering(
    size: int, taps: tuple[float, ...], border: Border, *, pad: tuple[int, int] | None = None, stride: int = 1
) -> FloatArray:
    """Make the banded matrix that correlates a side with taps, and keeps every stride-th pixel.

    The border is padded as by `numpy.pad`; `pad` is the padding in front and behind, by default such that the length of
    the side stays the same.

    Examples
    --------
    >>> _filtering(3, (1.0, 2.0, 4.0), "reflect")
    array([[2., 5., 0.],
           [1., 2., 4.],
           [0., 5., 2.]])
    """
    padded = np.pad(np.eye(size), (pad or (len(taps) // 2, len(taps) // 2), (0, 0)), mode=border)
    count = len(padded) - len(taps) + 1
    matrix = sum(tap * padded[start : start + count] for start, tap in enumerate(taps))
    return np.asarray(matrix)[::stride]


def _halve(size: int) -> FloatArray:
    return _filtering(size, LOW_PASS, "symmetric", stride=2)


def _double(size: int) -> FloatArray:
    """Repeat the border, put zeros between the pixels, and filter, with the borders of the published code."""
    half = (size + 1) // 2
    spread = np.zeros((2 * (half + 2), half))
    spread[::2] = 2 * np.pad(np.eye(half), ((1, 1), (0, 0)), mode="edge")
    doubled = _filtering(len(spread), LOW_PASS, "constant") @ spread
    return doubled[2 : 2 + size]


def _halve_rgb(size: int) -> FloatArray:
    """Halve with the padding that makes the result ceil(size / 2) long, the smaller half of it in front."""
    padding = 2 * ((size + 1) // 2) + 3 - size
    return _filtering(size, LOW_PASS, "reflect", pad=(padding // 2, padding - padding // 2), stride=2)


def _double_rgb(size: int) -> FloatArray:
    """Interpolate linearly from one end to the other, then filter."""
    half = (size + 1) // 2
    positions = np.arange(size) * (half - 1) / (size - 1)
    between = np.maximum(0, 1 - abs(positions[:, None] - np.arange(half)))
    return _filtering(size, LOW_PASS, "reflect") @ between


def _halve_2017(size: int) -> FloatArray:
    """Halve a side, with one pixel more at each end than the next level uses."""
    return _filtering(size, LOW_PASS, "reflect", pad=(4, 4), stride=2)


def _double_2017(size: int) -> FloatArray:
    """Transpose of halving the mirrored side, without its margins."""
    halve = _filtering(size + 8, LOW_PASS, "constant", pad=(0, 0), stride=2)
    return 2 * halve.T[4 : 4 + size]
