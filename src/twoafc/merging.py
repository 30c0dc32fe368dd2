"""Files of counts, and models that carry counts, added up: votes stay where they are, only counts travel."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from twoafc import estimators, modelfile
from twoafc.counts import Counts, merge
from twoafc.counts.counts import KIND
from twoafc.errors import DataError
from twoafc.estimators import Loaded
from twoafc.estimators.origin import refit


def merge_files(paths: Sequence[str | Path]) -> Counts | Loaded:
    """Add the counts of some files; of models, fit their estimator anew to the sum.

    Parameters
    ----------
    paths : sequence of paths
        All files of counts, or all models of one estimator and its settings that carry counts; of one distance, on one
        lattice, no votes twice.

    Returns
    -------
    Counts, or a fit that carries its counts; both have ``save(path)``
    """
    if len(paths) < 2:
        raise ValueError(f"name two files to merge, or more; found {len(paths)}")
    names = [str(path) for path in paths]
    kinds = [modelfile.read(path)[0] for path in paths]
    if KIND in kinds and set(kinds) != {KIND}:
        other = next(place for place, kind in enumerate(kinds) if kind != KIND)
        raise DataError(
            f"files to merge are all counts or all models; {names[kinds.index(KIND)]} holds counts, "
            f"{names[other]} a model of kind {kinds[other]!r}"
        )
    if set(kinds) == {KIND}:
        counts = [Counts.load(path) for path in paths]
        _refuse_twice(counts, names)
        return merge(counts, names=names)
    models = [estimators.load(path) for path in paths]
    _refuse_twice([None if model.origin is None else model.origin.counts for model in models], names)
    return refit(models, names=names)


def _refuse_twice(counts: Sequence[Counts | None], names: Sequence[str]) -> None:
    """Refuse files that hold the same votes, which would then count double."""
    held: dict[str, str] = {}
    for each, name in zip(counts, names, strict=True):
        for digest in (each.parts or (each.digest,)) if each is not None else ():
            if digest in held:
                raise DataError(f"votes are merged once; {name} holds counts that are in {held[digest]} already")
            held[digest] = name
