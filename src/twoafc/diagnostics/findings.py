"""What a check reports: a finding, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from twoafc.public import public

Level = Literal["warning", "note"]


@public
@dataclass(frozen=True)
class Finding:
    """A probable mistake in a table, or something worth knowing about it.

    Examples
    --------
    >>> print(Finding("ties", "warning", "test", "ssim", "half of the rows are ties", "50 of 100", "give more digits"))
    warning: test, ssim: half of the rows are ties; 50 of 100; give more digits
    """

    code: str  #: a stable name of the kind of finding: direction, shuffled, constant, ties, units, ...
    level: Level  #: a warning is probably a mistake; a note is true of the table and worth knowing
    table: str  #: train, test, or both where it concerns the two together
    distance: str | None  #: the distance concerned; None where it is about the rows or the votes
    message: str  #: one sentence
    evidence: str  #: its figures
    remedy: str  #: what to do
    caveat: str = ""  #: what it means for every score, where it qualifies them all

    def __str__(self) -> str:
        place = self.table if self.distance is None else f"{self.table}, {self.distance}"
        # One line, even where names contain line breaks.
        return " ".join(f"{self.level}: {place}: {self.message}; {self.evidence}; {self.remedy}".split())


def join_names(names: Sequence[str], most: int = 4) -> str:
    """Join names by commas, only the first few where there are many."""
    rest = len(names) - most
    return ", ".join(names) if rest <= 0 else f"{', '.join(names[:most])} and {rest} more"


def share_of(count: int, total: int) -> str:
    """Format a count with its share."""
    return f"{count} of {total} ({100 * count / total:.1f} %)"
