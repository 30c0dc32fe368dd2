"""Triplets cut from photographs, and simulated people who judge them: what the demonstration runs on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter
from scipy.special import expit

from twoafc.distances import luma
from twoafc.distortions import DISTORTIONS, Images, distort
from twoafc.worlds import cast_votes

# Those that come inside scikit-image's own package, in the public domain or CC0: nothing is fetched.
PHOTOGRAPHS = ("astronaut", "brick", "camera", "chelsea", "coffee", "grass", "gravel", "rocket")
SIZE = 64
# A patch whose luma has a smaller standard deviation shows nothing to judge.
LEAST_CONTRAST = 0.04

# The simulated people. Weights of the four things they see, in the order of `seen`: chosen so that SSIM, Euclidean
# distance and mean brightness explain their votes in this order, none of them well.
WEIGHTS = (0.5, 0.7, 0.5, 1.5)
SEMISATURATION = 0.03
SLOPE, THRESHOLD, LAPSE = 3.0, 0.03, 0.03
PIECE = 32


@dataclass(frozen=True, eq=False)
class PhotographTriplets:
    """Images of triplets, and a table that says what each of them is.

    Parameters
    ----------
    ref, x0, x1 : array of float32, shape (T, 3, 64, 64)
        In [0, 1].
    table : polars.DataFrame, T rows
        ``group``, the photograph's name; ``ref``, ``x0`` and ``x1``, a name for each image; ``distortion0`` and
        ``distortion1``, ``strength0`` and ``strength1``, what was done to the reference to make x0 and x1.
    """

    ref: Images
    x0: Images
    x1: Images
    table: pl.DataFrame

    def __len__(self) -> int:
        return len(self.ref)


class Votes(NamedTuple):
    """Votes of simulated people: n of M chose x1, where the true chance was P; each of shape (T,)."""

    n: NDArray[np.int64]
    M: NDArray[np.int64]
    P: NDArray[np.float64]


def photograph_triplets(count: int, *, seed: int = 0) -> PhotographTriplets:
    """Cut patches from photographs, each of them equally often, and spoil each patch in two ways.

    The two distortions of a triplet, and their strengths, are drawn independently of each other and of the photograph.

    Parameters
    ----------
    count : int
        The number of triplets.
    seed : int
        Equal seeds give equal triplets.

    Examples
    --------
    >>> triplets = photograph_triplets(16, seed=1)
    >>> triplets.x0.shape, triplets.table["group"].n_unique()
    ((16, 3, 64, 64), 8)
    """
    if count < 1:
        raise ValueError(f"count must be at least 1; got {count}")
    rng = np.random.default_rng(seed)
    source = rng.permutation(np.arange(count) % len(PHOTOGRAPHS))
    ref = np.empty((count, 3, SIZE, SIZE), dtype=np.float32)
    corners = np.empty((count, 2), dtype=np.int64)
    for index, name in enumerate(PHOTOGRAPHS):
        rows = np.flatnonzero(source == index)
        ref[rows], corners[rows] = patches(photograph(name), len(rows), seed=rng)
    kinds = rng.integers(len(DISTORTIONS), size=(2, count))
    # Seldom next to nothing, seldom at its worst.
    strengths = rng.beta(1.5, 1.5, size=(2, count))
    x = np.empty((2, *ref.shape), dtype=np.float32)
    for kind, name in enumerate(DISTORTIONS):
        which, rows = np.nonzero(kinds == kind)
        x[which, rows] = distort(name, ref[rows], strengths[which, rows], seed=rng)
    return PhotographTriplets(ref, x[0], x[1], described(source, corners, kinds, strengths))


def described(
    source: NDArray[np.int64], corners: NDArray[np.int64], kinds: NDArray[np.int64], strengths: NDArray[np.float64]
) -> pl.DataFrame:
    """Name every image by what made it: 'coffee-120-45' is a patch, 'coffee-120-45-blur-0.3127' the same, blurred."""
    distortions = list(DISTORTIONS)
    made = pl.DataFrame(
        {
            "group": [PHOTOGRAPHS[index] for index in source],
            "ref": [f"{PHOTOGRAPHS[index]}-{top}-{left}" for index, (top, left) in zip(source, corners, strict=True)],
            "distortion0": [distortions[kind] for kind in kinds[0]],
            "distortion1": [distortions[kind] for kind in kinds[1]],
            "strength0": strengths[0].round(4),
            "strength1": strengths[1].round(4),
        }
    )
    x0, x1 = (pl.format("{}-{}-{}", "ref", f"distortion{i}", f"strength{i}").alias(f"x{i}") for i in (0, 1))
    return made.select("group", "ref", x0, x1, "distortion0", "distortion1", "strength0", "strength1")


@cache
def photograph(name: str) -> Images:
    """Load a photograph from the installed scikit-image, as RGB of shape (3, H, W) in [0, 1].

    Examples
    --------
    >>> photograph("camera").shape
    (3, 512, 512)
    """
    # Imported here, because it takes longer than the rest of the package.
    import skimage.data

    pixels = np.atleast_3d(getattr(skimage.data, name)()).transpose(2, 0, 1)
    return np.broadcast_to(pixels, (3, *pixels.shape[1:])).astype(np.float32) / np.float32(255)


def patches(image: Images, count: int, *, seed: int | np.random.Generator = 0) -> tuple[Images, NDArray[np.int64]]:
    """Cut patches at random places of an image, all different as long as there are enough, and none nearly flat.

    Returns
    -------
    (patches, corners)
        Shapes (count, 3, 64, 64) and (count, 2): the images, and the row and column of their upper left pixels.

    Examples
    --------
    >>> cut, corners = patches(photograph("coffee"), 2)
    >>> cut.shape, corners.shape
    ((2, 3, 64, 64), (2, 2))
    """
    grey = luma(image[None].astype(np.float64))[0, 0]
    mean, square = uniform_filter(grey, SIZE), uniform_filter(grey * grey, SIZE)
    # The filter's window reaches from 32 pixels before its place to 31 after it.
    whole = (slice(SIZE // 2, 1 - SIZE // 2),) * 2
    corners = np.argwhere((square - mean * mean)[whole] >= LEAST_CONTRAST**2)
    corners = np.random.default_rng(seed).choice(corners, size=count, replace=count > len(corners))
    windows = np.lib.stride_tricks.sliding_window_view(image, (SIZE, SIZE), axis=(1, 2))
    return np.moveaxis(windows[:, corners[:, 0], corners[:, 1]], 0, 1), corners


def brightness(ref: Images, x: Images) -> NDArray[np.float64]:
    """Difference of mean luma, a bad distance: the demonstration needs one that explains little.

    Examples
    --------
    >>> brightness(np.zeros((1, 3, 8, 8)), np.full((1, 3, 8, 8), 0.25))
    array([0.25])
    """
    means0, means1 = (luma(images.mean(axis=(2, 3), keepdims=True, dtype=np.float64)).ravel() for images in (ref, x))
    return np.asarray(abs(means0 - means1))


def observers(ref: Images, x0: Images, x1: Images, votes: int | Sequence[int], *, seed: int = 0) -> Votes:
    """Let simulated people say which of x0 and x1 is closer to the reference.

    They go by a distance of their own, `hidden_distance`, seen with a noise that grows with it above a threshold; 3 %
    of their votes are the toss of a coin. No distance of this package is theirs.

    Parameters
    ----------
    ref, x0, x1 : array of float32, shape (T, 3, 64, 64)
        In [0, 1].
    votes : int or sequence of int
        M; where there are several, each triplet draws one of them, all equally likely.
    seed : int
        Equal seeds give equal votes.

    Examples
    --------
    >>> triplets = photograph_triplets(8)
    >>> n, M, P = observers(triplets.ref, triplets.ref, triplets.x1, votes=5)
    >>> bool((P < 0.5).all()), M
    (True, array([5, 5, 5, 5, 5, 5, 5, 5]))
    """
    seen0, seen1 = (np.log(THRESHOLD + hidden_distance(ref, x)) for x in (x0, x1))
    P = LAPSE / 2 + (1 - LAPSE) * expit(SLOPE * (seen0 - seen1))
    n, M = cast_votes(P, votes, seed=seed)
    return Votes(n, M, P)


def hidden_distance(ref: Images, x: Images) -> NDArray[np.float64]:
    """Distance by which the simulated people judge: weighted mean differences of what they see.

    Examples
    --------
    >>> image = np.zeros((1, 3, 64, 64), dtype=np.float32)
    >>> hidden_distance(image, image), hidden_distance(image, image + 1).round(3)
    (array([0.]), array([0.5]))
    """
    total = np.zeros(len(ref))
    for start in range(0, len(ref), PIECE):
        piece = slice(start, start + PIECE)
        for weight, a, b in zip(WEIGHTS, seen(ref[piece]), seen(x[piece]), strict=True):
            total[piece] += weight * abs(a - b).reshape(len(a), -1).mean(axis=1)
    return total


def seen(images: Images) -> tuple[NDArray[Any], ...]:
    """What a simulated person keeps of an image: maps at half and at a quarter of its resolution.

    Of the finest details only how strong they are hereabouts, so that a small shift matters less than noise that
    changes the pixels as much; of the coarser ones their pattern, relative to the local contrast, which masks it; the
    coarse luma; the coarse colours.
    """
    grey = luma(images)[:, 0]
    sharp, coarse = smoothed(grey, 1.2, 1), smoothed(grey, 2.4, 2)
    fine, middle = grey - sharp, sharp[:, ::2, ::2] - coarse
    strength = np.log(SEMISATURATION + np.sqrt(smoothed(fine * fine, 2.5, 2)))
    pattern = middle / (SEMISATURATION + np.sqrt(smoothed(middle * middle, 1.25, 1)))
    colours = images[:, [0, 2]] - images[:, [1]]
    return strength, pattern, coarse, smoothed(colours, 2.0, 4)


def smoothed(images: Images, sigma: float, step: int) -> Images:
    """Smooth images (..., S, S) by a Gaussian of sigma pixels, and keep every step-th pixel."""
    weights = smoothing(images.shape[-1], sigma, step)
    return np.asarray(weights @ images @ weights.T)


@cache
def smoothing(size: int, sigma: float, step: int) -> Images:
    """Make the matrix that smooths an axis; the Gaussian is cut off at the border and made to sum to 1."""
    weights = np.exp(-(((np.arange(size) - np.arange(0, size, step)[:, None]) / sigma) ** 2) / 2)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), dtype=np.float32)
