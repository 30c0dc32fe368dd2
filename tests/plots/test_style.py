"""Figures as files: reproducible, with text as text, and complete or not written at all."""

from __future__ import annotations

import resource
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from drawing import AS_SAVED
from twoafc import plots
from twoafc.plots import style
from twoafc.reproduce import worked_example


@pytest.fixture(autouse=True)
def _as_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(style, "reproducible", AS_SAVED)


def small(name: str = "距離") -> Figure:
    P, density = np.array([[0.5, 0.1], [0.9, 0.5]]), np.array([[1.0, 0.0], [1.0, 0.0]])
    figure = plots.surfaces({name: P}, density={name: density})
    assert figure is not None
    return figure


@pytest.mark.parametrize("ending", ["svg", "pdf", "png", "SVG"])
def test_the_same_figure_is_the_same_file(ending: str, tmp_path: Path) -> None:
    for name in ("one", "two"):
        plots.save(small(), tmp_path / f"{name}.{ending}")
    one, two = ((tmp_path / f"{name}.{ending}").read_bytes() for name in ("one", "two"))
    assert one == two
    assert len(list(tmp_path.iterdir())) == 2
    if ending == "pdf":
        # Printers refuse figures whose fonts are not within, or of type 3.
        assert b"/FontFile2" in one
        assert b"/Type3" not in one


def test_text_stays_text_in_svg_whatever_its_script(tmp_path: Path) -> None:
    plots.save(small(), tmp_path / "figure.svg")
    text = (tmp_path / "figure.svg").read_text(encoding="utf-8")
    assert ">距離</text>" in text
    assert ">d0 (uniformised)</text>" in text
    assert text.startswith("<?xml")


def test_settings_of_the_user_stay_as_they_are(tmp_path: Path) -> None:
    before = dict(matplotlib.rcParams)
    plots.save(small(), tmp_path / "figure.svg")
    assert dict(matplotlib.rcParams) == before


class Broken(Text):
    def draw(self, *_: object, **__: object) -> None:
        raise OSError("No space left on device")


def test_a_file_is_whole_or_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "figure.svg"
    plots.save(small(), path)
    before = path.read_bytes()
    figure = Figure()
    figure.add_artist(Broken(0, 0, "x"))
    with pytest.raises(OSError, match="No space left"):
        plots.save(figure, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["figure", "figure.eps"])
def test_three_kinds_of_file_are_written(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=rf"^figures are written as svg, pdf, png; found '{name}'; change its suffix$"):
        plots.save(small(), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_no_type_is_too_small_for_print() -> None:
    figure = Figure(figsize=(6.9, 3.7), layout="constrained")
    plots.worked_example(worked_example(), figure.subplots(2, 4).ravel())
    row = plots.ForestRow("a", 1.0, 0.5, 1.5, "a")
    forest = plots.forest([row], Figure().subplots(), label="NLL", reference={"floor": 2.0}).figure
    line = np.arange(3.0)
    curve = plots.SweepCurve(line, line, line, line)
    sweep = plots.sweep({"a": curve}, Figure().subplots(), label="x", measure="y", chosen=1, automatic={"a": 1}).figure
    counts = [{"j": j, "nll": 1.0, "observed": j == 1} for j in range(3)]
    card = plots.disagreement_card([None] * 3, {"a": {"P": 0.5, "counts": counts}}, title="t", right="")
    for drawn in (small("a"), figure, forest, sweep, card):
        drawn.draw_without_rendering()
        sizes = [text.get_fontsize() for text in drawn.findobj(Text) if text.get_text()]
        assert min(sizes) >= 7


@pytest.mark.parametrize(("panels", "width"), [(1, 3.35), (2, 3.35), (3, 7.0), (12, 7.0)])
def test_figures_are_as_wide_as_one_column_of_print_or_two(panels: int, width: float) -> None:
    P = np.linspace(0, 1, 25).reshape(5, 5)
    figure = plots.surfaces({f"a_distance_with_a_long_name_{k}": P for k in range(panels)})
    assert figure is not None
    assert figure.get_figwidth() == width
    figure.draw_without_rendering()
    shown = figure.get_tightbbox()
    assert shown.x0 >= 0
    assert shown.x1 <= width
    assert shown.y0 >= 0
    assert shown.y1 <= figure.get_figheight()
    titles = [ax.title.get_window_extent() for ax in figure.axes[:panels]]
    assert not any(one.overlaps(other) for k, one in enumerate(titles) for other in titles[k + 1 :])


@pytest.mark.parametrize("kind", ["svg", "pdf", "png"])
def test_a_full_disk_is_an_error_of_the_system(tmp_path: Path, kind: str) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(OSError, match=f"a.{kind} could not be written: File too large$"):
            plots.save(small(), tmp_path / f"a.{kind}")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []
