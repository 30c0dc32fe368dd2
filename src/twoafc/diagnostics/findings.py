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

    Parameters
    ----------
    code : str
        A stable name of the kind of finding: direction, shuffled, constant, ties, units, ...
    level : "warning" or "note"
        A warning is probably a mistake; a note is true of the table and worth knowing.
    table : str
        "train", "test", or "both" where it concerns the two together.
    distance : str or None
        The distance concerned; None where it is about the rows or the votes.
    message, evidence, remedy : str
        One sentence, its figures, and what to do.
    caveat : str
        What it means for every score, where it qualifies them all.

    Examples
    --------
    >>> print(Finding("ties", "warning", "test", "ssim", "half of the rows are ties", "50 of 100", "give more digits"))
    warning: test, ssim: half of the rows are ties; 50 of 100; give more digits
    """

    code: str
    level: Level
    table: str
    distance: str | None
    message: str
    evidence: str
    remedy: str
    caveat: str = ""

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
