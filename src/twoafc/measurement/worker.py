"""A worker process: reads blocks, measures or decodes them, and answers.

Its first message is a `Job`; then come blocks, one answer for each. It ends when its parent does: a thread waits for
the end of its input, so that a long computation does not outlive the one who asked for it.
"""

from __future__ import annotations

import os
import pickle
import queue
import sys
import threading
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

from twoafc.images import ImageError, read_bytes, trace
from twoafc.measurement.block import Arrays, Block, Decoder, Images, Outcome, Read, measure_block
from twoafc.measurement.calling import DistanceError, Size, Tools, room
from twoafc.measurement.shipping import Shipped
from twoafc.measurement.transport import Decoded, Shelf, Tensors, pack


class Abroad(NamedTuple):
    """What else a worker is told that is of another's machine, and is asked to tell.

    Where its distances work, None for a GPU where it has one; how; an image that it must find, with its trace; and the
    seconds after which it ends when nobody asks it for anything.
    """

    device: str | None
    precision: str
    landmark: tuple[str, int] | None
    idle: float


@dataclass(frozen=True)
class Job:
    """What a worker is to do with blocks.

    Parameters
    ----------
    distances : mapping of name to text or Shipped, or None
        What it measures; None where it only decodes.
    proven : frozenset
        See `twoafc.measurement.calling.Tools`.
    shelf : pair of int, or None
        File and size of the memory that decoded images go to.
    cached : int
        Bytes of decoded images to keep.
    abroad : Abroad or None
        What a worker of a cluster is told; None for one of this machine, which measures on the CPU.
    """

    distances: Mapping[str, str | Shipped] | None
    proven: frozenset[tuple[str, Size]] = frozenset()
    shelf: tuple[int, int] | None = None
    cached: int = 0
    abroad: Abroad | None = None


class Ready(NamedTuple):
    """What a worker of a cluster tells when it has made its distances.

    Its device; and by distance its identity, of those that it made from a text, and its maker.
    """

    device: str
    identities: dict[str, dict[str, Any]]
    makers: dict[str, dict[str, str]]


Answering = Callable[[Block], Outcome | Decoded]


def serve() -> None:
    """Answer blocks from standard input on standard output, until there are no more."""
    # What a distance prints must not come between answers.
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    # What is wrong with an image is told in the list of failures; Pillow would tell it once more, of itself.
    warnings.filterwarnings("ignore", module=r"PIL\b")
    messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(source, messages), daemon=True).start()
    try:
        job = messages.get()
        ready, answer = prepared(job)
        _send(sink, ready)
        while True:
            block = messages.get(timeout=job.abroad.idle if job.abroad else None)
            try:
                found: object = answer(block)
            except DistanceError as error:
                found = error
            _send(sink, found)
    except (BrokenPipeError, queue.Empty):
        pass
    except Exception as error:
        kind = ImportError if isinstance(error, ImportError) else ValueError
        told = str(error) if isinstance(error, ValueError | ImportError) else f"{type(error).__name__}: {error}"
        _send(sink, kind(told))
    # At once: the thread that listens would be in the way of an orderly end.
    os._exit(1)


def prepared(job: Job) -> tuple[Ready | None, Answering]:
    """Make what a job needs: what is told of it, and the function that answers a block."""
    decoder = Decoder(job.cached)
    if job.distances is None:
        shelf = Shelf(*job.shelf) if job.shelf else None
        return None, lambda block: pack(*decoder.read_all(block.images), shelf)
    if job.abroad and job.abroad.landmark:
        _find(*job.abroad.landmark)
    from twoafc.measurement.candidates import identity, make
    from twoafc.measurement.device import maker, resolve

    precision = job.abroad.precision if job.abroad else "fp32"
    device = resolve(job.abroad.device, precision) if job.abroad else "cpu"
    made = {
        name: make(each, device, precision) if isinstance(each, str) else each.opened(device)
        for name, each in job.distances.items()
    }
    texts = {name: each for name, each in job.distances.items() if isinstance(each, str)} if job.abroad else {}
    identities = {name: identity(text, made[name], device, name=name) for name, text in texts.items()}
    ready = Ready(device, identities, {name: maker(each, device) for name, each in made.items()})
    tools = Tools(made, room(device), set(job.proven))
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)

    def measured(block: Block) -> Outcome:
        pixels, traces = decoder.read_all(block.images)
        found = [each if isinstance(each, str) else (each.shape[1], each.shape[2]) for each in pixels]
        on_cpu = device == "cpu"
        images: Images = Arrays(pixels) if on_cpu else Tensors(pack(pixels, traces, None), None, device)
        return measure_block(block, Read(found, traces, images), tools)

    return ready if job.abroad else None, measured


def _find(path: str, known: int) -> None:
    """Refuse to work where the images are not, or others: every row would be told as one that cannot be measured."""
    try:
        found = trace(read_bytes(path))
    except ImageError as error:
        raise ValueError(f"images must lie under one path on all machines; {error}") from error
    if found != known:
        raise ValueError(f"images must lie under one path on all machines; {path} is another file there")


def _listen(source: BinaryIO, messages: queue.SimpleQueue[Any]) -> None:
    try:
        while True:
            messages.put(pickle.load(source))
    except Exception:  # the end of the input, in the middle of a message too
        os._exit(0)


def _send(sink: BinaryIO, message: object) -> None:
    pickle.dump(message, sink, protocol=pickle.HIGHEST_PROTOCOL)
    sink.flush()
