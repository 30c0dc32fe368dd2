"""Blocks measured: in the workers where they can make the distances, else here, of what workers decode."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoafc.images import ImageError, read_bytes, trace
from twoafc.measurement.block import Arrays, Block, Outcome, Read, measure_block
from twoafc.measurement.calling import DistanceError, Tools
from twoafc.measurement.first import MOST_TRIED
from twoafc.measurement.plan import Plan
from twoafc.measurement.pool import BlockError, Pool
from twoafc.measurement.shipping import ship
from twoafc.measurement.transport import Decoded, Shelf, Tensors, copies
from twoafc.measurement.way import Run
from twoafc.measurement.worker import Abroad, Job

IDLE = 60.0
"""Seconds after which a process on a cluster ends that is asked for nothing: its client may have been killed."""


def outcomes(
    run: Run, wanted: Mapping[str, NDArray[np.bool_]], size: int
) -> Generator[tuple[Block, Outcome], None, None]:
    """Measure what is wanted in blocks of some size, and give each block with what came of it as it is finished."""
    blocks = len(np.unique(np.flatnonzero(np.any(list(wanted.values()), axis=0)) // size))
    workers = min(run.way.workers, blocks)
    if not workers:
        return
    todo = run.plan.blocks(size, wanted)
    measured = _by_workers if run.way.device == "cpu" and all(each.text for each in run.chosen) else _here
    with named(run.plan):
        yield from measured(run, todo, workers, size) if run.cluster is None else run.cluster.answer(todo)


def _by_workers(run: Run, blocks: Iterator[Block], workers: int, size: int) -> Iterator[tuple[Block, Outcome]]:
    texts = {each.name: str(each.text) for each in run.chosen}
    job = Job(texts, proven=run.first.proven if run.first else frozenset(), cached=run.plan.cached)
    with Pool(job, workers=workers) as pool:
        yield from pool.answer(blocks, lambda outcome, _: outcome)


def abroad(run: Run, device: str | None, precision: str) -> Job:
    """Say what the workers of a cluster are to do."""
    distances = {each.name: each.text or ship(each.name, each.distance) for each in run.chosen}
    there = Abroad(device, precision, landmark(run.plan), IDLE)
    return Job(distances, run.first.proven if run.first else frozenset(), cached=run.plan.cached, abroad=there)


def landmark(plan: Plan) -> tuple[str, int] | None:
    """Find an image by which another machine can tell that it has the same, with its trace."""
    for path in map(plan.path, range(min(len(plan.files), MOST_TRIED))):
        with suppress(ImageError):
            return os.path.abspath(path), trace(read_bytes(path))
    return None


def _here(run: Run, blocks: Iterator[Block], workers: int, size: int) -> Iterator[tuple[Block, Outcome]]:
    """Measure on a device, or with callables that no other process has."""
    proven = run.first.proven if run.first else frozenset()
    tools = Tools({each.name: each.distance for each in run.chosen}, run.way.pixels, set(proven))
    height, width = run.first.size if run.first else (64, 64)

    def take(decoded: Decoded, shelf: Shelf | None) -> Read:
        on_cpu = run.way.device == "cpu"
        images = Arrays(copies(decoded, shelf)) if on_cpu else Tensors(decoded, shelf, run.way.device)
        return Read(decoded.found, decoded.traces, images)

    with Pool(
        Job(None, cached=run.plan.cached), workers=workers, shelf=size * run.plan.items.shape[1] * 3 * height * width
    ) as pool:
        for block, read in pool.answer(blocks, take):
            try:
                outcome = measure_block(block, read, tools)
            except DistanceError as error:
                raise BlockError(block, error) from error
            yield block, outcome


@contextmanager
def named(plan: Plan) -> Iterator[None]:
    """Say of which triplets it is what a distance or a worker could not do."""
    try:
        yield
    except BlockError as failed:
        block, error = failed.block, failed.error
        if isinstance(error, DistanceError) and block is not None:
            where = _span(plan, block.items[error.items], error.image)
            raise ValueError(f"{error.told}, on {where}; what is finished is kept") from failed
        had = "" if block is None else f" while it had {_span(plan, block.items)}"
        told = f"{error}{had}; what is finished is kept, and the same command goes on from there"
        raise type(error)(told) from failed


def _span(plan: Plan, items: Any, image: int = 0) -> str:
    """Name the triplets of some items, and of a single item the image in question."""
    names = plan.data.table["triplet"]
    first, last = (str(names[int(np.min(plan.rows_of(int(item))))]) for item in (items[0], items[-1]))
    if len(items) > 1:
        return f"triplets {first} to {last}"
    return f"triplet {first}" + (f" ({plan.files[plan.items[items[0], image]]})" if image else "")
