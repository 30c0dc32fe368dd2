"""Data sets of votes on images: each layout on disk has one reader here, and gives one `Dataset` in our orientation."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twoafc.datasets.anchors import without_anchors
from twoafc.datasets.bapps import JND, TWO_AFC, open_bapps, open_bapps_jnd, subsets
from twoafc.datasets.clic import ANSWERS, is_clic, open_clic
from twoafc.datasets.dataset import Dataset
from twoafc.datasets.nights import is_nights, open_nights
from twoafc.datasets.quadruples import read_quadruples
from twoafc.datasets.table import open_table
from twoafc.errors import DataError

__all__ = [
    "Dataset",
    "open_bapps",
    "open_bapps_jnd",
    "open_clic",
    "open_dataset",
    "open_nights",
    "open_table",
    "read_quadruples",
    "without_anchors",
]

Opener = Callable[..., Dataset]


def open_dataset(path: str | Path, **options: Any) -> Dataset:
    """Open a data set in whichever layout it has.

    A folder is BAPPS (``2afc`` or ``jnd``, a split or a subset of one), NIGHTS or CLIC; a file is the answers of CLIC,
    the data.csv of NIGHTS, or a table of images' paths. Where ``2afc`` and ``jnd`` lie side by side, the first is
    opened.

    Parameters
    ----------
    path : str or Path
    **options
        Those of the layout's reader: `open_bapps` and `open_bapps_jnd` (split, M, progress), `open_nights` (split),
        `open_clic` and `open_table` (folder). An option that is None is not given; ``progress`` may always be.
    """
    path = Path(path)
    opener, known = _opener(path), options_of(path)
    given = {name: value for name, value in options.items() if value is not None}
    foreign = [name for name in given if name not in (*known, "progress")]
    if foreign:
        layout = opener.__name__.removeprefix("open_")
        raise ValueError(f"{path}, in the layout {layout}, takes no option {foreign[0]}; it takes {', '.join(known)}")
    return opener(path, **{name: value for name, value in given.items() if name in known})


def options_of(path: str | Path) -> list[str]:
    """List the options of the reader that opens a data set."""
    parameters = inspect.signature(_opener(Path(path))).parameters
    return [name for name, each in parameters.items() if each.kind == each.KEYWORD_ONLY]


def _opener(path: Path) -> Opener:
    if path.is_file():
        text = path.name.lower().endswith((".csv", ".tsv", ".txt"))
        return open_clic if text and is_clic(path) else open_nights if text and is_nights(path) else open_table
    if not path.is_dir():
        raise DataError(f"no such file or folder: {path}")
    if (path / "data.csv").is_file() and is_nights(path / "data.csv"):
        return open_nights
    if (path / ANSWERS).is_file():
        return open_clic
    if subsets(path, TWO_AFC):
        return open_bapps
    if subsets(path, JND):
        return open_bapps_jnd
    raise DataError(
        f"no data set in {path}; expected BAPPS (folders {', '.join(TWO_AFC.folders)}, or {', '.join(JND.folders)}), "
        f"NIGHTS (data.csv), CLIC ({ANSWERS}), or a table: give its file"
    )
