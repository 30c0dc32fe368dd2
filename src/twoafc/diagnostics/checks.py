"""What people get wrong in a table of votes and distances, found and said in words."""

from __future__ import annotations

import numpy as np

from twoafc.diagnostics.design import design, unlike_votes
from twoafc.diagnostics.direction import direction
from twoafc.diagnostics.finding import Finding
from twoafc.diagnostics.groups import groups
from twoafc.diagnostics.observers import one_key
from twoafc.diagnostics.overlap import duplicates, overlap
from twoafc.diagnostics.shuffled import shuffled
from twoafc.diagnostics.units import units
from twoafc.diagnostics.values import values
from twoafc.diagnostics.view import view
from twoafc.table import Triplets


def check(train: Triplets, test: Triplets | None = None) -> list[Finding]:
    """Look for mistakes in a table, and in a second one beside it; warnings come first.

    Parameters
    ----------
    train, test : Triplets
        The table that a surface is fitted on, and the one that it is scored on, where there is one.

    Returns
    -------
    list of Finding
        A warning is most likely a mistake, a note is worth knowing; empty where nothing was found. Where the data
        cannot tell two causes apart, a finding names both.

    Examples
    --------
    >>> from twoafc import worlds
    >>> frame = worlds.simulate("weber", triplets=500, votes=3, seed=1)
    >>> check(Triplets.from_frame(frame))
    []
    >>> (found,) = check(Triplets.from_frame(frame.with_columns(n=frame["M"] - frame["n"])))
    >>> print(found.message)
    the votes are flipped (n must count x1), or distance is a similarity: it runs against the votes, and no distance
    with them
    """
    # Numbers at the ends of what a float holds overflow in ratios and squares; no threshold is met by that.
    with np.errstate(all="ignore"):
        return sorted(_found(train, test), key=lambda finding: finding.level == "note")


def _found(train: Triplets, test: Triplets | None) -> list[Finding]:
    tables = {"train": train} | ({"test": test} if test is not None else {})
    views = [view(role, table) for role, table in tables.items()]
    by_group = [finding for each in views for finding in groups(each)]
    # Of a table with groups out of step, what is seen of all its rows together is their mixture.
    mixed = {finding.table for finding in by_group}
    found = [finding for finding in (*direction(views), *shuffled(views)) if finding.table not in mixed] + by_group
    for each in views:
        found += [*values(each), *duplicates(each), *design(each), *one_key(each)]
    if len(views) == 2:
        found += [*units(*views), *overlap(*views), *unlike_votes(*views)]
    return found
