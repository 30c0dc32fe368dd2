"""Files of counts, and models that carry counts, added up: votes stay where they are, only counts travel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from twoafc import estimators
from twoafc.counts import Counts, merge
from twoafc.counts.counts import KIND
from twoafc.counts.twice import doubtful, refuse_twice
from twoafc.estimators import Loaded, asked, carried, fit_counts
from twoafc.files import read_archive


@dataclass(frozen=True, eq=False)
class Merged:
    """What merging files gives.

    Attributes
    ----------
    made : Counts, or a fit that carries its counts
        Both have ``save(path)``.
    counts : Counts
        The sum.
    notes : list of str
        What a reader should know of it.
    """

    made: Counts | Loaded
    counts: Counts
    notes: list[str]


def merge_files(paths: Sequence[str | Path]) -> Merged:
    """Add the counts of some files; where there are models among them, fit their estimator anew to the sum.

    Parameters
    ----------
    paths : sequence of paths
        Files of counts, and models of one estimator and its settings that carry counts; of one distance, on one
        lattice, no votes twice.
    """
    if len(paths) < 2:
        raise ValueError(f"name two files to merge, or more; found {len(paths)}")
    read = [(str(path), read_archive(path)[0] == KIND) for path in paths]
    loaded = [estimators.load(name) for name, counted in read if not counted]
    models = [model for model in loaded if isinstance(model, estimators.Surface)]
    counts = [Counts.load(name) for name, counted in read if counted]
    names = [name for name, counted in read if not counted] + [name for name, counted in read if counted]
    held = [*carried(models, names), *counts]
    # Added first: counts of the same votes that are not alike are refused for that.
    total = merge(held, names=names)
    refuse_twice(held, names)
    made = fit_counts(asked(models[0]), total) if models else total
    kept = {each.clusters is not None for each in held}
    lost = ["not all files kept their refs; error bars of the sum are not clustered"] if len(kept) > 1 else []
    return Merged(made, total, [*lost, *doubtful(held, names), *total.notes])
