"""Single votes on images, counted by triplet: repeats are one row, shown either way round."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twoafc.table import merge_votes


def counted(labels: pl.DataFrame, choice: NDArray[np.int64]) -> tuple[pl.DataFrame, list[str]]:
    """Merge the votes on each triplet into one row with n and M; say what was merged.

    Parameters
    ----------
    labels : polars.DataFrame, a row per vote
        Those of triplet, group, ref, x0, x1 (quadruples: ref0, x0, ref1, x1) and observer that are known.
    choice : array of int, shape (votes,)
        1 where x1 was chosen, 0 where x0 was.

    Examples
    --------
    >>> shown = pl.DataFrame({"ref": ["r", "r"], "x0": ["a", "b"], "x1": ["b", "a"]})
    >>> table, notes = counted(shown, np.array([1, 1]))
    >>> table.row(0), notes
    (('r', 'a', 'b', 1, 2), ['2 votes on 1 triplet: repeats are merged, of which 1 was shown the other way round'])
    """
    merged = merge_votes(labels, len(choice))
    T = len(merged.first)
    M = np.bincount(merged.row, minlength=T)
    n = np.bincount(merged.row, weights=choice ^ merged.swapped, minlength=T).astype(np.int64)
    table = labels.drop("observer", strict=False)[merged.first].with_columns(n=pl.Series(n), M=pl.Series(M))
    notes = []
    if len(choice) > T:
        swapped = int(merged.swapped.sum())
        turned = f", of which {swapped} {'was' if swapped == 1 else 'were'} shown the other way round" * (swapped > 0)
        notes.append(f"{len(choice)} votes on {T} triplet{'s' * (T != 1)}: repeats are merged{turned}")
    if "observer" in labels.columns:
        people = labels["observer"].n_unique()
        notes.append(f"votes of {people} observer{'s' * (people != 1)} are counted together: who cast them is not kept")
    return table, notes
