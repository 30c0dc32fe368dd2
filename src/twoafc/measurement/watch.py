"""Waiting for a cluster: as long as it takes while there are workers, and not for ever without."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
PATIENCE = 300.0
"""Seconds that a run waits without a single worker."""
LOOK = 0.5
"""Seconds between two looks at the cluster."""


class Watch:
    """An eye on a cluster.

    Parameters
    ----------
    client : distributed.Client
        Through which it is reached.
    progress : callable, optional
        Called with the seconds for which there has been no worker, and those that are waited for at most.
    """

    def __init__(self, client: Any, progress: Callable[[int, int, str], None] | None = None) -> None:
        self.client, self.progress = client, progress
        self.alone: float | None = None
        self.looked, self.found = float("-inf"), 0

    @property
    def address(self) -> str:
        """Where the scheduler is."""
        return str(self.client.scheduler.address) if self.client.scheduler else "its address"

    def until(self, given: Callable[[float], T]) -> T:
        """Call with seconds to wait until something is given, not `queue.Empty`; raise where nobody is left to give."""
        while True:
            try:
                return given(LOOK)
            except queue.Empty:
                self._look()

    def threads(self) -> int:
        """Threads of all workers, as of a moment ago."""
        if time.monotonic() - self.looked >= LOOK:
            self.found = sum(self.asked(self.client.nthreads).values())
            self.looked = time.monotonic()
        return self.found

    def asked(self, question: Callable[..., T], *arguments: Any, **options: Any) -> T:
        """Ask the scheduler something; whatever becomes of the connection meanwhile, it is gone."""
        self.require_scheduler()
        try:
            return question(*arguments, **options)
        except Exception as error:  # a client that is closing raises this and that
            if isinstance(error, OSError):
                raise ConnectionError(f"the scheduler at {self.address} is gone") from error
            self.require_scheduler()
            raise

    def require_scheduler(self) -> None:
        """Refuse a cluster whose scheduler is gone."""
        if self.client.status != "running":
            raise ConnectionError(f"the scheduler at {self.address} is gone")

    def _look(self) -> None:
        if self.threads():
            self.alone = None
            return
        now = time.monotonic()
        self.alone = now if self.alone is None else self.alone
        if now - self.alone >= PATIENCE:
            raise TimeoutError(f"there has been no worker at {self.address} for {PATIENCE:.0f} s; start some")
        if self.progress:
            self.progress(int(now - self.alone), int(PATIENCE), f"seconds without a worker at {self.address}")
