"""Figures of scores, votes and studies, tested by the data that they draw."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.collections import FillBetweenPolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from drawing import panel, svg
from twoafc import planning, plots
from twoafc.plots import ForestRow, SweepCurve

NAN = float("nan")


def curve(x: list[float], value: list[float]) -> SweepCurve:
    middle = np.array(value)
    return SweepCurve(np.array(x), middle, middle - 0.1, middle + 0.2)


def lines_of(ax: Axes) -> dict[str, np.ndarray]:
    return {str(line.get_label()): np.column_stack(line.get_data()) for line in ax.lines if len(line.get_xdata()) > 2}


def test_a_sweep_draws_each_curve_with_its_band_from_left_to_right() -> None:
    curves = {"a": curve([0.1, 0.01, 1.0], [1.2, 1.5, 1.9]), "b": curve([0.01, 0.1, 1.0], [2.0, 2.1, 2.2])}
    ax = plots.sweep(curves, panel(), label="σ", measure="NLL", logarithmic=True)
    assert lines_of(ax)["a"].tolist() == [[0.01, 1.5], [0.1, 1.2], [1.0, 1.9]]
    bands = [each for each in ax.collections if isinstance(each, FillBetweenPolyCollection)]
    corners = {(x, round(y, 9)) for x, y in bands[0].get_paths()[0].vertices}
    assert corners == {(x, round(y + e, 9)) for x, y in lines_of(ax)["a"] for e in (-0.1, 0.2)}
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_xscale()) == ("σ", "NLL", "log")
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b"]


def test_curves_are_told_apart_without_colour() -> None:
    curves = {name: curve([1, 2, 3], [1, 1, 1]) for name in "abcdef"}
    ax = plots.sweep(curves, panel(), label="x", measure="y")
    looks = [str(line._dash_pattern) for line in ax.lines]
    assert len(set(looks)) == 6


@pytest.mark.parametrize("logarithmic", [False, True])
def test_the_automatic_value_stands_on_its_curve_and_the_papers_across(logarithmic: bool) -> None:
    curves = {"a": curve([0.01, 1.0, 100.0], [1.0, 2.0, 4.0])}
    ax = plots.sweep(
        curves, panel(), label="x", measure="y", chosen=1 / 44, automatic={"a": 0.1}, logarithmic=logarithmic
    )
    (mark,) = [line for line in ax.lines if line.get_marker() == "D" and len(line.get_xdata())]
    expected = 1.5 if logarithmic else 1 + 0.09 / 0.99
    assert (mark.get_xdata()[0], mark.get_ydata()[0]) == pytest.approx((0.1, expected))
    (upright,) = [line for line in ax.lines if list(line.get_xdata()) == [1 / 44, 1 / 44]]
    assert list(upright.get_ydata()) == [0, 1]
    assert [text.get_text() for text in ax.texts] == ["paper: 0.0227"]


def test_a_sweep_of_nothing_is_an_empty_figure() -> None:
    ax = plots.sweep({}, panel(), label="x", measure="y", logarithmic=True)
    ax.figure.draw_without_rendering()
    assert ax.get_legend() is None


def test_a_curve_without_an_interval_has_no_band() -> None:
    unknown = np.full(3, NAN)
    curves = {"a $1": SweepCurve(np.arange(3.0), np.arange(3.0), unknown, unknown), "b $2": curve([0, 1, 2], [1, 2, 3])}
    ax = plots.sweep(curves, panel(), label="x", measure="y")
    ax.figure.draw_without_rendering()
    assert len(lines_of(ax)) == 2


def test_an_automatic_value_belongs_to_a_curve() -> None:
    with pytest.raises(ValueError, match=r"^automatic must name curves, a, b; found 'c'$"):
        plots.sweep({"a": curve([1], [1]), "b": curve([1], [1])}, panel(), label="x", measure="y", automatic={"c": 1.0})


ROWS = [ForestRow("mid", 2.0, 1.5, 2.75), ForestRow("low", 1.0, 0.75, 1.25, "a"), ForestRow("high", 3.0, 2.5, 3.5, "b")]


def names(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.get_yticklabels()]


def bars_of(ax: Axes) -> list[list[list[float]]]:
    return [np.asarray(bars.lines[2][0].get_segments()[0]).tolist() for bars in ax.containers if bars.has_xerr]


@pytest.mark.parametrize(("better", "order"), [("lower", ["low", "mid", "high"]), ("higher", ["high", "mid", "low"])])
def test_the_best_score_stands_at_the_top(better: str, order: list[str]) -> None:
    ax = plots.forest(ROWS, panel(), label="score", better=better)  # type: ignore[arg-type]
    assert names(ax) == order
    assert ax.get_ylim() == (2.5, -0.5)
    shown = {row.name: row for row in ROWS}
    assert bars_of(ax) == [[[shown[name].low, y], [shown[name].high, y]] for y, name in enumerate(order)]
    assert ax.get_xlabel() == f"score ({better} is better)"
    letters = {text.get_text(): text.get_position()[1] for text in ax.texts}
    assert letters == {"a": order.index("low"), "b": order.index("high")}


def test_rows_of_a_group_stand_under_its_name() -> None:
    rows = [row._replace(group=group) for group in ("density", "spline") for row in ROWS]
    ax = plots.forest(rows, panel(), label="score")
    assert names(ax) == ["density", "low", "mid", "high", "spline", "low", "mid", "high"]
    assert [text.get_fontweight() == "bold" for text in ax.get_yticklabels()] == [True, False, False, False] * 2


def test_a_score_that_is_none_comes_last_without_a_point_and_one_without_error_has_no_bar() -> None:
    rows = [ForestRow("diverged", NAN, NAN, NAN), ForestRow("bare", 2.0, NAN, NAN), *ROWS[1:]]
    for better in ("lower", "higher"):
        ax = plots.forest(rows, panel(), label="score", better=better)  # type: ignore[arg-type]
        assert names(ax)[-1] == "diverged"
        assert len(ax.containers) == 3
        assert len(bars_of(ax)) == 2
        ax.figure.draw_without_rendering()


def test_scores_are_held_against_lines_and_bands() -> None:
    ax = plots.forest(ROWS, panel(), label="score", reference={"floor": 4.0, "ceiling": (0.25, 0.5)})
    (band,) = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    assert (band.get_x(), band.get_width()) == (0.25, 0.25)
    assert [list(line.get_xdata()) for line in ax.lines if len(line.get_xdata()) == 2] == [[4.0, 4.0]]
    at = {text.get_text(): text.xy for text in ax.texts if text.get_text() in ("floor", "ceiling")}
    assert at == {"floor": (4.0, 1), "ceiling": (0.375, 1)}
    low, high = ax.get_xlim()
    assert low < 0.25 < 4.0 < high


def test_names_of_references_that_are_close_stand_at_different_heights() -> None:
    reference = {"a": 1.0, "b": 1.1, "c": 1.2, "d": 9.0}
    ax = plots.forest(ROWS, panel(), label="score", reference=reference)
    heights = {text.get_text(): text.xyann[1] for text in ax.texts if hasattr(text, "xyann")}
    assert heights["a"] < heights["b"] < heights["c"]
    assert heights["d"] == heights["a"]


def test_an_empty_forest_is_drawn() -> None:
    assert names(plots.forest([], panel(), label="score")) == []


def test_a_forest_knows_two_directions() -> None:
    with pytest.raises(ValueError, match=r"^better must be lower or higher; found 'best'$"):
        plots.forest(ROWS, panel(), label="score", better="best")  # type: ignore[arg-type]


def bars(ax: Axes) -> dict[float, float]:
    return {round(b.get_x() + b.get_width() / 2, 9): b.get_height() for b in ax.patches if isinstance(b, Rectangle)}


@settings(max_examples=12, deadline=None)
@given(st.lists(st.integers(1, 12).flatmap(lambda M: st.tuples(st.integers(0, M), st.just(M))), min_size=1))
def test_bars_count_every_triplet_once(rows: list[tuple[int, int]]) -> None:
    n, M = np.array(rows).T
    for what, values in (("M", M), ("n", n)):
        heights = bars(plots.votes(n, M, panel(), what=what))  # type: ignore[arg-type]
        assert heights == dict(zip(*np.unique(values, return_counts=True), strict=True))
    share = bars(plots.votes(n, M, panel(), what="share"))
    assert sum(share.values()) == len(rows)
    step = 1 / M[0] if len(set(M)) == 1 else 0.1
    for middle, count in share.items():
        assert count <= np.sum(abs(n / M - middle) <= step / 2 + 1e-9)


def test_shares_of_a_fixed_M_stand_at_j_of_M() -> None:
    ax = plots.votes(np.array([0, 1, 1, 3]), np.array([3, 3, 3, 3]), panel(), what="share")
    assert bars(ax) == {0.0: 1, round(1 / 3, 9): 2, 1.0: 1}
    assert ax.get_ylabel() == "triplets"


def test_votes_counts_three_things() -> None:
    with pytest.raises(ValueError, match=r"^what must be M, n or share; found 'N'$"):
        plots.votes(np.array([0]), np.array([1]), panel(), what="N")  # type: ignore[arg-type]


def test_values_beyond_a_bars_ends_do_not_turn_it_inside_out() -> None:
    # An interval from a bootstrap may leave out its own value; a bar of negative length would be refused.
    ax = plots.forest([ForestRow("a", 1.0, 1.1, 1.2)], panel(), label="score")
    assert bars_of(ax) == [[[1.0, 0.0], [1.2, 0.0]]]
    assert not math.isnan(ax.get_xlim()[0])


def test_reliability_is_drawn_with_its_intervals() -> None:
    bins = [SimpleNamespace(P=0.2, share=0.3, low=0.1, high=0.45), SimpleNamespace(P=0.8, share=0.7, low=0.6, high=0.9)]
    ax = plots.reliability(bins, panel())
    (bars,) = ax.collections
    ends = [np.asarray(each) for each in bars.get_segments()]
    np.testing.assert_allclose(ends, [[[0.2, 0.1], [0.2, 0.45]], [[0.8, 0.6], [0.8, 0.9]]])
    assert not plots.reliability([], panel()).collections[0].get_segments()


def test_each_M_has_a_panel_with_every_n() -> None:
    rng = np.random.default_rng(0)
    M = rng.choice([1, 2, 7], 300, p=[0.9, 0.08, 0.02])
    n = rng.binomial(M, 0.4)
    axes = list(Figure().subplots(1, 4))
    plots.votes_by_M(n, M, axes)
    for ax, m in zip(axes, (1, 2, 7), strict=False):
        assert ax.get_title() == f"M = {m}"
        bars = ax.containers[0]
        assert [bar.get_x() + bar.get_width() / 2 for bar in bars] == [*range(m + 1)]
        assert [bar.get_height() for bar in bars] == [int(((m == M) & (n == j)).sum()) for j in range(m + 1)]
    # All triplets are on them, and a panel that is not needed is not drawn.
    assert sum(bar.get_height() for ax in axes[:3] for bar in ax.containers[0]) == 300
    assert not axes[3].axison


def test_with_fewer_panels_than_M_the_least_are_shown() -> None:
    (ax,) = Figure().subplots(1, 1, squeeze=False).ravel()
    plots.votes_by_M(np.array([0, 3]), np.array([2, 4]), [ax])
    assert ax.get_title() == "M = 2"


def test_functions_stand_in_panels_and_no_panel_is_empty() -> None:
    d = np.linspace(0, 2, 9)
    figure = plots.functions({f"part {k}": (d, k * d) for k in range(1, 6)})
    shown = [ax for ax in figure.axes if ax.get_visible()]
    assert [ax.get_title() for ax in shown] == [f"part {k}" for k in range(1, 6)]
    assert {ax.get_ylim() for ax in shown} == {(0.0, shown[0].get_ylim()[1])}


# Studies.


@pytest.mark.parametrize("label", ["power", "standard error, nats per vote"])
def test_the_level_that_is_asked_for_is_the_thick_line(label: str) -> None:
    T, M = np.geomspace(100, 10_000, 30), np.linspace(1, 10, 19)
    values = np.sqrt(T[:, None] * M) / 300 if label == "power" else 1 / np.sqrt(T[:, None] * M)
    level = 0.8 if label == "power" else 0.02
    ax = plots.study_contour(
        T, M, values, panel(), label=label, level=level, cost=T[:, None] * M, cost_label="votes", best=(500, 2)
    )
    solid, dashed = (each for each in ax.collections if hasattr(each, "levels"))
    thick = [one for one, width in zip(solid.levels, solid.get_linewidths(), strict=True) if width > 1]
    assert thick == [pytest.approx(level)]
    assert len(dashed.levels) >= 3
    assert ax.lines[-1].get_xydata().tolist() == [[500, 2]]
    assert ax.get_title() == f"{label} (solid), votes (dashed)"


def test_chosen_triplets_lie_on_the_pool() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 300))
    chosen = rng.random(300) < 0.1
    ax = plots.chosen_triplets(a, b, chosen, panel(), names=("ssim", "$x$"))
    pool, marked = (each.get_offsets() for each in ax.collections)
    assert len(pool) == 300
    assert np.allclose(marked, np.stack([a, b], axis=1)[chosen])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("P of x1 by ssim", "P of x1 by $x$")
    assert not ax.yaxis.label.get_parse_math()


def test_intervals_over_batches() -> None:
    votes, value = np.array([100.0, 200.0]), np.array([0.1, 0.05])
    ax = plots.batch_intervals(votes, value, value - 0.1, value + 0.1, panel(), label="a − b", margin=0.02)
    assert ax.lines[0].get_xydata().tolist() == [[100, 0.1], [200, 0.05]]
    assert sorted(line.get_ydata()[0] for line in ax.lines[1:]) == [-0.02, 0, 0.02]


def test_figures_of_plans_are_the_same_every_time() -> None:
    given = planning.Components(0.001, 0.02, 0.16, per_reference=5)
    drawn = [svg(planning.size(given, se=0.005).figure()) for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert "standard error, nats per vote (solid), votes (dashed)" in drawn[0]
