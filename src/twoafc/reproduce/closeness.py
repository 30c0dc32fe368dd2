"""How near the figures found here come to those printed, in a few numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from twoafc.reproduce.layout import Layout


@dataclass(frozen=True)
class Closeness:
    """Differences from the paper in one table and one measure: how many, the middle one and the largest, by size."""

    table: str
    measure: str
    figures: int
    middle: float
    largest: float
    where: str


def closeness(layouts: Sequence[Layout]) -> list[Closeness]:
    """Sum up the differences of each table, measure by measure; each figure of the paper's once, and no slips."""
    found = []
    seen: set[str] = set()
    for layout in layouts:
        by_measure: dict[str, list[tuple[float, str]]] = {}
        for line in layout.lines:
            for cell, column in zip(line.cells, layout.columns, strict=True):
                if cell.difference is None or cell.slip or not cell.figure or cell.figure in seen:
                    continue
                seen.add(cell.figure)
                place = f"{line.labels[0]}, {column}"
                measure = line.labels[1].removesuffix(", train").removesuffix(", test")
                by_measure.setdefault(measure, []).append((abs(cell.difference), place))
        for measure, differences in by_measure.items():
            largest, where = max(differences)
            middle = float(np.median([size for size, _ in differences]))
            found.append(Closeness(layout.title, measure, len(differences), middle, largest, where))
    return found
