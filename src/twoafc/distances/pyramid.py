"""Linear operators along the sides of images, as matrices, and the Laplacian pyramid (Burt and Adelson, 1983) of them.

Filtering, halving and doubling an image act on its rows and on its columns alike, so each is two matrix products, for
numpy arrays and torch tensors in the same words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twoafc.distances.batches import Batch

Matrix = NDArray[np.float64]
Border = Literal["constant", "symmetric", "reflect"]
LOW_PASS = (0.05, 0.25, 0.4, 0.25, 0.05)
BLOCK = 64


class Block(NamedTuple):
    """Some rows of a banded matrix: the first column that they need, and their part of the matrix from there on."""

    first: int
    matrix: Matrix


# A banded matrix, block after block, so that the cost of a pixel does not grow with the image.
Operator = tuple[Block, ...]


def along(images: Batch, down: Operator | None, across: Operator | None) -> Batch:
    """Apply one operator down the columns of images and another across their rows; None leaves a side as it is.

    Examples
    --------
    >>> images = np.arange(6.0).reshape(1, 1, 2, 3)
    >>> along(images, banded(np.array([[1.0, 1.0]])), None)
    array([[[[3., 5., 7.]]]])
    """
    if across is not None:
        parts = [images[..., at : at + matrix.shape[1]] @ like(images, matrix).T for at, matrix in across]
        images = joined(parts, axis=3)
    if down is not None:
        parts = [like(images, matrix) @ images[:, :, at : at + matrix.shape[1]] for at, matrix in down]
        images = joined(parts, axis=2)
    return images


def joined(parts: list[Batch], *, axis: int) -> Batch:
    """Join arrays or tensors along an axis.

    Examples
    --------
    >>> joined([np.zeros((1, 2)), np.ones((1, 1))], axis=1)
    array([[0., 0., 1.]])
    """
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts, axis=axis)
    shape = list(parts[0].shape)
    shape[axis] = sum(part.shape[axis] for part in parts)
    whole, start = parts[0].new_empty(shape), 0
    for part in parts:
        whole.narrow(axis, start, part.shape[axis]).copy_(part)
        start += part.shape[axis]
    return whole


def like(images: Batch, matrix: Matrix) -> Batch:
    """Give a matrix the kind, type and device of images.

    Examples
    --------
    >>> like(np.zeros((1, 3, 2, 2)), np.eye(2)).shape
    (2, 2)
    """
    return matrix if isinstance(images, np.ndarray) else images.new_tensor(matrix)


def banded(matrix: Matrix) -> Operator:
    """Cut a banded matrix into blocks of rows, each without the zeros around it.

    Examples
    --------
    >>> [(block.first, block.matrix.shape) for block in banded(np.eye(100))]
    [(0, (64, 64)), (64, (36, 36))]
    """
    blocks = []
    for start in range(0, len(matrix), BLOCK):
        rows = matrix[start : start + BLOCK]
        needed = np.flatnonzero(rows.any(axis=0))
        first, last = (int(needed[0]), int(needed[-1])) if len(needed) else (0, 0)
        # In this order the transpose, which a product from the right needs, is the quicker one.
        blocks.append(Block(first, np.asfortranarray(rows[:, first : last + 1])))
    return tuple(blocks)


def filtering(
    size: int, taps: tuple[float, ...], border: Border, *, pad: tuple[int, int] | None = None, stride: int = 1
) -> Matrix:
    """Make the banded matrix that correlates a side with taps.

    Parameters
    ----------
    size : int
        Length of the side.
    taps : tuple of float
        Weights, as they meet the pixels.
    border : {"constant", "symmetric", "reflect"}
        What lies beyond the ends: zeros, the mirror image with the edge pixel repeated, or without.
    pad : pair of int, optional
        How many pixels of that in front and behind; by default as many as keep the length.
    stride : int
        Keep every so many-th pixel, from the first.

    Examples
    --------
    >>> filtering(3, (1.0, 2.0, 4.0), "reflect")
    array([[2., 5., 0.],
           [1., 2., 4.],
           [0., 5., 2.]])
    """
    padded = np.pad(np.eye(size), (pad or (len(taps) // 2, len(taps) // 2), (0, 0)), mode=border)
    count = len(padded) - len(taps) + 1
    matrix = sum(tap * padded[start : start + count] for start, tap in enumerate(taps))
    return np.asarray(matrix)[::stride]


def laplacian(
    images: Batch, levels: int, *, reduce: Callable[[int], Operator], expand: Callable[[int], Operator], trim: int = 0
) -> Iterator[Batch]:
    """Give the bands of a Laplacian pyramid from fine to coarse, and what remains below them.

    A band is what is lost when an image is reduced and expanded again; the next band is that of the reduced image.

    Parameters
    ----------
    images : array or tensor, shape (B, C, H, W)
    levels : int
        Number of bands; the low-pass image comes after them.
    reduce, expand : callable
        From the finer side's length to the operator that reduces it, and to the one that expands it again.
    trim : int
        Pixels that a reduced image carries beyond each border for `expand` alone.

    Examples
    --------
    >>> def halve(size): return banded(np.array([[0.5, 0.5]]))
    >>> def double(size): return banded(np.array([[1.0], [1.0]]))
    >>> bands = laplacian(np.array([[[[0.0, 4.0], [0.0, 0.0]]]]), 1, reduce=halve, expand=double)
    >>> [band.tolist() for band in bands]
    [[[[[-1.0, 3.0], [-1.0, -1.0]]]], [[[[1.0]]]]]
    """
    for _ in range(levels):
        height, width = images.shape[2:]
        reduced = along(images, reduce(height), reduce(width))
        yield images - along(reduced, expand(height), expand(width))
        images = reduced[:, :, trim : reduced.shape[2] - trim, trim : reduced.shape[3] - trim]
    yield images
