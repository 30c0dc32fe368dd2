"""The explorer: results in the browser, one triplet at a time or all at once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from twoafc.errors import DataError, require
from twoafc.folder import Results
from twoafc.pictures import Pictures

if TYPE_CHECKING:
    from werkzeug.serving import BaseWSGIServer


def explorer(
    folder: str | Path, *, images: str | Path | None = None, train: str | Path | None = None, port: int | None = None
) -> BaseWSGIServer:
    """Make a server of the explorer of a folder of results; its `serve_forever` serves on 127.0.0.1 until interrupted.

    Parameters
    ----------
    folder : path
        What `twoafc evaluate` has written.
    images : path, optional
        Folder in which the images are looked for, by the names that the table has; nothing outside it is read.
    train : path, optional
        The training table, for fits with other settings; by default it is looked for in and beside the folder.
    port : int, optional
        By default the first free one from 8050 on.
    """
    require("dash", extra="explore")
    if (Path(folder) / "pairs.parquet").is_file():
        raise DataError(f"triplets can be explored; {folder} holds results of pairs, which twoafc report shows")
    from twoafc.explore.data import Explored
    from twoafc.explore.server import application, listen

    pictures = None if images is None else Pictures(Path(images))
    explored = Explored(Results.read(folder), None if train is None else Path(train))
    return listen(application(explored, pictures), port)
