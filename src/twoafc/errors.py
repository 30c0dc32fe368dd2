"""The package's errors, and the way it asks for an optional library."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


class DataError(ValueError):
    """Data or a file that cannot be used; the message names the rule, what was found and where.

    Examples
    --------
    >>> raise DataError("n must lie in [0, M]; row 17 has n=6, M=5 (3 of 36344 rows)")
    Traceback (most recent call last):
    ...
    twoafc.DataError: n must lie in [0, M]; row 17 has n=6, M=5 (3 of 36344 rows)
    """

    __module__ = "twoafc"


def first_line(error: BaseException) -> str:
    r"""Return the first line of an error's message, or its kind where it has none.

    Examples
    --------
    >>> first_line(OSError("no room\nat all")), first_line(OSError())
    ('no room', 'OSError')
    """
    return (str(error).strip() or type(error).__name__).splitlines()[0]


@contextmanager
def naming(path: object) -> Iterator[None]:
    """Name the file in a DataError that does not."""
    try:
        yield
    except DataError as error:
        if str(path) in str(error):
            raise
        raise DataError(f"{path}: {error}") from error


def require(module: str, *, extra: str) -> ModuleType:
    """Import an optional library, or say in one line how to install it.

    Examples
    --------
    >>> require("math", extra="none").pi > 3
    True
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ImportError(f"{module} is not installed; run: pip install 'twoafc[{extra}]'") from error
