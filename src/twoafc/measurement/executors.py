"""Who measures blocks: processes of this machine here, or a Dask cluster (`twoafc.measurement.cluster`).

A worker process is a program of its own that answers messages on its standard input: a `Job` first, then blocks. Pools
of `multiprocessing` do not fit: they import the user's script again, are not allowed in the workers of Dask, outlive a
parent that is killed, and do not say which block a killed process had.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import mmap
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
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

import twoafc
from twoafc.images import ImageError, read_bytes, trace
from twoafc.measurement.block import (
    Batches,
    Block,
    BlockError,
    Decoded,
    Decoder,
    DistanceError,
    Measurer,
    Outcome,
    Proven,
)
from twoafc.measurement.interruption import WAIT, raise_interruption

if TYPE_CHECKING:  # processes that only decode need none of these
    from twoafc.measurement.candidates import Candidate, Maker
    from twoafc.measurement.cluster import Packed

PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from twoafc.measurement.executors import serve; serve({})"
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "VECLIB")}
"""Each worker has one core: more threads would only slow each other down, and could change the last digits."""

PR_SET_CHILD_SUBREAPER = 36

Outcomes = Generator[tuple[Block, Outcome], None, None]


class Executor(Protocol):
    """A context in which blocks can be measured."""

    @property
    def device(self) -> str:
        """Where the distances work."""

    @property
    def candidates(self) -> Sequence[Candidate]:
        """The distances, with the identities that they have where they work."""

    @property
    def makers(self) -> Mapping[str, list[Maker]]:
        """The machines and libraries that have measured each distance."""

    def measure(self, blocks: Iterable[Block]) -> Outcomes:
        """Yield each block with its outcome, in the order in which they are finished; raise `BlockError`."""


class LocalExecutor:
    """Processes of this machine measure, each on one core.

    Distances that work on another device, or that only this process has, are measured in this process; the worker
    processes then only decode.

    Parameters
    ----------
    candidates : sequence of Candidate
        The distances.
    device : str
        Where they work.
    workers : int
        Number of processes.
    proven : frozenset
        See `twoafc.measurement.block.Measurer`.
    cache : int
        Bytes of decoded images that each process keeps.
    memory : int
        Bytes of the decoded images of a block, which each process shares with this one where that saves time.
    """

    def __init__(
        self, candidates: Sequence[Candidate], device: str, *, workers: int, proven: Proven, cache: int, memory: int
    ) -> None:
        from twoafc.measurement.candidates import maker

        self.candidates, self.device, self.workers = candidates, device, workers
        self.proven, self.cache, self.memory = proven, cache, memory
        self.makers = {candidate.name: [maker(candidate.distance, device)] for candidate in candidates}

    def measure(self, blocks: Iterable[Block]) -> Outcomes:
        """Yield each block with its outcome, in the order in which they are finished."""
        texts = {candidate.name: candidate.text for candidate in self.candidates if candidate.text}
        by_workers = self.device == "cpu" and len(texts) == len(self.candidates)
        distances = {candidate.name: candidate.distance for candidate in self.candidates}
        here = None if by_workers else Measurer(distances, self.device, self.proven)
        job = Job(texts if by_workers else None, self.proven, self.cache)
        processes = Processes(job, memory=0 if self.device == "cpu" else self.memory)
        waiting, pending = iter(blocks), dict[Future[tuple[Process, Any]], Block]()
        # Processes end first, which ends the threads that wait for them.
        with ThreadPoolExecutor(self.workers) as threads, contextlib.closing(processes):

            def submit() -> None:
                for block in itertools.islice(waiting, self.workers - len(pending)):
                    pending[threads.submit(processes.ask, block)] = block

            submit()
            while pending:
                done = wait(pending, WAIT, FIRST_COMPLETED).done
                raise_interruption()
                for future in [future for future in pending if future in done]:
                    block, (process, answer) = pending.pop(future), future.result()
                    batches = None if here is None else Batches(answer, self.device)
                    processes.release(process)
                    submit()
                    if here is not None and batches is not None:
                        try:
                            answer = here.measure(block, batches)
                        except DistanceError as error:
                            raise BlockError(block, error) from error
                    yield block, answer


# --- worker processes, as their parent sees them ----------------------------------------------------------------------


class Process:
    """One worker process, started anew: it inherits nothing from the threads of this process.

    Parameters
    ----------
    paths : sequence of str
        Folders in which it looks for modules last.
    memory : int
        Bytes of memory to share with it. Arrays of an answer lie there until the next message is sent.
    errors : file, optional
        Where its standard error goes, and where Python was when it crashed; by default that of this process.
    """

    def __init__(self, paths: Sequence[str] = (), memory: int = 0, errors: IO[bytes] | None = None) -> None:
        file = _shared_file(memory) if memory else None
        self.memory = None if file is None else memoryview(mmap.mmap(file, memory))
        program = PROGRAM.format("" if file is None else f"{file}, {memory}")
        self.program = subprocess.Popen(
            [sys.executable, "-c", program, *map(str, sys.path), *paths],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=os.environ | ONE_THREAD | ({"PYTHONFAULTHANDLER": "1"} if errors else {}),
            pass_fds=() if file is None else (file,),
            # Ctrl-C is for the parent, which ends its workers itself.
            process_group=0 if os.name == "posix" else None,
        )
        if file is not None:
            os.close(file)

    def ask(self, message: object) -> Any:
        """Send a message and return the answer; raise what the process answers with, or that it has ended."""
        assert self.program.stdin is not None
        assert self.program.stdout is not None
        try:
            with contextlib.suppress(OSError):  # a process that cannot start says why before it ends
                _send(self.program.stdin, message)
            answer = _receive(self.program.stdout, self.memory)
        except Exception as error:  # the end of its output, in the middle of a message too
            raise ChildProcessError(_how_it_ended(self.program.wait())) from error
        if isinstance(answer, Exception):
            raise answer
        return answer

    def end(self) -> None:
        """End the process, which has nothing to put in order, and those that a user's distance has started in it."""
        _kill_tree(self.program.pid)
        self.program.kill()
        self.program.wait()
        for stream in (self.program.stdin, self.program.stdout):
            with contextlib.suppress(OSError, AttributeError):
                stream.close()  # type: ignore[union-attr]


def _how_it_ended(code: int) -> str:
    if code == -signal.SIGKILL:
        return "was killed (signal 9), perhaps for lack of memory (fewer workers need less)"
    return f"was ended by signal {-code} ({signal.strsignal(-code)})" if code < 0 else f"ended with code {code}"


def rehearse(text: str, block: Block) -> None:
    """Make a user's distance and measure a block, in a process that is not needed; refuse one that ends it.

    What the distance raises is left to the trial in this process.
    """
    with tempfile.TemporaryFile() as errors:
        process = Process(errors=errors)
        try:
            process.ask(Job({text: text}))
            process.ask(replace(block, wanted={text: np.arange(len(block.items))}))
        except ChildProcessError as error:
            errors.seek(0)
            rule = "a distance must not end its process"
            tried = f"{text} was tried, and its process {error}{_place(errors.read().decode(errors='replace'))}"
            raise ValueError(f"{rule}; {tried}; mend it, or measure without it") from error
        except Exception:  # a user's distance may raise anything
            pass
        finally:
            process.end()


def _place(errors: str) -> str:
    """Return the line of a user's distance in what Python has written of a crash; nothing where there is none."""
    frames = re.findall(r'File "(.+)", line (\d+) in', errors.partition("\nCurrent thread")[2].partition("\n\n")[0])
    ours = [file.startswith(os.path.dirname(twoafc.__file__)) for file, _ in frames]
    file, line = frames[ours.index(True) - 1] if True in ours[1:] else ("", "")
    return f" in line {line} of {file}" if file else ""


# --- processes that a user's distance has started ---------------------------------------------------------------------


def _started_by(pid: int) -> list[int]:
    """Return the processes that a process has started, and those that they have, where the system lists them."""
    processes = []
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            processes += [
                child for number in listed.read_text().split() for child in (int(number), *_started_by(int(number)))
            ]
    return processes


def _kill_tree(pid: int) -> None:
    """End what a process has started, and the group that it leads, with itself."""
    for child in _started_by(pid):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(child, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError, AttributeError):
        os.killpg(pid, signal.SIGKILL)


def _adopt(orphans: bool) -> None:
    """Have this process become the parent of those whose own parent ends, or no longer, where the system can."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(orphans), 0, 0, 0)


@contextlib.contextmanager
def ending_processes() -> Iterator[None]:
    """End at last what users' distances have started in this process, or have left behind in others."""
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


class Processes:
    """The worker processes of one job: started when needed, used again, ended together. Several threads may ask them.

    Parameters
    ----------
    job : Job
        What they do with blocks.
    paths, memory
        See `Process`.
    name : str
        What one of them is called in errors.
    """

    def __init__(self, job: Job, paths: Sequence[str] = (), *, memory: int = 0, name: str = "a worker process") -> None:
        self.job, self.paths, self.memory, self.name = job, paths, memory, name
        self.all: list[Process] = []
        self.free: list[Process] = []
        self.lock = threading.Lock()
        self.closed = False

    def start(self) -> Ready | None:
        """Start one more process, and return what it reports of itself."""
        with self.lock:
            if self.closed:
                raise ChildProcessError("the run has ended")
            process = Process(self.paths, self.memory)
            self.all.append(process)
        ready: Ready | None = self._ask(process, self.job)
        self.release(process)
        return ready

    def ask(self, block: Block) -> tuple[Process, Any]:
        """Have a block measured, or decoded, by a free process, which must be released; raise `BlockError`."""
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
            return process, self._ask(process, block)
        except (DistanceError, ValueError, ImportError, OSError) as error:
            raise BlockError(block, error) from error

    def answer(self, block: Block) -> Any:
        """Have a block measured, and release the process."""
        process, answer = self.ask(block)
        self.release(process)
        return answer

    def release(self, process: Process) -> None:
        """Let a process have other blocks: what it shares of its last answer is no longer needed."""
        with self.lock:
            self.free.append(process)

    def ended(self) -> bool:
        """Whether all processes have ended, as they do when they get no block for a while."""
        return all(process.program.poll() is not None for process in self.all)

    def close(self) -> None:
        """End all processes, in the middle of a block too."""
        with self.lock:
            self.closed = True
            for process in self.all:
                process.end()
            self.free.clear()

    def _ask(self, process: Process, message: object) -> Any:
        try:
            return process.ask(message)
        except Exception as error:
            process.end()
            if isinstance(error, ChildProcessError):
                raise ChildProcessError(f"{self.name} {error}") from error
            raise


# --- messages ---------------------------------------------------------------------------------------------------------


def _shared_file(size: int) -> int | None:
    """Open memory that has no name, so that nothing is left behind; None where the system has no such files."""
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("twoafc")
    elif os.name == "posix":
        with tempfile.TemporaryFile() as nameless:
            file = os.dup(nameless.fileno())
    else:
        return None
    os.ftruncate(file, size)
    return file


def _send(sink: IO[bytes], message: object, memory: memoryview | None = None) -> None:
    """Write a message; its arrays go into the shared memory if they fit, which saves copies of a block's pixels."""
    buffers: list[pickle.PickleBuffer] = []
    content = pickle.dumps(message, pickle.HIGHEST_PROTOCOL, buffer_callback=None if memory is None else buffers.append)
    lengths = [buffer.raw().nbytes for buffer in buffers]
    if memory is not None and sum(lengths) > len(memory):
        content, lengths = pickle.dumps(message, pickle.HIGHEST_PROTOCOL), []
    for place, buffer in zip(_places(lengths), buffers, strict=False):
        assert memory is not None
        memory[place] = buffer.raw()
    pickle.dump((content, lengths), sink, pickle.HIGHEST_PROTOCOL)
    sink.flush()


def _receive(source: IO[bytes], memory: memoryview | None = None) -> Any:
    content, lengths = pickle.load(source)
    return pickle.loads(content, buffers=[memory[place] for place in _places(lengths)] if memory else ())


def _places(lengths: list[int]) -> list[slice]:
    return [slice(end - length, end) for length, end in zip(lengths, itertools.accumulate(lengths), strict=True)]


# --- the program of a worker process ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """What a worker process does with blocks.

    Parameters
    ----------
    distances : mapping of name to text or Packed, or None
        The distances that it measures; None where it only decodes.
    proven : frozenset
        See `twoafc.measurement.block.Measurer`.
    cache : int
        Bytes of decoded images to keep.
    device, precision : str
        Where and how the distances work; None for a GPU where there is one.
    sample : (str, int), optional
        An image that must be there, with its trace: on another machine the path may lead to other files.
    idle : float, optional
        Seconds after which the process ends if it gets no block: the client of a cluster may have been killed. Given
        for a process of a cluster, which also reports its distances as `Ready`.
    """

    distances: Mapping[str, str | Packed] | None
    proven: Proven = frozenset()
    cache: int = 0
    device: str | None = "cpu"
    precision: str = "fp32"
    sample: tuple[str, int] | None = None
    idle: float | None = None


class Ready(NamedTuple):
    """What a process of a cluster reports when it has made its distances.

    Its device; and by distance its identity, of those made from a text, and its maker.
    """

    device: str
    identities: dict[str, dict[str, Any]]
    makers: dict[str, Maker]


def serve(file: int = -1, size: int = 0) -> None:
    """Answer messages from standard input on standard output, until there are no more.

    `file` and `size` are those of the memory that this process shares with its parent, if any.
    """
    memory = memoryview(mmap.mmap(file, size)) if size else None
    _adopt(True)
    # What a distance prints must not come between answers.
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # and what it reads must be no message
    # What is wrong with an image is in the list of failures; Pillow would say it again.
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
                _send(sink, answer(block), memory)
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
    """Make what a job needs: the report of a process of a cluster, and the function that answers a block."""
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
    return ready, lambda block: measurer.measure(block, Batches(decoder.read_all(block.images), device))


def _require_image(path: str, known: int) -> None:
    """Refuse to work where the images are not, or others: every row would be listed as a failure."""
    rule = "images must lie under one path on all machines"
    try:
        same = trace(read_bytes(path)) == known
    except ImageError as error:
        raise ValueError(f"{rule}; {error}") from error
    if not same:
        raise ValueError(f"{rule}; {path} is another file there")


def _listen(source: IO[bytes], messages: queue.SimpleQueue[Any]) -> None:
    """Read messages; end the process with its parent, in the middle of a computation too."""
    try:
        while True:
            messages.put(_receive(source))
    except Exception:  # the end of the input, in the middle of a message too
        _kill_tree(os.getpid())  # with whatever a user's distance has started
        os._exit(0)
