"""Figures as files: the same bytes from the same figure, whole or not at all."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twoafc.files import BREAKS, legible, whole_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 300
"""Dots per inch, of pictures and of what is a picture within a drawing."""
METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}
"""What would make two files of one figure differ: the time, and matplotlib's version."""


def save(figure: Figure, *paths: str | Path, dpi: float = DPI) -> None:
    """Write a figure as SVG, PDF or PNG, by the ending of each path; it is laid out once for all of them.

    Text stays text in SVG, which is for screens: it can be searched and read aloud, and letters that the font here
    lacks show all the same. PDF, for print, has its fonts within, as TrueType, and so looks the same everywhere.
    """
    kinds = {path: path.suffix[1:].lower() for path in map(Path, paths)}
    for path, kind in kinds.items():
        if kind not in METADATA:
            raise ValueError(f"figures are written as {', '.join(METADATA)}; found {path.name!r}; name it so")
    layout = figure.get_layout_engine()
    try:
        for path, kind in kinds.items():
            _write(figure, path, kind, dpi)
            figure.set_layout_engine("none")
    finally:
        figure.set_layout_engine(layout)


def _write(figure: Figure, path: Path, kind: str, dpi: float) -> None:
    with whole_file(path) as partial:
        with _same_bytes():
            figure.savefig(partial, format=kind, dpi=dpi, metadata=METADATA[kind])
        if kind == "svg":
            # Matplotlib writes what a name holds, which may be no XML.
            written = partial.read_text(encoding="utf-8")
            if (shown := legible(written, keep=BREAKS)) != written:
                partial.write_text(shown, encoding="utf-8")


def svg(figure: Figure, *, dpi: float = 150) -> str:
    """Give a figure as the text of an SVG element, to stand in a page.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> svg(Figure(figsize=(1, 1)))[:4]
    '<svg'
    """
    made = io.StringIO()
    with _same_bytes():
        figure.savefig(made, format="svg", dpi=dpi, metadata=METADATA["svg"])
    text = made.getvalue()
    return legible(text[text.index("<svg") :], keep=BREAKS)


@contextmanager
def _same_bytes() -> Iterator[None]:
    import matplotlib

    settings: Any = {"svg.hashsalt": "twoafc", "svg.fonttype": "none", "pdf.fonttype": 42}
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        # Matplotlib's own font lacks some scripts; a box in a title is no reason to trouble the user.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield
