"""Fused distances: the law of a distance, recovery of known sums, the fit against a slow one, and saved files."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

import twoafc
from fusing import excess, several
from twoafc.arrays import FloatArray
from twoafc.errors import DataError
from twoafc.estimators import Fused, Fusion, FusionFit, Spline
from twoafc.estimators.fusion import _Design
from twoafc.estimators.penalised import USUAL_LAPSE, Solution
from twoafc.table import Triplets, Votes


def together(table: Votes) -> Votes:
    """A table with all distances as the columns of one, as a fused distance is fitted to."""
    stacks = tuple(np.stack([d[side] for d in table.distances.values()], axis=1) for side in (0, 1))
    return dataclasses.replace(table, distances={"fused": stacks})


def fitted(table: Votes, **settings: int) -> FusionFit:
    return Fusion(tuple(table.distances), **settings).fit(together(table))


def chance(fit: FusionFit, table: Votes) -> FloatArray:
    return fit.probability(*(fit.reduce(column) for column in together(table).columns))


@pytest.fixture(scope="module")
def of_two() -> FusionFit:
    table, _ = several(3000, [1.0, 1.0, 0.0, 0.0], seed=1)
    return fitted(table)


def test_a_sum_of_two_is_found(of_two: FusionFit) -> None:
    new, P = several(5000, [1.0, 1.0, 0.0, 0.0], seed=2)
    assert excess(P, chance(of_two, new)) < 0.002
    assert {"a", "b"} <= set(of_two.fused.parts)
    best = excess(P, Spline().fit(new["a"]).probability(*new["a"].columns))
    assert best > 0.03  # of what one part could do, even fitted to these votes
    rise = of_two.summary()["parts"]
    assert sum(rise[name] for name in "ab") > 0.95 * sum(rise.values())


def test_a_distance_is_0_at_0_and_grows_with_each_part(of_two: FusionFit) -> None:
    fused = of_two.fused
    assert fused({name: [0.0] for name in fused.parts}) == [0.0]
    line = np.concatenate([[0.0], np.geomspace(1e-6, 1e6, 400)])
    for name in fused.parts:
        f = fused.part(name, line)
        assert f[0] == 0
        assert (np.diff(f) >= 0).all()
        assert f[-1] > f[-20] > f[0]  # beyond the largest training distance too


distances = st.floats(0, 1e9, allow_subnormal=False)


@given(st.lists(st.tuples(distances, distances), min_size=2, max_size=2), st.integers(0, 1))
def test_farther_in_a_part_is_never_nearer_when_fused(pairs: list[tuple[float, float]], at: int) -> None:
    knots = np.array([0.0, 0.5, 2.0])
    fused = Fused(("a", "b"), (knots, knots), (np.array([0.0, 1.0, 1.0]), np.array([0.0, 0.2, 3.0])))
    low, high = ({"a": pair[0], "b": pair[1]} for pair in pairs)
    name = "ab"[at]
    near, far = sorted((low[name], high[name]))
    assert fused(low | {name: near}) <= fused(low | {name: far})
    assert fused(low) >= 0
    assert fused(low) == pytest.approx(float(fused.part("a", low["a"]) + fused.part("b", low["b"])))


def test_both_orders_of_a_triplet_get_chances_that_sum_to_1(of_two: FusionFit) -> None:
    d0, d1 = np.random.default_rng(0).uniform(0, 9, (2, 50))
    np.testing.assert_allclose(of_two.probability(d0, d1) + of_two.probability(d1, d0), 1, atol=1e-15)
    assert of_two.probability(3.0, 3.0) == 0.5


@pytest.mark.parametrize("references", [None, 30])
def test_the_fit_is_the_best_one_that_rises(references: int | None) -> None:
    """The penalised likelihood under the constraints has no better point, by a general optimiser."""
    table = together(several(400, [1.0, 0.5, -0.5], seed=3, references=references)[0])
    design = _Design.of(table)
    problem, rise = design.problem, design.rise
    size = problem.X.shape[1]
    start = Solution(
        np.append(np.zeros(size), USUAL_LAPSE), np.eye(size + 1), np.array([0.5, 20.0] * 3), dispersion=1.3, evidence=0
    )
    ours = design.solution(start, choose=False).theta
    penalty = problem.penalty(start.precision)

    def loss(theta: FloatArray) -> float:
        return problem.loss(theta, penalty, 1.3)

    constraint = {"type": "ineq", "fun": lambda theta: rise @ theta[:-1]}
    slow = minimize(loss, start.theta, method="SLSQP", constraints=constraint, options={"maxiter": 500, "ftol": 1e-7})
    assert slow.success
    assert (rise @ ours[:-1]).min() > -1e-9
    assert loss(ours) == pytest.approx(slow.fun, abs=0.02)
    assert not np.allclose(ours[:-1].reshape(3, -1)[0], 0)


def test_votes_of_one_reference_count_less_where_they_go_together() -> None:
    """Ten copies of each triplet under one reference are worth about as much as the triplet itself."""
    table, _ = several(300, [1.0, 1.0, 0.0], seed=9, votes=2)
    rows = np.repeat(np.arange(300), 10)
    copies = dataclasses.replace(
        table.at(rows), labels=pl.DataFrame({"triplet": [*map(str, range(3000))], "ref": [*map(str, rows)]})
    )
    lone = dataclasses.replace(copies, labels=copies.labels.drop("ref"))
    linked, apart = (_Design.of(together(each)).solution() for each in (copies, lone))
    assert 6 < linked.dispersion < 14
    assert apart.dispersion < 1.5


def test_a_distance_that_falls_with_the_truth_is_left_out() -> None:
    table, _ = several(2000, [1.0, -1.0, 0.5], seed=4, common=0.0)
    assert "b" not in fitted(table).fused.parts


def test_where_the_others_are_noise_the_best_part_stands_alone() -> None:
    weights = [2.0, 0.0, 0.0, 0.0]
    new, P = several(5000, weights, seed=99, common=0.0)
    costs, alone = [], 0
    for seed in range(8):
        table, _ = several(250, weights, votes=1, seed=seed, common=0.0)
        fit, best = fitted(table), Spline().fit(table["a"])
        costs.append(excess(P, chance(fit, new)) - excess(P, best.probability(*new["a"].columns)))
        if fit.settings.alone:
            alone += 1
            assert fit.fused.parts == ("a",)
            np.testing.assert_allclose(chance(fit, table), best.probability(*table["a"].columns), atol=1e-9)
            assert costs[-1] == pytest.approx(0, abs=1e-3)  # between training distances f is a straight line
    assert 2 <= alone < 8
    assert np.mean(costs) < 0.002


def test_increasing_changes_of_a_part_change_nothing() -> None:
    table, _ = several(600, [1.0, 1.0], seed=5)
    bent = {name: tuple(column**3 if name == "a" else column for column in d) for name, d in table.distances.items()}
    other = dataclasses.replace(table, distances=bent)
    np.testing.assert_allclose(chance(fitted(other), other), chance(fitted(table), table), atol=2e-4)


def test_weights_count_as_copies_do() -> None:
    table, _ = several(300, [1.0, 1.0], seed=6)
    times = np.random.default_rng(0).integers(1, 4, 300)
    copies = table.at(np.repeat(np.arange(300), times))
    weighted = dataclasses.replace(table, weight=times.astype(np.float64))
    design, other = (_Design.of(together(each)) for each in (weighted, copies))
    # Weights are scaled to the effective number of rows: what they leave of the likelihood is discounted.
    scale = copies.M.sum() / float(table.M @ weighted.mass)
    solution = Solution(
        np.append(np.zeros(design.X.shape[1]), USUAL_LAPSE), np.eye(1), np.array([0.5, 20.0] * 2), 1.0, 0.0
    )
    ours = design.solution(solution, choose=False).theta
    theirs = other.solution(dataclasses.replace(solution, dispersion=scale), choose=False).theta
    np.testing.assert_allclose(ours, theirs, atol=2e-3)


def test_what_was_chosen_is_kept_by_later_fits() -> None:
    table, _ = several(800, [1.0, 1.0, 0.0], seed=7, references=40)
    fit = fitted(table)
    half = fit.chosen_settings.fit(together(table).where(np.arange(800) % 2 == 0))
    assert half.settings.start is not None
    assert fit.settings.start is not None
    np.testing.assert_array_equal(half.settings.start.precision, fit.settings.start.precision)
    less = fit.chosen_settings.without("b")
    assert less.parts == ("a", "c")
    others = dataclasses.replace(table, distances={name: table.distances[name] for name in "ac"})
    assert less.fit(together(others)).fused.parts[0] == "a"


def test_a_saved_distance_comes_back(of_two: FusionFit, tmp_path: Path) -> None:
    known = {"a": {"variant": "ssim", "weights": {"x": "sha256 1"}}}
    dataclasses.replace(of_two, identities=known).save(tmp_path / "f.npz")
    again = twoafc.load(tmp_path / "f.npz")
    assert isinstance(again, FusionFit)
    assert again.identities == known
    assert again.digest == of_two.digest
    d = np.random.default_rng(0).uniform(0, 20, (50, 4))
    np.testing.assert_array_equal(again.reduce(d), of_two.reduce(d))
    np.testing.assert_array_equal(again.probability(d[:, 0], d[:, 1]), of_two.probability(d[:, 0], d[:, 1]))
    assert repr(again).startswith("FusionFit(a + b")


def test_one_that_stands_alone_comes_back(tmp_path: Path) -> None:
    table, _ = several(250, [2.0, 0.0], votes=1, seed=8, common=0.0)
    fit = Fusion(("a", "b"), folds=0).fit(together(table))
    single = dataclasses.replace(fit.settings, alone="a").fit(together(table))
    single.save(tmp_path / "f.npz")
    np.testing.assert_array_equal(chance(twoafc.load(tmp_path / "f.npz"), table), chance(single, table))  # type: ignore[arg-type]


def test_a_missing_part_is_named(of_two: FusionFit) -> None:
    needed = ", ".join(of_two.fused.parts)
    with pytest.raises(DataError, match=f"the fused distance needs {needed}; there is no b in a, ssim"):
        of_two.fused({"a": [1.0], "ssim": [1.0]})


def test_votes_that_a_distance_separates_give_a_finite_fit() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.lognormal(size=(2, 2, 300))
    table = Triplets.from_frame(
        {"n": np.where(a[0] > a[1], 5, 0), "M": [5] * 300, "a_d0": a[0], "a_d1": a[1], "b_d0": b[0], "b_d1": b[1]}
    )
    P = chance(fitted(table), table)
    assert ((P > 0.9) == (table.n == 5)).mean() > 0.9
    assert ((P > 0) & (P < 1)).all()
