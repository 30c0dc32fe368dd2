"""Multi-scale structural similarity (Wang, Simoncelli and Bovik, 2003) as a distance: 1 - MS-SSIM."""

from __future__ import annotations

from twoafc.distances.batches import Batch, in_pieces
from twoafc.distances.ssim import WINDOW, mean_over_windows

# From fine to coarse, as the authors fitted them to people's matches between scales.
WEIGHTS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)
WEIGHTS_3 = tuple(weight / sum(WEIGHTS[:3]) for weight in WEIGHTS[:3])


def ms_ssim(ref: Batch, x: Batch) -> Batch:
    """1 - MS-SSIM of each colour channel over five scales, averaged over channels.

    The windows are those of `ssim`. Between two scales images are averaged over 2 x 2 pixels; a side of odd length is
    first completed by its own edge, as in the authors' code. Five scales leave nothing to compare in images below 161
    pixels: for patches there is `ms_ssim_3`.

    Parameters
    ----------
    ref, x : array or tensor of float, shape (B, 3, H, W)
        Images in [0, 1], at least 161 x 161 pixels.

    Returns
    -------
    array or tensor, shape (B,)
        From 0 (equal images) to 1.

    Examples
    --------
    >>> import numpy as np
    >>> ref = np.zeros((1, 3, 161, 161))
    >>> ms_ssim(ref, ref), ms_ssim(ref, ref + 0.01).round(6)
    (array([0.]), array([0.088256]))
    """
    return in_pieces(lambda a, b: dissimilarity(a, b, WEIGHTS), ref, x, least=least_size(WEIGHTS))


def ms_ssim_3(ref: Batch, x: Batch) -> Batch:
    """1 - MS-SSIM over the three finest scales, their weights divided by their sum: for patches of 64 pixels.

    Otherwise as `ms_ssim`, and not comparable with it.

    Parameters
    ----------
    ref, x : array or tensor of float, shape (B, 3, H, W)
        Images in [0, 1], at least 41 x 41 pixels.

    Returns
    -------
    array or tensor, shape (B,)
        From 0 (equal images) to 1.

    Examples
    --------
    >>> import numpy as np
    >>> ref = np.zeros((1, 3, 41, 41))
    >>> ms_ssim_3(ref, ref), ms_ssim_3(ref, ref + 0.01).round(6)
    (array([0.]), array([0.281018]))
    """
    return in_pieces(lambda a, b: dissimilarity(a, b, WEIGHTS_3), ref, x, least=least_size(WEIGHTS_3))


def least_size(weights: tuple[float, ...]) -> int:
    """Smallest side that leaves one whole window at the coarsest scale.

    Examples
    --------
    >>> least_size((0.5, 0.5))
    21
    """
    return int((WINDOW - 1) * 2 ** (len(weights) - 1) + 1)


def dissimilarity(ref: Batch, x: Batch, weights: tuple[float, ...]) -> Batch:
    """1 - MS-SSIM with one weight per scale, averaged over channels.

    Examples
    --------
    >>> import numpy as np
    >>> a, b = np.zeros((1, 1, 30, 30)), np.ones((1, 1, 30, 30))
    >>> dissimilarity(a, b, (0.5, 0.5)).round(4)
    array([0.99])
    """
    product: Batch = 1.0
    for scale, weight in enumerate(weights):
        if scale:
            ref, x = halved(ref), halved(x)
        similarity = mean_similarity(ref, x, luminance=scale == len(weights) - 1)
        # A structure turned into its negative has no root; the usual reading is that nothing is left in common.
        product = product * similarity.clip(min=0) ** weight
    return (1 - product.mean(axis=1)).clip(min=0)


def mean_similarity(ref: Batch, x: Batch, *, luminance: bool) -> Batch:
    """Contrast and structure, times luminance where wanted, averaged over all whole windows: shape (B, C).

    Examples
    --------
    >>> import numpy as np
    >>> a, b = np.zeros((1, 1, 100, 70)), np.ones((1, 1, 100, 70))
    >>> mean_similarity(a, b, luminance=False), mean_similarity(a, b, luminance=True).round(4)
    (array([[1.]]), array([[0.0001]]))
    """
    return mean_over_windows(ref, x, lambda light, structure: light * structure if luminance else structure)


def halved(images: Batch) -> Batch:
    """Means of 2 x 2 pixels; a last row or column without a partner stands twice.

    Examples
    --------
    >>> import numpy as np
    >>> halved(np.array([[[[0.0, 0.2, 0.6], [0.4, 0.6, 1.0]]]]))
    array([[[[0.3, 0.8]]]])
    """
    rows = (images[:, :, 0::2] + images[:, :, partners(images.shape[2])]) / 2
    return (rows[..., 0::2] + rows[..., partners(images.shape[3])]) / 2


def partners(size: int) -> list[int]:
    """Index of the second pixel of each pair along a side.

    Examples
    --------
    >>> partners(4), partners(5)
    ([1, 3], [1, 3, 4])
    """
    return [min(first + 1, size - 1) for first in range(0, size, 2)]
