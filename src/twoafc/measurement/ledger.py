"""What is known of each item, and what of it is not yet on disk."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from twoafc.measurement.assemble import ItemFailure
from twoafc.measurement.block import Block, Outcome
from twoafc.measurement.parts import Parts, Values

PAUSE, SHORTEST, LONGEST = 0.01, 0.05, 10.0
"""Between two parts: a hundredth of the time since the start, from so many seconds to so many. So a run that is killed
loses no more of what was finished, and does not make thousands of files."""


class Ledger:
    """The values of a run.

    Parameters
    ----------
    parts : Parts
        Where values go.
    values : dict of distance to array, shape (items, slots)
        What is known from the start; NaN elsewhere.
    shape : pair of int
        Items and slots, for distances of which nothing is known.
    """

    def __init__(self, parts: Parts, values: Values, shape: tuple[int, int]) -> None:
        self.parts, self.values, self.shape = parts, values, shape
        self.failures: list[ItemFailure] = []
        self.measured = 0
        self.rounded: dict[str, int] = {}
        self.learnt = False
        self.pending: list[tuple[Block, Outcome]] = []
        self.started = time.monotonic()
        self.written = -np.inf

    def unknown(self, names: Iterable[str]) -> dict[str, NDArray[np.bool_]]:
        """Tell by distance which items are still to be measured."""
        return {name: np.asarray(np.isnan(self.of(name)).any(axis=1)) for name in names}

    def learn(self, values: Values) -> None:
        """Take over values that were measured before; what is known stands."""
        for name, known in values.items():
            self.learnt = True
            before = self.of(name)
            self.values[name] = np.where(np.isnan(before), known, before)

    def add(self, block: Block, outcome: Outcome) -> None:
        """Enter what came of a block, and write it if the last part is old enough."""
        self._trace(block, outcome)
        for name, found in outcome.values.items():
            self.of(name)[block.items[block.wanted[name]]] = found
        for item, image, reason in outcome.failures:
            file = os.path.normpath(block.images[image]) if image >= 0 else ""
            self.failures.append(ItemFailure(int(block.items[item]), file, reason))
        for name, count in outcome.rounded.items():
            self.rounded[name] = self.rounded.get(name, 0) + count
        self.measured += len(block.items) - len({failure.item for failure in outcome.failures})
        self.learnt = True
        self.pending.append((block, outcome))
        now = time.monotonic()
        if now - self.written >= min(LONGEST, max(SHORTEST, PAUSE * (now - self.started))):
            self.flush()

    def _trace(self, block: Block, outcome: Outcome) -> None:
        """Enter the files from which some value came; of a failed item nothing is kept that they could spoil."""
        some = np.zeros(len(block.items), dtype=np.bool_)
        for name, found in outcome.values.items():
            some[block.wanted[name][~np.isnan(found).all(axis=1)]] = True
        traces = np.array(outcome.traces, dtype=np.uint64)[block.places]
        self.parts.traces.enter(block.items[some], traces[some])

    def flush(self) -> None:
        """Write what is not yet on disk as one part."""
        if not self.pending:
            return
        items = np.concatenate([block.items for block, _ in self.pending])
        names = sorted({name for _, outcome in self.pending for name in outcome.values})
        values = {name: self.of(name)[items] for name in names}
        some = np.any([~np.isnan(known).all(axis=1) for known in values.values()], axis=0)
        if some.any():
            self.parts.credit(names)
            self.parts.write(items[some], {name: known[some] for name, known in values.items()})
        self.pending.clear()
        self.written = time.monotonic()

    def of(self, name: str) -> NDArray[np.float64]:
        """Give the values of a distance; all NaN where nothing is known."""
        if name not in self.values:
            self.values[name] = np.full(self.shape, np.nan)
        return self.values[name]
