"""Rows of the same n, M and group: what a score or a sum depends on beside the place, worked out once for each."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twoafc.core import blocks_of

MOST = 2**22
"""Combinations of n, M and group that an array has room for; where there could be more, rows are sorted."""


class Kinds(NamedTuple):
    """Kinds of rows: the number of each row's, shape (C,), and a row of each kind, shape (Q,)."""

    number: NDArray[np.unsignedinteger]
    row: NDArray[np.int64]


def kinds(n: NDArray[Any], M: NDArray[Any], group: NDArray[np.int64] | None = None) -> Kinds:
    """Number the kinds of rows that occur, by group, then M, then n.

    Examples
    --------
    >>> kinds(np.array([1, 0, 1]), np.array([2, 2, 2]))
    Kinds(number=array([1, 0, 1], dtype=uint8), row=array([1, 2]))
    """
    pairs = int(M.max()) * (int(M.max()) + 3) // 2 + 1
    groups = 1 if group is None else int(group.max()) + 1

    def codes(some: slice) -> NDArray[Any]:
        code: NDArray[Any] = M[some] * (M[some] + 1) // 2 + n[some]
        return code if group is None else code + group[some] * pairs

    if pairs * groups > MOST:
        code = np.concatenate([codes(some) for some in blocks_of(len(n))])
        _, row, number = np.unique(code, return_index=True, return_inverse=True)
        return Kinds(number.astype(np.uint32), row)
    code = np.empty(len(n), dtype=np.min_scalar_type(pairs * groups))
    first = np.full(pairs * groups, -1)
    for some in blocks_of(len(n)):
        code[some] = codes(some)
        new = np.flatnonzero(first.take(code[some]) < 0)
        first[code[some][new]] = new + some.start
    used = first >= 0
    place = (np.cumsum(used) - 1).astype(np.min_scalar_type(int(used.sum())))
    for some in blocks_of(len(n)):
        code[some] = place.take(code[some])
    return Kinds(code, first[used])
