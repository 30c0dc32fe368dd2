"""Triplets that go together, by reference, as the estimators look at them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from twoafc.arrays import IntArray
from twoafc.counted import CountedTriplets
from twoafc.table import Rows, Triplets, repeated_units


class Clusters(NamedTuple):
    """Entry k says that triplets of the unit ``unit[k]`` are like row ``row[k]`` of the table, ``times[k]`` of them.

    ``times`` is None where each entry is one triplet, and ``row`` then takes every row in turn.
    """

    unit: IntArray
    row: IntArray
    times: IntArray | None


def clusters_of(table: Rows) -> Clusters | None:
    """Find which triplets go together; None where each stands alone, or where counts have not kept their references."""
    if isinstance(table, CountedTriplets):
        kept = table.references
        repeated = kept is not None and kept.ref.max() + 1 < kept.times.sum()
        return Clusters(kept.ref, kept.row, kept.times) if kept is not None and repeated else None
    if isinstance(table, Triplets):
        units = repeated_units(table)
        return None if units is None else Clusters(units, np.arange(len(table)), None)
    return None
