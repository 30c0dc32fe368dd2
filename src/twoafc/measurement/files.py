"""Files written whole and made safe on disk."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from twoafc.files import whole_file
from twoafc.table import put_frame

PARTIAL = r"\.\d+\.part"
"""How the names of files end that are not yet whole, after the number of their process."""


def write_whole(frame: pl.DataFrame, path: Path, metadata: Mapping[str, str]) -> None:
    """Write a frame as Parquet with metadata, or as CSV without, by the ending of the name."""
    with _safe_file(path) as partial:
        put_frame(frame, partial, path.suffix, metadata)


def write_text(text: str, path: Path) -> None:
    """Write a text."""
    with _safe_file(path) as partial:
        partial.write_text(text, encoding="utf-8")


def clear_partial(folder: Path, names: list[str]) -> None:
    """Remove what processes that were killed have left of some files; nobody else may be writing them."""
    left = re.compile(rf"\.({'|'.join(map(re.escape, names))}){PARTIAL}")
    for path in folder.glob(".*.part"):
        if left.fullmatch(path.name):
            path.unlink(missing_ok=True)


@contextmanager
def _safe_file(path: Path) -> Iterator[Path]:
    """Give a path to write to, as `whole_file` does; what is written outlives a power cut."""
    with whole_file(path) as partial:
        yield partial
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
    if os.name == "posix":
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # the new name, too
        finally:
            os.close(folder)
