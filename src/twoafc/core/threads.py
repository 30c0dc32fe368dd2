"""Matrix products of fits on one thread.

The matrices of a fit are narrow: more threads of the BLAS gain nothing on an idle machine, and on a busy one they wait
for each other, which made a fit ten times slower.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


_LOCK = Lock()
_ENTERED: list[Any] = []
"""The limit, once for each block that is running: the last one lifts it, since blocks of several threads overlap."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread of the BLAS inside a `with` block, or in a function that this decorates."""
    with _LOCK:
        _ENTERED.append(_ENTERED[0] if _ENTERED else _libraries().limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _LOCK:
            limit = _ENTERED.pop()
            if not _ENTERED:
                limit.restore_original_limits()


@cache
def _libraries() -> ThreadpoolController:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
