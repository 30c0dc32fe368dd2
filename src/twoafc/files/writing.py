"""Atomic writes of files and folders: they are written under a hidden name, then renamed.

Hidden names are unique, and their writer holds a lock. A hidden file without a lock was left by a process that was
killed, on this machine or another, and is removed by the next process that writes there.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from twoafc.errors import DataError
from twoafc.files.reading import require_file, require_format

PARTIAL = r"\.[0-9a-f]+\.part"
"""Pattern of the end of the hidden name of an unfinished file or folder."""
LOCK, NEW, OLD = "lock", "new", "old"
"""In the hidden folder: the lock, the folder to fill and, while it is replaced, the earlier one."""


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a path to write to, which is renamed to `path` on success; after a crash the old file is unchanged."""
    whole = Path(os.path.realpath(path))  # a link stays one
    try:
        clear_partial(whole.parent, [whole.name])
        with _claimed(_hidden(whole)) as partial:
            yield partial
            partial.replace(whole)
    except OSError as error:
        # The error of a full disk has no file name, that of a read-only folder has the hidden one.
        raise OSError(f"{path} could not be written: {error.strerror or error}") from error


@contextmanager
def durable_file(path: Path) -> Iterator[Path]:
    """Yield a path to write to, as `whole_file` does; the file also survives a power cut."""
    with whole_file(path) as partial:
        yield partial
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
    if os.name == "posix":
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # the new name, too
        finally:
            os.close(folder)


def write_text(text: str, path: Path) -> None:
    """Write a text file atomically and durably."""
    with durable_file(path) as partial:
        partial.write_text(text, encoding="utf-8")


def strict_json(value: Any, indent: int | None = None) -> str:
    """Write standard JSON: numbers that are not finite become null.

    Examples
    --------
    >>> strict_json({"nll": float("inf"), "group": "é"})
    '{"nll": null, "group": "é"}'
    """
    return json.dumps(_finite(value), indent=indent, ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def restored(kind: Any, value: Any) -> Any:
    """Build an object of a type, by the types of its fields: JSON has null for NaN, and lists for tuples and arrays.

    What a later version has added to a record is dropped.

    Examples
    --------
    >>> restored(tuple[float, ...], [0.5, None])
    (0.5, nan)
    """
    import numpy as np  # here, since commands that need no arrays import this file

    of = get_args(kind)
    if get_origin(kind) is UnionType:  # of a type and None
        return None if value is None else restored(of[0], value)
    if get_origin(kind) is tuple:
        return tuple(restored(of[0], item) for item in value)
    if get_origin(kind) is np.ndarray:
        return np.array(value, dtype=get_args(of[1])[0])
    if is_dataclass(kind) or hasattr(kind, "_fields"):
        fields = get_type_hints(kind)
        record = value if isinstance(value, Mapping) else dict(zip(fields, value, strict=False))
        return kind(**{name: restored(fields[name], record[name]) for name in fields if name in record})
    return math.nan if kind is float and value is None else value


@dataclass(frozen=True)
class OutputFolder:
    """A kind of folder that the package writes."""

    name: str  # the file in it with its card, which lists its files
    what: str  # its contents, for errors: results, sweeps
    folders: tuple[str, ...] = ("figures",)  # the folders in it
    format: int = 2  # version of the form of the file with the card

    def check(self, folder: str | Path, inputs: Iterable[Path] = ()) -> None:
        """Raise before any work is done if a folder has files that are not of an earlier result, or has an input."""
        folder = Path(folder)
        if folder.exists() and not folder.is_dir():
            raise DataError(f"{folder} is a file; {self.what} are written to a folder")
        if Path.cwd().is_relative_to(os.path.realpath(folder)):
            raise DataError(
                f"{folder} is or contains the current folder, which cannot be replaced as a whole; name another"
            )
        for path in inputs:
            if Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
                raise DataError(f"{path} lies in {folder}, which would be replaced as a whole; name another folder")
        foreign = sorted(set(self.files(folder)) - set(self._listed(folder)))
        if foreign:
            raise DataError(
                f"{folder} contains other files ({foreign[0]}); choose a new folder, or one with {self.what} alone"
            )

    def files(self, folder: Path) -> list[str]:
        """List everything in a folder, except the folders of this kind."""
        own = [folder / name for name in self.folders]
        paths = (path for path in folder.rglob("*") if path.is_symlink() or path not in own)
        return [path.relative_to(folder).as_posix() for path in paths]

    def _listed(self, folder: Path) -> list[str]:
        """Return the files on the card of an earlier folder; none if there is no card."""
        try:
            files = json.loads((folder / self.name).read_text(encoding="utf-8"))["card"]["files"]
            return [str(file) for file in files]
        except (OSError, ValueError, KeyError, TypeError):
            return []

    @contextmanager
    def whole(self, folder: str | Path) -> Iterator[Path]:
        """Yield a folder to fill, as `replaced` does, after `check`."""
        self.check(folder)
        with replaced(Path(folder)) as partial:
            for name in self.folders:
                (partial / name).mkdir()
            yield partial

    def write_card(self, folder: Path, card: Mapping[str, Any], content: Mapping[str, Any]) -> None:
        """Write the file with the card, which lists all other files, so it is written last.

        It has the SHA-256 of the Parquet files, and under its own name that of its other content.
        """
        card = {**card, "files": sorted({*self.files(folder), self.name})}
        whole = _finite({"format": self.format, "card": card, **content})
        digests = {path.name: file_digest(path) for path in sorted(folder.glob("*.parquet"))}
        digests[self.name] = _digest(whole)
        (folder / self.name).write_text(strict_json({**whole, "sha256": digests}, indent=1), encoding="utf-8")

    def read_card(self, folder: Path, remedy: str) -> dict[str, Any]:
        """Read the file with the card; a `DataError` if it is missing, of another format, or was changed."""
        path = folder / self.name
        recover(folder)
        if not path.is_file():
            raise DataError(f"{folder} is not a folder of {self.what}; it has no {self.name}")
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            content = content if isinstance(content, dict) else {}
            digests = content.pop("sha256", None)
            unchanged = isinstance(digests, dict) and digests.get(self.name) == _digest(content)
        except (OSError, ValueError, RecursionError) as error:
            raise DataError(f"{path} is not JSON that can be read: {remedy}") from error
        require_format(content.get("format", 0), self.format, str(path), remedy)
        if not unchanged:
            raise _changed(path, remedy)
        return {**content, "sha256": digests}


def _digest(content: Any) -> str:
    """Return the SHA-256 of what JSON has, whatever its spaces and line breaks."""
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def file_digest(path: str | Path) -> str:
    """Return the SHA-256 of a file."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def require_unchanged(path: Path, digest: str, remedy: str) -> None:
    """Raise a `DataError` for a file that is missing or has another SHA-256."""
    require_file(path)
    if file_digest(path) != digest:
        raise _changed(path, remedy)


def _changed(path: Path, remedy: str) -> DataError:
    return DataError(f"{path} was changed after it was written: {remedy}")


@contextmanager
def replaced(folder: Path) -> Iterator[Path]:
    """Yield a folder to fill, which replaces an earlier one only if there was no error."""
    whole = Path(os.path.realpath(folder))
    hidden = _hidden(whole)
    try:
        whole.parent.mkdir(parents=True, exist_ok=True)
        clear_partial(whole.parent, [whole.name])
        with _claimed(hidden / LOCK):
            try:
                (hidden / NEW).mkdir()
                yield hidden / NEW
                # The earlier folder is kept until the new one is in place.
                with suppress(FileNotFoundError):
                    whole.rename(hidden / OLD)
                (hidden / NEW).rename(whole)
            finally:
                _settle(whole, hidden)
    except OSError as error:
        if str(hidden) in str(error):
            message = str(error).replace(str(hidden / NEW), str(folder)).replace(str(hidden), str(folder))
        elif error.errno is not None and error.filename is None:  # as that of a full disk
            message = f"{folder} could not be written: {error.strerror}"
        else:
            raise
        raise OSError(message) from error
    finally:
        with suppress(OSError):
            hidden.rmdir()


def _settle(folder: Path, hidden: Path) -> None:
    """Put an earlier folder back if it was not replaced, and remove what is no longer needed."""
    with suppress(OSError):
        if not folder.exists():
            (hidden / OLD).rename(folder)
    if folder.exists():
        shutil.rmtree(hidden / OLD, ignore_errors=True)
    shutil.rmtree(hidden / NEW, ignore_errors=True)


# --- what killed processes have left ----------------------------------------------------------------------------------


def clear_partial(folder: Path, names: Iterable[str] | None = None) -> None:
    """Remove hidden files of killed processes, for some names or all; put back folders that they had moved."""
    what = ".+" if names is None else "|".join(map(re.escape, names))
    left = re.compile(rf"\.({what}){PARTIAL}")
    for path in folder.glob(".*.part"):
        if match := left.fullmatch(path.name):
            with suppress(OSError):  # another process is clearing, too, or this one may not
                _clear(path, folder / match[1])


def recover(folder: Path) -> None:
    """Put a folder back that is missing because a process was killed while replacing it."""
    if not folder.exists():
        whole = Path(os.path.realpath(folder))
        clear_partial(whole.parent, [whole.name])


def _clear(path: Path, whole: Path) -> None:
    """Remove a hidden file or folder, unless its writer still has the lock."""
    is_folder = path.is_dir() and not path.is_symlink()
    lock_file = path / LOCK if is_folder else path
    handle = os.open(lock_file, os.O_RDWR | (os.O_CREAT if is_folder else 0))
    try:
        if lock(handle) and _is_open(handle, lock_file):
            if is_folder:
                _settle(whole, path)
            lock_file.unlink()
            if is_folder:
                path.rmdir()
    finally:
        os.close(handle)


def lock(handle: int, *, exclusive: bool = True, wait: bool = False) -> bool | None:
    """Lock an open file for this process, until it is closed, on all machines that see it.

    Returns False if another process has the lock, and None if the system or the disk has no locks.
    """
    try:
        import fcntl

        fcntl.flock(handle, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return None
    return True


def open_locked(path: Path, *, make_folder: bool = True, exclusive: bool = True, wait: bool = False) -> int | None:
    """Open a file, which is made if needed, and lock it; None if another process has the lock.

    Tries again if another process removes the file, or its folder, before it is locked.
    """
    while True:
        try:
            if make_folder:
                path.parent.mkdir(exist_ok=True)
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:
            if make_folder and path.parent.parent.is_dir():
                continue
            raise
        free = lock(handle, exclusive=exclusive, wait=wait) is not False
        if free and _is_open(handle, path):
            return handle
        os.close(handle)
        if not free:
            return None


@contextmanager
def _claimed(path: Path) -> Iterator[Path]:
    """Make a hidden file, locked until it is renamed or removed; the file `LOCK` also makes its hidden folder."""
    handle = open_locked(path, make_folder=path.name == LOCK, wait=True)
    assert handle is not None
    if os.name != "posix":  # Windows renames no open file
        os.close(handle)
    try:
        yield path
    finally:
        with suppress(OSError):
            path.unlink()
        if os.name == "posix":
            os.close(handle)


def _hidden(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")


def _is_open(handle: int, path: Path) -> bool:
    """Return whether an open file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False
