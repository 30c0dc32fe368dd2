"""The package's errors, and imports that say in one line why they failed."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any


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


def import_named(name: str, missing: str) -> Any:
    """Import a user's own ``package.module:attribute``, from Python's path or the current folder.

    Where that fails, raise a ValueError that begins with `missing`.
    """
    module, _, attribute = name.partition(":")
    with suppress(OSError):  # the folder may have been removed
        # The current folder comes last: a user's file must not replace a library.
        if (folder := os.getcwd()) not in sys.path:
            sys.path.append(folder)
    try:
        imported = importlib.import_module(module)
    except ImportError as error:
        raise ValueError(f"{missing}; {error}{_hidden_file(module)}") from error
    except (Exception, SystemExit) as error:  # a user's file may raise anything
        raise ValueError(f"{missing}; importing {module} raised {type(error).__name__}: {error}") from error
    try:
        return getattr(imported, attribute)
    except (AttributeError, ImportError) as error:  # some modules import their members on first use
        file = getattr(imported, "__file__", None) or "Python itself"
        raise ValueError(f"{missing}; {error}; it was imported from {file}{_hidden_file(module)}") from error


def _hidden_file(module: str) -> str:
    """Return a remark if another module of the same name is imported instead of a file in the current folder."""
    top = module.partition(".")[0]
    loaded = sys.modules.get(top)
    sources = [getattr(loaded, "__file__", None), *getattr(loaded, "__path__", [])]
    own = [path for path in (Path(f"{top}.py"), Path(top)) if path.exists()]
    if loaded is None or not own or any(path.samefile(source) for path in own for source in sources if source):
        return ""
    return f"; {own[0].absolute()} is hidden by another module {top}: give it another name"


def require(module: str, *, extra: str) -> ModuleType:
    """Import an optional library, or say in one line how to install it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ImportError(f"{module} is not installed; run: pip install 'twoafc[{extra}]'") from error
