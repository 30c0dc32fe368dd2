"""Tables as a user names them: files, patterns and files of counts; read, or counted if they are too large."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from twoafc.arrays import Progress
from twoafc.scale.engines import count
from twoafc.scale.files import find_parts, is_remote, matching, rows_in
from twoafc.scale.lattice import Counts, Lattice
from twoafc.scale.merging import load_counts

COUNTS = ".npz"
MOST_ROWS = 4_000_000
"""A table of more rows is counted instead of read, since it would take some gigabytes."""
ROW = 50
"""Bytes of a row of text, roughly."""


@dataclass(frozen=True)
class Source:
    """A table, in one file or several, or files of counts."""

    named: str  # as the user named it
    parts: tuple[str, ...]

    @classmethod
    def find(cls, named: str) -> Source:
        """Find the files that a path or a pattern names."""
        return cls(named, tuple((matching if named.lower().endswith(COUNTS) else find_parts)(named)))

    @property
    def holds_counts(self) -> bool:
        """Whether these are files of counts."""
        return self.parts[0].lower().endswith(COUNTS)

    def is_large(self) -> bool:
        """Whether the table should be counted rather than read; of text the number of rows is estimated."""
        if self.holds_counts or any(map(is_remote, self.parts)):
            return True
        rows = rows_in(self.parts)
        return (sum(map(os.path.getsize, self.parts)) // ROW if rows is None else rows) > MOST_ROWS


@dataclass(frozen=True)
class Counting:
    """How tables are counted."""

    engine: str | None = None  # what reads them; None for polars
    per_octave: int | None = None  # bins for each doubling; None for those of the other files of counts, or the default
    keep_refs: bool = False

    def count(
        self, sources: Mapping[str, Source], distances: Sequence[str] | None, progress: Progress | None = None
    ) -> dict[str, dict[str, Counts]]:
        """Count tables, and load files of counts, by role (train, test)."""
        given = {"--engine": self.engine, "--per-octave": self.per_octave, "--keep-refs": self.keep_refs or None}
        idle = next((option for option, value in given.items() if value is not None), None)
        if idle and all(source.holds_counts for source in sources.values()):
            raise ValueError(f"{idle} sets how tables are counted; these are already counts: leave it out")
        loaded = {role: load_counts(source.parts) for role, source in sources.items() if source.holds_counts}
        used = [counted.lattice.per_octave for counts in loaded.values() for counted in counts.values()]
        per_octave = next(iter(used), Lattice().per_octave) if self.per_octave is None else self.per_octave
        return {
            role: loaded[role]
            if role in loaded
            else count(
                list(source.parts),
                distances=distances,
                engine=self.engine,
                per_octave=per_octave,
                keep_refs=self.keep_refs,
                progress=progress,
            )
            for role, source in sources.items()
        }

    def notes(self, sources: Mapping[str, Source], counts: Mapping[str, Mapping[str, Counts]]) -> list[str]:
        """Name the engine that the user did not choose, and mention bins of different width."""
        notes = []
        tables = [source for source in sources.values() if not source.holds_counts]
        if self.engine is None and tables:
            large = any(source.is_large() for source in tables)
            why = f", since a table of more than {MOST_ROWS:,} rows is not read" if large else ""
            notes.append(f"counted by polars{why}; --engine chooses another")
        widths = {
            role: {counted.lattice.per_octave for counted in of_role.values()} for role, of_role in counts.items()
        }
        if len(set.union(*widths.values())) > 1:
            widths_of = (f"{role} {' and '.join(map(str, sorted(numbers)))}" for role, numbers in widths.items())
            notes.append(f"counted in bins of different widths; per doubling of a distance, {', '.join(widths_of)}")
        return notes

    def engine_of(self, source: Source) -> str:
        """Return the engine that counted a source; files of counts do not say."""
        return "counted before" if source.holds_counts else self.engine or "polars"
