"""What Dask runs on its workers: blocks go to processes of our own, one for each thread that is at work on one.

They are the processes that measure on one machine too (see `twoafc.measurement.worker`). A fresh one knows no earlier
version of a user's module, uses one core, and leaves nothing behind in a worker that others use as well; it makes its
distances once.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

from twoafc.measurement.block import Block, Outcome
from twoafc.measurement.calling import DistanceError
from twoafc.measurement.pool import Ended, Worker
from twoafc.measurement.worker import Job, Ready


class Answer(NamedTuple):
    """The address of a worker, and what came of a block; None where the worker has not been told of the job."""

    worker: str
    found: Outcome | Exception | None


class Hands:
    """The processes that one worker has for one run.

    Parameters
    ----------
    address : str
        The worker's.
    job : Job
        What they do with blocks.
    paths : sequence of str
        Folders of the client's in which they look for modules last.
    """

    def __init__(self, address: str, job: Job, paths: Sequence[str]) -> None:
        self.address, self.job, self.paths = address, job, paths
        self.all: list[Worker] = []
        self.free: list[Worker] = []
        self.lock = threading.Lock()
        self.dismissed = False

    def ready(self) -> Ready | str:
        """Start a process, and give what it tells of itself, or the reason why it cannot be made ready."""
        try:
            worker, found = self._started()
        except (ValueError, ImportError, OSError) as error:
            return str(error)
        self._give_back(worker)
        return found

    def answer(self, block: Block) -> Outcome | Exception:
        """Have a block measured; an error that another process would meet too is given, the death of one is raised."""
        try:
            worker = self._taken()
        except (ValueError, ImportError) as error:
            return error
        worker.send(block)
        found: Outcome | Exception = self._told(worker)
        if isinstance(found, Exception) and not isinstance(found, DistanceError):
            self._drop(worker)
        else:
            self._give_back(worker)
        return found

    def dismiss(self) -> None:
        """End all processes, in the middle of a block too."""
        with self.lock:
            self.dismissed = True
            for worker in self.all:
                worker.end()
            self.all.clear()
            self.free.clear()

    @property
    def over(self) -> bool:
        """Whether all processes have ended, as they do when nobody asks them for anything."""
        return all(worker.process.poll() is not None for worker in self.all)

    def _taken(self) -> Worker:
        while True:
            with self.lock:
                worker = self.free.pop() if self.free else None
            if worker is None:
                return self._started()[0]
            if worker.process.poll() is None:
                return worker
            self._drop(worker)

    def _started(self) -> tuple[Worker, Ready]:
        with self.lock:
            if self.dismissed:
                raise ChildProcessError("the run has ended")
            worker = Worker(self.job, 0, queue.SimpleQueue(), paths=self.paths)
            self.all.append(worker)
        found = self._told(worker)
        if isinstance(found, Exception):
            self._drop(worker)
            raise found
        return worker, found

    def _told(self, worker: Worker) -> Any:
        """Wait for what a process tells."""
        found = worker.answers.get()[1]
        if isinstance(found, Ended):
            self._drop(worker)
            raise ChildProcessError(f"a process of worker {self.address} {found}")
        return found

    def _give_back(self, worker: Worker) -> None:
        with self.lock:
            if worker in self.all:
                self.free.append(worker)

    def _drop(self, worker: Worker) -> None:
        with self.lock:
            if worker in self.all:
                self.all.remove(worker)
                worker.end()


_HANDS: dict[tuple[str, str], Hands] = {}
"""By run and worker; a process may be several workers."""


async def introduce(run: str, job: Job, paths: Sequence[str], dask_worker: Any) -> Ready | str:
    """Tell a worker of a run's job, and start a process for each of its threads; its own work goes on meanwhile."""
    for key in [key for key, hands in _HANDS.items() if hands.over]:
        del _HANDS[key]  # of a client that went without a word
    hands = Hands(dask_worker.address, job, paths)
    _HANDS[run, dask_worker.address] = hands
    told = await asyncio.gather(*(asyncio.to_thread(hands.ready) for _ in range(dask_worker.state.nthreads)))
    return next((each for each in told if isinstance(each, str)), told[0])


def answer(run: str, block: Block) -> Answer:
    """Have a block measured by the worker that this runs on."""
    from distributed import get_worker

    address = get_worker().address
    hands = _HANDS.get((run, address))
    return Answer(address, None if hands is None else hands.answer(block))


def dismiss(run: str, dask_worker: Any) -> None:
    """Tell a worker that a run has ended."""
    hands = _HANDS.pop((run, dask_worker.address), None)
    if hands is not None:
        hands.dismiss()
