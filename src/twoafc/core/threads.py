"""Matrix products of fits on one thread.

The matrices of a fit are narrow: more threads of the BLAS gain nothing on an idle machine, and on a busy one they wait
for each other, which made a fit ten times slower.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread of the BLAS inside a `with` block, or in a function that this decorates."""
    with _libraries().limit(limits=1, user_api="blas"):
        yield


@cache
def _libraries() -> ThreadpoolController:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
