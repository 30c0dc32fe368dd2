"""CLIC 2021, perceptual track: a CSV without a header, O,A,B,T: original, two choices, which of them was preferred.

A row is one judgement; T is 0 where A was preferred, 1 where B was. The images lie beside the CSV.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from twoafc.datasets.counted import counted
from twoafc.datasets.dataset import Dataset, note_missing
from twoafc.errors import DataError
from twoafc.images import ENDINGS
from twoafc.table import TRIPLET, choices_of, labels_of

ANSWERS = "oracle.csv"
"""What the file of answers is called beside the images."""
NO_IMAGES = "no images beside the answers: anchors (choices pixel-identical to the original) cannot be known"


def open_clic(path: str | Path, *, folder: str | Path | None = None) -> Dataset:
    """Open CLIC 2021 answers; repeats of a triplet are merged, shown either way round.

    Rows whose two choices are one file say nothing and are dropped; a note counts them. Without images the votes can
    still be read. `twoafc.datasets.without_anchors` removes triplets in which a choice is the original itself.

    Parameters
    ----------
    path : str or Path
        The CSV, or the folder with the images in which it is called oracle.csv.
    folder : str or Path, default the CSV's own
        Where the images are.
    """
    path = Path(path)
    file = path / ANSWERS if path.is_dir() else path
    try:
        data = _dataset(_read(file), Path(file.parent if folder is None else folder))
    except DataError as error:
        raise DataError(f"{file}: {error}") from error
    if len(data.missing()) == len(data) * len(TRIPLET):
        return replace(data, notes=(*data.notes, NO_IMAGES))
    return note_missing(data)


def is_clic(path: Path) -> bool:
    """Tell a CSV of CLIC, by its first line: three or four cells, of which three name images."""
    with path.open("rb") as file:
        cells = file.readline(10_000).decode("utf-8-sig", errors="replace").strip().split(",")
    return len(cells) in (3, 4) and all(cell.strip(' "').lower().endswith(ENDINGS) for cell in cells[:3])


def _read(file: Path) -> pl.DataFrame:
    if not file.is_file():
        raise DataError("no such file")
    try:
        frame = pl.read_csv(file, has_header=False, infer_schema=False)
    except pl.exceptions.PolarsError as error:
        raise DataError(f"not a readable CSV file: {str(error).strip().splitlines()[0]}") from error
    if len(frame.columns) == 3:
        raise DataError("the file has questions only, O,A,B; expected answers too, O,A,B,T")
    if len(frame.columns) != 4:
        raise DataError(f"expected four columns, O,A,B,T, without a header; found {len(frame.columns)}")
    frame.columns = [*TRIPLET, "choice"]
    return frame


def _dataset(frame: pl.DataFrame, folder: Path) -> Dataset:
    labels, choice = labels_of(frame, _line), choices_of(frame, _line)
    table, merged = counted(labels, choice)
    notes = [f"{len(frame)} judgements of {labels['ref'].n_unique()} originals", *merged]
    table = table.insert_column(0, pl.Series("triplet", np.arange(len(table))).cast(pl.String))
    twins = table["x0"] == table["x1"]
    if twins.all():
        raise DataError("no triplet is left: A and B are one file in every row")
    if twins.any():
        judged = table.filter(twins)["M"].sum()
        notes.append(f"{twins.sum()} of {len(table)} triplets ({judged} judgements) dropped: A and B are one file")
    kept = table.filter(~twins)
    return Dataset("clic", folder, TRIPLET, {role: kept[role] for role in TRIPLET}, kept, tuple(notes))


def _line(row: int) -> str:
    return f"line {row + 1}"
