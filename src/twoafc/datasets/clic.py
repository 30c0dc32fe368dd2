"""CLIC 2021, perceptual track: a CSV without a header, O,A,B,T: original, two choices, which of them was preferred.

A row is one judgement; T is 0 if A was preferred, 1 if B was. The images are in the folder of the CSV. Some choices are
anchors: the original itself, pixel by pixel, shown to check whether people pay attention.
"""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from twoafc.arrays import Progress
from twoafc.datasets.dataset import Dataset, count_votes, first_cells, note_missing
from twoafc.errors import DataError, naming
from twoafc.files import reading_csv, require_file
from twoafc.images import ENDINGS, ImageError, read_pixels
from twoafc.table import TRIPLET, choices_of, labels_of

ANSWERS = "oracle.csv"
"""Name of the file of answers in the folder of the images."""
NO_IMAGES = "no images beside the answers: anchors (choices pixel-identical to the original) cannot be detected"


def open_clic(path: str | Path, *, folder: str | Path | None = None) -> Dataset:
    """Open CLIC 2021 answers; repeats of a triplet are merged, whichever choice was A.

    Rows whose two choices are one file are dropped; a note counts them. Without images the votes can still be read.
    `twoafc.datasets.without_anchors` removes triplets in which a choice is the original itself.

    Parameters
    ----------
    path : str or Path
        The CSV, or the folder with the images in which it is called oracle.csv.
    folder : str or Path, default the CSV's own
        The folder of the images.
    """
    path = Path(path)
    file = path / ANSWERS if path.is_dir() else path
    with naming(file):
        data = _dataset(_read(file), Path(file.parent if folder is None else folder))
    if len(data.missing()) == len(data) * len(TRIPLET):
        return replace(data, notes=(*data.notes, NO_IMAGES))
    return note_missing(data)


def is_clic(path: Path) -> bool:
    """Return whether a CSV is one of CLIC, by its first line: three or four cells, the first three of them images."""
    cells = first_cells(path)
    return len(cells) in (3, 4) and all(cell.lower().endswith(ENDINGS) for cell in cells[:3])


def _read(file: Path) -> pl.DataFrame:
    require_file(file)
    with reading_csv():
        frame = pl.read_csv(file, has_header=False, infer_schema=False)
    if len(frame.columns) == 3:
        raise DataError("the file has questions only, O,A,B; expected answers too, O,A,B,T")
    if len(frame.columns) != 4:
        raise DataError(f"expected four columns, O,A,B,T, without a header; found {len(frame.columns)}")
    frame.columns = [*TRIPLET, "choice"]
    return frame


def _dataset(frame: pl.DataFrame, folder: Path) -> Dataset:
    labels, choice = labels_of(frame, _line), choices_of(frame, _line)
    table, merged = count_votes(labels, choice)
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


def without_anchors(data: Dataset, *, progress: Progress | None = None) -> Dataset:
    """Drop triplets in which a choice is pixel-identical to the reference; a note counts them.

    Every image is decoded, once. A triplet whose images cannot be read is kept, since nothing is known of it.

    Parameters
    ----------
    data : Dataset
        Triplets with images.
    progress : callable (done, total, what), optional
    """
    if data.roles != TRIPLET:
        raise ValueError(f"anchors are choices of triplets, ref, x0, x1; the data set has {', '.join(data.roles)}")
    digests = _pixel_digests(data, progress)
    ref, x0, x1 = (data.files[role].replace_strict(digests, return_dtype=pl.Binary) for role in TRIPLET)
    # The digest of an image that cannot be read is null, and so are comparisons with it.
    same = (ref == x0) | (ref == x1)
    anchored, unknown = same.fill_null(False), int(same.is_null().sum())
    if unknown == len(data):
        raise DataError("anchors (choices pixel-identical to the reference) cannot be detected without the images")
    notes = [
        f"{anchored.sum()} of {len(data)} triplets dropped: a choice is pixel-identical to the reference (anchors)"
    ]
    if unknown:
        notes.append(f"{unknown} triplets have images that cannot be read: whether they are anchors is not known")
    return replace(data.where(~anchored), notes=(*data.notes, *notes))


def _pixel_digests(data: Dataset, progress: Progress | None) -> dict[str, bytes | None]:
    """Return a digest of every image's pixels; None if it cannot be read."""
    files = pl.concat([names.rename("file") for names in data.files.values()]).unique(maintain_order=True).to_list()
    digests: dict[str, bytes | None] = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # decoding releases Python's lock
        for name, digest in zip(files, pool.map(_pixel_digest, [data.folder / name for name in files]), strict=True):
            digests[name] = digest
            if progress and (len(digests) % 100 == 0 or len(digests) == len(files)):
                progress(len(digests), len(files), "looking for anchors")
    return digests


def _pixel_digest(path: Path) -> bytes | None:
    try:
        pixels = read_pixels(path)
    except ImageError:
        return None
    return hashlib.sha256(f"{pixels.shape} {pixels.dtype}".encode() + pixels.tobytes()).digest()
