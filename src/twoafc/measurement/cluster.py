"""Measure blocks on the workers of a Dask cluster, which read the images and write nothing.

Each Dask worker sends its blocks to processes of its own, one per thread (`twoafc.measurement.executors`): a new
process has no earlier version of a user's module, uses one core, makes its distances once, and leaves nothing behind in
a worker that others share. Dask has the blocks of a lost worker measured by others.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib
import io
import json
import logging
import os
import pickle
import sys
import sysconfig
import time
import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import twoafc
from twoafc.arrays import Progress
from twoafc.distances import Distance, Own, own
from twoafc.errors import first_line, require
from twoafc.measurement.block import Block, BlockError, Decoder, Outcome
from twoafc.measurement.candidates import Candidate, Maker
from twoafc.measurement.executors import Job, Outcomes, Processes, Ready
from twoafc.measurement.identity import identity_of

T = TypeVar("T")
AHEAD = 2
"""Blocks sent for each thread of the workers, so that no thread waits for its next block."""
RETRIES = 2
"""How often a block is tried again if its process has died; Dask itself tolerates the loss of some workers."""
UNDONE = ("pending", "lost", "cancelled")
"""States of a block whose result is gone, without an error of its own."""
TRIALS = 3
"""How often to wait for new workers, if all leave while they are prepared."""
IDLE = 60.0
"""Seconds after which a process without a block ends, since its client may have been killed."""
PATIENCE = 300.0
"""Seconds that a run waits without a single worker."""
LOOK, POLL = 0.5, 0.01
"""Seconds between two requests to the scheduler, and between two checks for results."""
CONNECT = 5
"""Seconds to connect to a scheduler."""
LOCAL = ("device", "precision")
"""The parts of an identity that differ between this machine and the workers."""


class ClusterExecutor:
    """Measures on the workers of a cluster; a context manager that releases them."""

    device: str  # of the workers
    candidates: Sequence[Candidate]  # with their identities on that device

    def __init__(
        self,
        client: Any,
        job: Job,
        candidates: Sequence[Candidate],  # made on this machine
        progress: Progress | None = None,  # called with the seconds without any worker, and the most to wait
    ) -> None:
        self.client, self.job, self.requested, self.progress = client, job, candidates, progress
        self.run = uuid.uuid4().hex
        self.ready: dict[str, Ready] = {}
        self.makers: Mapping[str, list[Maker]] = {candidate.name: [] for candidate in candidates}
        self.looked, self.threads = float("-inf"), 0

    def __enter__(self) -> ClusterExecutor:
        distributed = require("distributed", extra="cluster")
        if not isinstance(self.client, distributed.Client):
            raise TypeError(f"client must be a dask.distributed.Client; found {type(self.client).__name__}")
        if self.client.asynchronous:
            raise ValueError("measuring waits for its workers; give a client that is not asynchronous")
        with contextlib.ExitStack() as stack:
            stack.push(self)
            self._wait_for_workers()
            self.device, known, _ = next(iter(self.ready.values()))
            sent = {one.name: one.distance for one in self.requested if one.name not in known}
            identities = known | {name: identity_of(None, made, self.device, name=name) for name, made in sent.items()}
            self.candidates = [replace(one, identity=identities[one.name]) for one in self.requested]
            stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        # An error that ended the run matters more than one of the cluster now; idle processes end anyway.
        with contextlib.suppress(Exception):
            if self.client.status == "running":
                self.client.run(release_worker, self.run, on_error="ignore")

    @property
    def address(self) -> str:
        """Where the scheduler is."""
        return str(self.client.scheduler.address) if self.client.scheduler else "its address"

    def measure(self, blocks: Iterable[Block]) -> Outcomes:
        """Yield each block with its outcome, in the order in which they are finished."""
        distributed: Any = require("distributed", extra="cluster")
        waiting, sent, resent = iter(blocks), dict[Any, Block](), Counter[int]()
        results = distributed.as_completed(loop=self.client.loop, with_results=True, raise_errors=False)

        def send(block: Block) -> None:
            message = replace(block, images=[*map(os.path.abspath, block.images)])  # a worker may be in another folder
            options = {"key": f"twoafc-block-{uuid.uuid4().hex}", "pure": False, "retries": RETRIES}
            future = self._ask(self.client.submit, measure_on_worker, self.run, message, **options)
            sent[future] = block
            results.add(future)

        try:
            while True:
                while len(sent) < AHEAD * max(1, self._threads()) and (block := next(waiting, None)) is not None:
                    send(block)
                if not sent:
                    return
                again = []
                failed: BlockError | None = None
                for future, result in self._wait(lambda: results.next_batch(block=False)):
                    block = sent.pop(future)
                    if future.status in UNDONE and resent[int(block.items[0])] < RETRIES:
                        # The worker was lost after it had finished, before its result arrived.
                        self._require_scheduler()
                        resent[int(block.items[0])] += 1
                        send(block)
                        continue
                    worker, outcome = result if future.status == "finished" else ("", self._lost(future))
                    if isinstance(outcome, Exception):
                        failed = failed or BlockError(block, outcome)
                    elif outcome is None:
                        again.append((worker, block))
                    else:
                        self._enter(worker, block, outcome)
                        yield block, outcome
                if failed:
                    raise failed
                self._prepare([*{worker for worker, _ in again}])
                for _, block in again:
                    send(block)
        except (ValueError, ImportError, OSError) as error:
            raise BlockError(None, error) from error
        finally:
            with contextlib.suppress(Exception):  # as in __exit__
                if sent and self.client.status == "running":
                    self.client.cancel([*sent])

    def _lost(self, future: Any) -> Exception:
        """Return the error that explains why a block has no result."""
        self._require_scheduler()
        error = future.exception() if future.status == "error" else None
        if isinstance(error, OSError | ValueError | ImportError) and str(error):
            return error
        reason = f"{type(error).__name__}: {error}".removesuffix(": ")  # some errors have no text
        return OSError(f"the cluster at {self.address} gave up a block ({reason})")

    def _enter(self, worker: str, block: Block, outcome: Outcome) -> None:
        """Record who measured; raise if this machine can read an image that the worker cannot."""
        for name in outcome.values:
            maker = self.ready[worker].makers[name]
            if maker not in self.makers[name]:
                self.makers[name].append(maker)
        for _, image, reason in outcome.failures:
            if image >= 0 and not outcome.traces[image]:
                path = block.images[image]
                if Decoder(0).read(path)[1]:
                    what = f"worker {worker} cannot use {os.path.normpath(path)} ({reason}), and this machine can"
                    raise ValueError(f"images must lie under one path on all machines; {what}")

    # Preparing workers

    def _wait_for_workers(self) -> None:
        """Wait for workers, and prepare all of them."""
        for _ in range(TRIALS):
            # Submitting a task makes an adaptive cluster start workers; asking for them does not.
            hello = self.client.submit(version, "twoafc", pure=False, key=f"twoafc-hello-{uuid.uuid4().hex}")
            self._wait(hello.done)
            self._prepare([*self._ask(self.client.nthreads)])
            if self.ready:
                return
        raise ConnectionError(f"the workers at {self.address} leave as soon as they are asked for something")

    def _prepare(self, workers: list[str]) -> None:
        """Send workers the job, and check that they agree with the others; workers that have left are skipped."""
        for worker, installed in self._run_on(workers, version, "twoafc").items():
            if installed != twoafc.__version__:
                has = "none" if isinstance(installed, Exception) else installed
                versions = f"worker {worker} has {has}, this machine {twoafc.__version__}"
                raise ImportError(f"all machines need the same version of twoafc; {versions}")
        for worker, ready in self._run_on(workers, prepare_worker, self.run, self.job, own_paths()).items():
            if not isinstance(ready, Ready):
                raise ValueError(f"worker {worker}: {str(ready) or type(ready).__name__}")
            self._check_agreement(worker, ready)
            self.ready[worker] = ready

    def _run_on(self, workers: list[str], function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """Call a function on workers and return the answers, or errors; workers that have left are skipped."""
        if not workers:
            return {}
        answers = self._ask(self.client.run, function, *arguments, workers=workers, on_error="return")
        return {worker: answer for worker, answer in answers.items() if not isinstance(answer, OSError)}

    def _check_agreement(self, worker: str, ready: Ready) -> None:
        """Raise if a worker would measure something else than the others, or than this machine asks for."""
        other, device = next(((name, known.device) for name, known in self.ready.items()), (worker, ready.device))
        if ready.device != device:
            devices = f"{other} has {device}, {worker} has {ready.device}"
            raise ValueError(f"all workers must measure on one kind of device; {devices}; name one that all have")
        for candidate in self.requested:
            here, there = candidate.identity, ready.identities.get(candidate.name, candidate.identity)
            unlike = [key for key in {**here, **there} if here.get(key) != there.get(key) and key not in LOCAL]
            if unlike:
                what = f"on worker {worker} it has another {' and '.join(unlike)} than here"
                raise ValueError(f"{candidate.name} must be the same on all machines; {what}")

    # Waiting

    def _wait(self, result: Callable[[], T]) -> T:
        """Wait until a function returns something true; raise after `PATIENCE` seconds without a worker."""
        last_worker = time.monotonic()
        while not (got := result()):
            now = time.monotonic()
            if self._threads():
                last_worker = now
            elif now - last_worker >= PATIENCE:
                raise TimeoutError(f"there has been no worker at {self.address} for {PATIENCE:.0f} s; start some")
            elif self.progress:
                waited = int(now - last_worker)
                self.progress(waited, int(PATIENCE), f"seconds without a worker at {self.address}")
            time.sleep(POLL)
        return got

    def _threads(self) -> int:
        """Return the number of threads of all workers, at most `LOOK` seconds old."""
        if time.monotonic() - self.looked >= LOOK:
            self.threads = sum(self._ask(self.client.nthreads).values())
            self.looked = time.monotonic()
        return self.threads

    def _ask(self, question: Callable[..., T], *arguments: Any, **options: Any) -> T:
        """Call a function of the client; a connection error means that the scheduler is gone."""
        self._require_scheduler()
        try:
            return question(*arguments, **options)
        except Exception as error:  # a client that is closing may raise anything
            if isinstance(error, OSError):
                raise ConnectionError(f"the scheduler at {self.address} is gone") from error
            self._require_scheduler()
            raise

    def _require_scheduler(self) -> None:
        if self.client.status != "running":
            raise ConnectionError(f"the scheduler at {self.address} is gone")


# --- what Dask runs on its workers ------------------------------------------------------------------------------------


_PROCESSES: dict[tuple[str, str], Processes] = {}
"""The processes by run and address of the worker; one process of Dask may be several workers."""


async def prepare_worker(run: str, job: Job, paths: Sequence[str], dask_worker: Any) -> Ready | str:
    """Start a process for each thread of a worker; return its report, or why that failed."""
    for key in [key for key, processes in _PROCESSES.items() if processes.ended()]:
        del _PROCESSES[key]  # of a client that was killed
    address = dask_worker.address
    processes = _PROCESSES[run, address] = Processes(job, paths, name=f"a process of worker {address}")
    starts = [asyncio.to_thread(processes.start) for _ in range(dask_worker.state.nthreads)]
    reports = await asyncio.gather(*starts, return_exceptions=True)
    failed = next((report for report in reports if isinstance(report, BaseException)), None)
    return str(failed) or type(failed).__name__ if failed else reports[0]  # type: ignore[return-value]


def measure_on_worker(run: str, block: Block) -> tuple[str, Outcome | Exception | None]:
    """Measure a block; return the address of this worker and the outcome, or None if it is not prepared for the run.

    Errors that would recur are returned; other errors are raised, so that Dask tries again.
    """
    from distributed import get_worker

    address = get_worker().address
    processes = _PROCESSES.get((run, address))
    if processes is None:
        return address, None
    try:
        return address, processes.ask(block)
    except BlockError as failed:
        error = failed.error
    if isinstance(error, OSError):  # raised here: Dask follows causes, and the two errors would cause each other
        raise error
    return address, error


def release_worker(run: str, dask_worker: Any) -> None:
    """End the processes that a worker has for a run."""
    processes = _PROCESSES.pop((run, dask_worker.address), None)
    if processes is not None:
        processes.close()


# --- callables that only this process has -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Packed:
    """A callable for the workers; modules that it needs are sent by name, and must be the same files there."""

    name: str
    content: bytes  # as cloudpickle writes it
    modules: Mapping[str, str]  # digests of the files that it needs, except those of libraries

    def unpack(self, device: str) -> Distance:
        """Make the callable for a device; raise if a module differs from that of the sender."""
        for module, digest in self.modules.items():
            if _digest_of_module(importlib.import_module(module)) != digest:
                what = f"{module} is another file there ({sys.modules[module].__file__})"
                raise ValueError(f"{self.name} needs the same files on all machines; {what}")
        distance: Distance = pickle.loads(self.content)
        if isinstance(distance, Own) and device != "cpu" and distance.takes == "torch":
            return own(distance.function, name=distance.name, takes="torch", device=device)
        return distance


def pack(name: str, distance: Distance) -> Packed:
    """Pack a distance for the workers."""
    cloudpickle = require("cloudpickle", extra="cluster")
    try:
        content = cloudpickle.dumps(distance)
    except Exception as error:  # a user's object may raise anything
        reason = f"{type(error).__name__}: {first_line(error) if str(error) else 'no reason given'}"
        raise ValueError(f"{name} cannot be sent to workers ({reason}); give it as package.module:function") from error
    needed = _ModulesOf(io.BytesIO(content))
    needed.load()
    files = {module: getattr(sys.modules.get(module), "__file__", None) for module in sorted(needed.modules)}
    # Libraries are identified by their versions, which are on the card.
    mine = [module for module, file in files.items() if file and not is_library(file)]
    return Packed(name, content, {module: _digest_of_module(sys.modules[module]) for module in mine})


class _ModulesOf(pickle.Unpickler):
    """Finds out which modules a pickle needs."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.modules: set[str] = set()

    def find_class(self, module: str, name: str) -> Any:
        self.modules.add(module)
        return super().find_class(module, name)


def _digest_of_module(module: Any) -> str:
    return hashlib.sha256(Path(module.__file__).read_bytes()).hexdigest()


def is_library(path: str) -> bool:
    """Whether a file or folder belongs to Python or to an installed package."""
    folders = {os.path.realpath(folder) for name, folder in sysconfig.get_paths().items() if "lib" in name}
    where = os.path.realpath(path)
    return "site-packages" in where or any(where == folder or where.startswith(folder + os.sep) for folder in folders)


def own_paths() -> list[str]:
    """Return the folders of this process's module search path that are not libraries."""
    places = dict.fromkeys(os.path.abspath(place or os.curdir) for place in sys.path)
    return [place for place in places if os.path.isdir(place) and not is_library(place)]


# --- the scheduler ----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def connect(scheduler: str) -> Iterator[Any]:
    """Connect to a scheduler, with a client that logs nothing: errors that matter are raised.

    Parameters
    ----------
    scheduler : str
        Its address, such as ``tcp://10.0.0.1:8786``, or the path of the file that ``dask scheduler --scheduler-file``
        writes.
    """
    distributed = require("distributed", extra="cluster")
    address = _address(scheduler)
    with warnings.catch_warnings(), contextlib.ExitStack() as stack:
        # Dask logs every lost worker and connection, and warns of every library that differs somewhere; those that
        # affect values are checked, or on the card.
        stack.callback(logging.disable, logging.root.manager.disable)
        logging.disable()
        warnings.filterwarnings("ignore", module=r"distributed\b")
        try:
            # Asked first, because a client that cannot connect is not silent.
            kind = asyncio.run(_kind(address))
        except Exception as error:  # an address may be wrong in many ways
            remedy = "give its address, such as tcp://10.0.0.1:8786, or its scheduler file"
            raise ConnectionError(f"cannot reach the scheduler at {address} ({first_line(error)}); {remedy}") from error
        if kind != "Scheduler":
            raise ConnectionError(f"--scheduler is the address of a scheduler; at {address} is a {kind.lower()}")
        with distributed.Client(address, timeout=CONNECT, set_as_default=False, name="twoafc") as client:
            yield client


def _address(scheduler: str) -> str:
    """Return the address of a scheduler, given as such or in a file."""
    if not Path(scheduler).is_file():
        return scheduler
    try:
        return str(json.loads(Path(scheduler).read_text(encoding="utf-8"))["address"])
    except (ValueError, KeyError, TypeError) as error:
        raise ConnectionError(f"{scheduler} is not a scheduler file: it has no address") from error


async def _kind(address: str) -> str:
    """Return the type of Dask server at an address."""
    distributed: Any = require("distributed", extra="cluster")
    secrets = distributed.Security().get_connection_args("client")
    async with distributed.rpc(address, timeout=CONNECT, connection_args=secrets) as there:
        return str((await asyncio.wait_for(there.identity(), CONNECT))["type"])
