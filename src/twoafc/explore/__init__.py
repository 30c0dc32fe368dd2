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

    The options are those of `twoafc explore`.
    """
    require("flask", extra="explore")
    from twoafc.explore.data import Explored
    from twoafc.explore.server import application, listen
    from twoafc.results import Pictures, Result

    result = Result.read(folder)
    pictures = None if images is None else Pictures(Path(images))
    explored = Explored(result, None if train is None else Path(train))
    return listen(application(explored, pictures), port)
