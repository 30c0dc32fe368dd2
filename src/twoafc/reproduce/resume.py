"""What is finished, kept in plain files, so that a run that was stopped goes on and nothing is done twice."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from twoafc import plots
from twoafc.datasets import Dataset, without_anchors
from twoafc.errors import DataError
from twoafc.evaluation import Progress
from twoafc.kept import written
from twoafc.measurement import clear_partial, write_text
from twoafc.plainjson import strict_json

CARD = "run.json"
OWN = frozenset({CARD, "index.html", "data", "results", "experiments", "tables", "figures", "synthetic"})
"""All that a folder of this command's holds."""
SETS = "sets"
"""Where the card says which data sets the folder has, and from which folders they are."""


def key_of(*parts: Any) -> str:
    """Digest what a result depends on.

    Examples
    --------
    >>> key_of({"a": 1}) == key_of({"a": 1}), key_of({"a": 1}) == key_of({"a": 2})
    (True, False)
    """
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def remembered(path: Path, key: str, make: Callable[[], Any]) -> Any:
    """Read what was made from the same before, or make it and write it whole."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        if told["key"] == key:
            return told["made"]
    except (OSError, ValueError, KeyError, TypeError):
        pass
    made = make()
    path.parent.mkdir(parents=True, exist_ok=True)
    clear_partial(path.parent, [path.name])
    with written(path):
        write_text(strict_json({"key": key, "made": made}, indent=1), path)
    # What is read back next time is what is used this time.
    return json.loads(path.read_text(encoding="utf-8"))["made"]


def earlier(folder: Path) -> dict[str, Path]:
    """Name the data sets that a folder already has from earlier runs, and where each of them is."""
    try:
        told = json.loads((folder / CARD).read_text(encoding="utf-8"))
        return {str(name): Path(path) for name, path in told[SETS].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}  # whether it is a folder of an earlier run at all, `claim` will say


def claim(folder: Path, settings: dict[str, Any], inputs: Mapping[str, Path] | None = None) -> None:
    """Take a folder for a run: new, empty, or of an earlier run with the same settings; others are refused.

    Parameters
    ----------
    inputs : mapping of data set to its folder, optional
        Those of earlier runs too: the card names them.
    """
    inputs = inputs or {}
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder} is a file; the tables and figures are written to a folder")
    for path in inputs.values():
        if path.resolve().is_relative_to(folder.resolve()):
            raise DataError(f"{path} lies in {folder}, which is for what is made of it; name another folder")
    held = sorted(path.name for path in folder.iterdir() if not path.name.startswith(".")) if folder.is_dir() else []
    if held and CARD not in held:
        raise DataError(f"{folder} holds other files ({held[0]}); choose a new folder, or one of an earlier run")
    foreign = [name for name in held if name not in OWN]
    if foreign:
        raise DataError(f"{folder} holds other files ({foreign[0]}); choose a new folder, or take them out")
    if held:
        _same_settings(folder, settings)
        _clear(folder)
        _clear(folder / "results")
    folder.mkdir(parents=True, exist_ok=True)
    sets = {name: str(path.resolve()) for name, path in inputs.items()}
    if not held or sets != {name: str(path) for name, path in earlier(folder).items()}:
        told = {"command": "twoafc reproduce", "settings": settings, SETS: sets}
        with written(folder / CARD):
            write_text(strict_json(told, indent=1), folder / CARD)


def _same_settings(folder: Path, settings: dict[str, Any]) -> None:
    try:
        before = json.loads((folder / CARD).read_text(encoding="utf-8"))["settings"]
        changed = [name for name in settings if before[name] != settings[name]]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{folder / CARD} is not that of an earlier run; choose a new folder") from error
    if changed:
        name = changed[0]
        raise DataError(
            f"a folder is for one {name}; {folder} was made with {_told(before[name])}, this run has "
            f"{_told(settings[name])}: name another folder, or remove it"
        )


def _clear(folder: Path) -> None:
    """Remove half-filled folders whose processes are no more."""
    for path in (*folder.glob(".*.part"), *folder.glob(".*.old")):
        number = path.name.split(".")[-2]
        if path.is_dir() and number.isdecimal() and not _runs(int(number)):
            shutil.rmtree(path, ignore_errors=True)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        return True
    return True


def _told(value: Any) -> str:
    return "none" if value is None else str(value)


SHOWN = ("tables", "figures", "index.html")


def finish(folder: Path, key: str) -> None:
    """Note of a run that its tables, figures and page are written, and from what."""
    files = sorted(path.relative_to(folder).as_posix() for name in SHOWN for path in _files(folder / name))
    told = {"key": key_of(key, _own()), "files": files}
    write_text(strict_json(told, indent=1), folder / "experiments" / "written.json")


def is_finished(folder: Path, key: str) -> bool:
    """Tell whether tables, figures and page stand as they would be written now."""
    try:
        told = json.loads((folder / "experiments" / "written.json").read_text(encoding="utf-8"))
        return told["key"] == key_of(key, _own()) and all((folder / name).is_file() for name in told["files"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else list(path.iterdir())


def _own() -> str:
    """Digest the files that say how it is written and drawn."""
    here = Path(__file__).parent
    files = [path for folder in (here, Path(plots.__file__).parent) for path in folder.iterdir() if path.is_file()]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(files))).hexdigest()


def rid_of_anchors(data: Dataset, path: Path, *, progress: Progress | None = None) -> Dataset:
    """Leave out anchors, as `without_anchors` does; which they are is kept, since every image must be read to know."""

    def find() -> dict[str, Any]:
        rest = without_anchors(data, progress=progress)
        return {"kept": rest.table["triplet"].to_list(), "notes": list(rest.notes[len(data.notes) :])}

    found = remembered(path, key_of(data.fingerprint()), find)
    kept = data.where(data.table["triplet"].is_in(pl.Series(found["kept"], dtype=pl.String).implode()).to_numpy())
    return replace(kept, notes=(*data.notes, *found["notes"]))
