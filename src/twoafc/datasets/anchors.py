"""Anchors: choices that are the original itself, pixel by pixel, shown to see whether people pay attention."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import polars as pl

from twoafc.datasets.dataset import Dataset
from twoafc.errors import DataError
from twoafc.images import ImageError, read_pixels
from twoafc.table import TRIPLET

Progress = Callable[[int, int, str], None]


def without_anchors(data: Dataset, *, progress: Progress | None = None) -> Dataset:
    """Leave out triplets of which a choice is pixel-identical to the reference; a note counts them.

    Every image is decoded, once. A triplet whose images cannot be read is kept, since nothing is known of it.

    Parameters
    ----------
    data : Dataset
        Triplets with images.
    progress : callable (done, total, what), optional
    """
    if data.roles != TRIPLET:
        raise ValueError(f"anchors are choices of triplets, ref, x0, x1; the data set has {', '.join(data.roles)}")
    digests = _digests(data, progress)
    ref, x0, x1 = (data.files[role].replace_strict(digests, return_dtype=pl.Binary) for role in TRIPLET)
    # A digest is null where the image cannot be read, and so is whatever is compared with it.
    anchored = ((ref == x0) | (ref == x1)).fill_null(False)
    unknown = int(((ref == x0) | (ref == x1)).is_null().sum())
    if unknown == len(data):
        raise DataError("anchors (choices pixel-identical to the reference) cannot be known without the images")
    notes = [
        f"{anchored.sum()} of {len(data)} triplets dropped: a choice is pixel-identical to the reference (anchors)"
    ]
    if unknown:
        notes.append(f"{unknown} triplets have images that cannot be read: whether they are anchors cannot be known")
    return replace(data.where(~anchored), notes=(*data.notes, *notes))


def _digests(data: Dataset, progress: Progress | None) -> dict[str, bytes | None]:
    """Give a digest of every image's pixels; None where it cannot be read."""
    files = pl.concat([names.rename("file") for names in data.files.values()]).unique(maintain_order=True).to_list()
    found: dict[str, bytes | None] = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # decoding leaves Python's lock to others
        for name, digest in zip(files, pool.map(_digest, [data.folder / name for name in files]), strict=True):
            found[name] = digest
            if progress and len(found) % 100 == 0:
                progress(len(found), len(files), "looking for anchors")
    if progress:
        progress(len(files), len(files), "looking for anchors")
    return found


def _digest(path: os.PathLike[str]) -> bytes | None:
    try:
        pixels = read_pixels(str(path))
    except ImageError:
        return None
    return hashlib.sha256(f"{pixels.shape} {pixels.dtype}".encode() + pixels.tobytes()).digest()
