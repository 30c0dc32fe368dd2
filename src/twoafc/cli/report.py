"""`twoafc report`: a folder of results as one page."""

from __future__ import annotations

from pathlib import Path

from twoafc.cli.show import Switch, print_json


def report(results: Path, *, images: Path | None = None, json: Switch = False, quiet: Switch = False) -> None:
    """Write report.html into a folder of results: one file, to open in any browser, print or send.

    Parameters
    ----------
    results
        Folder that `twoafc evaluate` has written.
    images
        Folder of the images that the tested table names, to show triplets with their images.
    json
        Print JSON: where the page is, and how large.
    quiet
        Print nothing but errors, and JSON where it is asked for.
    """
    from twoafc.results import Result, write_report

    path = write_report(Result.read(results), images)
    if json:
        print_json({"report": str(path), "bytes": path.stat().st_size})
    elif not quiet:
        print(f"Report: {path} ({path.stat().st_size / 1000:,.0f} kB)")
