"""What votes show of those who cast them: a liking for one place, and how often they may have pressed at random."""

from __future__ import annotations

from typing import Any

import numpy as np

from twoafc.arrays import FloatArray, IntArray
from twoafc.inference.errorbars import Together
from twoafc.inference.intervals import Interval, p_value, share_interval, t_interval
from twoafc.table import Triplets

TAILS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
"""Shares of the votes, those where P is surest, in which a bound on lapses is sought."""


def asymmetry(table: Triplets, P: FloatArray, link: Together) -> dict[str, Any]:
    """Test whether people favour the first or the second image, beyond what P, which has no side, explains.

    Where single votes are known, the side is the one shown; else it is the table's: x0 first. The second may differ
    from 0 for another reason, that x0 and x1 were not put there at random.

    Returns
    -------
    dict
        ``shown`` (whether the side shown is known), ``value`` (votes for the second image beyond P, in %), ``se``,
        ``low``, ``high``, ``p``, ``sentence``.
    """
    total = float(table.M.sum())
    if table.votes is None:
        beyond: FloatArray = table.n - table.M * P
    else:
        beyond = np.asarray(np.bincount(table.votes["row"].to_numpy(), _beyond(table, P), minlength=len(table)), float)
    value = float(beyond.sum()) / total
    weight = table.M / total
    moved = None
    if link.votes is not None:
        moved = (_beyond(table, P) - value)[:, None] / total
    influence = (beyond - value * table.M) / total
    se = float(link.standard_errors(influence[:, None], weight, moved)[0, 0])
    units = float(link.units(weight)[0])
    found = t_interval(100 * value, 100 * se, units)
    chance = p_value(value, se, units)
    shown = table.votes is not None
    return {"shown": shown, **found._asdict(), "p": chance, "sentence": _sided(found, chance, shown)}


def _beyond(table: Triplets, P: FloatArray) -> FloatArray:
    """Votes for the second image as shown, less the chance that P gives it, one by one."""
    assert table.votes is not None
    row, swapped = table.votes["row"].to_numpy(), table.votes["swapped"].to_numpy()
    return np.asarray(table.votes["choice"].to_numpy() - np.where(swapped, 1 - P[row], P[row]))


def _sided(found: Interval, chance: float, shown: bool) -> str:
    if not np.isfinite(found).all():
        return "whether people favour one side cannot be known from so few triplets"
    ends = f"95 % interval {found.low:+.1f} to {found.high:+.1f}"
    if not chance < 0.05:
        return f"no liking for the first or the second image can be told: {found.value:+.1f} % of votes, {ends}"
    side = "second" if found.value > 0 else "first"
    figures = f"{abs(found.value):.1f} % of votes beyond P, {ends}"
    if shown:
        return f"people favour the {side} image as shown: {figures}"
    return f"people favour the {side} image of the table: {figures}; or x0 and x1 were not put there at random"


def lapses(n: IntArray, M: IntArray, P: FloatArray, link: Together, *, level: float = 0.95) -> dict[str, Any]:
    """Bound the share of votes that were cast at random, from above.

    Votes at random go wrong half the time, so that they are at most twice the votes that go against P where P is
    surest. The least of these bounds over ever smaller tails holds at the level, corrected for their number. The rate
    itself would need a parametric form.

    Returns
    -------
    dict
        ``high`` (share of votes, in %, or None where it cannot be known), ``votes`` of the tail that decides,
        ``sentence``.
    """
    sure = np.maximum(P, 1 - P)
    against = np.where(P >= 0.5, M - n, n)
    order = np.argsort(-sure, kind="stable")
    seen = np.cumsum(M[order])
    best, best_votes = 100.0, 0
    for tail in TAILS:
        rows = order[: int(np.searchsorted(seen, tail * seen[-1])) + 1]
        votes = int(M[rows].sum())
        wrong = float(against[rows].sum()) / votes
        weight = np.zeros(len(M))
        weight[rows] = M[rows] / votes
        # A vote goes against P where it is for the image that P does not favour.
        sign = np.where(P >= 0.5, -1.0, 1.0) * (weight > 0) / votes
        centre = np.where(P >= 0.5, 1 - wrong, wrong)
        se = float(link.linear_errors(sign, np.asarray(n - M * centre), centre, weight)[0])
        units = float(link.units(weight)[0])
        if not (np.isfinite(se) and units > 1):
            continue
        # One-sided, corrected for the number of tails.
        high = share_interval(100 * wrong, 100 * se, units, level=1 - 2 * (1 - level) / len(TAILS)).high
        if 2 * high < best:
            best, best_votes = 2 * high, votes
    if not best_votes:
        return {
            "high": None,
            "votes": 0,
            "sentence": "no bound on votes cast at random: too few votes, or P is never sure",
        }
    told = f"at most {best:.1f} % of votes were cast at random (95 %), from the {best_votes} votes where P is surest"
    return {"high": best, "votes": best_votes, "sentence": told}
