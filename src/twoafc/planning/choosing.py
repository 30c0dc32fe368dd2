"""Which triplets of a pool to ask next, and the weights that make their scores those of the pool.

The difference of two distances a and b is learnt fastest where they predict different votes. Its variance is smallest
if a triplet is chosen with a probability in proportion to the spread of what its vote adds to the difference:

    NLL     s^2 = ((logit P_a - logit P_b)^2 + e^2) p (1 - p),
    2AFC    s = 100 % where a and b choose different images, else 0,

with p the P of all distances together, and P_a and P_b its means over triplets with the same two values of a, or of b
(`predict`). The scores will have surfaces that are fitted to the votes; e is the error of these.

Weights of chosen triplets sum to a random number, by which scores are divided: with D, the difference of the two
distances as votes so far estimate it, the spread is the root of s^2 + D^2. For several pairs it is the root of a
weighted sum of squares of these, with weights such that the largest variance, relative to the best one that the pair
could have alone, is smallest (max-min). A share of the choice is uniform, so that no triplet is excluded, and
probabilities are capped at 1.

Triplets are then drawn by systematic sampling: every triplet has exactly its probability. The order is by probability,
so that the weights sum to nearly the size of the pool, and among nearly equal probabilities by the expected difference
of the hardest pair, so that the chosen triplets have nearly the pool's mean of it. With a cap for each reference the
order is by reference: one with the expected number e, which the cap limits, gets e triplets, rounded down or up, and
weights are as exact.

Batches are drawn from the triplets that have no votes yet; the weights over batches are in `twoafc.planning.batches`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtri

from twoafc.arrays import BoolArray, FloatArray, IntArray
from twoafc.core import Uniform
from twoafc.errors import DataError
from twoafc.estimators import Spline
from twoafc.planning.batches import read_judged
from twoafc.planning.sizing import pair_of, single_votes
from twoafc.table import REFERENCES, Triplets, as_frame, distance_columns, finite_column, read_frames, row_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UNIFORM, REPEATS = 0.1, 0.1
"""Share of the choice that is uniform, and of the triplets that get two votes."""
TREND, TREND_ERROR = np.array([1.3, 0.0, 0.0]), np.array([0.3, 0.05, 0.1])
"""Without votes, the coefficients of logit P on z0 - z1, z0^2 - z1^2 and (z0 - z1) z0 z1, where z are the normal scores
of a distance, summed over distances; and the error of each distance's own coefficients."""
AS_VOTES = 40
"""Predictions for the triplets of the pool are smoothed like so many votes on each."""
BINS = 256
"""Quantiles of a distance at which its P is computed; between them it is that of the nearest."""
SAMPLE = 10_000
"""Triplets of the pool by which P of each distance is predicted, and pairs are balanced."""
ALIKE, STRATUM = 50, 5
"""Triplets drawn from those with nearly equal probabilities; of these, from those with nearly the same expected
difference, which are in random order."""
CERTAIN = 1e-9
LEAST = 1e-3
"""P is clipped this far from 0 and 1: with unbounded differences of logits few triplets would be drawn."""
FITTED = 0.1
"""Error of a difference of two logits where surfaces are fitted to some thousand votes."""
COMMON = {"nll": 0.02, "score_2afc_distance": 3.0}
"""Difference of two distances per vote, in nats or %, without votes; with votes, the least that is assumed."""
COLUMNS = ("batch", "batch_size", "pool_size", "judged_before", "inclusion", "weight", "votes_wanted", "first")
"""Columns that a choice adds to the pool's."""


@dataclass(frozen=True, eq=False)
class Chosen:
    """A batch of triplets to ask.

    Attributes
    ----------
    frame : polars.DataFrame
        The chosen rows of the pool with ``batch``, ``batch_size`` (its triplets), ``pool_size``, ``judged_before``
        (triplets of earlier batches that had votes), ``inclusion`` (probability), ``weight`` (its inverse, for the
        study so far; see `batch_weights`), ``votes_wanted`` and ``first`` (the image to show first, or on the left).
    inclusion : array, shape (T,)
        Probability of every triplet of the pool; 0 for those that were drawn before.
    rows : array of int
        Rows of the pool that were chosen.
    P : mapping of distance to array, shape (T,)
        What the distances predict for the pool.
    gains : mapping of pair to float
        For each pair, how many times as many triplets a uniform choice would need.
    """

    frame: pl.DataFrame
    inclusion: FloatArray
    rows: IntArray
    P: Mapping[str, NDArray[np.float32]]
    gains: Mapping[tuple[str, str], float]

    @property
    def batch(self) -> int:
        """Number of the batch, from 1 on."""
        return int(self.frame["batch"][0])

    def __repr__(self) -> str:
        votes, pool = int(self.frame["votes_wanted"].sum()), len(self.inclusion)
        (a, b), gain = min(self.gains.items(), key=lambda item: item[1])
        least = "the least of all pairs: " if len(self.gains) > 1 else ""
        return (
            f"batch {self.batch}: {len(self.frame):,} of {pool:,} triplets, {votes:,} votes; chosen uniformly, "
            f"{gain:.1f} times as many would be needed ({least}{a} and {b})"
        )

    def record(self) -> dict[str, Any]:
        """Sizes and gains as a record."""
        gains = [{"a": a, "b": b, "gain": gain} for (a, b), gain in self.gains.items()]
        return {
            "batch": self.batch,
            "pool": len(self.inclusion),
            "triplets": len(self.frame),
            "votes": int(self.frame["votes_wanted"].sum()),
            "gains": gains,
        }

    def figure(self) -> Figure:
        """Draw what the first pair of distances predicts for the pool, with the chosen triplets."""
        from matplotlib.figure import Figure

        from twoafc.plots import COLUMN, chosen_triplets

        a, b = next(iter(self.gains))
        figure = Figure(figsize=(COLUMN, COLUMN), layout="constrained")
        P_a, P_b = (self.P[name].astype(np.float64) for name in (a, b))
        chosen = np.isin(np.arange(len(self.inclusion)), self.rows)
        chosen_triplets(P_a, P_b, chosen, figure.subplots(), names=(a, b))
        return figure


def choose(
    pool: Any,
    *,
    votes: int,
    judged: Any = None,
    pairs: Sequence[Sequence[str]] = (),
    measure: str = "nll",
    per_reference: int | None = None,
    uniform: float = UNIFORM,
    repeats: float = REPEATS,
    seed: int = 0,
) -> Chosen:
    """Choose the triplets of a pool to ask next.

    Parameters
    ----------
    pool : frame or path
        Measured triplets without votes: distances ``NAME_d0``, ``NAME_d1``; ``triplet`` names them (default their
        number), ``ref`` is what a cap is for.
    votes : int
        Votes to ask for.
    judged : table, path or list of paths, optional
        Votes so far, with the same distances. They show where distances differ. Those with columns ``batch`` and
        ``inclusion``, as an earlier choice gave them, are batches of this study; others are a pilot.
    pairs : list of two names each, optional
        Distances to compare; default all with each other.
    measure : {"nll", "score_2afc_distance"}
        What they are compared by.
    per_reference : int, optional
        At most so many triplets of one reference in the batch.
    uniform, repeats : float
        Shares in [0, 1]: of the choice that is uniform, and of the chosen triplets that get two votes, for the ceiling.
    seed : int
        Equal seeds choose the same.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> pool = {f"{name}_d{k}": rng.random(1000) for name in ("ssim", "lpips") for k in (0, 1)}
    >>> chosen = choose(pool, votes=110)
    >>> len(chosen.frame), int(chosen.frame["votes_wanted"].sum())
    (100, 110)
    """
    if measure not in COMMON:
        raise ValueError(f"measure must be nll or score_2afc_distance; got {measure}")
    for name, share in (("uniform", uniform), ("repeats", repeats)):
        if not 0 <= share <= 1:
            raise ValueError(f"{name} is a share in [0, 1]; got {share:g}")
    if seed < 0:
        raise ValueError(f"seed must be at least 0; got {seed}")
    if uniform == 0:
        raise ValueError(
            "uniform must be above 0: otherwise some triplets are never chosen, and no weights correct that"
        )
    if votes < 1:
        raise ValueError(f"votes must be at least 1; got {votes}")
    frame, distances = read_pool(pool)
    compared = [pair_of(list(distances), pair) for pair in pairs or combinations(distances, 2)]
    asked = None if judged is None else read_judged(judged)
    design = None if asked is None or "inclusion" not in asked.columns else asked
    left = _unasked(frame, distances, design)
    wanted = round(votes / (1 + repeats))
    if not 1 <= wanted <= int(left.sum()):
        most = int(left.sum())
        raise DataError(
            f"{votes} votes are {wanted} triplets ({repeats:.0%} are asked twice), and the pool has {most} that were "
            f"not asked yet; ask for at most {round(most * (1 + repeats))} votes"
        )
    table = None if asked is None else Triplets.from_frame(asked)
    names = list(dict.fromkeys(name for pair in compared for name in pair))
    predicted = predict(distances, table, names)
    places = [(names.index(a), names.index(b)) for a, b in compared]
    apart = [_apart(table, predicted, pair, measure) for pair in compared]
    some = np.flatnonzero(left)
    if len(some) > SAMPLE:
        some = np.random.default_rng(seed).choice(some, SAMPLE, replace=False)
    size, sizes, expected = _sizes({name: distances[name] for name in names}, predicted, places, apart, measure, some)
    batch = 1 if design is None else 1 + max(design["batch"].to_list())
    rng = np.random.default_rng([seed, batch])  # what a batch draws must not depend on what others drew
    references = _references(frame, per_reference)
    chance = _inclusion(size, left, wanted, uniform, references, per_reference)
    rows = np.sort(systematic(chance, rng, None if per_reference is None else references, expected))
    gains = {pair: _gain(own, chance[some]) for pair, own in zip(compared, sizes, strict=True)}
    return Chosen(
        _batch(frame[rows], chance[rows], batch, len(frame), int((~left).sum()), votes if repeats else 0, rng),
        chance,
        rows,
        predicted.of_pool,
        gains,
    )


def read_pool(pool: Any) -> tuple[pl.DataFrame, dict[str, tuple[FloatArray, FloatArray]]]:
    """Read a pool and its distances; every row gets a name in the column triplet."""
    frame, where = read_frames([pool]) if isinstance(pool, str | Path) else (as_frame(pool), row_name)
    names = {name: ends for name, ends in distance_columns(frame.columns).items() if len(ends) == 2}
    if len(names) < 2:
        raise DataError(f"a pool needs two distances, NAME_d0 and NAME_d1 each; found {', '.join(names) or 'none'}")
    if frame.is_empty():
        raise DataError("the pool has no rows")
    cast = next((name for name in ("n", "M", "choice") if name in frame.columns), None)
    if cast is not None:
        raise DataError(f"a pool has no votes; found the column {cast}: drop it, or give the table as votes so far")
    taken = [name for name in COLUMNS if name in frame.columns]
    if taken:
        raise DataError(f"a choice adds the column {taken[0]}, which the pool has: is it an earlier choice?")
    distances = {
        name: (finite_column(frame, a, where), finite_column(frame, b, where)) for name, (a, b) in names.items()
    }
    columns = {
        column: pl.Series(d) for name, ends in names.items() for column, d in zip(ends, distances[name], strict=True)
    }
    if "triplet" not in frame.columns:
        frame = frame.with_columns(triplet=pl.int_range(pl.len())).select("triplet", *frame.columns)
    frame = frame.with_columns(pl.col("triplet").cast(pl.String), **columns)
    if frame["triplet"].has_nulls():
        raise DataError(
            f"triplet must not be missing; {where(int(frame['triplet'].is_null().arg_max() or 0))} has no triplet"
        )
    if frame["triplet"].is_duplicated().any():
        twice = frame.filter(pl.col("triplet").is_duplicated())["triplet"][0]
        raise DataError(f"triplets of a pool must have different names; {twice} occurs twice")
    return frame, distances


class Predictions(NamedTuple):
    """P of every triplet of the pool by all distances together, and by each; P by each of the triplets judged."""

    together: NDArray[np.float32]
    of_pool: Mapping[str, NDArray[np.float32]]
    of_judged: Mapping[str, FloatArray]


class _Axis(NamedTuple):
    """Quantiles of a distance, to which values are rounded, and their normal scores."""

    quantiles: FloatArray
    z: FloatArray

    @classmethod
    def learn(cls, d: tuple[FloatArray, FloatArray]) -> _Axis:
        both = np.concatenate([column[:: max(len(column) // SAMPLE, 1)] for column in d])
        quantiles = np.unique(np.quantile(both, (np.arange(BINS) + 0.5) / BINS))
        return cls(quantiles, np.asarray(ndtri(Uniform.learn(both, both)(quantiles))))

    def nearest(self, d: tuple[FloatArray, ...]) -> tuple[IntArray, ...]:
        middles = (self.quantiles[1:] + self.quantiles[:-1]) / 2
        return tuple(np.searchsorted(middles, column) for column in d)

    def terms(self, i: IntArray, j: IntArray) -> FloatArray:
        """Features whose weighted sum is logit P; all are antisymmetric in the two images."""
        z0, z1 = self.z[i], self.z[j]
        return np.stack([z0 - z1, z0**2 - z1**2, (z0 - z1) * z0 * z1], axis=-1)


def predict(
    distances: Mapping[str, tuple[FloatArray, FloatArray]], judged: Triplets | None, compared: Sequence[str]
) -> Predictions:
    """Predict the votes on every triplet of the pool, by all distances together and by each of those compared.

    All together: logit P is a sum of functions of the distances' ranks with a few coefficients, which start from what
    is common and follow the votes so far. By one distance alone P is the mean of these predictions over the triplets of
    the pool with the same d0 and d1. A fit of each distance to the votes so far would tell the distances apart
    less well, since the votes are few and the pool is large. P is computed at quantiles of a distance and is that of
    the nearest one elsewhere: it only steers the choice.
    """
    lacking = next((name for name in compared if judged is not None and name not in judged.distances), None)
    if judged is not None and lacking is not None:
        raise DataError(f"the votes so far have no distance {lacking}; they have {', '.join(judged.distances)}")
    names = [name for name in distances if judged is None or name in judged.distances]
    axes = {name: _Axis.learn(distances[name]) for name in names}
    places = {name: axis.nearest(distances[name]) for name, axis in axes.items()}
    of_judged = {} if judged is None else {name: axes[name].nearest(judged.distances[name]) for name in names}
    coefficients = np.tile(TREND, (len(names), 1)) / len(names)
    if judged is not None:
        x = np.concatenate([axes[name].terms(*of_judged[name]) for name in names], axis=1)
        coefficients = _logistic(judged, x, coefficients.ravel(), np.tile(TREND_ERROR**-2.0, len(names)))
    logits = np.zeros(len(next(iter(distances.values()))[0]), dtype=np.float32)
    grids = {name: np.indices(2 * (len(axis.z),)) for name, axis in axes.items()}
    for name, own in zip(names, coefficients.reshape(len(names), -1), strict=True):
        logits += (axes[name].terms(*grids[name]) @ own).astype(np.float32)[places[name]]
    P = expit(logits)
    some = np.linspace(0, len(P) - 1, min(len(P), SAMPLE)).astype(np.int64)
    n, M = np.rint(AS_VOTES * P[some]).astype(np.int64), np.full(len(some), AS_VOTES)
    labels = pl.DataFrame({"triplet": pl.Series(some).cast(pl.String)})

    def surface(name: str) -> FloatArray:
        quantiles = axes[name].quantiles
        table = Triplets(n, M, {name: tuple(quantiles[place[some]] for place in places[name])}, labels)
        return np.clip(Spline().fit(table).probability(*quantiles[grids[name]]), LEAST, 1 - LEAST)

    surfaces = {name: surface(name) for name in compared}
    return Predictions(
        P,
        {name: each.astype(np.float32)[places[name]] for name, each in surfaces.items()},
        {name: surfaces[name][of_judged[name]] for name in surfaces if judged is not None},
    )


def _logistic(judged: Triplets, x: FloatArray, prior: FloatArray, precision: FloatArray) -> FloatArray:
    """Coefficients of logit P along the columns of x, with a normal prior, by Newton's method."""
    weight = np.ones(len(x)) if judged.weight is None else judged.weight / judged.weight.mean()
    coefficients = prior
    for _ in range(10):
        P = expit(x @ coefficients)
        information = np.diag(precision) + (x * (weight * judged.M * P * (1 - P))[:, None]).T @ x
        step = x.T @ (weight * (judged.n - judged.M * P)) - precision * (coefficients - prior)
        coefficients = coefficients + np.linalg.solve(information, step)
    return coefficients


def _apart(judged: Triplets | None, predicted: Predictions, pair: tuple[str, str], measure: str) -> float:
    """Estimate the difference of two distances per vote; at least a common minimum."""
    if judged is None:
        return COMMON[measure]
    added = single_votes(
        judged, [predicted.of_judged[name] for name in pair], measure, [judged[name].columns for name in pair]
    )
    return max(abs(float(np.average(added.v, weights=added.weight))), COMMON[measure])


def _sizes(
    distances: Mapping[str, tuple[FloatArray, FloatArray]],
    predicted: Predictions,
    places: Sequence[tuple[int, int]],
    apart: Sequence[float],
    measure: str,
    some: IntArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """How informative triplets are: each of the pool, for all pairs together, and some rows of it for each pair.

    The squared size of a triplet for a pair is the squared difference of two values times the variance of a vote, plus
    the squared difference `apart` of the pair. Pairs are balanced by the same rows. Last, the expected difference of
    each triplet of the pool, for the pair that is hardest.
    """
    p = predicted.together
    if measure == "nll":
        values = np.stack([logit(P) for P in predicted.of_pool.values()])
        variance, error = p * (1 - p), FITTED
    else:
        values = np.stack([50 * np.sign(d0 - d1) for d0, d1 in distances.values()]).astype(np.float32)
        variance, error = np.ones_like(p), 0.0
    of_pairs = values[:, some][np.array(places)]
    squares = ((of_pairs[:, 0] - of_pairs[:, 1]) ** 2 + error**2) * variance[some]
    sizes = np.sqrt(squares.astype(np.float64) + np.square(apart)[:, None])
    share = balance(sizes)
    # The sum over pairs of share (x_a - x_b)^2 is a quadratic form in the values x of a triplet.
    form = np.zeros((len(values), len(values)), dtype=np.float32)
    for (a, b), weight in zip(places, share, strict=True):
        form[[a, b], [a, b]] += weight
        form[[a, b], [b, a]] -= weight
    squares = (np.maximum(np.einsum("kt,kt->t", values, form @ values), 0) + share.sum() * error**2) * variance
    size = np.sqrt(squares.astype(np.float64) + share @ np.square(apart))
    hardest = int(np.argmax(share * sizes.sum(axis=1) ** 2))
    x_a, x_b = values[list(places[hardest])]
    if measure == "nll":  # p log P + (1 - p) log(1 - P) of one distance, less that of the other
        return size, sizes, p * (x_a - x_b) - np.logaddexp(0, x_a) + np.logaddexp(0, x_b)
    return size, sizes, (2 * p - 1) * (x_a - x_b)


def balance(sizes: FloatArray, steps: int = 100) -> FloatArray:
    """Weights of pairs, shape (pairs,), that make the largest relative variance of a pair smallest.

    With probabilities in proportion to the root of the weighted sum of squares s, pair k has the variance sum of
    s_k^2 / s, relative to (sum of s_k)^2, the least that it can have. Weights are raised where this is large.

    Parameters
    ----------
    sizes : array, shape (pairs, T)
    """
    least = sizes.sum(axis=1)
    sizes = sizes[least > 0] / least[least > 0, None]
    weight = np.full(len(sizes), 1 / max(len(sizes), 1))
    best, kept = np.inf, weight
    for step in range(steps if len(sizes) > 1 else 0):
        whole = np.sqrt(weight @ sizes**2)
        relative = whole.sum() * np.divide(sizes**2, whole, out=np.zeros(sizes.shape), where=whole > 0).sum(axis=1)
        if relative.max() < best:
            best, kept = float(relative.max()), weight
        weight = weight * (relative / relative.max()) ** (4 / np.sqrt(1 + step))
        weight /= weight.sum()
    shares = np.zeros(len(least))
    # On the scale of the sizes as they were given.
    shares[least > 0] = kept / least[least > 0] ** 2
    return shares


def _inclusion(
    size: FloatArray, left: BoolArray, wanted: int, uniform: float, references: IntArray, per_reference: int | None
) -> FloatArray:
    """Probabilities that sum to the number of triplets wanted, at most 1, and at most a cap for each reference."""
    size = np.where(left, size, 0.0)
    share = size / size.sum() if size.sum() > 0 else left / left.sum()
    share = (1 - uniform) * share + uniform * left / left.sum()
    if per_reference is None:
        return _capped(share, wanted, left)
    room = np.minimum(np.bincount(references, left), per_reference)
    if room.sum() < wanted:
        raise DataError(
            f"{wanted} triplets are wanted; with {per_reference} of a reference at most there are {int(room.sum())}"
        )
    # Expected numbers of references first, then those of their triplets.
    shares = np.asarray(np.bincount(references, share), dtype=np.float64)
    of_references = _capped(shares, wanted, room > 0, room.astype(np.float64))
    chance = np.zeros(len(share))
    chance[left] = (share * (of_references / np.maximum(shares, CERTAIN * CERTAIN))[references])[left]
    over = np.bincount(references, chance > 1) > 0
    for ref in np.flatnonzero(over):
        rows = np.flatnonzero((references == ref) & left)
        chance[rows] = _capped(share[rows], of_references[ref], np.ones(len(rows), dtype=np.bool_))
    return chance


def _capped(share: FloatArray, total: float, left: BoolArray, most: FloatArray | None = None) -> FloatArray:
    """Scale shares to a total, each clipped at its maximum (default 1); the others get the excess."""
    most = np.ones(len(share)) if most is None else most
    capped, full = np.zeros(len(share)), ~left
    rest = float(total)
    while rest > 0 and not full.all():
        scaled = share * (rest / share[~full].sum())
        over = ~full & (scaled >= most * (1 - CERTAIN))
        if not over.any():
            capped[~full] = scaled[~full]
            break
        capped[over] = most[over]
        rest -= float(most[over].sum())
        full = full | over
    return capped


def systematic(
    chance: FloatArray,
    rng: np.random.Generator,
    references: IntArray | None = None,
    expected: FloatArray | None = None,
) -> IntArray:
    """Draw rows with given probabilities by systematic sampling; every row is drawn with exactly its probability.

    Rows are in the order of their probabilities and, where these are nearly equal, of their expected difference; or
    reference by reference, where these are given: of each as many rows are drawn as the sum of its probabilities,
    rounded down or up. Within strata of this order they are at random.
    """
    certain = np.flatnonzero(chance >= 1 - CERTAIN)
    rows = np.flatnonzero((chance > 0) & (chance < 1 - CERTAIN))
    if not len(rows):
        return certain
    if references is None:
        rows = rows[np.argsort(chance[rows], kind="stable")]
        if expected is not None:
            alike = np.floor(np.cumsum(chance[rows]) / ALIKE)
            rows = rows[np.lexsort((expected[rows], alike))]
        strata = np.floor(np.cumsum(chance[rows]) / STRATUM)
    else:
        strata = rng.permutation(int(references.max()) + 1)[references[rows]]
    rows = rows[np.argsort(strata + rng.random(len(rows)))]  # one sort of numbers, which is quick for large pools
    ends = np.cumsum(chance[rows])
    if abs(ends[-1] - round(float(ends[-1]))) < 1e-6:
        ends *= round(float(ends[-1])) / ends[-1]  # a total that is whole but for rounding
    passed = np.floor(ends + rng.random())
    return np.concatenate([certain, rows[np.diff(passed, prepend=0.0) > 0]])


def _references(frame: pl.DataFrame, per_reference: int | None) -> IntArray:
    """Number the references of the pool, for a cap of them."""
    if per_reference is None:
        return np.zeros(len(frame), dtype=np.int64)
    if per_reference < 1:
        raise ValueError(f"per_reference must be at least 1; got {per_reference}")
    name = next((name for name in REFERENCES if name in frame.columns), None)
    if name is None:
        raise DataError("a cap for each reference needs a column ref; the pool has none")
    if frame[name].has_nulls():
        rows = frame[name].null_count()
        raise DataError(
            f"a cap for each reference needs the references of all triplets; {name} is empty in {rows} rows"
        )
    return frame[name].cast(pl.String).rank("dense").to_numpy().astype(np.int64) - 1


def _unasked(frame: pl.DataFrame, distances: Mapping[str, Any], design: pl.DataFrame | None) -> BoolArray:
    """Triplets of the pool that no batch of the study has; the pool must be the one that the batches are from."""
    if design is None:
        return np.ones(len(frame), dtype=np.bool_)
    judged = design.unique("triplet", maintain_order=True)
    row = frame.select("triplet", row=pl.int_range(pl.len()))
    rows = judged.select("triplet").join(row, on="triplet", how="left", maintain_order="left")["row"]
    other = "batches of a study must be drawn from one pool;"
    if rows.has_nulls():
        raise DataError(
            f"{other} triplet {judged['triplet'][int(rows.is_null().arg_max() or 0)]} of the votes is not in it"
        )
    if "pool_size" in judged.columns and judged["pool_size"][0] not in (None, len(frame)):
        raise DataError(f"{other} batch 1 is from {judged['pool_size'][0]} triplets, and this pool has {len(frame)}")
    for name, columns in distances.items():
        for column, d in zip((f"{name}_d0", f"{name}_d1"), columns, strict=True):
            if column in judged.columns:
                votes, pool = judged[column].cast(pl.Float64, strict=False).to_numpy(), d[rows.to_numpy()]
                far = ~np.isclose(votes, pool, rtol=1e-6, atol=0)
                if far.any():
                    at = int(np.argmax(far))
                    raise DataError(
                        f"{other} {column} of triplet {judged['triplet'][at]} is {pool[at]:g} there and {votes[at]:g} "
                        f"in the votes ({int(far.sum())} of {len(far)} triplets)"
                    )
    left = np.ones(len(frame), dtype=np.bool_)
    left[rows.to_numpy()] = False
    return left


def _batch(
    chosen: pl.DataFrame,
    inclusion: FloatArray,
    batch: int,
    pool: int,
    judged: int,
    votes: int,
    rng: np.random.Generator,
) -> pl.DataFrame:
    """The chosen rows with their columns; those with two votes and sides are drawn, in exact numbers."""
    n = len(chosen)
    wanted = np.ones(n, dtype=np.int64)
    wanted[rng.permutation(n)[: max(votes - n, 0)]] = 2
    return chosen.with_columns(
        batch=pl.lit(batch),
        batch_size=pl.lit(n),
        pool_size=pl.lit(pool),
        judged_before=pl.lit(judged),
        inclusion=pl.Series(inclusion),
        weight=pl.Series(n / (n + judged) / inclusion),
        votes_wanted=pl.Series(wanted),
        first=pl.Series(np.array(["x0", "x1"])[rng.permutation(np.arange(n) % 2)]),
    )


def _gain(size: FloatArray, chance: FloatArray) -> float:
    """Variance of a pair's difference by a uniform choice, over that by this one."""
    uniform = float((size**2).sum() * len(size) / chance.sum())
    return uniform / float((size**2 / chance).sum()) if uniform > 0 else 1.0


def extremes(chosen: Chosen, pool: Any, *, pair: Sequence[str], number: int = 20) -> pl.DataFrame:
    """List the triplets on which two distances disagree most, to look at (gMAD).

    They are counter-examples: they were not drawn at random, have no weights, and give no scores.

    Parameters
    ----------
    number : int
        How many.
    """
    frame, distances = read_pool(pool)
    a, b = pair_of(list(distances), pair)
    missing = next((name for name in (a, b) if name not in chosen.P), None)
    if missing is not None:
        raise DataError(f"the choice has no predictions of {missing}; choose for this pair too")
    apart = logit(chosen.P[a]) - logit(chosen.P[b])
    rows = np.argsort(-np.abs(apart), kind="stable")[:number]
    return (
        frame[rows]
        .with_columns(
            note=pl.lit("to look at, not a sample: no weight"),
            P_a=pl.Series(chosen.P[a][rows]),
            P_b=pl.Series(chosen.P[b][rows]),
        )
        .rename({"P_a": f"P_{a}", "P_b": f"P_{b}"})
    )
