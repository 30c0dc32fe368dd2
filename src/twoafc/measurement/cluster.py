"""The workers of a Dask cluster, as the process that keeps the values sees them.

Blocks are handed out a few at a time, and values come back as they are finished: the workers need to read the images,
and write nothing. What a lost worker had is done again by others; that is Dask's part.
"""

from __future__ import annotations

import contextlib
import os
import queue
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from importlib.metadata import version
from types import TracebackType
from typing import Any

import twoafc
from twoafc.errors import require
from twoafc.measurement.block import Block, Decoder, Outcome
from twoafc.measurement.candidates import Candidate, identity
from twoafc.measurement.flight import Flight
from twoafc.measurement.parts import Maker, joined
from twoafc.measurement.pool import BlockError
from twoafc.measurement.remote import dismiss, introduce
from twoafc.measurement.shipping import own_paths
from twoafc.measurement.watch import Watch
from twoafc.measurement.worker import Job, Ready

AHEAD = 2
"""Blocks that are out for each thread of the workers, so that none waits for the next."""
TRIALS = 3
"""How often workers are waited for that go while they are made ready."""
OF_THE_WORKER = ("device", "precision")
"""What of an identity is not the same on the machine that asks."""


class Cluster:
    """The workers of a cluster, ready to measure; a context that frees them whatever happens.

    Parameters
    ----------
    client : distributed.Client
        Through which it is reached.
    job : Job
        What the workers do with blocks.
    candidates : sequence of Candidate
        The distances, made on this machine.
    progress : callable, optional
        See `twoafc.measurement.watch.Watch`.
    """

    def __init__(
        self,
        client: Any,
        job: Job,
        candidates: Sequence[Candidate],
        progress: Callable[[int, int, str], None] | None = None,
    ) -> None:
        self.client, self.job, self.candidates = client, job, candidates
        self.run = uuid.uuid4().hex
        self.watch = Watch(client, progress)
        self.ready: dict[str, Ready] = {}
        self.makers: dict[str, list[Maker]] = {each.name: [] for each in candidates}

    def __enter__(self) -> Cluster:
        distributed = require("distributed", extra="cluster")
        if not isinstance(self.client, distributed.Client):
            raise TypeError(f"client must be a dask.distributed.Client; found {type(self.client).__name__}")
        if self.client.asynchronous:
            raise ValueError("measuring waits for its workers; give a client that is not asynchronous")
        with contextlib.ExitStack() as stack:
            stack.push(self)
            self._assemble()
            stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # Whatever is wrong with the cluster now, what has ended the run is worth more; and idle processes end anyway.
        with contextlib.suppress(Exception):
            if self.client.status == "running":
                self.client.run(dismiss, self.run, on_error="ignore")

    @property
    def device(self) -> str:
        """The kind of device that the workers measure on."""
        return next(iter(self.ready.values())).device

    @property
    def chosen(self) -> list[Candidate]:
        """The distances, as the workers measure them."""
        told = next(iter(self.ready.values())).identities
        return [
            replace(each, identity=told.get(each.name) or identity(None, each.distance, self.device, name=each.name))
            for each in self.candidates
        ]

    def answer(self, blocks: Iterable[Block]) -> Iterator[tuple[Block, Outcome]]:
        """Give each block with what came of it, in the order in which they are finished."""
        left = iter(blocks)
        flight = Flight(self.client, self.run, self.watch)
        try:
            while True:
                while len(flight) < AHEAD * max(1, self.watch.threads()) and (block := next(left, None)) is not None:
                    flight.send(block)
                if not len(flight):
                    return
                landed = flight.landed()
                for block, (worker, found) in landed:
                    if isinstance(found, Outcome):
                        self._enter(worker, block, found)
                        yield block, found
                for block, (_, found) in landed:
                    if isinstance(found, Exception):
                        raise BlockError(block, found)
                self._introduce([*{worker for _, (worker, found) in landed if found is None}])
                for block, (_, found) in landed:
                    if found is None:
                        flight.send(block)
        except (ValueError, ImportError, OSError) as error:
            raise BlockError(None, error) from error
        finally:
            flight.call_back()

    def _assemble(self) -> None:
        """Wait for workers, and make all ready that are there."""
        for _ in range(TRIALS):
            # A task, not a question: a cluster that grows as it is needed may have no worker yet.
            hello = self.client.submit(version, "twoafc", pure=False, key=f"twoafc-hello-{uuid.uuid4().hex}")
            came: queue.SimpleQueue[Any] = queue.SimpleQueue()
            hello.add_done_callback(came.put)
            self.watch.until(lambda seconds, came=came: came.get(timeout=seconds))  # type: ignore[misc]
            self._introduce([*self.watch.asked(self.client.nthreads)])
            if self.ready:
                return
        raise ConnectionError(f"the workers at {self.watch.address} go as soon as they are asked for something")

    def _introduce(self, workers: list[str]) -> None:
        """Tell workers of the job, and hold them to what the others are; who has gone meanwhile is left out."""
        for worker, found in self._told(workers, version, "twoafc").items():
            if found != twoafc.__version__:
                there = "none" if isinstance(found, Exception) else found
                told = f"worker {worker} has {there}, this machine {twoafc.__version__}"
                raise ImportError(f"all machines need the same version of twoafc; {told}")
        for worker, found in self._told(workers, introduce, self.run, self.job, own_paths()).items():
            if not isinstance(found, Ready):
                raise ValueError(f"worker {worker}: {found}")
            self._agree(worker, found)
            self.ready[worker] = found

    def _told(self, workers: list[str], function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """Ask workers that are there; what went wrong is given for an answer."""
        if not workers:
            return {}
        found = self.watch.asked(self.client.run, function, *arguments, workers=workers, on_error="return")
        return {worker: told for worker, told in found.items() if not isinstance(told, OSError)}

    def _agree(self, worker: str, ready: Ready) -> None:
        """Refuse a worker that would measure something else than the others, or than this machine asks for."""
        if self.ready and ready.device != self.device:
            told = f"{next(iter(self.ready))} has {self.device}, {worker} has {ready.device}"
            raise ValueError(f"all workers must measure on one kind of device; {told}; name one that all have")
        for each in self.candidates:
            there = ready.identities.get(each.name, each.identity)
            unlike = [key for key in {**each.identity, **there} if each.identity.get(key) != there.get(key)]
            unlike = [key for key in unlike if key not in OF_THE_WORKER]
            if unlike:
                told = f"on worker {worker} it has another {' and '.join(unlike)} than here"
                raise ValueError(f"{each.name} must be the same on all machines; {told}")

    def _enter(self, worker: str, block: Block, outcome: Outcome) -> None:
        """Note who measured; refuse an image that cannot be read by a worker alone, which is no fault of the image."""
        for name in outcome.values:
            self.makers[name] = joined(self.makers[name], [self.ready[worker].makers[name]])
        for _, image, reason in outcome.failures:
            if image >= 0 and not outcome.traces[image]:
                path = block.images[image]
                if not isinstance(Decoder(0).read(path)[0], str):
                    told = f"worker {worker} cannot use {os.path.normpath(path)} ({reason}), and this machine can"
                    raise ValueError(f"images must lie under one path on all machines; {told}")
