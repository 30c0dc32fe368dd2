"""The explorer: results in the browser, one triplet at a time or all at once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from twoafc.errors import require

if TYPE_CHECKING:
    from werkzeug.serving import BaseWSGIServer


def explorer(
    folder: str | Path, *, images: str | Path | None = None, train: str | Path | None = None, port: int | None = None
) -> BaseWSGIServer:
    """Make a server of the explorer of a folder of results; its `serve_forever` serves on 127.0.0.1 until interrupted.

    Parameters
    ----------
    folder : path
        Written by `twoafc evaluate`.
    images : path, optional
        Folder of the images that the table names; nothing outside it is read.
    train : path, optional
        The training table, for fits with other settings; by default it is looked for in and beside the folder.
    port : int, optional
        By default the first free one from 8050 on.
    """
    require("flask", extra="explore")
    from twoafc.explore.data import Explored
    from twoafc.explore.server import application, listen
    from twoafc.results import Pictures, Result

    result = Result.read(folder)
    pictures = None if images is None else Pictures(Path(images))
    explored = Explored(result, None if train is None else Path(train))
    return listen(application(explored, pictures), port)
