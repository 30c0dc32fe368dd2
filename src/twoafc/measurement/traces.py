"""Which files were measured: values of images that have changed since are not mixed with others'."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from twoafc.arrays import IntArray
from twoafc.errors import DataError
from twoafc.images import ImageError, read_bytes, trace
from twoafc.measurement.plan import Plan

TraceArray = NDArray[np.uint64]
EVERY = 250
"""Files that a thread reads at a time."""


class Traces:
    """The trace of each image's file from which some value was measured; 0 where none was.

    Parameters
    ----------
    plan : Plan
        The images and the items.
    out : Path
        The table, for errors.
    known : array of uint64, shape (images,), optional
        Traces of an earlier table.
    """

    def __init__(self, plan: Plan, out: Path, known: TraceArray | None = None) -> None:
        self.plan, self.out = plan, out
        if known is not None and len(known) != len(plan.files):
            told = f"{len(known)} traces of images, and the data set {len(plan.files)} images"
            raise DataError(f"the card of {out} does not fit its data; it has {told}; name another table, or remove it")
        self.known: TraceArray = np.zeros(len(plan.files), dtype=np.uint64) if known is None else known.copy()

    def of(self, items: IntArray) -> TraceArray:
        """Give the traces of items' images, shape (items, images of each)."""
        return np.asarray(self.known[self.plan.items[items]])

    def enter(self, items: IntArray, traces: TraceArray) -> None:
        """Take over the traces of measured items, shape as `of` gives it; refuse another file than was measured."""
        images, found = self.plan.items[items].ravel(), traces.ravel()
        # Twice, since one image may be in several of the items.
        for _ in range(2):
            changed = (self.known[images] != 0) & (found != 0) & (self.known[images] != found)
            if changed.any():
                self._refuse(int(images[np.argmax(changed)]))
            self.known[images[found != 0]] = found[found != 0]

    def check(self, progress: Callable[[int, int, str], None] | None) -> None:
        """Read every file that was measured once more, and refuse one that has changed; a missing one is no other."""
        images = np.flatnonzero(self.known)
        pieces = np.split(images, range(EVERY, len(images), EVERY))
        done = 0
        with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            for some, found in zip(pieces, pool.map(self._found, pieces), strict=True):
                changed = (found != 0) & (found != self.known[some])
                if changed.any():
                    pool.shutdown(cancel_futures=True)
                    self._refuse(int(some[np.argmax(changed)]))
                done += len(some)
                if progress and done:
                    progress(done, len(images), "images checked")

    def _found(self, images: IntArray) -> TraceArray:
        return np.array([_trace(self.plan.path(image)) for image in images], dtype=np.uint64)

    def _refuse(self, image: int) -> None:
        remedy = f"name another table, or remove {self.out.name} and {self.out.name}.parts"
        path = os.path.normpath(self.plan.path(image))
        raise DataError(f"values of other images are not mixed; {path} has changed since it was measured; {remedy}")


def _trace(path: str) -> int:
    try:
        return trace(read_bytes(path))
    except ImageError:
        return 0


def as_text(traces: TraceArray) -> str:
    """Write traces as text.

    Examples
    --------
    >>> as_text(np.array([1, 2], dtype=np.uint64))
    'AQAAAAAAAAACAAAAAAAAAA=='
    """
    return base64.b64encode(traces.astype("<u8").tobytes()).decode()


def from_text(text: str) -> TraceArray:
    """Read traces from text."""
    return np.frombuffer(base64.b64decode(text, validate=True), dtype="<u8").astype(np.uint64)


def summary(traces: TraceArray) -> str:
    """Give one digest of all traces, in order, for a card."""
    return f"sha256 {hashlib.sha256(traces.astype('<u8').tobytes()).hexdigest()}"
