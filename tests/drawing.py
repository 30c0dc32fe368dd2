"""Figures made cheaply, or not at all, where it is not they that are tested."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from twoafc.plots import style
from twoafc.results import Figures
from twoafc.results.report import page

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def panel() -> Axes:
    """Axes of the width of a column of print."""
    from matplotlib.figure import Figure

    return Figure(figsize=(3.3, 2.6)).subplots()


def svg(figure: Figure) -> str:
    """The figure as the text of an SVG file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "figure.svg")
        style.save(figure, path, dpi=150)
        return path.read_text(encoding="utf-8")


AS_SAVED = style.reproducible
"""How figures are really written."""


@contextmanager
def quick_pdf() -> Iterator[None]:
    """Put fonts into PDF glyph by glyph: as TrueType, which `plots.save` takes, they cost more than all the drawing."""
    import matplotlib

    real = style.reproducible

    @contextmanager
    def quick() -> Iterator[None]:
        with real(), matplotlib.rc_context({"pdf.fonttype": 3}):
            yield

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(style, "reproducible", quick)
        yield


AS_SHOWN = page.report_page
"""The page of a result, where it is otherwise left empty."""


@contextmanager
def plain_results() -> Iterator[None]:
    """Write folders of results without figures and with an empty page, for tests of what is made of the rest."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figures, "files", lambda _: {})
        patch.setattr("twoafc.results.report.page.report_page", lambda *_: "")
        yield
