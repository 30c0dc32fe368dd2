"""Figures are tested by the data that they draw."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from conftest import random_table
from twoafc import plots
from twoafc.estimators import Density
from twoafc.evaluation import Run
from twoafc.results import surfaces_of


def test_a_surface_has_d0_across_and_d1_upwards() -> None:
    P = np.linspace(0, 1, 9).reshape(3, 3)
    ax = plots.surface(P, Figure().subplots())
    drawn = np.asarray(ax.images[0].get_array())
    # The picture's rows go up, with d1; P's go along d0.
    np.testing.assert_array_equal(drawn, P.T)
    assert ax.images[0].origin == "lower"
    assert ax.images[0].get_clim() == (0, 1)
    assert ax.images[0].get_extent() == [-0.25, 1.25, -0.25, 1.25]
    assert "d_0" in ax.get_xlabel()
    assert "d_1" in ax.get_ylabel()


def test_a_flat_surface_has_no_contour() -> None:
    ax = plots.surface(np.full((3, 3), 0.5), Figure().subplots())
    assert len(ax.collections) == 0


def test_surfaces_stand_side_by_side_under_their_names() -> None:
    fit = Density(sigma=0.1).fit(random_table())
    runs = [Run(name, "density", None, fit) for name in "abcde"]
    named = surfaces_of(runs, size=21)
    figure = plots.surfaces(named)
    panels = [ax for ax in figure.axes if ax.images]
    assert [ax.get_title() for ax in panels] == list("abcde")
    # The panel above an empty place keeps its numbers.
    assert [bool(ax.get_xlabel()) for ax in panels] == [False, True, True, True, True]
    u = np.linspace(0, 1, 21)
    d = fit.uniform.inverse(u)
    np.testing.assert_array_equal(named["a"], fit.probability(d[:, None], d[None, :]))
    assert named["a"][-1, 0] > 0.5 > named["a"][0, -1]
