"""Normal scores of distances: the axis on which a spline is fitted.

A score depends on the ranks of the training distances alone, so that no increasing change of a distance moves it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from twoafc.arrays import FloatArray, IntArray
from twoafc.core import Uniform

USUAL = 1.5
"""Times its lowest value that the reluctance to compare across a rank (see `normal_scores`) may have on one scale."""
PRIOR = 3.0
"""Triplets added to those that compare across a rank, and to those that would by chance."""
MOST_STRETCH = 1.4


class Scores(NamedTuple):
    """Normal scores of the distinct training values, and how much wider than normal they were before they were scaled.

    ``stretch`` is 1 where all triplets live on one scale, and up to `MOST_STRETCH` where they live on several: a spline
    then takes so many times its usual number of functions.
    """

    values: FloatArray
    stretch: float


def normal_scores(uniform: Uniform, d0: FloatArray, d1: FloatArray, count: IntArray | None = None) -> Scores:
    """Give each distinct training distance the normal score of its mid-rank.

    Where triplets live on very different scales, hardly any compares distances on the two sides of the rank that
    separates them, and choices change within a small step of rank there. The axis is stretched at such ranks: by how
    much fewer triplets compare across them than would if d0 and d1 were paired at random, beyond what is usual in the
    table.

    Parameters
    ----------
    uniform : Uniform
        The map of the training distances.
    d0, d1 : arrays, shape (T,)
        The training distances; pairs of images have no d1: pass d0 alone, with an empty d1.
    count : array, shape (T,), optional
        Triplets that each row stands for.

    Examples
    --------
    >>> d = np.exp(np.random.default_rng(0).normal(size=(2, 1000)))
    >>> uniform = Uniform.learn(*d)
    >>> scores = normal_scores(uniform, *d)
    >>> np.interp(np.exp([-1.0, 0.0, 1.0]), uniform.values, scores.values).round(1), round(scores.stretch, 1)
    (array([-0.9,  0. ,  1. ]), 1.0)
    """
    scores = ndtri(uniform.levels)
    if not len(d1) or len(scores) < 2:
        return Scores(scores, 1.0)
    # By rank, for the distances of rows that stand for several triplets are means.
    ranks = (uniform(end(d0, d1)) * uniform.at_most[-1] for end in (np.minimum, np.maximum))
    ends = [np.searchsorted(uniform.at_most[:-1], rank) for rank in ranks]
    begun, done = (np.cumsum(np.bincount(end, count, len(scores)))[:-1] for end in ends)
    below = uniform.at_most[:-1] / uniform.at_most[-1]
    by_chance = 2 * below * (1 - below) * (len(d0) if count is None else count.sum())
    reluctance = (by_chance + PRIOR) / (begun - done + PRIOR)
    steps = np.diff(scores) * np.maximum(1.0, reluctance / (USUAL * np.quantile(reluctance, 0.05)))
    stretched = scores[0] + np.concatenate([[0.0], np.cumsum(steps)])
    share = np.diff(uniform.at_most, prepend=0) / uniform.at_most[-1]
    spread = [np.sqrt(share @ (each - share @ each) ** 2) for each in (scores, stretched)]
    if spread[1] <= spread[0]:
        return Scores(scores, 1.0)
    ratio = float(spread[1] / spread[0])
    return Scores((stretched - share @ stretched) / ratio + share @ scores, min(ratio, MOST_STRETCH))
