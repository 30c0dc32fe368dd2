"""Worlds in which the probability P of choosing x1 is a known function of d0 and d1, as section 3 supposes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl
from numpy.typing import ArrayLike
from scipy.special import expit, ndtr

from twoafc.arrays import FloatArray, IntArray

# Steep enough, for distances drawn as in `simulate`, that the better choice is taken about four times in five.
WEBER_SLOPE = 2.5
THURSTONE_NOISE = 0.5
SQRT_NOISE = 0.5
SATURATION, SATURATING_NOISE = 1.0, 0.1
TURNING_SLOPE = 6.0
# Spread of log d, and the correlation of log d0 with log d1: both come from one reference.
SPREAD, CORRELATION = 0.8, 0.4


def weber(d0: FloatArray, d1: FloatArray) -> FloatArray:
    """P where only the ratio of the distances matters: logit P = 2.5 log(d0 / d1)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logit = WEBER_SLOPE * (np.log(d0) - np.log(d1))
    # Two distances of zero are equal distances.
    return np.asarray(expit(np.where(d0 == d1, 0.0, logit)))


def thurstone(d0: FloatArray, d1: FloatArray) -> FloatArray:
    """P where each distance is perceived with the same Gaussian noise: Thurstone's case V."""
    return np.asarray(ndtr((d0 - d1) / (THURSTONE_NOISE * np.sqrt(2))))


def sqrt_noise(d0: FloatArray, d1: FloatArray) -> FloatArray:
    """P where each distance is perceived with Gaussian noise that grows with its square root."""
    noise = SQRT_NOISE * np.sqrt(d0 + d1)
    return np.asarray(ndtr(np.divide(d0 - d1, noise, out=np.zeros_like(noise), where=noise > 0)))


def saturating(d0: FloatArray, d1: FloatArray) -> FloatArray:
    """P where large distances look alike: the same Gaussian noise on d / (1 + d)."""
    perceived0, perceived1 = d0 / (d0 + SATURATION), d1 / (d1 + SATURATION)
    return np.asarray(ndtr((perceived0 - perceived1) / (SATURATING_NOISE * np.sqrt(2))))


def turning(d0: FloatArray, d1: FloatArray) -> FloatArray:
    """P that is not monotone: beyond d = 1 a larger distance looks closer again, so no monotone surface fits."""
    perceived0, perceived1 = 2 * d0 / (1 + d0**2), 2 * d1 / (1 + d1**2)
    return np.asarray(expit(TURNING_SLOPE * (perceived0 - perceived1)))


def useless(d0: FloatArray, d1: FloatArray) -> FloatArray:
    """P of 1/2 everywhere: the distance says nothing about the choice."""
    return np.full(np.broadcast(d0, d1).shape, 0.5)


WORLDS: dict[str, Callable[[FloatArray, FloatArray], FloatArray]] = {
    world.__name__: world for world in (weber, thurstone, sqrt_noise, saturating, turning, useless)
}


DISTANCES: dict[str, Callable[[FloatArray], FloatArray]] = {
    "lognormal": lambda z: np.exp(SPREAD * z),
    "uniform": lambda z: np.asarray(3 * ndtr(z)),
    "heavy": lambda z: np.exp(SPREAD * np.sinh(z / 1.5)),
    "discrete": lambda z: np.exp(SPREAD * np.clip(np.round(2 * z) / 2, -2.5, 2)),
}
"""Distributions of distances, as functions of a standard normal variable."""


def true_probability(world: str, d0: ArrayLike, d1: ArrayLike, lapse: float = 0.0) -> FloatArray:
    """Return the true probability of choosing x1 in a world, P(d0, d1) = 1 - P(d1, d0).

    Parameters
    ----------
    world : str
        A name in `WORLDS`: weber, thurstone, sqrt_noise, saturating, turning or useless.
    d0, d1 : array
        Distances, at least 0, of shapes that broadcast.
    lapse : float
        The share of votes, in [0, 1], cast at random: lapse / 2 + (1 - lapse) P.

    Examples
    --------
    >>> true_probability("weber", [1.0, 1.0, 2.0], [1.0, 2.0, 1.0]).round(3)
    array([0.5 , 0.15, 0.85])
    """
    if world not in WORLDS:
        raise ValueError(f"there is no world {world!r}; the names are: {', '.join(WORLDS)}")
    if not 0 <= lapse <= 1:
        raise ValueError(f"lapse must lie in [0, 1]; got {lapse:g}")
    d0, d1 = np.asarray(d0, dtype=np.float64), np.asarray(d1, dtype=np.float64)
    for name, d in (("d0", d0), ("d1", d1)):
        if not (np.isfinite(d) & (d >= 0)).all():
            raise ValueError(f"distances must be finite and at least 0; {name} has {d[~(d >= 0) | np.isinf(d)][0]:g}")
    return np.asarray(lapse / 2 + (1 - lapse) * WORLDS[world](d0, d1))


def simulate(
    world: str = "weber",
    *,
    triplets: int,
    votes: int | Sequence[int],
    lapse: float = 0.0,
    references: int | None = None,
    distances: str = "lognormal",
    seed: int = 0,
) -> pl.DataFrame:
    """Draw distances and votes in a world with a known P.

    The distances of one triplet are correlated through their reference. The same seed gives the same distances in every
    world and for every lapse.

    Parameters
    ----------
    world : str
        A name in `WORLDS`.
    triplets : int
        The number of rows.
    votes : int or sequence of int
        M; if there are several, each triplet draws one of them, all equally likely.
    lapse : float
        The share of votes, in [0, 1], cast at random.
    references : int, optional
        The number of references, used about equally often; by default every triplet has its own.
    distances : str
        Their distribution, a name in `DISTANCES`: lognormal, uniform, heavy (heavy tails) or discrete (ten values, so
        with many ties).
    seed : int
        Equal seeds give equal tables.

    Returns
    -------
    polars.DataFrame
        Columns triplet, ref (if references is given), n, M, d0, d1 and P, the true probability of choosing x1.

    Examples
    --------
    >>> table = simulate("weber", triplets=1000, votes=[2, 5], seed=1)
    >>> table.columns
    ['triplet', 'n', 'M', 'd0', 'd1', 'P']
    >>> abs((table["n"] / table["M"] - table["P"]).mean()) < 0.02
    True
    """
    if triplets < 1:
        raise ValueError(f"triplets must be at least 1; got {triplets}")
    if distances not in DISTANCES:
        raise ValueError(f"there are no distances {distances!r}; the names are: {', '.join(DISTANCES)}")
    if references is not None and not 1 <= references <= triplets:
        raise ValueError(f"references must lie in [1, triplets]; got {references} of {triplets} triplets")
    rng = np.random.default_rng(seed)
    ref = rng.permutation(np.arange(triplets) % (references or triplets))
    shared = np.sqrt(CORRELATION) * rng.standard_normal(references or triplets)[ref]
    own = np.sqrt(1 - CORRELATION) * rng.standard_normal((2, triplets))
    d0, d1 = DISTANCES[distances](shared + own)
    P = true_probability(world, d0, d1, lapse)
    n, M = cast_votes(P, votes, seed=rng)
    table = pl.DataFrame({"triplet": np.arange(triplets), "ref": ref, "n": n, "M": M, "d0": d0, "d1": d1, "P": P})
    return table if references else table.drop("ref")


def cast_votes(
    P: ArrayLike, votes: int | Sequence[int], *, seed: int | np.random.Generator = 0
) -> tuple[IntArray, IntArray]:
    """Draw n from Binomial(M, P), with M fixed or drawn uniformly from several numbers.

    Parameters
    ----------
    P : array
        The probability of choosing x1.
    votes : int or sequence of int
        M; if there are several, each triplet draws one of them, all equally likely.
    seed : int or numpy Generator
        Equal seeds give equal votes.

    Returns
    -------
    (n, M)
        Arrays of int, of the shape of P.

    Examples
    --------
    >>> cast_votes([0.0, 0.5, 1.0], 4)
    (array([0, 2, 4]), array([4, 4, 4]))
    """
    choices = np.atleast_1d(np.asarray(votes))
    if choices.size == 0 or choices.dtype.kind not in "iu" or choices.min() < 1:
        raise ValueError(f"votes must be whole numbers, at least 1; got {votes}")
    rng = np.random.default_rng(seed)
    P = np.asarray(P, dtype=np.float64)
    M = rng.choice(choices.astype(np.int64), size=P.shape)
    return rng.binomial(M, P), M
