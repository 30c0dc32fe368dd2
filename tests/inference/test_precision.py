"""The field's average precision of pairs, held to its definition step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twoafc.arrays import FloatArray
from twoafc.inference import Ranking, average_precision


def field_score(d: FloatArray, share: FloatArray) -> float:
    """The field's score, step by step: precision and recall pair by pair, the envelope, the area under it."""
    order = sorted(range(len(d)), key=lambda k: d[k])
    precision, recall, same = [0.0], [0.0], 0.0
    for place, k in enumerate(order, start=1):
        same += share[k]
        precision.append(same / place)
        recall.append(same / share.sum())
    area = 0.0
    for k in range(1, len(precision)):
        area += (recall[k] - recall[k - 1]) * max(precision[k:])
    return 100 * area


def slow_with_ties(d: FloatArray, share: FloatArray) -> float:
    """The same with all pairs at one distance taken at once."""
    points = [(share[d <= at].sum() / share.sum(), share[d <= at].mean()) for at in np.unique(d)]
    area, before = 0.0, 0.0
    for k, (recall, _) in enumerate(points):
        area += (recall - before) * max(precision for _, precision in points[k:])
        before = recall
    return 100 * area


VOTES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12)), min_size=1, max_size=40)


@given(VOTES.filter(lambda rows: any(n for n, _ in rows)), st.randoms(use_true_random=False))
def test_average_precision_is_the_fields(rows: list[tuple[int, int]], random: Any) -> None:
    n, tied = (np.array(column) for column in zip(*rows, strict=True))
    apart = tied + np.arange(len(n)) / 1000
    assert average_precision(n, 3, apart) == pytest.approx(field_score(apart, n / 3), rel=1e-12)
    found = average_precision(n, 3, tied)
    assert found == pytest.approx(slow_with_ties(tied, n / 3), rel=1e-12)
    # Neither the order of the rows nor the scale of the distance matters, and ties never count as found in order.
    shuffled = random.sample(range(len(n)), len(n))
    assert average_precision(n[shuffled], 3, np.exp(tied)[shuffled]) == pytest.approx(found, rel=1e-12)
    best = max(field_score(tied + sign * n / 1000, n / 3) for sign in (-1, 1))
    assert found <= best + 1e-9


def test_the_order_of_ties_would_matter_to_a_plain_sort() -> None:
    n, d = np.array([3, 0, 3, 0]), np.array([1.0, 1.0, 2.0, 2.0])
    assert average_precision(n, 3, d) == 50
    assert field_score(d, n / 3) == pytest.approx(100 * (0.5 + 1 / 3))
    assert field_score(d, n[[1, 0, 3, 2]] / 3) == 50


def test_without_a_same_vote_there_is_no_average_precision() -> None:
    assert np.isnan(average_precision([0, 0], 3, [1, 2]))
    assert np.isnan(Ranking.by([1, 2]).values(np.zeros(2))).all()


@given(VOTES.filter(lambda rows: sum(n for n, _ in rows) > 1), st.integers(0, 100))
def test_influence_is_the_derivative(rows: list[tuple[int, int]], pick: int) -> None:
    n, d = (np.array(column, dtype=np.float64) for column in zip(*rows, strict=True))
    # Shares that make no two precisions equal: there the envelope has a corner, and two derivatives.
    share = (n + np.random.default_rng(len(n)).random(len(n))) / 4
    ranking, k, step = Ranking.by(d), pick % len(n), 1e-7
    by_weight, by_share = ranking.influence(share)
    assert by_weight.sum() == pytest.approx(0, abs=1e-9)
    here = ranking.average_precision(share)
    weight, moved = np.ones(len(n)), share.copy()
    weight[k] += step
    moved[k] += step
    assert (Ranking.by(d, weight).average_precision(share) - here) / step == pytest.approx(by_weight[k], abs=1e-3)
    assert (ranking.average_precision(moved) - here) / step == pytest.approx(by_share[k], abs=1e-3)
