"""Blocks that are out with the workers of a cluster: sent, waited for, and called back."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
from concurrent.futures import wait
from dataclasses import replace
from typing import Any

from twoafc.measurement.block import Block
from twoafc.measurement.remote import Answer, answer
from twoafc.measurement.watch import Watch

RETRIES = 2
"""How often a block is tried again whose process has died; of whole workers Dask itself bears a few losses."""


def whole_path(path: str) -> str:
    """Name an image so that a worker finds it, which stands in another folder."""
    return os.path.abspath(path)


class Flight:
    """Blocks that are out.

    Parameters
    ----------
    client : distributed.Client
        Through which they go.
    run : str
        The name of the run, by which workers know its job.
    watch : Watch
        Which ends the waiting when nobody is left.
    """

    def __init__(self, client: Any, run: str, watch: Watch) -> None:
        self.client, self.run, self.watch = client, run, watch
        self.out: dict[str, tuple[Any, Block]] = {}
        self.back: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.sent = 0

    def __len__(self) -> int:
        return len(self.out)

    def send(self, block: Block) -> None:
        """Send a block to whichever worker is free."""
        there = replace(block, images=[*map(whole_path, block.images)])
        self.sent += 1
        key = f"twoafc-block-{self.run}-{self.sent}"
        future = self.watch.asked(self.client.submit, answer, self.run, there, key=key, pure=False, retries=RETRIES)
        self.out[key] = future, block
        future.add_done_callback(lambda done: self.back.put(done.key))

    def landed(self) -> list[tuple[Block, Answer]]:
        """Wait until some are back, and give them with what came of them; of a lost one, why."""
        keys = [self.watch.until(lambda seconds: self.back.get(timeout=seconds))]
        while not self.back.empty():
            keys.append(self.back.get())
        answers = self._gathered({key: self.out[key][0] for key in keys})
        found = []
        for key in keys:
            future, block = self.out.pop(key)
            found.append((block, answers[key] or Answer("", self._lost(future))))
        return found

    def call_back(self) -> None:
        """Give up all that are out."""
        # Whatever is wrong with the cluster now, the reason for which this is called is worth more.
        with contextlib.suppress(Exception):
            if self.out and self.client.status == "running":
                self.client.cancel([future for future, _ in self.out.values()])
        self.out.clear()

    def _gathered(self, futures: dict[str, Any]) -> dict[str, Any]:
        """Bring answers here; None for a block that failed. Those that were lost with a worker are waited for again."""
        coming = asyncio.run_coroutine_threadsafe(
            self.client.gather(futures, errors="skip", asynchronous=True), self.client.loop.asyncio_loop
        )

        def finished(seconds: float) -> bool:
            if wait([coming], timeout=seconds).done:
                return True
            raise queue.Empty

        try:
            self.watch.until(finished)
            return self.watch.asked(coming.result)
        finally:
            coming.cancel()

    def _lost(self, future: Any) -> Exception:
        from distributed import KilledWorker

        self.watch.require_scheduler()
        error = future.exception() if future.status == "error" else None
        if isinstance(error, KilledWorker):
            lost = error.allowed_failures + 1
            told = "1 worker was lost," if lost == 1 else f"{lost} workers were lost, the last of them"
            return ChildProcessError(f"{told} {error.last_worker.address},")
        if isinstance(error, OSError | ValueError | ImportError):
            return error
        return OSError(f"the cluster at {self.watch.address} gave up a block ({type(error).__name__}: {error})")
