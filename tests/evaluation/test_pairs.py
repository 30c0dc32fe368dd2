"""Scores, error bars and comparisons of distances on pairs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from inference.test_precision import field_score
from pairs_world import world
from twoafc import DataError, Pairs, Settings, Spline, evaluate, metrics
from twoafc.arrays import FloatArray
from twoafc.inference import (
    COMPARED,
    MEASURES,
    Values,
    all_measures,
    average_precision,
    clustering_of,
    compare,
    corrected,
    values_of,
    values_per_row,
)


class Half:
    """An estimator of the user's own: 1/2 everywhere."""

    def fit(self, table: Pairs) -> Half:
        return self

    def probability(self, d: FloatArray) -> FloatArray:
        return np.full(np.shape(d), 0.5)


def values_at_half(table: Pairs, link: Any) -> Values:
    """Values of every pair under P = 1/2."""
    P = np.full(len(table), 0.5)
    return values_of(table, P, values_per_row(table, P), link)


def record(found: Any, **wanted: str) -> dict[str, Any]:
    (one,) = (r for r in found.scores if all(r[key] == value for key, value in wanted.items()))
    return one


@pytest.fixture(scope="module")
def evaluated() -> Any:
    train = world(600, seed=1, group=["a", "b", "b"] * 200)
    test = world(300, seed=2, group=["a", "b", "b"] * 100)
    return evaluate(train, test, estimators=["density", "spline"])


def test_scores_are_what_they_say(evaluated: Any) -> None:
    train, test = world(600, seed=1)["good"], world(300, seed=2)["good"]
    P = Spline().fit(train).probability(test.d)
    one = record(evaluated, distance="good", estimator="spline", split="test", group="all")
    assert one["nll"] == pytest.approx(metrics.nll(test.n, test.M, P))
    assert one["nll_per_vote"] == pytest.approx(metrics.nll_per_vote(test.n, test.M, P))
    assert one["agreement"] == pytest.approx(metrics.agreement(test.n, test.M, P))
    assert one["average_precision"] == pytest.approx(field_score(test.d, test.n / test.M))
    assert one["nll_simulated"] == pytest.approx(metrics.expected_nll(test.M, P))
    assert one["agreement_simulated"] == pytest.approx(metrics.expected_agreement(test.M, P))
    assert one["nll_floor"] == pytest.approx(metrics.nll(test.n, test.M, np.full(300, train.share)))
    assert one["average_precision_floor"] == pytest.approx(100 * (test.n / test.M).mean())
    assert (one["pairs"], one["votes"], one["ties"], one["seed"]) == (300, 900, 0, None)
    drawn = [metrics.simulate(test.M, P, seed=seed) for seed in range(64)]
    expected = np.mean([field_score(test.d, n / test.M) for n in drawn])
    assert one["average_precision_simulated"] == pytest.approx(expected)
    frame = evaluated.triplets.filter(distance="good", estimator="spline")
    np.testing.assert_array_equal(frame["P"].to_numpy(), P)
    assert frame["nll"].mean() == pytest.approx(one["nll"])


def test_groups_have_scores_of_their_own(evaluated: Any) -> None:
    test = world(300, seed=2)["poor"]
    rows = np.arange(300) % 3 == 0
    a, b, mean, pooled = (
        record(evaluated, distance="poor", estimator="density", split="test", group=group)
        for group in ("a", "b", "mean", "all")
    )
    assert a["average_precision"] == pytest.approx(field_score(test.d[rows], (test.n / test.M)[rows]))
    assert b["average_precision"] == pytest.approx(field_score(test.d[~rows], (test.n / test.M)[~rows]))
    for name in (*MEASURES[1], "nll_floor", "average_precision_floor"):
        assert mean[name] == pytest.approx((a[name] + b[name]) / 2)
    assert mean["average_precision_se"] == pytest.approx(
        np.hypot(a["average_precision_se"], b["average_precision_se"]) / 2, rel=0.02
    )
    assert (a["pairs"] + b["pairs"], mean["pairs"], pooled["pairs"]) == (300, 300, 300)
    for one in (a, b, mean, pooled):
        for name in (*MEASURES[1], "nll_per_vote"):
            assert one[f"{name}_low"] <= one[name] <= one[f"{name}_high"]
            assert one[f"{name}_se"] > 0


def test_a_floor_of_folds_and_a_biased_P_are_called_so() -> None:
    train, test = world(300, seed=1)["good"], world(200, seed=2)["good"]
    (floor,) = (note for note in evaluate(train, folds=3).notes if note.startswith("floor"))
    assert floor.startswith(
        f"floor: a constant P, the share of same in the votes of the other folds ({train.share:.3f} in all), has an NLL"
    )
    none = replace(test, n=0 * test.n)
    (sentence, *_) = next(iter(evaluate(train, none).goodness.values())).sentences()
    assert sentence.startswith("P is too high, by ")
    assert "underconfident" not in sentence


def test_the_floor_is_told(evaluated: Any) -> None:
    one = record(evaluated, distance="good", estimator="spline", split="test", group="all")
    share = world(600, seed=1).share
    assert evaluated.notes == [
        f"floor: the constant P = {share:.3f}, the share of same in the training votes, has an NLL of "
        f"{one['nll_floor']:.4f} ({one['nll_per_vote_floor']:.4f} per vote), and "
        f"a random order has an average precision of {one['average_precision_floor']:.2f} %"
    ]
    assert evaluated.error_bars == (
        "95 % intervals for other test pairs; noise of training included for density, negligible for spline; "
        "pairs taken as independent"
    )


def test_distances_are_compared(evaluated: Any) -> None:
    assert [(r["estimator"], r["measure"], r["a"], r["b"]) for r in evaluated.comparisons] == [
        (estimator, measure, "good", "poor")
        for estimator in ("density", "spline")
        for measure in ("nll", "average_precision")
    ]
    one = evaluated.comparisons[-1]
    best, worst = (
        record(evaluated, distance=name, estimator="spline", split="test", group="all") for name in ("good", "poor")
    )
    assert one["difference"] == pytest.approx(best["average_precision"] - worst["average_precision"])
    assert one["low"] < one["difference"] < one["high"]
    assert one["different"]
    assert one["sentence"].startswith("good puts same pairs first better than poor: ")
    assert (best["average_precision_letters"], worst["average_precision_letters"]) == ("a", "b")


def test_sentences() -> None:
    table = world(60, seed=2)
    link = clustering_of(table)
    values = values_at_half(table["good"], link)
    alike = compare({"a": values, "b": values}, link, estimator="e")
    assert [r["sentence"] for r in alike] == [
        "a and b have the same NLL on every pair",
        "a and b order the pairs alike",
    ]
    assert [(r["p"], r["different"]) for r in alike] == [(1.0, False)] * 2
    unknown = dict.fromkeys(("difference", "se", "low", "high", "p"))
    (record,) = corrected([{"a": "a", "b": "b", "estimator": "e", "measure": "nll", **unknown}], COMPARED[1])
    assert record["sentence"] == "a and b cannot be compared: a mean or its error is not finite"
    assert (record["tests"], record["p_holm"], record["different"]) == (0, None, False)


def test_errors_by_formula_are_those_of_a_bootstrap() -> None:
    table = world(600, seed=4, group=["a", "b"] * 300, ref=[str(k // 4) for k in range(600)])["poor"]
    plain = evaluate(table, table, estimators=["spline"], settings=Settings(error_bars="fixed"))
    drawn = evaluate(table, table, estimators=["spline"], settings=Settings(error_bars="bootstrap", draws=400))
    assert plain.error_bars.endswith("noise of training left out; clustered by ref (150 references)")
    for one, other in zip(plain.scores, drawn.scores, strict=True):
        for name in all_measures(1):
            assert one[f"{name}_se"] == pytest.approx(other[f"{name}_se"], rel=0.15), (one["group"], name)


@pytest.mark.parametrize(("way", "told"), [("bootstrap", "the fitted curves"), ("refit", "curves fitted")])
def test_error_bars_from_drawn_tables(way: Any, told: str) -> None:
    train, test = world(200, seed=4, group=["a", "b"] * 100), world(150, seed=5, group=["a", "b", "b"] * 50)
    for tables in ((train,), (train, test)):
        plain = evaluate(*tables, estimators=["density"], settings=Settings(folds=2))
        found = evaluate(*tables, estimators=["density"], settings=Settings(error_bars=way, draws=40, folds=2))
        assert found.error_bars.startswith(f"95 % intervals of {told}")
        drawn = "drawn training tables" if way == "refit" else "drawn tables"
        left_out = "" if way == "refit" else "noise of training left out; "
        assert found.error_bars.endswith(f", from 40 {drawn}; {left_out}pairs taken as independent")
        for one, other in zip(plain.scores, found.scores, strict=True):
            assert one["nll"] == other["nll"]
            if not one["split"].startswith("fold"):
                for name in ("nll", "average_precision"):
                    assert 0.5 < other[f"{name}_se"] / one[f"{name}_se"] < {"bootstrap": 2, "refit": 4}[way]
        for one, other in zip(plain.comparisons, found.comparisons, strict=True):
            assert one["difference"] == other["difference"]
            assert 0.5 < other["se"] / one["se"] < {"bootstrap": 2, "refit": 4}[way]


def test_intervals_hold_what_they_promise() -> None:
    """Pairs of 80 references with a liking of their own: 95 % intervals of the AP and of its paired difference."""
    rng = np.random.default_rng(0)

    def drawn(references: int) -> Pairs:
        ref = np.repeat(np.arange(references), 5)
        z = rng.normal(size=len(ref)) + 0.7 * rng.normal(size=references)[ref]
        other = z + 0.8 * rng.normal(size=len(ref)) + 0.5 * rng.normal(size=references)[ref]
        n = rng.binomial(3, expit(-2 * z + rng.normal(size=references)[ref]))
        return Pairs.from_frame({"n": n, "M": np.full(len(ref), 3), "a_d": z, "b_d": other, "ref": ref})

    big = drawn(40_000)
    truth = {name: average_precision(big.n, big.M, d) for name, (d,) in big.distances.items()}
    held, apart, runs = 0, 0, 200
    for _ in range(runs):
        table = drawn(80)
        link = clustering_of(table)
        values = {name: values_at_half(table[name], link) for name in "ab"}
        (one,) = (r for r in compare(values, link, estimator="e") if r["measure"] == "average_precision")
        apart += one["low"] <= truth[one["a"]] - truth[one["b"]] <= one["high"]
        column = values["a"].columns[:, [MEASURES[1].index("average_precision")]]
        weight = np.full(len(table), 1 / len(table))
        se = link.standard_errors((column - column.mean()) * weight[:, None], weight)[0, 0]
        held += abs(column.mean() - truth["a"]) < 1.99 * se
    assert 0.90 <= held / runs <= 0.99
    assert 0.90 <= apart / runs <= 0.99


def test_observers_who_cast_many_votes_widen_the_error() -> None:
    rng = np.random.default_rng(3)
    pair, observer = np.repeat(np.arange(150), 8), np.tile(np.arange(8), 150)
    z = rng.normal(size=150)
    strict = 3 * rng.normal(size=8)
    frame = {
        "choice": rng.binomial(1, expit(-z[pair] + strict[observer])),
        "pair": pair,
        "d": np.exp(z)[pair],
    }
    known = evaluate(*[Pairs.from_frame(frame | {"observer": observer})] * 2, estimators=["spline"])
    unknown = evaluate(*[Pairs.from_frame(frame)] * 2, estimators=["spline"])
    assert known.error_bars.endswith(
        "pairs taken as independent; votes by observer too (8 observers); tests may be a little cautious"
    )
    for name in ("nll", "average_precision"):
        assert known.scores[-1][name] == pytest.approx(unknown.scores[-1][name])
    assert known.scores[-1]["average_precision_se"] > 1.5 * unknown.scores[-1]["average_precision_se"]


def test_cross_validation_keeps_references_together() -> None:
    table = world(120, seed=6, ref=[str(k // 3) for k in range(120)])["good"]
    found = evaluate(table, estimators={"mine": Half()}, settings=Settings(folds=4))
    assert {r["split"] for r in found.scores} == {"train", "fold-0", "fold-1", "fold-2", "fold-3", "test"}
    assert found.notes[0] == "no test table: 4-fold cross-validation, split by ref"
    assert found.error_bars.endswith("; noise of training included; clustered by ref (40 references)")
    test = record(found, split="test")
    assert test["pairs"] == sum(record(found, split=f"fold-{k}")["pairs"] for k in range(4)) == 120
    # The floor of a fold is the share of the others.
    assert test["nll_floor"] != record(found, split="train")["nll_floor"]


def test_nobody_said_same() -> None:
    table = Pairs.from_frame({"n": [0] * 20, "M": [3] * 20, "a_d": np.arange(20.0), "b_d": np.arange(20.0) % 7})
    found = evaluate(table, table, estimators=["density", "spline"])
    assert found.notes[-1] == "nobody said same on test: there is no average precision"
    for one in found.scores:
        assert one["average_precision"] is None
        assert one["average_precision_se"] is None
        assert one["average_precision_floor"] is None
        assert one["nll"] >= 0
    unlike = [r for r in found.comparisons if r["measure"] == "average_precision"]
    assert all(r["sentence"].endswith("cannot be compared: a mean or its error is not finite") for r in unlike)


def test_arguments_that_make_no_sense_are_refused() -> None:
    table = world(20)
    with pytest.raises(DataError, match=r"^folds must lie between 2 and the number of pairs, 20; found 21$"):
        evaluate(table, settings=Settings(folds=21))
    with pytest.raises(ValueError, match=r"^ties concerns 2AFC scores, which pairs do not have; found ties='x0'$"):
        evaluate(table, table, settings=Settings(ties="x0"))


def test_pairs_that_are_all_the_same_give_no_warnings() -> None:
    rng = np.random.default_rng(0)
    table = Pairs.from_frame({"n": [5] * 60, "M": [5] * 60, "a_d": rng.random(60), "b_d": rng.random(60)})
    assert np.isfinite(evaluate(table, folds=2, estimators="density").frame()["nll"].to_numpy()).all()
