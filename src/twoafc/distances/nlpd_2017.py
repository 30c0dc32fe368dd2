"""The normalised Laplacian pyramid distance in its form of 2017 (Laparra, Berardino, Ballé and Simoncelli).

It starts from the luminance of a display, has one filter for all bands, and pools with exponents of its own; it is
taken here on each of R, G and B, as in the code of google-research/perceptual-quality.
"""

from __future__ import annotations

from functools import lru_cache

from twoafc.distances.batches import Batch, in_pieces
from twoafc.distances.nlpd import EXPONENT, SIZES, Kernel, normalised
from twoafc.distances.pyramid import LOW_PASS, Operator, banded, filtering, laplacian

# A display of 5 to 180 cd/m2 with the exponent 2.4, and the eye's compression of its light.
DISPLAY_GAMMA, RANGE, DARKEST, EYE_GAMMA = 2.4, 175.0, 5.0, 2.6
SIGMA, SIGMA_LOW = 0.17, 4.86
# The 5 x 5 kernel has three different rows: outer, middle, centre.
KERNEL: Kernel = (
    ((1.0, 0.0, 0.0, 0.0, 1.0), (0.04, 0.04, 0.05, 0.04, 0.04)),
    ((0.0, 1.0, 0.0, 1.0, 0.0), (0.04, 0.03, 0.04, 0.03, 0.04)),
    ((1.0,), (0.05, 0.04, 0.05, 0.04, 0.05)),
)


def nlpd_2017(ref: Batch, x: Batch) -> Batch:
    """NLPD in its form of 2017, with six levels, on each colour channel; the mean over channels.

    Parameters
    ----------
    ref, x : array or tensor of float, shape (B, 3, H, W)
        Images in [0, 1], at least 65 x 65 pixels: for patches of 64 there is `nlpd_2017_5`.

    Returns
    -------
    array or tensor, shape (B,)
        At least 0; 0 for equal images.

    Examples
    --------
    >>> import numpy as np
    >>> ref = np.zeros((1, 3, 80, 80))
    >>> nlpd_2017(ref, ref), nlpd_2017(ref, ref + 1).round(6)
    (array([0.]), array([0.016461]))
    """
    return in_pieces(lambda a, b: _nlpd(a, b, 6), ref, x, least=65)


def nlpd_2017_5(ref: Batch, x: Batch) -> Batch:
    """NLPD in its form of 2017 with five levels, for patches; otherwise as `nlpd_2017`, and not comparable with it.

    Parameters
    ----------
    ref, x : array or tensor of float, shape (B, 3, H, W)
        Images in [0, 1], at least 33 x 33 pixels.

    Returns
    -------
    array or tensor, shape (B,)
        At least 0; 0 for equal images.

    Examples
    --------
    >>> import numpy as np
    >>> ref = np.zeros((1, 3, 64, 64))
    >>> nlpd_2017_5(ref, ref), nlpd_2017_5(ref, ref + 1).round(6)
    (array([0.]), array([0.022306]))
    """
    return in_pieces(lambda a, b: _nlpd(a, b, 5), ref, x, least=33)


def seen(images: Batch) -> Batch:
    """Light of a display that shows images, compressed as by the eye.

    Examples
    --------
    >>> import numpy as np
    >>> seen(np.array([0.0, 1.0])).round(4)
    array([1.8571, 7.3691])
    """
    # Rounding may leave values just below 0, which have no such power.
    return (images.clip(min=0) ** DISPLAY_GAMMA * RANGE + DARKEST) ** (1 / EYE_GAMMA)


def _nlpd(ref: Batch, x: Batch, levels: int) -> Batch:
    total: Batch = 0.0
    pairs = zip(
        *(laplacian(seen(images), levels - 1, reduce=_halve, expand=_double, trim=1) for images in (ref, x)),
        strict=True,
    )
    for level, pair in enumerate(pairs):
        if level < levels - 1:
            a, b = (normalised(band, SIGMA, KERNEL, "constant") for band in pair)
        else:
            a, b = (low / (abs(low) + SIGMA_LOW) for low in pair)
        total = total + ((a - b) ** 2).mean(axis=(2, 3)) ** (EXPONENT / 2)
    return ((total / levels) ** (1 / EXPONENT)).mean(axis=1)


@lru_cache(maxsize=SIZES)
def _halve(size: int) -> Operator:
    """Halve a side with one pixel more at each end than the next level keeps."""
    return banded(filtering(size, LOW_PASS, "reflect", pad=(4, 4), stride=2))


@lru_cache(maxsize=SIZES)
def _double(size: int) -> Operator:
    """Transpose of halving the mirrored side, without its margins."""
    halve = filtering(size + 8, LOW_PASS, "constant", pad=(0, 0), stride=2)
    return banded(2 * halve.T[4 : 4 + size])
