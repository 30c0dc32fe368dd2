"""Long columns, some rows at a time."""

from __future__ import annotations

from collections.abc import Iterator

BLOCK = 2**16
"""Rows taken at once, so that what is made of them stays in the processor's cache."""


def blocks_of(size: int) -> Iterator[slice]:
    """Go through rows some at a time.

    Examples
    --------
    >>> [*blocks_of(100_000)]
    [slice(0, 65536, None), slice(65536, 100000, None)]
    """
    return (slice(start, min(start + BLOCK, size)) for start in range(0, size, BLOCK))
