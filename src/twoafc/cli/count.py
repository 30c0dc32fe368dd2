"""`twoafc count`: a table of any size to counts, which merge and from which a fit can be made."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from twoafc.cli.options import Distances, Json, Quiet, listed
from twoafc.cli.show import print_table, printed, progress, say
from twoafc.cli.tables import changed_tables


def count(
    *votes: str,
    out: Path,
    distance: Distances = None,
    engine: Literal["polars", "duckdb", "dask", "spark"] = "polars",
    per_octave: int = 128,
    keep_refs: bool = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Count the triplets of a table of any size on a fixed lattice of distances, in one pass.

    Parameters
    ----------
    votes
        Tables (.parquet, .csv), or patterns such as 'votes/part*.parquet', with n, M (or choice) and NAME_d0, NAME_d1.
    out
        Folder to write a file to for each distance, NAME.npz, for twoafc merge and twoafc evaluate --train.
    engine
        What reads the tables; CSV needs polars.
    per_octave
        Bins for each doubling of a distance, a power of two; counts add up only where it is the same.
    keep_refs
        Count by reference, for clustered error bars; needs a column ref.
    """
    from twoafc.results import file_names
    from twoafc.scale import Source
    from twoafc.scale import count as run

    if not votes:
        raise ValueError("name at least one table of votes, or a pattern")
    if out.exists() and not out.is_dir():
        raise OSError(f"{out} is a file; counts are written to a folder")
    if out.suffix in (".npz", ".parquet", ".csv"):
        raise ValueError(f"counts are written to a folder, one file for each distance; {out} is the name of a file")
    changed = changed_tables({"votes": [Path(part) for named in votes for part in Source.find(named).parts]})
    with progress(quiet) as show:
        counted = run(
            list(votes),
            distances=listed(distance),
            engine=engine,
            per_octave=per_octave,
            keep_refs=keep_refs,
            progress=show,
        )
    files = dict(zip(file_names(list(counted)), counted.values(), strict=True))
    made = not out.exists()
    out.mkdir(parents=True, exist_ok=True)
    try:
        for name, counts in files.items():
            counts.save(out / name)
    except OSError:
        if made and not any(out.iterdir()):
            out.rmdir()
        raise
    written = [
        {"file": str(out / name), "distance": counts.distance, "triplets": counts.triplets, "votes": counts.votes}
        | {"cells": len(counts.cells)}
        for name, counts in files.items()
    ]
    if not printed(written, json, quiet):
        rows = [(str(r["distance"]), *(f"{r[name]:,}" for name in ("triplets", "votes", "cells"))) for r in written]
        print_table("Counted", ("distance", "triplets", "votes", "cells"), rows)
        notes = dict.fromkeys(note for counts in files.values() for note in counts.vote_notes)
        wide = [note for counts in files.values() for note in counts.bin_notes if note.startswith("warning: ")]
        say(*map(str, changed), *(f"note: {note}" for note in notes), *wide, f"Counts: {out}")
