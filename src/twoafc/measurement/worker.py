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
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

from twoafc.measurement.block import Arrays, Block, Decoder, Outcome, Read, measure_block
from twoafc.measurement.calling import DistanceError, Size, Tools
from twoafc.measurement.transport import Decoded, Shelf, pack


@dataclass(frozen=True)
class Job:
    """What a worker is to do with blocks.

    Parameters
    ----------
    distances : mapping of name to text, or None
        What it measures, on the CPU; None where it only decodes.
    pixels : int
        See `twoafc.measurement.block.Tools`.
    proven : frozenset
        Likewise.
    shelf : pair of int, or None
        File and size of the memory that decoded images go to.
    cached : int
        Bytes of decoded images to keep.
    """

    distances: dict[str, str] | None
    pixels: int = 0
    proven: frozenset[tuple[str, Size]] = frozenset()
    shelf: tuple[int, int] | None = None
    cached: int = 0


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
        answer = answering(messages.get())
        _send(sink, None)
        while True:
            block = messages.get()
            try:
                found: object = answer(block)
            except DistanceError as error:
                found = error
            _send(sink, found)
    except BrokenPipeError:
        pass
    except Exception as error:
        kind = ImportError if isinstance(error, ImportError) else ValueError
        told = str(error) if isinstance(error, ValueError | ImportError) else f"{type(error).__name__}: {error}"
        _send(sink, kind(told))
    # At once: the thread that listens would be in the way of an orderly end.
    os._exit(1)


def answering(job: Job) -> Callable[[Block], Outcome | Decoded]:
    """Make the function that answers a block."""
    decoder = Decoder(job.cached)
    if job.distances is None:
        shelf = Shelf(*job.shelf) if job.shelf else None
        return lambda block: pack(*decoder.read_all(block.images), shelf)
    from twoafc.measurement.candidates import make

    made = {name: make(text, "cpu", "fp32") for name, text in job.distances.items()}
    tools = Tools(made, job.pixels, set(job.proven))
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)

    def measured(block: Block) -> Outcome:
        pixels, traces = decoder.read_all(block.images)
        found = [each if isinstance(each, str) else (each.shape[1], each.shape[2]) for each in pixels]
        return measure_block(block, Read(found, traces, Arrays(pixels)), tools)

    return measured


def _listen(source: BinaryIO, messages: queue.SimpleQueue[Any]) -> None:
    try:
        while True:
            messages.put(pickle.load(source))
    except Exception:  # the end of the input, in the middle of a message too
        os._exit(0)


def _send(sink: BinaryIO, message: object) -> None:
    pickle.dump(message, sink, protocol=pickle.HIGHEST_PROTOCOL)
    sink.flush()
