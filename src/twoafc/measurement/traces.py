"""Traces of image files: a value is used again only if its images are the same as when it was measured."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from twoafc.arrays import IntArray, Progress
from twoafc.errors import DataError
from twoafc.images import ImageError, read_bytes, trace
from twoafc.measurement.plan import Plan

TraceArray = NDArray[np.uint64]

FILES_AT_ONCE = 250
"""Files that a thread reads before it reports progress."""


class Traces:
    """The trace (64 bits of a digest) of each image file that was measured; 0 for others."""

    def __init__(self, plan: Plan, out: Path, known: TraceArray | None = None) -> None:
        self.plan, self.out = plan, out
        if known is not None and len(known) != len(plan.files):
            has = f"{len(known)} traces of images, and the data set {len(plan.files)} images"
            raise DataError(f"the card of {out} does not fit its data; it has {has}; name another table, or remove it")
        self.known: TraceArray = np.zeros(len(plan.files), dtype=np.uint64) if known is None else known.copy()

    def of(self, items: IntArray) -> TraceArray:
        """Return the traces of items' images, shape (items, images of each)."""
        return np.asarray(self.known[self.plan.items[items]])

    def add(self, items: IntArray, traces: TraceArray) -> None:
        """Add the traces of measured items, shape as in `of`; raise if a file has changed since it was measured."""
        images, new = self.plan.items[items].ravel(), traces.ravel()
        # Twice, since one image may be in several of the items.
        for _ in range(2):
            changed = (self.known[images] != 0) & (new != 0) & (self.known[images] != new)
            if changed.any():
                self._refuse(int(images[np.argmax(changed)]))
            self.known[images[new != 0]] = new[new != 0]

    def check(self, progress: Progress | None) -> None:
        """Read every measured file again, and raise if one has changed; missing files are ignored."""
        images = np.flatnonzero(self.known)
        pieces = np.split(images, range(FILES_AT_ONCE, len(images), FILES_AT_ONCE))
        done = 0
        with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            for piece, traces in zip(pieces, pool.map(self._read, pieces), strict=True):
                changed = (traces != 0) & (traces != self.known[piece])
                if changed.any():
                    pool.shutdown(cancel_futures=True)
                    self._refuse(int(piece[np.argmax(changed)]))
                done += len(piece)
                if progress and done:
                    progress(done, len(images), "images checked")

    def _read(self, images: IntArray) -> TraceArray:
        traces = np.zeros(len(images), dtype=np.uint64)
        for place, image in enumerate(images):
            with contextlib.suppress(ImageError):
                traces[place] = trace(read_bytes(self.plan.path(image)))
        return traces

    def _refuse(self, image: int) -> None:
        remedy = f"name another table, or remove {self.out.name} and {self.out.name}.parts"
        path = os.path.normpath(self.plan.path(image))
        raise DataError(f"all values must be of the same images; {path} has changed since it was measured; {remedy}")


def traces_as_text(traces: TraceArray) -> str:
    """Write traces as text.

    Examples
    --------
    >>> traces_as_text(np.array([1, 2], dtype=np.uint64))
    'AQAAAAAAAAACAAAAAAAAAA=='
    """
    return base64.b64encode(traces.astype("<u8").tobytes()).decode()


def traces_from_text(text: str) -> TraceArray:
    """Read traces from text."""
    return np.frombuffer(base64.b64decode(text, validate=True), dtype="<u8").astype(np.uint64)


def digest_of_traces(traces: TraceArray) -> str:
    """Return one digest of all traces, in order, for a card."""
    return f"sha256 {hashlib.sha256(traces.astype('<u8').tobytes()).hexdigest()}"
