"""NIGHTS (Fu et al. 2023, DreamSim): ``data.csv`` beside the folders ``ref`` and ``distort``.

Its columns: ``id``; ``left_vote`` and ``right_vote``, 1 for the choice that people found closer and 0 for the other;
``votes``, the number of people; ``ref_path``, ``left_path``, ``right_path``; ``prompt``; ``split`` (train, val, test);
``is_imagenet``. The authors kept triplets on which all agreed, so n is 0 or M; they score those with 6 votes or more.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from twoafc.arrays import IntArray
from twoafc.datasets.dataset import Dataset, first_cells, note_missing
from twoafc.errors import DataError, naming
from twoafc.table import TRIPLET, Where, counts_of, labels_of, numbers_of, read_frame, refuse

COLUMNS = ("id", "votes", "left_vote", "right_vote", "ref_path", "left_path", "right_path")
UNANIMOUS = "only unanimous triplets were published: n is 0 or M, and nothing shows how people differ"


def open_nights(path: str | Path, *, split: str | None = None) -> Dataset:
    """Open NIGHTS; the left choice is x0, the right one x1.

    The group is ``imagenet`` or ``other``, the source of the prompt, as the authors report them. They score
    ``data.where(data.M >= 6)``.

    Parameters
    ----------
    path : str or Path
        The folder, or the data.csv in it.
    split : "train", "val" or "test", default all as one
    """
    path = Path(path)
    file = path / "data.csv" if path.is_dir() else path
    with naming(file):
        return note_missing(_dataset(*read_frame(file), file.parent, split))


def is_nights(path: Path) -> bool:
    """Return whether a CSV is the table of NIGHTS, by its columns."""
    return set(COLUMNS) <= set(first_cells(path))


def _dataset(frame: pl.DataFrame, where: Where, folder: Path, split: str | None) -> Dataset:
    missing = [name for name in COLUMNS if name not in frame.columns]
    if missing:
        raise DataError(f"NIGHTS needs the column {missing[0]}; found {', '.join(frame.columns)}")
    n, M = _votes(frame, where)
    renamed = {"id": "triplet", "ref_path": "ref", "left_path": "x0", "right_path": "x1"}
    labels = labels_of(frame.select(*renamed).rename(renamed), where)
    table = labels.with_columns(n=pl.Series(n), M=pl.Series(M))
    if "is_imagenet" in frame.columns:
        imagenet = frame["is_imagenet"].cast(pl.String).str.to_lowercase().is_in(["true", "1"])
        group = pl.Series("group", np.where(imagenet.to_numpy(), "imagenet", "other"))
        table = table.insert_column(1, group)
    if split is not None:
        if "split" not in frame.columns:
            raise DataError(f"the table has no column split; found {', '.join(frame.columns)}")
        table = table.filter((frame["split"] == split).fill_null(False))
        if table.is_empty():
            names = frame["split"].drop_nulls().unique().sort()
            raise DataError(f"no split {split}; the table has {', '.join(names)}")
    notes = (UNANIMOUS,) if ((n == 0) | (n == M)).all() else ()
    return Dataset("nights", folder, TRIPLET, {role: table[role] for role in TRIPLET}, table, notes)


def _votes(frame: pl.DataFrame, where: Where) -> tuple[IntArray, IntArray]:
    """Return n and M: the sides' votes are counts if they add up to ``votes``, otherwise 1 and 0 for all and none."""
    left, right, votes = (numbers_of(frame, name, where) for name in ("left_vote", "right_vote", "votes"))
    all_or_none = (left + right == 1) & ((left == 0) | (left == 1))
    wrong = ~(all_or_none | (left + right == votes))
    rule = "left_vote and right_vote must be 1 and 0, or add up to votes"
    refuse(wrong, rule, where, lambda row: f"{left[row]:g} and {right[row]:g} of {votes[row]:g}")
    votes_table = pl.DataFrame({"n": np.where(all_or_none, right * votes, right), "M": votes})
    return counts_of(votes_table, where)
