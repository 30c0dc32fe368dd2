"""Rows that stand for several triplets or pairs: fits to them are fits to as many rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from conftest import random_table
from twoafc import Density, Network, Pairs, Spline
from twoafc.core import Uniform
from twoafc.table import Votes

AT = np.abs(np.random.default_rng(9).normal(size=(2, 60)))


def counted_and_repeated(k: int, *, references: bool) -> tuple[Votes, Votes]:
    """A table with counts, and the same with every row as often as its count says; one map of the distances."""
    refs: dict[str, Any] = {"ref": np.arange(80) // 4} if references else {}
    triplets = random_table(80, seed=3, **refs)
    table: Votes = triplets
    if k == 1:
        table = Pairs.from_frame({"n": triplets.M - triplets.n, "M": triplets.M, "d": triplets.d0, **refs})
    count = np.random.default_rng(0).integers(1, 6, len(table))
    rows = np.repeat(np.arange(len(table)), count)
    repeated = table.at(rows)
    uniform = Uniform.learn(*repeated.columns)
    if not references:
        labels = repeated.labels.with_columns(**{table.row: np.arange(len(rows)).astype(str)})
        repeated = replace(repeated, labels=labels)
    return replace(table, count=count, uniform=uniform), repeated


@pytest.mark.parametrize("references", [False, True])
@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("estimator", [Density(sigma=0.1), Density(sigma="auto"), Spline(size=6)])
def test_a_count_is_so_many_rows(estimator: Any, k: int, references: bool) -> None:
    table, repeated = counted_and_repeated(k, references=references)
    fit, other = estimator.fit(table), estimator.fit(repeated)
    assert fit.settings == other.settings
    np.testing.assert_allclose(fit.probability(*AT[:k]), other.probability(*AT[:k]), rtol=0, atol=1e-6)
    np.testing.assert_allclose(fit.standard_error(*AT[:k]), other.standard_error(*AT[:k]), rtol=1e-5)
    np.testing.assert_array_equal(fit.uniform.at_most, other.uniform.at_most)
    assert repr(fit) == repr(other)


def test_counts_are_so_many_rows_to_the_network() -> None:
    table, repeated = counted_and_repeated(2, references=False)
    fit, other = (Network(solver="lbfgs").fit(one) for one in (table, repeated))
    assert fit.chance_nll == pytest.approx(other.chance_nll, rel=1e-12)
    assert fit.training_nll[-1] == pytest.approx(other.training_nll[-1], rel=1e-3)
    with pytest.raises(ValueError, match=r"^Adam needs single triplets, not counts; use Network"):
        Network().fit(table)


@pytest.mark.parametrize("k", [1, 2])
def test_a_given_map_is_used(k: int) -> None:
    table, _ = counted_and_repeated(k, references=False)
    uniform = Uniform.learn(np.linspace(0, 50, 7))
    for estimator in (Density(), Spline()):
        assert estimator.fit(replace(table, uniform=uniform)).uniform is uniform
