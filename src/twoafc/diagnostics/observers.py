"""Observers who always press the same key."""

from __future__ import annotations

import numpy as np
import polars as pl
from scipy.special import bdtrc

from twoafc.diagnostics.finding import Finding
from twoafc.diagnostics.view import View

CHANCE = 1e-4
"""Of so lopsided an observer among all of them."""
MOSTLY = 0.9
LOPSIDED = 0.75
"""Share of one key over all observers beyond which it is the triplets that ask for that key."""


def one_key(view: View) -> list[Finding]:
    """Find observers who press one key, whatever is shown; choices count as shown, before swaps are undone."""
    shown = _shown(view)
    if shown is None:
        return []
    total = shown.group_by("observer").agg(pl.all().sum()).sort("observer")
    votes, ones = int(total["votes"].sum()), int(total["one"].sum())
    found = []
    for name, pressed, of, asked in total.select("observer", "one", "votes", "asked").iter_rows():
        # What the others press, or the distances ask for where there is no other, stands for what is shown.
        usual = (ones - pressed) / (votes - of) if votes > of else asked / of
        for key, times, expected in (("1", pressed, usual), ("0", of - pressed, 1 - usual)):
            if times < MOSTLY * of or expected > LOPSIDED:
                continue
            if len(total) * bdtrc(times - 1, of, max(0.5, expected)) < CHANCE:
                found.append(_told(view.role, name, key, f"{times} of {of}", expected, votes > of))
    return found


def _told(role: str, name: str, key: str, count: str, expected: float, others: bool) -> Finding:
    against = "of those of the others" if others else "is what the distances ask for"
    return Finding(
        "one_key",
        "warning",
        role,
        None,
        f"observer {name} presses one key whatever is shown: choice {key}",
        f"{count} votes are {key}; {100 * expected:.0f} % {against}",
        "leave this observer out, or find out how the choices were written down",
    )


def _shown(view: View) -> pl.DataFrame | None:
    """Give each vote, or row of votes, as shown: observer, ones, votes, and the ones that the distances ask for."""
    table = view.table
    asks = np.mean([(np.sign(column.u0 - column.u1) + 1) / 2 for column in view.columns.values()], axis=0)
    if table.votes is not None and "observer" in table.votes.columns:
        asked = asks[table.votes["row"].to_numpy()]
        swapped = table.votes["swapped"].to_numpy()
        return table.votes.select(
            "observer", one="choice", votes=pl.lit(1), asked=pl.Series(np.where(swapped, 1 - asked, asked))
        )
    if "observer" not in table.labels.columns:
        return None
    return table.labels.select(
        "observer", one=pl.Series(table.n), votes=pl.Series(table.M), asked=pl.Series(asks * table.M)
    )
