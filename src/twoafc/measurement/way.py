"""How a run works, and all that it is made of."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from twoafc.measurement.calling import room
from twoafc.measurement.candidates import Candidate
from twoafc.measurement.cluster import Cluster
from twoafc.measurement.first import First
from twoafc.measurement.outfile import Earlier
from twoafc.measurement.plan import Plan


@dataclass(frozen=True)
class Way:
    """How a run works, which changes nothing in its values but the last digits of networks.

    Parameters
    ----------
    device : str
        Where distances are measured.
    workers : int
        Processes that decode and, on the CPU, measure.
    batch_size : int or None
        Items in a block, the unit of work; None: by the size of the images.
    shard : pair of int, or None
        (i, n): only every n-th block, from the i-th on.
    """

    device: str
    workers: int
    batch_size: int | None
    shard: tuple[int, int] | None

    def __post_init__(self) -> None:
        for name in ("workers", "batch_size"):
            given = getattr(self, name)
            if given is not None and given < 1:
                raise ValueError(f"{name} must be at least 1; found {given}")
        if self.shard is not None and not 1 <= self.shard[0] <= self.shard[1]:
            raise ValueError(f"a shard is i of n, from 1 to n; found {self.shard[0]}/{self.shard[1]}")

    def share(self, items: int, size: int) -> NDArray[np.bool_]:
        """Tell which of so many items, in blocks of some size, are this run's."""
        i, n = self.shard or (1, 1)
        return np.asarray(np.arange(items) // size % n == i - 1)

    @property
    def pixels(self) -> int:
        """Pixels that one role of a call may have."""
        return room(self.device)

    def block(self, first: First | None) -> int:
        """Items in a block: as many as one call takes, and of large images a few."""
        if self.batch_size is not None:
            return self.batch_size
        most = self.pixels // 2**12
        return most if first is None else min(most, max(most // 32, self.pixels // (first.size[0] * first.size[1])))


@dataclass(frozen=True, eq=False)
class Run:
    """A run, checked and ready.

    Parameters
    ----------
    out : Path
        The table.
    way : Way
        How it works.
    plan : Plan
        The items.
    chosen : list of Candidate
        The distances asked for.
    first : First or None
        What the first item told.
    earlier : Earlier or None
        The table as it was.
    cluster : Cluster or None
        Whose workers measure; None where processes of this machine do.
    notes : list of str
        What is found to be told.
    """

    out: Path
    way: Way
    plan: Plan
    chosen: list[Candidate]
    first: First | None
    earlier: Earlier | None
    cluster: Cluster | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """Names of the distances asked for."""
        return [each.name for each in self.chosen]


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
