"""`twoafc report`: a folder of results as one page."""

from __future__ import annotations

from pathlib import Path

from twoafc.cli.options import Json, Quiet
from twoafc.cli.show import printed, say


def report(results: Path, *, images: Path | None = None, json: Json = False, quiet: Quiet = False) -> None:
    """Write report.html into a folder of results: one file, to open in any browser, print or send.

    Parameters
    ----------
    results
        Folder that `twoafc evaluate` has written.
    images
        Folder of the images that the tested table names, to show triplets with their images.
    """
    from twoafc.results import REPORT, Pictures, Result, missing_images

    result = Result.read(results)
    notes = []
    if images is not None:
        notes = missing_images(result.rows.iter_rows(named=True), Pictures(images))
    path = result.report(results / REPORT, images)
    if not printed(
        {"report": str(path), "bytes": path.stat().st_size} | ({"notes": notes} if notes else {}), json, quiet
    ):
        say(*(f"note: {note}" for note in notes))
        print(f"Report: {path} ({path.stat().st_size / 1000:,.0f} kB)")
