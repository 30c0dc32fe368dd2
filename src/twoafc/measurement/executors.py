"""Executors measure blocks: with processes of this machine, or on a Dask cluster (`twoafc.measurement.cluster`).

A worker process is a separate program that reads messages from its standard input: first a `Job`, then blocks. The
process pools of `concurrent.futures` and loky are not used, because their workers import the user's script again, may
not run inside Dask's workers, survive a parent that is killed, and do not report which block a killed worker had.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import pickle
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np

import twoafc
from twoafc.images import ImageError, read_bytes, trace
from twoafc.measurement.block import (
    Block,
    BlockError,
    Decoded,
    Decoder,
    DistanceError,
    Measurer,
    Outcome,
    Proven,
)

if TYPE_CHECKING:  # processes that only decode need none of these
    from twoafc.measurement.candidates import Candidate, Maker
    from twoafc.measurement.cluster import Packed

PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from twoafc.measurement.executors import serve; serve()"
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "VECLIB")}
"""Each worker uses one core: more threads would slow each other down, and could change the last digits."""
PR_SET_CHILD_SUBREAPER = 36
POLL = 0.2
"""Seconds after which a wait is repeated: Windows reports Ctrl-C only between two waits."""

Outcomes = Generator[tuple[Block, Outcome], None, None]


class LocalExecutor:
    """Measures in processes of this machine, each on one core; a context manager that ends them.

    Distances on another device, or that only this process has, are measured in this process; workers only decode.
    """

    def __init__(
        self,
        candidates: Sequence[Candidate],
        device: str,
        *,
        workers: int,
        proven: Proven,
        cache: int,  # bytes of decoded images that each process keeps
    ) -> None:
        from twoafc.measurement.candidates import maker

        self.candidates, self.device, self.workers = candidates, device, workers
        self.makers: Mapping[str, list[Maker]] = {one.name: [maker(one.distance, device)] for one in candidates}
        texts = {one.name: one.text for one in candidates if one.text}
        by_workers = device == "cpu" and len(texts) == len(candidates)
        distances = {candidate.name: candidate.distance for candidate in candidates}
        self.here = None if by_workers else Measurer(distances, device, proven)
        self.processes = Processes(Job(texts if by_workers else None, proven, cache))
        self.threads = ThreadPoolExecutor(workers)

    def __enter__(self) -> LocalExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self.processes.close()  # first, which ends the threads that wait for them
        self.threads.shutdown()

    def measure(self, blocks: Iterable[Block]) -> Outcomes:
        """Yield each block with its outcome, in the order in which they are finished."""
        waiting, asked, answers = iter(blocks), 0, queue.SimpleQueue[tuple[Block, Any]]()

        def ask(block: Block) -> None:
            try:
                answers.put((block, self.processes.ask(block)))
            except Exception as error:
                answers.put((block, error))

        while True:
            for block in itertools.islice(waiting, self.workers - asked):
                self.threads.submit(ask, block)
                asked += 1
            if not asked:
                return
            try:  # not `concurrent.futures.wait`: Ctrl-C in it may leave futures locked, and the run would not end
                block, answer = answers.get(timeout=POLL)
            except queue.Empty:
                continue
            asked -= 1
            if isinstance(answer, Exception):
                raise answer
            if self.here is not None:
                try:
                    answer = self.here.measure(block, answer.on(self.device))
                except DistanceError as error:
                    raise BlockError(block, error) from error
            yield block, answer


# --- worker processes, as their parent sees them ----------------------------------------------------------------------


class Process:
    """One worker process."""

    def __init__(
        self,
        paths: Sequence[str] = (),  # folders to add at the end of its module search path
        name: str = "its process",  # in errors
        errors: IO[bytes] | None = None,  # for its standard error, and for a traceback if it crashes
    ) -> None:
        self.name = name
        traced = ["-X", "faulthandler"] if errors else []
        self.program = subprocess.Popen(
            [sys.executable, *traced, "-c", PROGRAM, *map(str, sys.path), *paths],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=os.environ | ONE_THREAD,
            # Ctrl-C is handled by the parent, which ends its workers itself.
            process_group=0 if os.name == "posix" else None,
        )

    def ask(self, message: object) -> Any:
        """Send a message and return the answer; end the process and raise if the answer is an error, or missing."""
        assert self.program.stdin is not None
        assert self.program.stdout is not None
        try:
            with contextlib.suppress(OSError):  # a process that cannot start sends the reason before it ends
                _send(self.program.stdin, message)
            answer = pickle.load(self.program.stdout)
        except Exception as error:  # the end of its output, perhaps in the middle of a message
            code = self.program.wait()
            self.end()
            how = f"was ended by signal {-code} ({signal.strsignal(-code)})" if code < 0 else f"ended with code {code}"
            if code == -signal.SIGKILL:
                how = "was killed (signal 9), perhaps for lack of memory (fewer workers need less)"
            raise ChildProcessError(f"{self.name} {how}") from error
        if isinstance(answer, Exception):
            self.end()
            raise answer
        return answer

    def end(self) -> None:
        """Kill the process, and those that a user's distance has started in it."""
        _kill_group(self.program.pid)
        self.program.kill()
        self.program.wait()
        for stream in (self.program.stdin, self.program.stdout):
            with contextlib.suppress(OSError, AttributeError):
                stream.close()  # type: ignore[union-attr]


def rehearse(text: str, block: Block) -> None:
    """Measure a block with a user's distance in a separate process; refuse a distance that crashes or ends it.

    Exceptions of the distance are ignored here; they are raised by the trial in this process.
    """
    with tempfile.TemporaryFile() as errors:
        process = Process(errors=errors)
        try:
            process.ask(Job({text: text}))
            process.ask(replace(block, wanted={text: np.arange(len(block.items))}))
        except ChildProcessError as error:
            errors.seek(0)
            tried = f"{text} was tried, and {error}{_place(errors.read().decode(errors='replace'))}"
            raise ValueError(f"a distance must not end its process; {tried}; fix it, or measure without it") from error
        except Exception:  # a user's distance may raise anything
            pass
        finally:
            process.end()


def _place(errors: str) -> str:
    """Return the line of a user's distance in the traceback of a crash, or ""."""
    from twoafc.measurement.cluster import is_library

    crashed = errors.partition("\nCurrent thread")[2].partition("\n\n")[0]
    frames = re.findall(r'File "(.+)", line (\d+) in', crashed)  # the innermost first
    ours = os.path.dirname(twoafc.__file__)
    theirs = list(itertools.takewhile(lambda frame: not frame[0].startswith(ours), frames))
    for file, line in [frame for frame in theirs if not is_library(frame[0])] or theirs[-1:]:
        return f" in line {line} of {file}"
    return ""


# --- processes that a user's distance has started ---------------------------------------------------------------------


@contextlib.contextmanager
def ending_processes() -> Iterator[None]:
    """Kill on exit all processes that users' distances have started here, or left behind in workers."""
    before = set(_started_by(os.getpid()))
    _adopt(True)
    try:
        yield
    finally:
        for pid in set(_started_by(os.getpid())) - before:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        _adopt(False)


def _started_by(pid: int) -> list[int]:
    """Return all descendants of a process, on systems that list them."""
    processes: list[int] = []
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, listed.read_text().split()):
                processes += [child, *_started_by(child)]
    return processes


def _adopt(orphans: bool) -> None:
    """Set on Linux whether this process becomes the parent of descendants whose own parent ends."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(orphans), 0, 0, 0)


def _kill_group(pid: int) -> None:
    """Kill a worker and its process group: what a user's distance has started in it."""
    with contextlib.suppress(ProcessLookupError, PermissionError, AttributeError):
        os.killpg(pid, signal.SIGKILL)


class Processes:
    """The worker processes of one job: started when needed, reused, and ended together; thread-safe."""

    def __init__(self, job: Job, paths: Sequence[str] = (), *, name: str = "a worker process") -> None:
        self.job, self.paths, self.name = job, paths, name
        self.all: list[Process] = []
        self.free: list[Process] = []
        self.lock = threading.Lock()
        self.closed = False

    def start(self) -> Ready | None:
        """Start one more process, and return its report."""
        with self.lock:
            if self.closed:
                raise ChildProcessError("the run has ended")
            process = Process(self.paths, self.name)
            self.all.append(process)
        ready: Ready | None = process.ask(self.job)
        self.free.append(process)
        return ready

    def ask(self, block: Block) -> Any:
        """Send a block to a free process, and return the answer; raise `BlockError`."""
        process: Process | None = None
        try:
            while process is None or process.program.poll() is not None:  # an idle process may have ended
                if not self.free:
                    self.start()
                with self.lock:
                    process = self.free.pop() if self.free else None
        except (ValueError, ImportError, OSError) as error:
            raise BlockError(None, error) from error
        try:
            answer = process.ask(block)
        except (DistanceError, ValueError, ImportError, OSError) as error:
            raise BlockError(block, error) from error
        self.free.append(process)
        return answer

    def ended(self) -> bool:
        """Whether all processes have ended, as they do after some time without a block."""
        return all(process.program.poll() is not None for process in self.all)

    def close(self) -> None:
        """End all processes, in the middle of a block too."""
        with self.lock:
            self.closed = True
            for process in self.all:
                process.end()
            self.free.clear()


def _send(sink: IO[bytes], message: object) -> None:
    pickle.dump(message, sink, pickle.HIGHEST_PROTOCOL)
    sink.flush()


# --- the program of a worker process ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """What a worker process does with blocks."""

    distances: Mapping[str, str | Packed] | None  # the distances to measure; None if it only decodes
    proven: Proven = frozenset()  # see `twoafc.measurement.block.Measurer`
    cache: int = 0  # bytes of decoded images to keep
    device: str | None = "cpu"  # None for a GPU if there is one
    precision: str = "fp32"
    sample: tuple[str, int] | None = None  # an image that must exist, and its trace: other machines may have others
    # For a process of a cluster, which also reports its distances as `Ready`: it ends after so many seconds without a
    # block, since the client may have been killed.
    idle: float | None = None


class Ready(NamedTuple):
    """The report of a process of a cluster that has made its distances."""

    device: str
    identities: dict[str, dict[str, Any]]  # of distances made from a text
    makers: dict[str, Maker]


def serve() -> None:
    """Answer messages from standard input on standard output until the input ends."""
    # A distance must not print between answers, nor read messages.
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    # Problems of images are in the list of failures; Pillow would repeat them.
    warnings.filterwarnings("ignore", module=r"PIL\b")
    messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(source, messages), daemon=True).start()
    try:
        job = messages.get()
        ready, answer = prepare(job)
        _send(sink, ready)
        while True:
            block = messages.get(timeout=job.idle)
            try:
                _send(sink, answer(block))
            except DistanceError as error:
                _send(sink, error)
    except (BrokenPipeError, queue.Empty):
        pass
    except Exception as error:
        kind = ImportError if isinstance(error, ImportError) else ValueError
        known = isinstance(error, ValueError | ImportError)
        _send(sink, kind(str(error) if known else f"{type(error).__name__}: {error}"))
    os._exit(1)  # at once: the listening thread would delay an orderly exit


def prepare(job: Job) -> tuple[Ready | None, Callable[[Block], Outcome | Decoded]]:
    """Make the distances of a job; return the report of a process of a cluster, and the function for blocks."""
    decoder = Decoder(job.cache)
    if job.distances is None:
        return None, lambda block: decoder.read_all(block.images)
    if job.sample:
        _require_image(*job.sample)
    from twoafc.measurement.candidates import make, maker, resolve_device
    from twoafc.measurement.identity import identity_of

    device = resolve_device(job.device, job.precision)
    distances = {
        name: make(given, device, job.precision) if isinstance(given, str) else given.unpack(device)
        for name, given in job.distances.items()
    }
    ready = None
    if job.idle is not None:
        texts = {name: given for name, given in job.distances.items() if isinstance(given, str)}
        identities = {name: identity_of(text, distances[name], device, name=name) for name, text in texts.items()}
        ready = Ready(device, identities, {name: maker(distance, device) for name, distance in distances.items()})
    measurer = Measurer(distances, device, job.proven)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    return ready, lambda block: measurer.measure(block, decoder.read_all(block.images).on(device))


def _require_image(path: str, known: int) -> None:
    """Raise if the images are missing or different here; otherwise every row would be listed as a failure."""
    try:
        problem = "" if trace(read_bytes(path)) == known else f"{path} is another file there"
    except ImageError as error:
        problem = str(error)
    if problem:
        raise ValueError(f"images must lie under one path on all machines; {problem}")


def _listen(source: IO[bytes], messages: queue.SimpleQueue[Any]) -> None:
    """Read messages; when the parent ends, end this process at once, even during a computation."""
    try:
        while True:
            messages.put(pickle.load(source))
    except Exception:  # the end of the input, perhaps in the middle of a message
        _kill_group(os.getpid())
        os._exit(0)
