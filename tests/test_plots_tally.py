"""Votes by M are tested by the bars that they draw."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from twoafc import plots


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
