"""What is finished of a run: a folder of small files beside the table, each written whole, and a lock on it.

A part holds values of items: the column ``item`` and, for each distance and slot, ``NAME_0``, ``NAME_1``. It says which
data its items are of and what each distance was measured with; only parts that fit are used. The column ``traces``
holds the traces of each item's images.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twoafc.errors import DataError
from twoafc.measurement.candidates import require_joinable, require_same
from twoafc.measurement.files import PARTIAL, write_whole
from twoafc.measurement.traces import Traces

Values = dict[str, NDArray[np.float64]]
"""By distance an array (items, slots); NaN where a value is not known."""
Maker = dict[str, str]
KEY = "twoafc"
NAMES = re.compile(r"\d{9,}-[0-9a-f]{12}\.parquet")
"""What parts are called."""
OURS = re.compile(rf"{NAMES.pattern}|\.{NAMES.pattern}{PARTIAL}|\.lock(-\d+-\d+)?")
"""Likewise all that runs leave in their folder."""


@dataclass(frozen=True, eq=False)
class Parts:
    """The folder of parts of one table.

    Parameters
    ----------
    folder : Path
        ``TABLE.parts``.
    data : str
        Fingerprint of the data set and of the plan: what the items' numbers mean.
    identities : dict of distance to identity
        What each distance is measured with now; `read` adds those that it finds beside them.
    now : mapping of distance to list
        The machines and the libraries that measure now.
    makers : dict of distance to list
        Those that measured what is known.
    traces : Traces
        The files that were measured.
    notes : list of str
        What was found to be told.
    """

    folder: Path
    data: str
    identities: dict[str, Mapping[str, Any]]
    now: Mapping[str, list[Maker]]
    makers: dict[str, list[Maker]]
    traces: Traces
    notes: list[str] = field(default_factory=list)

    def write(self, items: NDArray[np.int64], values: Mapping[str, NDArray[np.float64]]) -> None:
        """Write a part with the values of some items; those of an item that are not known are NaN."""
        columns = {"item": pl.Series(items), "traces": pl.Series(self.traces.of(items))}
        for name, known in values.items():
            columns |= {f"{name}_{slot}": pl.Series(known[:, slot]) for slot in range(known.shape[1])}
        distances = {name: {"identity": dict(self.identities[name]), "made": self.makers[name]} for name in values}
        told = {"data": self.data, "distances": distances}
        name = f"{items[0]:09d}-{uuid.uuid4().hex[:12]}.parquet"
        write_whole(pl.DataFrame(columns), self.folder / name, {KEY: json.dumps(told)})

    def credit(self, names: Iterable[str]) -> None:
        """Enter who measures now among the makers of some distances."""
        for name in names:
            self.makers[name] = joined(self.makers.get(name, []), self.now[name])

    def read(self, items: int, slots: int) -> Values:
        """Read all that is finished, also of distances that are not asked for now; a damaged part is removed."""
        values: Values = {}
        for path in self._paths():
            try:
                frame, told = pl.read_parquet(path), json.loads(pl.read_parquet_metadata(path)[KEY])
                number, traces = frame["item"].to_numpy(), frame["traces"].to_numpy()
                known = {
                    name: np.stack([frame[f"{name}_{slot}"].to_numpy() for slot in range(slots)], axis=1)
                    for name in told["distances"]
                }
                fits = told["data"] == self.data
            except FileNotFoundError:
                continue  # a run on another machine has just put the table together
            except (pl.exceptions.PolarsError, ValueError, KeyError, TypeError):
                self.notes.append(f"{path.name} in {self.folder} was damaged; what it held is measured again")
                path.unlink(missing_ok=True)
                continue
            if not fits:
                raise DataError(
                    f"{self.folder} holds parts of other data than these; finish that run, or remove the folder"
                )
            self.traces.enter(number, traces)
            for name, made in told["distances"].items():
                identity = made["identity"]
                if name in self.now:
                    require_joinable(name, self.folder, identity)
                require_same(name, self.folder, self.identities.setdefault(name, identity), identity)
                self.makers[name] = joined(self.makers.get(name, []), made["made"])
                _merge(values.setdefault(name, np.full((items, slots), np.nan)), number, known[name])
        return values

    def replace(self, items: NDArray[np.int64], values: Mapping[str, NDArray[np.float64]]) -> None:
        """Give up all parts, now that the table has their values, but for those of some items; then the folder."""
        old = self._paths()
        if len(items):
            self.write(items, values)
        for path in old:
            path.unlink(missing_ok=True)
        if not len(items):
            _clear(self.folder)

    def _paths(self) -> list[Path]:
        return [path for path in sorted(self.folder.glob("*.parquet")) if NAMES.fullmatch(path.name)]


def joined(makers: list[Maker], others: list[Maker]) -> list[Maker]:
    """Add makers to others, each once."""
    return [*makers, *(maker for maker in others if maker not in makers)]


def _merge(values: NDArray[np.float64], items: NDArray[np.int64], known: NDArray[np.float64]) -> None:
    """Put in what is known; of a value measured twice the first stands."""
    here = values[items]
    values[items] = np.where(np.isnan(here), known, here)


class Lock:
    """A lock on the folder of parts that dies with its process, however that ends.

    Parameters
    ----------
    folder : Path
        Made if it is not there.
    shard : str or None
        One of several that may work at once, such as ``2/8``; a run without one works alone.
    """

    def __init__(self, folder: Path, shard: str | None = None) -> None:
        self.folder, self.alone = folder, shard is None
        names = [("lock", shard is None)] + ([(f"lock-{shard.replace('/', '-')}", True)] if shard else [])
        self.files: list[int] = []
        try:
            for name, alone in names:
                self.files.append(_locked(folder, name, alone))
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Let others in; a folder without parts goes, unless other shards are at work there."""
        if self.alone and self.files and not any(NAMES.fullmatch(path.name) for path in self.folder.glob("*.parquet")):
            _clear(self.folder)
        for file in self.files:
            os.close(file)
        self.files.clear()


def _locked(folder: Path, name: str, alone: bool) -> int:
    """Open a file and lock it; a file that was removed meanwhile locks nothing."""
    while True:
        try:
            folder.mkdir(exist_ok=True)
            file = os.open(folder / f".{name}", os.O_RDWR | os.O_CREAT, 0o644)
        except FileNotFoundError:
            continue
        except OSError as error:
            rule = "what is finished is kept in a folder beside the table"
            raise OSError(f"{rule}; {folder} cannot be written ({error.strerror}); name another table") from error
        try:
            _flock(file, alone)
            if os.path.samestat(os.fstat(file), os.stat(folder / f".{name}")):
                return file
        except FileNotFoundError:
            pass
        except BlockingIOError as error:
            os.close(file)
            raise OSError(f"another run is at work on {folder}; wait for it, or name another table") from error
        os.close(file)


def _clear(folder: Path) -> None:
    """Remove what runs leave in a folder of parts, and the folder unless it holds something else."""
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if OURS.fullmatch(path.name):
                path.unlink(missing_ok=True)
        folder.rmdir()


def _flock(file: int, alone: bool) -> None:
    try:
        import fcntl
    except ImportError:  # Windows: two runs at once are the user's own care
        return
    try:
        fcntl.flock(file, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        pass  # a file system without locks
