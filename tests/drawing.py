"""Figures made cheaply, or not at all, where it is not they that are tested."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from twoafc import results
from twoafc.plots import saving

AS_SAVED = saving._same_bytes
"""How figures are really written."""


@contextmanager
def quick_pdf() -> Iterator[None]:
    """Put fonts into PDF glyph by glyph: as TrueType, which `plots.save` takes, they cost more than all the drawing."""
    import matplotlib

    real = saving._same_bytes

    @contextmanager
    def same_bytes() -> Iterator[None]:
        with real(), matplotlib.rc_context({"pdf.fonttype": 3}):
            yield

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(saving, "_same_bytes", same_bytes)
        yield


@contextmanager
def plain_results() -> Iterator[None]:
    """Write folders of results without figures and with an empty page, for tests of what is made of the rest."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(results, "_draw", lambda *_: None)
        patch.setattr(results.report, "page", lambda *_: "")
        yield
