"""The checks of a table of votes and distances, in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twoafc.diagnostics.design import choices, design, one_sided, unlike_votes
from twoafc.diagnostics.direction import direction_of_pairs, relation_to_votes
from twoafc.diagnostics.findings import Finding
from twoafc.diagnostics.overlap import duplicates, shared
from twoafc.diagnostics.profile import Profile, profile_of
from twoafc.diagnostics.values import sides, units, values
from twoafc.table import as_votes, require_single


def check(train: Any, test: Any = None) -> list[Finding]:
    """Look for mistakes in a table, and in a test table if there is one; warnings come first.

    Parameters
    ----------
    train, test : Triplets or Pairs, a path, or a frame
        The table to fit, and the table to score, if any.

    Returns
    -------
    list of Finding
        A warning is probably a mistake, a note is worth knowing; empty where nothing was found. Where the data cannot
        distinguish two causes, a finding names both.

    Examples
    --------
    >>> from twoafc import worlds
    >>> frame = worlds.simulate("weber", triplets=500, votes=3, seed=1)
    >>> check(frame)
    []
    >>> (finding,) = check(frame.with_columns(n=frame["M"] - frame["n"]))
    >>> print(finding.message)
    the votes are flipped (n must count x1), or distance is a similarity: it disagrees with the votes, and no distance
    agrees
    """
    tables = {"train": as_votes(train)} | ({"test": as_votes(test)} if test is not None else {})
    for table in tables.values():
        require_single(table, "check")
    # Extreme numbers overflow in ratios and squares; this triggers no finding.
    with np.errstate(all="ignore"):
        findings = list(_findings([profile_of(role, table) for role, table in tables.items()]))
    return sorted(findings, key=lambda finding: finding.level == "note")


def _findings(profiles: list[Profile]) -> Iterator[Finding]:
    triplets = all(profile.table.k == 2 for profile in profiles)
    if triplets:
        yield from relation_to_votes(profiles)
    for profile in profiles:
        own = (sides, choices) if triplets else (direction_of_pairs, one_sided)
        for check_table in (values, duplicates, design, *own):
            yield from check_table(profile)
    if len(profiles) == 2:
        for check_both in (units, shared, unlike_votes):
            yield from check_both(*profiles)
