"""Votes that would count double: counts to be added that hold the same ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from twoafc.counts.counts import Counts
from twoafc.errors import DataError

SURE = 100
"""Cells that never hold the same numbers by chance; fewer may, at small sites."""


def refuse_twice(counts: Sequence[Counts], names: Sequence[str]) -> None:
    """Refuse counts that were made from the same files, or that hold the same cells where that is no accident."""
    for (one, a), (other, b) in combinations(zip(names, counts, strict=True), 2):
        if set(a.files) & set(b.files) or (_share(a, b) and not _by_chance(a, b)):
            raise DataError(f"votes are merged once; {other} holds counts that are in {one} already")


def doubtful(counts: Sequence[Counts], names: Sequence[str]) -> Iterator[str]:
    """Say which counts hold the same few cells though they came from different files."""
    for (one, a), (other, b) in combinations(zip(names, counts, strict=True), 2):
        if _share(a, b) and _by_chance(a, b):
            yield f"{one} and {other} have the same cells, from different files; the same votes would now count double"


def _share(a: Counts, b: Counts) -> bool:
    return bool({*(a.parts or (a.digest,))} & {*(b.parts or (b.digest,))})


def _by_chance(a: Counts, b: Counts) -> bool:
    return bool(a.files and b.files) and min(len(a.cells), len(b.cells)) < SURE
