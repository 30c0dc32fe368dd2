"""`twoafc merge`: counts of parts, days or sites, or models that carry them, made one."""

from __future__ import annotations

from pathlib import Path

from twoafc.cli.options import Json, Quiet
from twoafc.cli.show import printed, say


def merge(*files: Path, out: Path, json: Json = False, quiet: Quiet = False) -> None:
    """Add counts, or models fitted to counts, or both: exactly what counting all their triplets together gives.

    Where there is a model among the files, its map and fit are made anew from the sum, so that counts of new votes
    update a model without the old data.

    Parameters
    ----------
    files
        Files of counts as twoafc count writes them, and models of one estimator that carry counts.
    out
        File to write, .npz; it may be one of the files.
    """
    from twoafc.scale import merge_files

    if out.suffix != ".npz":
        raise ValueError(f"merged counts and models are written as .npz; found {out.name}")
    if not out.parent.is_dir():
        raise OSError(f"no such folder: {out.parent}")
    table = next((path for path in files if path.suffix in (".csv", ".parquet")), None)
    if table is not None:
        raise ValueError(f"{table} is a table; count it first (twoafc count)")
    merged = merge_files(files)
    merged.made.save(out)
    counts = merged.counts
    kind = "counts" if merged.made is counts else type(merged.made).__name__.removesuffix("Fit").lower()
    size = {"distance": counts.distance, "triplets": counts.triplets, "votes": counts.votes}
    about = {"file": str(out), "kind": kind, **size, "cells": len(counts.cells), "parts": counts.parts}
    if not printed(about, json, quiet):
        say(*(f"note: {note}" for note in merged.notes))
        say(f"{out}: {counts.triplets:,} triplets, {counts.votes:,} votes of {len(files)} files ({counts.distance})")
