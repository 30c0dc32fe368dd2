"""Ctrl-C during a run: raised again where Python, or somebody's code, has lost it.

A signal may arrive while an object is being deleted. Python prints and ignores what is raised there, and a run that
should have stopped would go on to its end. So the signal is recorded, too: the loops that wait for blocks look at the
record, and so does the end of the run.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

WAIT = 0.2
"""Seconds that a loop may wait before it looks at the record again."""
_record = {"interrupted": False}  # no lock or event: the signal may arrive while this thread has it


@contextmanager
def interruptible() -> Iterator[None]:
    """Let no interruption be lost: what is ignored inside is raised at the end, and is not printed.

    Does nothing in other threads than the main one, which gets all signals, and where interruptions are ignored.
    """
    before, report = signal.getsignal(signal.SIGINT), sys.unraisablehook
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return

    def interrupt(number: int, frame: Any) -> None:
        try:
            before(number, frame)
        except KeyboardInterrupt:
            _record["interrupted"] = True
            raise

    def report_others(ignored: Any) -> None:
        if not isinstance(ignored.exc_value, KeyboardInterrupt):
            report(ignored)

    signal.signal(signal.SIGINT, interrupt)
    sys.unraisablehook = report_others
    try:
        yield
    except KeyboardInterrupt:
        _record["interrupted"] = False
        raise
    finally:
        signal.signal(signal.SIGINT, before)
        sys.unraisablehook = report
        raise_interruption()


def raise_interruption() -> None:
    """Raise the interruption that was recorded, if any."""
    if _record["interrupted"]:
        _record["interrupted"] = False
        raise KeyboardInterrupt
