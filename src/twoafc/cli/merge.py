"""`twoafc merge`: counts of parts, days or sites, or models that carry them, made one."""

from __future__ import annotations

from pathlib import Path

from twoafc.cli.show import Switch, say


def merge(*files: Path, out: Path, json: Switch = False, quiet: Switch = False) -> None:
    """Add counts, or models fitted to counts: exactly what counting all their votes together gives.

    Map and fit of merged models are made anew from the sum, so that new votes update a model without the old data.

    Parameters
    ----------
    files
        Files of counts as twoafc count writes them, or models of one estimator that carry counts.
    out
        File to write, .npz; it may be one of the files.
    json
        Print what was merged as JSON.
    quiet
        Print nothing but errors, and JSON where it is asked for.
    """
    from twoafc.counts import Counts
    from twoafc.merging import merge_files

    if out.suffix != ".npz":
        raise ValueError(f"merged counts and models are written as .npz; found {out.name}")
    if not out.parent.is_dir():
        raise OSError(f"no such folder: {out.parent}")
    made = merge_files(files)
    made.save(out)
    counts = made if isinstance(made, Counts) else made.origin.counts  # type: ignore[union-attr]
    if json:
        from twoafc.plainjson import strict_json

        kind = "counts" if made is counts else type(made).__name__.removesuffix("Fit").lower()
        told = {"distance": counts.distance, "triplets": counts.triplets, "votes": counts.votes}
        print(strict_json({"file": str(out), "kind": kind, **told, "cells": len(counts.cells), "parts": counts.parts}))
    elif not quiet:
        if counts.clusters is None:
            say("note: not all files kept their refs; error bars of the sum are not clustered")
        say(f"{out}: {counts.triplets:,} triplets, {counts.votes:,} votes of {len(files)} files ({counts.distance})")
