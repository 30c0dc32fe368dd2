"""What to evaluate, as a user names it: files, patterns and files of counts; read whole, or counted where too large."""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from twoafc.counts import Counts, Lattice, merge
from twoafc.engine import count, size
from twoafc.engine.parts import find_parts, is_remote
from twoafc.errors import DataError
from twoafc.evaluation.settings import Progress

COUNTS = ".npz"
MOST_ROWS = 4_000_000
"""A table of more rows is counted instead of read: they would take some gigabytes."""
ROW = 50
"""Bytes of a row of text, about."""


@dataclass(frozen=True)
class Source:
    """A table, in one file or several, or files of counts.

    Parameters
    ----------
    named : str
        As the user put it.
    parts : tuple of str
        The files.
    """

    named: str
    parts: tuple[str, ...]

    @classmethod
    def find(cls, named: str) -> Source:
        """Find the files that a path or a pattern names."""
        if not named.lower().endswith(COUNTS):
            return cls(named, tuple(find_parts(named)))
        found = sorted(glob.glob(named, recursive=True)) if glob.has_magic(named) else [named]
        if not found:
            raise DataError(f"no file matches {named}")
        return cls(named, tuple(found))

    @property
    def holds_counts(self) -> bool:
        """Whether these are files of counts."""
        return self.parts[0].lower().endswith(COUNTS)

    @property
    def rows(self) -> int | None:
        """Rows of the table, of text about; None of files that lie elsewhere."""
        if any(map(is_remote, self.parts)):
            return None
        found = size(list(self.parts))
        return found.bytes // ROW if found.rows is None else found.rows

    def is_large(self) -> bool:
        """Whether the table should be counted rather than read."""
        if self.holds_counts:
            return True
        rows = self.rows
        return rows is None or rows > MOST_ROWS


@dataclass(frozen=True)
class Counting:
    """How tables are counted.

    Parameters
    ----------
    engine : str or None
        What reads them; None for polars.
    per_octave : int or None
        Bins for each doubling of a distance; None for as many as files of counts beside them have, or the usual.
    keep_refs : bool
        Count by reference too.
    """

    engine: str | None = None
    per_octave: int | None = None
    keep_refs: bool = False

    def count(
        self, sources: Mapping[str, Source], distances: Sequence[str] | None, progress: Progress | None = None
    ) -> dict[str, dict[str, Counts]]:
        """Count tables, and load files of counts, by role (train, test)."""
        loaded = {role: load_counts(source.parts) for role, source in sources.items() if source.holds_counts}
        held = [each.lattice.per_octave for counts in loaded.values() for each in counts.values()]
        per_octave = self.per_octave or next(iter(held), Lattice().per_octave)
        tables = {role: source for role, source in sources.items() if role not in loaded}
        made = {
            role: count(
                list(source.parts),
                distances=distances,
                engine=self.engine,
                lattice=Lattice(per_octave),
                keep_refs=self.keep_refs,
                progress=progress,
            )
            for role, source in tables.items()
        }
        return {role: (loaded | made)[role] for role in sources}


def load_counts(files: Sequence[str]) -> dict[str, Counts]:
    """Load files of counts, by distance; those of one distance are added up."""
    found: dict[str, list[tuple[str, Counts]]] = {}
    for file in files:
        counts = Counts.load(file)
        found.setdefault(counts.distance, []).append((file, counts))
    return {
        distance: merge([each for _, each in held], names=[file for file, _ in held])
        for distance, held in found.items()
    }
