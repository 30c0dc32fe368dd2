"""Recognise the layout of a data set and open it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twoafc.datasets.bapps import JND, TWO_AFC, bapps_subsets, open_bapps, open_bapps_jnd
from twoafc.datasets.clic import ANSWERS, is_clic, open_clic
from twoafc.datasets.dataset import Dataset
from twoafc.datasets.nights import is_nights, open_nights
from twoafc.datasets.table import open_table
from twoafc.errors import DataError
from twoafc.files import require_file

Opener = Callable[..., Dataset]


def open_dataset(path: str | Path, **options: Any) -> Dataset:
    """Open a data set in any of the known layouts.

    A folder is BAPPS (``2afc`` or ``jnd``, a split or a subset of one), NIGHTS or CLIC; a file is the answers of CLIC,
    the data.csv of NIGHTS, or a table of image paths. If a folder has both ``2afc`` and ``jnd``, the first is opened.

    Parameters
    ----------
    path : str or Path
    **options
        Those of the layout's reader: `open_bapps` and `open_bapps_jnd` (split, M, progress), `open_nights` (split),
        `open_clic` and `open_table` (folder). Options that are None are ignored; ``progress`` is always accepted.
    """
    path = Path(path)
    opener, known = _opener(path), options_of(path)
    given = {name: value for name, value in options.items() if value is not None}
    unknown = [name for name in given if name not in (*known, "progress")]
    if unknown:
        layout = opener.__name__.removeprefix("open_")
        raise ValueError(f"{path}, in the layout {layout}, takes no option {unknown[0]}; it takes {', '.join(known)}")
    return opener(path, **{name: value for name, value in given.items() if name in known})


def options_of(path: str | Path) -> list[str]:
    """List the options of the reader for a data set."""
    parameters = inspect.signature(_opener(Path(path))).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind == parameter.KEYWORD_ONLY]


def _opener(path: Path) -> Opener:
    if path.is_file():
        text = path.name.lower().endswith((".csv", ".tsv", ".txt"))
        return open_clic if text and is_clic(path) else open_nights if text and is_nights(path) else open_table
    if not path.exists():
        raise DataError(f"no such file or folder: {path}")
    if not path.is_dir():
        require_file(path)
    if (path / "data.csv").is_file() and is_nights(path / "data.csv"):
        return open_nights
    if (path / ANSWERS).is_file():
        return open_clic
    if bapps_subsets(path, TWO_AFC):
        return open_bapps
    if bapps_subsets(path, JND):
        return open_bapps_jnd
    raise DataError(
        f"no data set in {path}; expected BAPPS (folders {', '.join(TWO_AFC.folders)}, or {', '.join(JND.folders)}), "
        f"NIGHTS (data.csv), CLIC ({ANSWERS}), or a table: give its file"
    )
