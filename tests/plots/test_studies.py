"""Figures of studies: contours, chosen triplets, intervals over batches."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from drawing import svg
from twoafc import planning, plots


def axes() -> Axes:
    return Figure(figsize=(3.35, 2.6), layout="constrained").subplots()


@pytest.mark.parametrize("label", ["power", "standard error, nats per vote"])
def test_the_level_that_is_asked_for_is_the_thick_line(label: str) -> None:
    T, M = np.geomspace(100, 10_000, 30), np.linspace(1, 10, 19)
    values = np.sqrt(T[:, None] * M) / 300 if label == "power" else 1 / np.sqrt(T[:, None] * M)
    level = 0.8 if label == "power" else 0.02
    ax = plots.study_contour(
        T, M, values, axes(), label=label, level=level, cost=T[:, None] * M, cost_label="votes", best=(500, 2)
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
    ax = plots.chosen_triplets(a, b, chosen, axes(), names=("ssim", "$x$"))
    pool, marked = (each.get_offsets() for each in ax.collections)
    assert len(pool) == 300
    assert np.allclose(marked, np.stack([a, b], axis=1)[chosen])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("P of x1 by ssim", "P of x1 by $x$")
    assert not ax.yaxis.label.get_parse_math()


def test_intervals_over_batches() -> None:
    votes, value = np.array([100.0, 200.0]), np.array([0.1, 0.05])
    ax = plots.batch_intervals(votes, value, value - 0.1, value + 0.1, axes(), label="a − b", margin=0.02)
    assert ax.lines[0].get_xydata().tolist() == [[100, 0.1], [200, 0.05]]
    assert sorted(line.get_ydata()[0] for line in ax.lines[1:]) == [-0.02, 0, 0.02]


def test_figures_of_plans_are_the_same_every_time() -> None:
    given = planning.Components(0.001, 0.02, 0.16, per_reference=5)
    drawn = [svg(planning.size(given, se=0.005).figure()) for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert "standard error, nats per vote (solid), votes (dashed)" in drawn[0]
