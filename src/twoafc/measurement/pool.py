"""Worker processes, as their parent sees them: blocks are handed out one by one, and a death is told, not waited for.

They are programs of their own, started anew: nothing is inherited from threads of this process, a user's script need
not be fit to be imported twice, and a memory that they share has no name that could be left behind.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, TypeVar

from twoafc.measurement.block import Block
from twoafc.measurement.transport import Shelf
from twoafc.measurement.worker import Job

T = TypeVar("T")
PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from twoafc.measurement.worker import serve; serve()"
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "VECLIB")}
"""Each worker has one core: more threads would only be in each other's way, and could change the last digits."""


class Worker:
    """One process, the block that it has, and its shelf."""

    def __init__(
        self, job: Job, shelf: int, answers: queue.SimpleQueue[tuple[Worker, Any]], *, paths: Sequence[str] = ()
    ) -> None:
        self.shelf = Shelf.make(shelf) if shelf else None
        self.block: Block | None = None
        self.answers = answers
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *map(str, sys.path), *paths],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | ONE_THREAD,
            pass_fds=() if self.shelf is None else (self.shelf.file,),
            # Ctrl-C is for the parent, who ends its workers itself.
            process_group=0 if os.name == "posix" else None,
        )
        threading.Thread(target=self._listen, daemon=True).start()
        self.send(replace(job, shelf=None if self.shelf is None else (self.shelf.file, self.shelf.size)))

    def send(self, message: object) -> None:
        """Send a message; if the worker is dead, the thread that listens to it will say so."""
        assert self.process.stdin is not None
        try:
            pickle.dump(message, self.process.stdin, protocol=pickle.HIGHEST_PROTOCOL)
            self.process.stdin.flush()
        except OSError:
            pass

    def _listen(self) -> None:
        assert self.process.stdout is not None
        try:
            while True:
                self.answers.put((self, pickle.load(self.process.stdout)))
        except Exception:  # the end of the output, in the middle of a message too
            self.answers.put((self, Ended(self.process.wait())))

    def end(self) -> None:
        """End the process; it has nothing to put in order."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            with contextlib.suppress(OSError):
                stream.close()
        if self.shelf is not None:
            self.shelf.close()


class Ended:
    """A process that has ended by itself, or by somebody else's hand."""

    def __init__(self, code: int) -> None:
        self.code = code

    def __str__(self) -> str:
        if self.code == -signal.SIGKILL:
            return "was killed (signal 9), perhaps for want of memory: fewer workers need less"
        return f"was ended by signal {-self.code}" if self.code < 0 else f"ended with code {self.code}"


class Pool:
    """Some workers; a context that ends them whatever happens.

    Parameters
    ----------
    job : Job
        What they do with blocks.
    workers : int
        How many.
    shelf : int
        Bytes of memory that each shares with this process.
    """

    def __init__(self, job: Job, *, workers: int, shelf: int = 0) -> None:
        self.answers: queue.SimpleQueue[tuple[Worker, Any]] = queue.SimpleQueue()
        self.workers: list[Worker] = []
        self.job, self.count, self.shelf = job, workers, shelf

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for worker in self.workers:
            worker.end()

    def answer(self, blocks: Iterable[Block], take: Callable[[Any, Shelf | None], T]) -> Iterator[tuple[Block, T]]:
        """Give each block with what came of it, in the order in which they are finished.

        Parameters
        ----------
        blocks : iterable of Block
            Taken as workers become free.
        take : callable
            Makes of an answer something that no longer needs the worker's shelf, before the worker goes on.
        """
        left = iter(blocks)
        while len(self.workers) < self.count:
            self.workers.append(Worker(self.job, self.shelf, self.answers))
        busy = len(self.workers)
        while busy:
            worker, answer = self.answers.get()
            block = worker.block
            if isinstance(answer, Exception):
                raise BlockError(block, answer)
            if isinstance(answer, Ended):
                raise BlockError(block, ChildProcessError(f"a worker process {answer}"))
            taken = None if block is None else take(answer, worker.shelf)
            worker.block = next(left, None)
            if worker.block is None:
                busy -= 1
            else:
                worker.send(worker.block)
            if block is not None:
                yield block, taken  # type: ignore[misc]


class BlockError(Exception):
    """What a worker could not do, with its block; None where it could not even begin."""

    def __init__(self, block: Block | None, error: Exception) -> None:
        super().__init__(str(error))
        self.block, self.error = block, error
