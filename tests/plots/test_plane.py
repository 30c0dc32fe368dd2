"""Figures over the plane of distances, tested by the data that they draw."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.contour import ContourSet
from matplotlib.figure import Figure
from matplotlib.patches import Circle, PathPatch

from conftest import random_table
from drawing import panel, svg
from pairs_world import world as pairs
from twoafc import plots
from twoafc.arrays import FloatArray
from twoafc.estimators import Density, Spline
from twoafc.estimators.kernel import interpolate
from twoafc.plots.plane import rectangles
from twoafc.reproduce import worked_example
from twoafc.results import Run, surfaces_of
from twoafc.table import Pairs


def weber(size: int = 41) -> FloatArray:
    """P of a world in which only the ratio counts, at nodes that leave out 0."""
    d = np.linspace(0, 1, size) + 0.05
    return d[:, None] ** 2 / (d[:, None] ** 2 + d**2)


def drawn(ax: Axes) -> FloatArray:
    return np.asarray(ax.images[0].get_array())


def contours(ax: Axes) -> list[ContourSet]:
    return [each for each in ax.collections if isinstance(each, ContourSet)]


def hatched(ax: Axes) -> list[PathPatch]:
    return [patch for patch in ax.patches if isinstance(patch, PathPatch) and patch.get_hatch()]


def test_figures_are_imported_without_matplotlib() -> None:
    code = "import sys, twoafc.plots; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_surface_has_d0_across_and_d1_upwards() -> None:
    P = np.linspace(0, 1, 9).reshape(3, 3)
    ax = plots.surface(P, panel())
    # The picture's rows go up, with d1; P's go along d0.
    np.testing.assert_array_equal(drawn(ax), P.T)
    assert ax.images[0].origin == "lower"
    assert ax.images[0].get_clim() == (0, 1)
    assert ax.images[0].get_extent() == [-0.25, 1.25, -0.25, 1.25]
    assert ax.get_xlabel() == "d0 (uniformised)"
    assert ax.get_ylabel() == "d1 (uniformised)"
    assert ax.get_xlim() == ax.get_ylim() == (0, 1)


def test_a_flat_surface_has_no_contour() -> None:
    ax = plots.surface(np.full((3, 3), 0.5), panel())
    assert len(ax.collections) == 0


def test_contours_of_P_bear_their_numbers() -> None:
    ax = plots.surface(weber(), panel())
    assert sorted(text.get_text() for text in ax.texts) == ["0.25", "0.5", "0.75"]
    for text in ax.texts:
        x, y = (np.array([v]) for v in text.get_position())
        assert interpolate(weber(), x, y)[0] == pytest.approx(float(text.get_text()), abs=0.03)
    (lines,) = contours(ax)
    assert dict(zip(lines.levels, lines.get_linewidths(), strict=True)) == {0.25: 0.6, 0.5: 1.0, 0.75: 0.6}
    dashed = [dashes is not None for _, dashes in lines.get_linestyle()]
    assert dict(zip(lines.levels, dashed, strict=True)) == {0.25: True, 0.5: False, 0.75: False}


def test_a_surface_that_leaves_out_levels_draws_those_it_has() -> None:
    ax = plots.surface(0.55 + 0.3 * weber(), panel())
    assert [text.get_text() for text in ax.texts] == ["0.75"]
    assert not contours(plots.surface(0.55 + 0.1 * weber(), panel()))


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.floats(0, 1))
def test_exactly_the_cells_without_triplets_are_outlined(seed: int, size: int, share: float) -> None:
    empty = np.random.default_rng(seed).random((size, size)) < share
    path = rectangles(empty)
    corners = path.vertices.reshape(-1, 5, 2)
    middles = (np.arange(size) + 0.5) / size
    for i, u0 in enumerate(middles):
        for j, u1 in enumerate(middles):
            within = [(low < (u0, u1)).all() and ((u0, u1) < high).all() for low, high in corners[:, [0, 2]]]
            assert sum(within) == empty[i, j]


def test_a_surface_tells_where_its_data_lie() -> None:
    density = np.zeros((10, 10))
    density[2:5, 6:9] = 40
    density[6, 1] = 3
    ax = plots.surface(weber(), panel(), density=density)
    (patch,) = hatched(ax)
    areas = [np.ptp(each[:, 0]) * np.ptp(each[:, 1]) for each in patch.get_path().vertices.reshape(-1, 5, 2)]
    assert sum(areas) == pytest.approx((density == 0).mean())
    _, lines = contours(ax)
    np.testing.assert_array_equal(lines.levels, [0.5, 2])
    # What is twice as dense as an even spread lies around the block of full cells: d0 across, d1 upwards.
    twice = np.concatenate(lines.allsegs[1])
    assert (abs(twice - [0.35, 0.75]) < 0.3).all()


def test_even_data_have_no_lines_and_no_data_no_more_than_a_hatch() -> None:
    even, none = (plots.surface(weber(), panel(), density=np.full((8, 8), each)) for each in (5.0, 0.0))
    assert (len(contours(even)), len(hatched(even))) == (1, 0)
    assert (len(contours(none)), len(hatched(none))) == (1, 1)


def test_surfaces_stand_side_by_side_under_their_names() -> None:
    fit = Density(sigma=0.1).fit(random_table())
    runs = [Run(name, "density", None, fit) for name in "abcde"]
    named = surfaces_of(runs, size=21)
    figure = plots.surfaces(named, across=4, density={"b": np.eye(4)})
    assert figure is not None
    panels = [ax for ax in figure.axes if ax.images]
    assert [ax.get_title() for ax in panels] == list("abcde")
    # The panel above an empty place keeps its numbers.
    assert [bool(ax.get_xlabel()) for ax in panels] == [False, True, True, True, True]
    assert [len(ax.get_yticks()) for ax in panels] == [3, 0, 0, 0, 3]
    assert [len(hatched(ax)) for ax in panels] == [0, 1, 0, 0, 0]
    u = np.linspace(0, 1, 21)
    d = fit.uniform.inverse(u)
    np.testing.assert_array_equal(named["a"], fit.probability(d[:, None], d[None, :]))
    assert named["a"][-1, 0] > 0.5 > named["a"][0, -1]


def test_nothing_gives_no_figure() -> None:
    assert plots.surfaces({}) is None
    assert plots.standard_errors({}) is None


def test_a_name_with_dollar_signs_is_no_mathematics() -> None:
    figure = plots.surfaces({r"$\nonsense{$": weber(5)})
    assert figure is not None
    figure.draw_without_rendering()
    assert figure.axes[0].get_title() == r"$\nonsense{$"


def test_a_standard_error_is_drawn_on_one_scale_for_all() -> None:
    small = 0.002 * weber(7)
    ax = plots.standard_error(small, panel())
    np.testing.assert_array_equal(drawn(ax), small.T)
    assert ax.images[0].get_clim() == (0, 12**-0.5)
    assert plots.standard_error(np.full((4, 4), 0.4), panel()).images[0].get_clim() == (0, 0.4)


def test_an_unknown_standard_error_is_grey() -> None:
    se = np.full((5, 5), 0.1)
    se[0, 4] = np.nan
    ax = plots.standard_error(se, panel())
    np.testing.assert_array_equal(np.ma.getmaskarray(ax.images[0].get_array()), np.isnan(se.T))
    assert ax.get_facecolor() == to_rgba("0.85")
    assert plots.standard_error(np.full((5, 5), np.nan), panel()).images[0].get_clim() == (0, 12**-0.5)


def test_numbers_stand_on_the_contours_of_the_standard_error() -> None:
    nodes = np.linspace(0, 1, 61)
    se = 0.15 * abs(nodes[:, None] - nodes) + 0.02 * nodes[:, None] * nodes
    ax = plots.standard_error(se, panel())
    assert {text.get_text() for text in ax.texts} == {"0.02", "0.05", "0.1"}
    for text in ax.texts:
        x, y = (np.array([v]) for v in text.get_position())
        assert interpolate(se, x, y)[0] == pytest.approx(float(text.get_text()), abs=1e-3)
    (lines,) = contours(ax)
    # 0.01 lies in the valley around the diagonal.
    assert list(lines.levels) == [0.02, 0.05, 0.1]


def test_standard_errors_share_a_colour_bar() -> None:
    figure = plots.standard_errors({"a": 0.1 * weber(5), "b": 0.2 * weber(5)})
    assert figure is not None
    assert [ax.get_title() for ax in figure.axes[:2]] == ["a", "b"]
    assert figure.axes[2].get_ylabel() == "standard error of P"


def test_a_colour_bar_needs_something_to_tell() -> None:
    with pytest.raises(ValueError, match=r"^a colour bar needs axes with a surface or points; these have none$"):
        plots.colour_bar(panel(), "P")


def points(ax: Axes) -> FloatArray:
    (dots,) = ax.collections
    return np.column_stack([np.asarray(dots.get_offsets()), np.asarray(dots.get_array())])


@pytest.mark.parametrize("uniform", [False, True])
def test_a_scatter_shows_every_triplet_once_in_its_colour(uniform: bool) -> None:
    table = random_table(T=300)
    d0, d1 = (d / 100 for d in (table.d0, table.d1)) if uniform else (table.d0, table.d1)
    share = table.n / table.M
    ax = plots.scatter(d0, d1, share, panel(), uniform=uniform)
    given = np.column_stack([d0, d1, share])
    assert sorted(points(ax).tolist()) == sorted(given.tolist())
    assert points(ax).tolist() != given.tolist()
    (dots,) = ax.collections
    assert dots.get_clim() == (0, 1)
    assert dots.get_rasterized()
    assert ax.get_xlabel() == ("d0 (uniformised)" if uniform else "d0")
    top = 1 if uniform else 1.03 * max(d0.max(), d1.max())
    assert ax.get_xlim() == ax.get_ylim() == pytest.approx((0, top))


def test_a_scatter_is_drawn_in_the_same_order_again() -> None:
    table = random_table(T=50)
    first, second = (plots.scatter(table.d0, table.d1, table.n / table.M, panel()) for _ in range(2))
    np.testing.assert_array_equal(points(first), points(second))


def test_a_scatter_of_nothing_is_an_empty_plane() -> None:
    ax = plots.scatter(np.array([]), np.array([]), np.array([]), panel())
    ax.figure.draw_without_rendering()
    assert ax.get_xlim() == (0, 1)


def test_a_scatter_needs_one_share_for_each_triplet() -> None:
    three, two = np.ones(3), np.ones(2)
    message = r"^d0, d1 and share must be of one length; found shapes \(3,\), \(3,\), \(2,\)$"
    with pytest.raises(ValueError, match=message):
        plots.scatter(three, three, two, panel())


def test_a_scatter_of_many_triplets_is_a_small_file() -> None:
    rng = np.random.default_rng(0)
    u0, u1 = rng.random((2, 36_344))
    ax = plots.scatter(u0, u1, rng.integers(0, 6, 36_344) / 5, panel(), uniform=True)
    assert len(svg(ax.figure)) < 250_000


def test_a_residual_map_marks_the_cells_beyond_noise() -> None:
    residual = np.array([[0.0, -0.1, -0.2], [0.1, np.nan, 0.0], [0.1, -0.1, 0.2]])
    p = np.array([[np.nan, 0.2, 0.01], [0.01, np.nan, 0.3], [0.4, 0.02, 0.03]])
    ax = plots.residual_map(SimpleNamespace(residual=residual, p=p), panel())
    np.testing.assert_array_equal(drawn(ax), 100 * residual.T)
    cells = {line.get_marker(): (3 * np.column_stack(line.get_data()) - 0.5).round().tolist() for line in ax.lines}
    assert cells == {"+": [[1, 0], [2, 2]], "_": [[0, 2], [2, 1]]}
    assert [line.get_color() for line in ax.lines] == ["white", "black"] * 2


def test_each_step_has_a_panel_with_its_values() -> None:
    steps = worked_example()
    axes = plots.worked_example(steps, Figure().subplots(2, 4).ravel())
    raw, kernels, *pictures = axes
    points = np.asarray(raw.collections[0].get_offsets())
    np.testing.assert_array_equal(points, np.column_stack([steps.d0, steps.d1]))
    np.testing.assert_array_equal(raw.collections[0].get_array(), steps.n / steps.M)
    assert [text.get_text() for text in raw.texts] == ["2", "2", "1", "1", "0"]
    circles = {(*patch.center, patch.radius) for patch in kernels.patches if isinstance(patch, Circle)}
    assert circles == {(*at, steps.sigma) for u in zip(steps.u0, steps.u1, strict=True) for at in (u, u[::-1])}
    nodes = kernels.lines[0].get_data()
    assert len(nodes[0]) == 100
    shown = [np.ma.filled(ax.images[0].get_array(), np.nan) for ax in pictures]
    for drawn, values in zip(shown, [steps.density, *steps.conditional, steps.P, steps.log_likelihood], strict=True):
        np.testing.assert_array_equal(drawn, values.T)
    assert [ax.images[0].get_clim() for ax in pictures[1:5]] == [(0, 1)] * 4
    assert [ax.get_title(loc="left")[:3] for ax in axes] == [f"({letter})" for letter in "abcdefgh"]
    assert axes[3].get_title(loc="left") == "(d) Pr(n = 0): 0 to 1"


def test_more_votes_make_more_panels() -> None:
    steps = worked_example(random_table(6, M=4))
    assert len(plots.worked_example(steps, Figure().subplots(2, 5))) == 10
    with pytest.raises(ValueError, match=r"^the steps need M \+ 6 = 10 axes; found 8$"):
        plots.worked_example(steps, Figure().subplots(2, 4).ravel())


class Half:
    """A fit to pairs without standard errors."""

    def probability(self, d: FloatArray) -> FloatArray:
        return np.full(np.shape(d), 0.5)


def test_a_curve_is_drawn_with_the_votes() -> None:
    table = pairs(2000, seed=1)["good"]
    values = plots.curve_values(Spline().fit(table), table)
    assert len(values.middle) == 20
    at = np.interp(values.middle, values.u, values.P)
    assert np.mean((values.low <= at) & (at <= values.high)) > 0.8
    assert len(plots.curves({"good": values, "same": values}).axes) == 2
    # A table of a single distance has one point; one without standard errors no band.
    flat = Pairs.from_frame({"n": [1, 2], "M": [3, 3], "d": [1.0, 1.0]})
    assert plots.curve_values(Half(), flat).middle.tolist() == [0.5]
    assert plots.curve_values(Half(), flat).se is None
