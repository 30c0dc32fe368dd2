"""Triplets that go together, by reference, as the estimators look at them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from twoafc.arrays import IntArray
from twoafc.table import Rows, Votes, repeated_units


class Clusters(NamedTuple):
    """Entry k says that triplets of the unit ``unit[k]`` are like row ``row[k]`` of the table, ``times[k]`` of them.

    ``times`` is None where each entry is one triplet, and ``row`` then takes every row in turn.
    """

    unit: IntArray
    row: IntArray
    times: IntArray | None


def clusters_of(table: Rows) -> Clusters | None:
    """Find which triplets go together; None where each stands alone, or where counts have not kept their references."""
    units = repeated_units(table) if isinstance(table, Votes) else None
    return None if units is None else Clusters(units, np.arange(len(table)), table.count)
