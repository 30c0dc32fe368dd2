"""`twoafc report`: a folder of results as one page."""

from __future__ import annotations

from pathlib import Path

from twoafc.cli.show import Switch


def report(results: Path, *, images: Path | None = None, quiet: Switch = False) -> None:
    """Write report.html into a folder of results: one file, to open in any browser, print or send.

    Parameters
    ----------
    results
        Folder that `twoafc evaluate` has written.
    images
        Folder of the images that the tested table names, to show the most surprising triplets.
    quiet
        Print nothing but errors.
    """
    from twoafc import report as pages
    from twoafc.jnd import report as pairs

    if (results / "pairs.parquet").is_file():
        if images is not None:
            raise ValueError("--images shows triplets; these are results of pairs")
        path = pairs.write(results)
    else:
        path = pages.write(results, images)
    if not quiet:
        print(f"Report: {path} ({path.stat().st_size / 1000:,.0f} kB)")
