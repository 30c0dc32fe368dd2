"""Paired comparisons: t-tests, corrections for several pairs, sentences and letters."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from scoring import three
from twoafc.inference import (
    COMPARED,
    MEASURES,
    Clustering,
    Dependence,
    Interval,
    Values,
    bootstrap_means,
    clustering_of,
    compact_letters,
    compare,
    corrected,
    holm,
    lettered,
    mean_values,
    p_value,
    sentence,
    t_interval,
    values_of,
    values_per_row,
)
from twoafc.table import Triplets


def test_comparisons_are_paired_t_tests() -> None:
    values, link = three()
    found = compare(values, link, estimator="any")
    assert len(found) == 3 * 3
    records = {(r["a"], r["b"]): r for r in found if r["measure"] == "nll"}
    assert ("good", "poor") in records
    record = records["good", "poor"]
    a, b = (values[name].columns[:, 0] for name in ("good", "poor"))
    test = stats.ttest_rel(a, b)
    assert record["difference"] == pytest.approx((a - b).mean(), rel=1e-12)
    assert record["p"] == pytest.approx(test.pvalue, rel=1e-6)
    ends = test.confidence_interval(0.95)
    assert (record["low"], record["high"]) == pytest.approx((ends.low, ends.high), rel=1e-9)
    assert record["different"]
    p = [r["p"] for r in found if r["measure"] == "nll"]
    np.testing.assert_allclose([r["p_holm"] for r in found if r["measure"] == "nll"], holm(p))
    means = {name: float(each.columns[:, 0].mean()) for name, each in values.items()}
    told = lettered(found, means, "nll", better=-1)
    assert not set(told["poor"]) & set(told["good"])


def test_drawn_scores_may_stand_for_the_formula() -> None:
    values, link = three()
    drawn = {name: bootstrap_means(each, link.rows, draws=3000, seed=1) for name, each in values.items()}
    analytic, bootstrap = (compare(values, link, estimator="any", drawn=r) for r in (None, drawn))
    for one, other in zip(analytic, bootstrap, strict=True):
        assert one["difference"] == other["difference"]
        assert other["se"] == pytest.approx(one["se"], rel=0.07, abs=1e-12)


def test_what_cannot_be_compared_is_told() -> None:
    values, link = three(50)
    worst = values["poor"].columns.copy()
    worst[3, 0] = np.inf
    broken = {"good": values["good"], "wild": Values(MEASURES[2], worst, values["poor"].M)}
    record = compare(broken, link, estimator="any")[0]
    assert record["p"] is None
    assert record["difference"] is None
    assert not record["different"]
    assert record["sentence"] == "good and wild cannot be compared: a mean or its error is not finite"
    assert lettered([record], {"good": 1.0, "wild": np.inf}, "nll", better=-1) == {"good": "a"}
    same = compare({"a": values["good"], "b": values["good"]}, link, estimator="any")[0]
    assert same["sentence"] == "a and b have the same NLL on every triplet"
    assert (same["p"], same["p_holm"], same["different"]) == (1.0, 1.0, False)
    assert compare({"a": values["good"]}, link, estimator="any") == []


def test_sentences_have_the_decimals_that_their_interval_needs() -> None:
    told = sentence(COMPARED[2]["nll"], "lpips", "ssim", Interval(-0.0123, 0.0004, -0.0131, -0.0115), 0.0004)
    assert told == (
        "lpips explains the votes better than ssim: 0.0123 nats per triplet, 95 % interval 0.0115 to 0.0131, p = 0.0004"
    )
    told = sentence(COMPARED[2]["nll"], "lpips", "ssim", Interval(-0.06, 0.03, -0.12, 0.001), 0.06, tests=3)
    assert told == (
        "lpips and ssim cannot be told apart: lpips is ahead by 0.060 nats per triplet, "
        "95 % interval -0.001 to 0.120, p = 0.06 (Holm)"
    )
    told = sentence(COMPARED[2]["score_2afc_distance"], "lpips", "ssim", Interval(2.0, 1.5, -1.0, 5.0), 0.2, tests=2)
    assert told == (
        "lpips and ssim cannot be told apart: lpips is ahead by 2.0 % of votes (2AFC of the distance alone), "
        "95 % interval -1.0 to 5.0, p = 0.20 (Holm)"
    )


@given(st.lists(st.tuples(st.floats(-3, 3), st.floats(0.1, 2), st.floats(1, 50)), min_size=1, max_size=8))
def test_corrected_intervals_exclude_zero_exactly_where_corrected_p_values_are_small(
    differences: list[tuple[float, float, float]],
) -> None:
    records = [
        {"a": f"a{k}", "b": f"b{k}", "estimator": "e", "measure": "nll", "difference": d, "se": se, "df": df}
        | {"p": p_value(d, se, df + 1)}
        for k, (d, se, df) in enumerate(differences)
    ]
    p = np.array([record["p"] for record in records])
    # The slow version: step through the p-values in order.
    order, largest, slow = np.argsort(p, kind="stable"), 0.0, {}
    for step, place in enumerate(order):
        largest = max(largest, (len(p) - step) * p[place])
        slow[place] = min(largest, 1.0)
    for k, record in enumerate(corrected(records, COMPARED[2])):
        assert record["p_holm"] == pytest.approx(slow[k])
        assert record["tests"] == len(records)
        low, high = record["low_holm"], record["high_holm"]
        if abs(record["p_holm"] - 0.05) > 1e-9:
            assert (low > 0 or high < 0) == record["different"] == (record["p_holm"] < 0.05)
        one = t_interval(record["difference"], record["se"], record["df"] + 1)
        assert low <= one.low + 1e-12
        assert high >= one.high - 1e-12


@settings(deadline=None)
@given(st.integers(2, 7), st.data())
def test_two_share_a_letter_exactly_if_they_do_not_differ(count: int, data: st.DataObject) -> None:
    names = [f"d{k}" for k in range(count)]
    pairs = list(combinations(names, 2))
    different = data.draw(st.lists(st.sampled_from(pairs), unique=True))
    found = compact_letters(names, different)
    assert found[names[0]].startswith("a")
    for pair in pairs:
        assert bool(set(found[pair[0]]) & set(found[pair[1]])) == (pair not in different)


def test_letters_do_not_run_out() -> None:
    names = [str(k) for k in range(30)]
    found = compact_letters(names, list(combinations(names, 2)))
    assert [found[name] for name in names[:2] + names[25:28]] == ["a", "b", "z", "a2", "b2"]


@pytest.mark.parametrize(("rows", "different"), [(4, False), (12, True)])
def test_a_difference_that_is_the_same_everywhere_has_an_interval_that_agrees_with_p(
    rows: int, different: bool
) -> None:
    u = np.arange(rows) % 2
    columns = {
        "n": 5 * u,
        "M": [5] * rows,
        "a_d0": 1.0 + u,
        "a_d1": 2.0 - u,
        "b_d0": [1.0] * rows,
        "b_d1": [1.0] * rows,
    }
    table = Triplets.from_frame(columns)
    clustering = clustering_of(table)
    chances = {"a": 0.05 + 0.9 * u, "b": np.full(rows, 0.5)}
    values = {k: values_of(table[k], P, values_per_row(table[k], P), clustering) for k, P in chances.items()}
    (record,) = (r for r in compare(values, clustering, estimator="") if r["measure"] == "nll")
    assert record["p"] == pytest.approx(2.0 ** (1 - rows))
    assert (record["p"] < 0.05) == different == (record["high"] < 0)
    assert len(record["sentence"]) < 130  # no sixteen digits


def test_differences_include_the_spread_over_seeds() -> None:
    """By hand: the variance of the mean over rows, and that of the seeds' mean differences, with Satterthwaite's df."""
    rng = np.random.default_rng(8)
    columns = {name: [rng.normal(size=(60, len(MEASURES[2]))) + shift for shift in rng.normal(size=4)] for name in "ab"}
    M = np.full(60, 3)
    runs = {name: mean_values([Values(MEASURES[2], each, M) for each in given]) for name, given in columns.items()}
    (record, *_) = compare(runs, Clustering(Dependence(60, (), "")), estimator="e")
    apart = np.array([a[:, 0] - b[:, 0] for a, b in zip(columns["a"], columns["b"], strict=True)])
    rows, seeds = apart.mean(axis=0).var(ddof=1) / 60, apart.mean(axis=1).var(ddof=1) / 4
    assert record["se"] == pytest.approx(np.sqrt(rows + seeds))
    assert record["df"] == pytest.approx((rows + seeds) ** 2 / (rows**2 / 59 + seeds**2 / 3))
