"""Files written whole: under a hidden name first, then renamed; what fails is told with the name that was meant."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a path to write to, which takes the place of another when all is written; a crash leaves that as it was.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.txt"
    >>> with whole_file(path) as partial:
    ...     _ = partial.write_text("all of it")
    >>> [file.name for file in path.parent.iterdir()]
    ['a.txt']
    """
    whole = Path(os.path.realpath(path))  # a link stays one
    partial = whole.with_name(f".{whole.name}.{os.getpid()}.part")
    try:
        yield partial
        partial.replace(whole)
    except OSError as error:
        # A full disk names no file, and a folder that may not be written to the hidden one.
        raise OSError(f"{path} could not be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            partial.unlink()
