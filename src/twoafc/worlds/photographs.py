"""Triplets of distorted photographs, and simulated observers who judge them: the data of the demonstration."""

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

from twoafc.arrays import FloatArray, IntArray
from twoafc.distances import luma
from twoafc.worlds.distortions import AT_ONCE, DISTORTIONS, Images, distort
from twoafc.worlds.models import cast_votes

# Shipped inside scikit-image, in the public domain or CC0: nothing is downloaded.
PHOTOGRAPHS = ("astronaut", "brick", "camera", "chelsea", "coffee", "grass", "gravel", "rocket")
SIZE = 64
# A patch whose luma has a smaller standard deviation shows too little to judge.
LEAST_CONTRAST = 0.04

# The simulated observers: weights of the four features that they compare, in the order of `_features`. They are chosen
# so that SSIM, Euclidean distance and mean brightness explain the votes in this order, none of them well.
WEIGHTS = (0.5, 0.7, 0.5, 1.5)
SEMISATURATION = 0.03
SLOPE, THRESHOLD, LAPSE = 3.0, 0.03, 0.03


@dataclass(frozen=True, eq=False)
class PhotographTriplets:
    """Images of T triplets, each of shape (T, 3, 64, 64) in [0, 1], and a table that describes them.

    It has ``group``, the photograph's name; ``ref``, ``x0`` and ``x1``, a name for each image; ``distortion0`` and
    ``distortion1``, ``strength0`` and ``strength1``, how x0 and x1 were made from the reference.
    """

    ref: Images
    x0: Images
    x1: Images
    table: pl.DataFrame

    def __len__(self) -> int:
        return len(self.ref)


class SimulatedVotes(NamedTuple):
    """Votes of simulated observers: n of M chose x1, whose true probability was P; each of shape (T,)."""

    n: IntArray
    M: IntArray
    P: FloatArray


def photograph_triplets(count: int, *, seed: int = 0) -> PhotographTriplets:
    """Cut patches from the photographs, equally often from each, and distort every patch twice.

    The two distortions of a triplet, and their strengths, are drawn independently of each other and of the photograph.

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
    ref, corners = _cut_patches(source, rng)
    x = np.concatenate([ref, ref])
    # Strengths are rarely near 0 or 1.
    kinds, strengths = rng.integers(len(DISTORTIONS), size=2 * count), rng.beta(1.5, 1.5, size=2 * count)
    for kind, name in enumerate(DISTORTIONS):
        rows = np.flatnonzero(kinds == kind)
        x[rows] = distort(name, x[rows], strengths[rows], seed=rng)
    table = _describe(source, corners, kinds.reshape(2, count), strengths.reshape(2, count))
    return PhotographTriplets(ref, x[:count], x[count:], table)


def _cut_patches(source: IntArray, rng: np.random.Generator) -> tuple[Images, IntArray]:
    """Cut a patch from each photograph, given by its place in `PHOTOGRAPHS`; return their corners, too."""
    ref = np.empty((len(source), 3, SIZE, SIZE), dtype=np.float32)
    corners = np.empty((len(source), 2), dtype=np.int64)
    for index in np.unique(source):
        rows = np.flatnonzero(source == index)
        ref[rows], corners[rows] = patches(photograph(PHOTOGRAPHS[index]), len(rows), seed=rng)
    return ref, corners


def _describe(source: IntArray, corners: IntArray, kinds: IntArray, strengths: FloatArray) -> pl.DataFrame:
    """Name every image by how it was made: 'coffee-120-45' is a patch, 'coffee-120-45-blur-0.3127' that, blurred."""
    distortions = list(DISTORTIONS)
    table = pl.DataFrame(
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
    return table.select("group", "ref", x0, x1, "distortion0", "distortion1", "strength0", "strength1")


@cache
def photograph(name: str) -> Images:
    """Load a photograph from the installed scikit-image, as RGB of shape (3, H, W) in [0, 1].

    Examples
    --------
    >>> photograph("camera").shape
    (3, 512, 512)
    """
    # Imported here because it takes longer than the rest of the package.
    import skimage.data

    pixels = np.atleast_3d(getattr(skimage.data, name)()).transpose(2, 0, 1)
    return np.broadcast_to(pixels, (3, *pixels.shape[1:])).astype(np.float32) / np.float32(255)


def patches(image: Images, count: int, *, seed: int | np.random.Generator = 0) -> tuple[Images, IntArray]:
    """Cut patches at random places of an image, without repeats where it has enough, and none nearly flat.

    The second array has the row and column of their upper left pixels.

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


def brightness(ref: Images, x: Images) -> FloatArray:
    """Difference of mean luma: a poor distance, which the demonstration needs.

    Examples
    --------
    >>> brightness(np.zeros((1, 3, 8, 8)), np.full((1, 3, 8, 8), 0.25))
    array([0.25])
    """
    means0, means1 = (luma(images.mean(axis=(2, 3), keepdims=True, dtype=np.float64)).ravel() for images in (ref, x))
    return np.asarray(abs(means0 - means1))


def observers(ref: Images, x0: Images, x1: Images, votes: int | Sequence[int], *, seed: int = 0) -> SimulatedVotes:
    """Simulate observers who choose which of x0 and x1 is closer to the reference.

    They judge by `hidden_distance`, perceived with noise that grows with it above a threshold; 3 % of their votes are
    random. It is none of the distances of this package. Of several numbers of votes each triplet draws one.

    Examples
    --------
    >>> triplets = photograph_triplets(8)
    >>> n, M, P = observers(triplets.ref, triplets.ref, triplets.x1, votes=5)
    >>> bool((P < 0.5).all()), M
    (True, array([5, 5, 5, 5, 5, 5, 5, 5]))
    """
    perceived0, perceived1 = (np.log(THRESHOLD + hidden_distance(ref, x)) for x in (x0, x1))
    P = LAPSE / 2 + (1 - LAPSE) * expit(SLOPE * (perceived0 - perceived1))
    n, M = cast_votes(P, votes, seed=seed)
    return SimulatedVotes(n, M, P)


def hidden_distance(ref: Images, x: Images) -> FloatArray:
    """Distance by which the simulated observers judge: a weighted sum of mean differences of four features.

    Examples
    --------
    >>> image = np.zeros((1, 3, 64, 64), dtype=np.float32)
    >>> hidden_distance(image, image), hidden_distance(image, image + 1).round(3)
    (array([0.]), array([0.5]))
    """
    total = np.zeros(len(ref))
    for start in range(0, len(ref), AT_ONCE):
        piece = slice(start, start + AT_ONCE)
        for weight, a, b in zip(WEIGHTS, _features(ref[piece]), _features(x[piece]), strict=True):
            total[piece] += weight * abs(a - b).reshape(len(a), -1).mean(axis=1)
    return total


def _features(images: Images) -> tuple[NDArray[Any], ...]:
    """Compute what a simulated observer compares, at half and at a quarter of the resolution.

    The local strength of the finest details, so that a small shift matters less than noise that changes the pixels as
    much; the pattern of coarser details relative to the local contrast, which masks them; coarse luma; coarse colours.
    """
    grey = luma(images)[:, 0]
    sharp, coarse = _smooth(grey, 1.2, 1), _smooth(grey, 2.4, 2)
    fine, middle = grey - sharp, sharp[:, ::2, ::2] - coarse
    strength = np.log(SEMISATURATION + np.sqrt(_smooth(fine * fine, 2.5, 2)))
    pattern = middle / (SEMISATURATION + np.sqrt(_smooth(middle * middle, 1.25, 1)))
    colours = images[:, [0, 2]] - images[:, [1]]
    return strength, pattern, coarse, _smooth(colours, 2.0, 4)


def _smooth(images: Images, sigma: float, step: int) -> Images:
    """Smooth images (..., S, S) with a Gaussian of sigma pixels, and keep every step-th pixel."""
    weights = _smoothing_matrix(images.shape[-1], sigma, step)
    return np.asarray(weights @ images @ weights.T)


@cache
def _smoothing_matrix(size: int, sigma: float, step: int) -> Images:
    """Build the matrix that smooths one axis; at the border the Gaussian is cut off and renormalised."""
    weights = np.exp(-(((np.arange(size) - np.arange(0, size, step)[:, None]) / sigma) ** 2) / 2)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), dtype=np.float32)
