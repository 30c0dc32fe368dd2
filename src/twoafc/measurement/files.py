"""Files written whole: under a hidden name first, made safe on disk, then renamed."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import polars as pl

PARTIAL = r"\.\d+\.part"
"""How the names of files end that are not yet whole, after the number of their process."""


def write_whole(frame: pl.DataFrame, path: Path, metadata: Mapping[str, str]) -> None:
    """Write a frame as Parquet with metadata, or as CSV without, by the ending of the name."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        if path.suffix == ".csv":
            frame.write_csv(partial)
        else:
            frame.write_parquet(partial, metadata=dict(metadata))
        _settle(partial, path)
    except pl.exceptions.PolarsError as error:  # what a full disk is to polars
        raise OSError(f"{path} could not be written: {str(error).strip().splitlines()[0]}") from error
    finally:
        partial.unlink(missing_ok=True)


def write_text(text: str, path: Path) -> None:
    """Write a text."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        partial.write_text(text, encoding="utf-8")
        _settle(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def clear_partial(folder: Path, names: list[str]) -> None:
    """Remove what processes that were killed have left of some files; nobody else may be writing them."""
    left = re.compile(rf"\.({'|'.join(map(re.escape, names))}){PARTIAL}")
    for path in folder.glob(".*.part"):
        if left.fullmatch(path.name):
            path.unlink(missing_ok=True)


def _settle(partial: Path, path: Path) -> None:
    with partial.open("rb+") as file:
        os.fsync(file.fileno())
    partial.replace(path)
    if os.name == "posix":
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # the new name, too
        finally:
            os.close(folder)
