"""Votes on the batches of a study: how they are read and checked, and the weights of their triplets.

A batch is drawn from the triplets that have no votes yet. The estimator over batches is that of Des Raj
(Journal of the American Statistical Association 51, 1956): each batch gives an estimate that is unbiased whatever was
learnt from the batches before it, the triplets of these plus those of the batch divided by their probabilities, and the
estimates are averaged by their numbers of triplets n_b. Of a batch of N_b triplets n_b may have been judged so far, at
random; the others are in the pool of the next batch again. The weight of a triplet of batch b is then

    w = (N_b / pi + sum of n_c over later batches c) / sum of all n.

If fewer triplets of earlier batches have votes now than when batch c was chosen, the others are taken to be missing at
random too: for these weights its n_c is larger in proportion.
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from twoafc.arrays import FloatArray, IntArray
from twoafc.errors import DataError
from twoafc.table import as_frame, read_frames


def read_judged(judged: Any) -> pl.DataFrame:
    """Read votes, of triplets or single, in one table or several.

    Where they have ``batch`` and ``inclusion``, ``weight`` becomes that of the study so far.
    """
    several = judged if isinstance(judged, list | tuple) else [judged]
    frames = [read_frames([source])[0] if isinstance(source, str | Path) else as_frame(source) for source in several]
    if not frames:
        raise ValueError("judged must name a table of votes at least")
    if any(frame.equals(other) for frame, other in combinations(frames, 2)):
        raise DataError("the same table of votes is given twice")
    marked = [{"triplet", "batch", "inclusion"} <= set(frame.columns) for frame in frames]
    if any(marked) and not all(marked):
        raise DataError(
            "some votes have the columns triplet, batch and inclusion, and some do not; give the votes of one study"
        )
    whole = frames[0] if len(frames) == 1 else pl.concat(frames, how="diagonal_relaxed")
    if not all(marked):
        if "batch" in whole.columns:
            raise DataError("votes with the column batch need triplet and inclusion too, as the choice gave them")
        return whole
    numbers = ("batch", "inclusion", "batch_size", "pool_size", "judged_before")
    kinds = {"triplet": pl.String} | dict.fromkeys(numbers, pl.Float64)
    whole = whole.with_columns(
        pl.col(name).cast(kind, strict=False) for name, kind in kinds.items() if name in whole.columns
    )
    drawn = pl.col("inclusion").is_between(0, 1, closed="right").fill_null(False)
    wrong = whole.filter(~drawn | ~((pl.col("batch") >= 1) & (pl.col("batch") % 1 == 0)).fill_null(False))
    if len(wrong):
        row = wrong.select("triplet", "batch", "inclusion").row(0)
        raise DataError(
            f"inclusion must lie in (0, 1], as the choice gave it, and batch be a whole number; triplet {row[0]} has "
            f"batch={'nothing' if row[1] is None else f'{row[1]:g}'}, inclusion={row[2]} ({len(wrong)} of {len(whole)} "
            "rows)"
        )
    whole = whole.with_columns(pl.col("^(batch(_size)?|pool_size|judged_before)$").cast(pl.Int64))
    _check_batches(whole)
    return study_weights(whole)


def _check_batches(whole: pl.DataFrame) -> None:
    """Raise a DataError where the votes are not those that later batches were chosen by."""
    triplets = whole.select("triplet", "batch", "inclusion").unique(maintain_order=True)
    twice = triplets.filter(pl.col("triplet").is_duplicated()).sort("triplet", "batch")
    if len(twice):
        name, first, second = twice["triplet"][0], *twice["batch"][:2].to_list()
        if first == second:
            raise DataError(f"a triplet is asked in one batch, with one inclusion; {name} has several")
        raise DataError(
            f"a triplet is asked in one batch; {name} has votes in batches {first} and {second}: leave out the "
            f"votes on batch {first} that came after batch {second} was chosen"
        )
    counts = dict(triplets.group_by("batch").len().iter_rows())
    absent = next((batch for batch in range(1, max(counts)) if batch not in counts), None)
    if absent is not None:
        raise DataError(f"votes of all batches are needed, and those of batch {absent} are missing")
    sizes = _of_batches(whole)
    pools = sorted(set(sizes["pool_size"].drop_nulls().to_list()))
    if len(pools) > 1:
        raise DataError(
            f"batches of a study must be drawn from one pool; these are from {pools[0]} and {pools[1]} triplets"
        )
    before = 0
    for batch, drawn, known in sizes.select("batch", "batch_size", "judged_before").iter_rows():
        if drawn is not None and counts[batch] > drawn:
            raise DataError(f"batch {batch} has {drawn} triplets (batch_size), and {counts[batch]} have votes")
        if known is not None and before > known:
            raise DataError(
                f"batch {batch} was chosen when {known} triplets of earlier batches had votes, and now {before} have: "
                "leave out the votes that came later"
            )
        before += counts[batch]


def _of_batches(judged: pl.DataFrame) -> pl.DataFrame:
    """What is recorded of each batch, and ``judged``, its triplets with votes; null where it is not recorded."""
    names = ("batch_size", "pool_size", "judged_before")
    recorded = [pl.col(name).max() if name in judged.columns else pl.lit(None).alias(name) for name in names]
    return judged.group_by("batch").agg(*recorded, judged=pl.col("triplet").n_unique()).sort("batch")


def study_weights(judged: pl.DataFrame) -> pl.DataFrame:
    """Add the weights of a study's batches to its votes."""
    triplets, batches = judged.unique("triplet", maintain_order=True), _of_batches(judged)
    batch, inclusion = (triplets[name].to_numpy() for name in ("batch", "inclusion"))
    known = [batches[name].fill_null(pl.lit(0)).to_numpy() for name in ("batch_size", "judged_before")]
    weights = triplets.select("triplet", weight=pl.Series(batch_weights(batch, inclusion, *known)))
    return judged.drop("weight", strict=False).join(weights, on="triplet", how="left", maintain_order="left")


def batch_weights(
    batch: IntArray, inclusion: FloatArray, drawn: IntArray | None = None, before: IntArray | None = None
) -> FloatArray:
    """Sampling weights of triplets that were drawn in batches, without replacement (Des Raj).

    Parameters
    ----------
    batch, inclusion : arrays, shape (T,)
        Number of each triplet's batch, and the probability with which this chose it.
    drawn, before : arrays of int, shape (batches,), optional
        Triplets that each batch drew, and those of earlier batches that had votes then. Where fewer have votes now, the
        others are taken to be missing at random. Default as many as there are.

    Examples
    --------
    >>> batch_weights(np.array([1, 1, 2, 2]), np.array([0.5, 0.5, 0.25, 0.5])).tolist()
    [1.5, 1.5, 2.0, 1.0]
    >>> batch_weights(np.array([1, 1, 2]), np.array([0.5, 0.5, 0.25]), np.array([2, 2])).round(2).tolist()
    [1.67, 1.67, 2.67]
    """
    _, place = np.unique(batch, return_inverse=True)
    counts = np.bincount(place)
    earlier = np.cumsum(counts) - counts
    drawn = counts if drawn is None else np.maximum(drawn, counts)
    before = earlier if before is None else np.maximum(before, earlier)
    represented = counts * before / np.maximum(earlier, 1)
    later = represented.sum() - np.cumsum(represented)
    return np.asarray((drawn[place] / inclusion + later[place]) / counts.sum())


def unanswered(judged: pl.DataFrame) -> list[str]:
    """Report which batches of a study have triplets without votes."""
    if "batch_size" not in judged.columns:
        return []
    batches = _of_batches(judged).filter(pl.col("judged") < pl.col("batch_size"))
    return [
        f"batch {batch}: {some} of {size} triplets have votes; the others are taken to be missing at random"
        for batch, some, size in batches.select("batch", "judged", "batch_size").rows()
    ]
