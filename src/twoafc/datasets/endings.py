"""Images named without their endings, ``teflon`` for ``teflon.jpg``, where only one file can be meant."""

from __future__ import annotations

import os
from dataclasses import replace

import polars as pl

from twoafc.datasets.dataset import Dataset
from twoafc.errors import DataError
from twoafc.images import ENDINGS


def with_endings(data: Dataset) -> Dataset:
    """Add the endings of images that are there only with one; a note tells it. The labels stay as they are.

    A name that is there as it is stands for itself.
    """
    listed: dict[str, dict[str, list[str]]] = {}
    meant: dict[str, str] = {}
    for name in sorted(set(data.missing()["file"])):
        folder, base = os.path.split(name)
        if folder not in listed:
            listed[folder] = _by_stem(os.path.join(data.folder, folder))
        there = listed[folder].get(base, [])
        if len(there) > 1:
            raise DataError(f"an image must be one file; {name} may be {' or '.join(there)}: add the ending")
        if there:
            meant[name] = f"{folder}/{there[0]}" if folder else there[0]
    if not meant:
        return data
    files = {role: names.replace(meant) for role, names in data.files.items()}
    first, *_ = meant.items()
    told = f"{len(meant)} images are named without their endings: {first[0]} is taken for {first[1]}"
    return replace(data, files=files, notes=(*data.notes, told))


def _by_stem(folder: str) -> dict[str, list[str]]:
    """List the images of a folder by their names without endings."""
    found: dict[str, list[str]] = {}
    try:
        names = pl.Series(os.listdir(folder), dtype=pl.String).sort()
    except OSError:
        return found
    for name in names:
        stem, ending = os.path.splitext(name)
        if ending.lower() in ENDINGS:
            found.setdefault(stem, []).append(name)
    return found
