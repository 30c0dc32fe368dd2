"""Error bars: which rows go together, variances against double loops over pairs, intervals against other libraries."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import expit

from conftest import random_table
from twoafc.inference import (
    COMPARED,
    MEASURES,
    Clustering,
    Dependence,
    Interval,
    Values,
    bar,
    bootstrap_errors,
    bootstrap_means,
    by_group,
    clustering_of,
    compact_letters,
    compare,
    corrected,
    drawn_rows,
    errors,
    find_dependence,
    holm,
    lettered,
    mean_values,
    p_value,
    row_weights,
    sentence,
    share_interval,
    t_interval,
    values_of,
    values_per_row,
    vote_effects,
)
from twoafc.metrics import log_likelihood
from twoafc.table import Triplets

ALONE = "triplets taken as independent"


def described(columns: dict[str, Any]) -> str:
    return find_dependence(
        pl.DataFrame({name: [str(v) for v in values] for name, values in columns.items()})
    ).description


# Which rows are dependent


def test_references_and_images_that_recur_are_clustered() -> None:
    ten = range(10)
    assert described({"triplet": ten}) == ALONE
    assert described({"ref": ten, "x0": range(10, 20), "x1": range(20, 30)}) == ALONE
    twice = [k // 2 for k in range(20)]
    by_ref = "clustered by ref (10 references)"
    assert described({"ref": twice}) == by_ref
    # Images that stay with their reference bring nothing that it does not.
    assert described({"ref": twice, "x0": [f"{r}a" for r in twice], "x1": [f"{r}b" for r in twice]}) == by_ref
    pool = [f"i{k % 8}" for k in range(20)]
    assert described({"ref": twice, "x0": pool, "x1": pool[::-1]}) == "clustered by ref, x0, x1 (18 images)"
    # Images that serve as references of other rows, however few.
    ring = {"ref": range(3), "x0": [1, 2, 0], "x1": range(20, 23)}
    assert (
        described({"ref": [0, 1, 2, 0], "x0": [1, 2, 0, 2], "x1": [2, 0, 1, 1]}) == f"{ALONE}; for these 3 images alone"
    )
    assert described(ring) == "clustered by ref, x0, x1 (6 images)"
    # A reference shown against itself is no other image.
    assert described({"ref": twice, "x0": twice, "x1": range(20, 40)}) == by_ref


def test_few_references_are_a_sample_and_few_methods_are_not() -> None:
    refs = [k // 2 for k in range(40)]
    codecs = {"ref": refs, "x0": ["jpeg"] * 40, "x1": ["webp"] * 40}
    assert described(codecs) == "clustered by ref (20 references)"
    assert described({"ref": [k % 2 for k in range(40)]}) == "clustered by ref (2 references)"
    assert described({"ref": ["r"] * 40}) == f"{ALONE}; for this one reference alone"
    # One reference, many images compared with each other: they are what rows share.
    pairs = list(combinations(range(9), 2))
    one = {"ref": ["r"] * 36, "x0": [a for a, _ in pairs], "x1": [b for _, b in pairs]}
    assert described(one) == "clustered by x0, x1 (9 images); for this one reference alone"


def test_quadruples_and_observers_are_clustered() -> None:
    refs = [k % 9 for k in range(30)]
    quadruple = {"ref0": refs, "x0": range(100, 130), "ref1": refs[::-1], "x1": range(200, 230)}
    assert described(quadruple) == "clustered by ref0, ref1 (9 references)"
    everywhere = quadruple | {"x1": [(k + 1) % 9 for k in refs]}
    assert described(everywhere) == "clustered by ref0, ref1, x0, x1 (39 images)"
    words = Clustering(find_dependence(pl.DataFrame(everywhere))).description
    assert words == "clustered by ref0, ref1, x0, x1 (39 images); tests may be a little cautious"
    assert described({"triplet": range(30), "observer": refs}) == "clustered by observer (9 observers)"
    both = {"ref": [k // 3 for k in range(30)], "observer": refs}
    assert described(both) == "clustered by ref (10 references) and by observer (9 observers)"
    alone = {"triplet": range(30), "observer": ["me"] * 30}
    assert described(alone) == f"{ALONE}; for this one observer alone"


# Variances


def slow_variance(influence: np.ndarray, weight: np.ndarray, kinds: list[np.ndarray]) -> float:
    """The definition, by loops over pairs of rows: see `Dependence.variance`; labels below 0 are observers."""
    T = len(influence)
    labels = [{int(kind[row]) for kind in kinds} for row in range(T)]

    def pairs(values: np.ndarray, k: int) -> float:
        shared = [(a, b) for a in range(T) for b in range(T) if len(labels[a] & labels[b]) >= k]
        return float(sum(values[a] * values[b] for a, b in shared))

    def clusters(sets: list[list[int]]) -> float:
        share = [weight[rows].sum() for rows in sets]
        spread = sum(s**2 for s in share)
        return sum(influence[rows].sum() ** 2 / (1 - 2 * s + spread) for rows, s in zip(sets, share, strict=True))

    alone = clusters([[row] for row in range(T)])
    if len(kinds) == 1:
        return clusters([list(np.flatnonzero(kinds[0] == label)) for label in np.unique(kinds[0])])
    several = {}
    for k in range(1, len(kinds) + 1):
        q = pairs(weight, k)
        several[k] = pairs(influence, k) / (1 - q) if q < 1 - 1e-9 else np.nan
    jackknife = 0.0
    for family in (lambda label: label < 0, lambda label: label >= 0):
        names = [label for label in set().union(*labels) if family(label)]
        for name in names:
            rows = [row for row in range(T) if name in labels[row]]
            if weight[rows].sum() < 1 - 1e-9:
                jackknife += (len(names) - 1) / len(names) * (influence[rows].sum() / (1 - weight[rows].sum())) ** 2
    rest = np.nansum([several[k] for k in several if k > 1])
    return float(np.nanmax([*several.values(), jackknife - rest, alone]))


tables = st.integers(1, 4).flatmap(
    lambda kinds: st.lists(
        st.tuples(*[st.integers(-2, 6)] * kinds, st.floats(-3, 3), st.floats(0.1, 1)), min_size=3, max_size=14
    )
)


@settings(deadline=None, max_examples=150)
@given(tables, st.booleans())
def test_the_variance_is_that_of_loops_over_pairs_of_rows(rows: list[tuple[Any, ...]], corrected: bool) -> None:
    *labels, influence, weight = (np.array(column) for column in zip(*rows, strict=True))
    weight = weight / weight.sum() if corrected else np.zeros(len(rows))
    if len(labels) == 1 and len(np.unique(labels[0])) == 1:
        labels[0][0] = 7
    found = Dependence(len(rows), tuple(labels), "").variance(influence[:, None], weight)
    slow = slow_variance(influence, weight, labels)
    assert float(found[0, 0]) == pytest.approx(slow, rel=1e-7, abs=1e-7)


@settings(deadline=None, max_examples=60)
@given(tables)
def test_products_are_summed_over_dependent_pairs_once(rows: list[tuple[Any, ...]]) -> None:
    *labels, influence, _ = (np.array(column) for column in zip(*rows, strict=True))
    shared = [{int(kind[row]) for kind in labels} for row in range(len(rows))]
    slow = sum(influence[a] * influence[b] for a in range(len(rows)) for b in range(len(rows)) if shared[a] & shared[b])
    found = Dependence(len(rows), tuple(labels), "").products(influence[:, None])
    assert float(found[0, 0]) == pytest.approx(float(slow), rel=1e-9, abs=1e-9)


def test_clusters_of_unlike_size_have_an_unbiased_variance() -> None:
    rng = np.random.default_rng(2)
    ref = np.repeat(np.arange(6), [40, 20, 10, 5, 3, 2])
    weight = np.full(80, 1 / 80)
    clustered = Dependence(80, (ref,), "")
    values = rng.normal(size=(80, 4000)) + 2 * rng.normal(size=(6, 4000))[ref]
    estimates = clustered.variance((values - values.mean(axis=0)) / 80, weight)[0]
    assert estimates.mean() == pytest.approx(values.mean(axis=0).var(), rel=0.06)
    assert clustered.units(weight) == pytest.approx(80**2 / np.sum(np.array([40, 20, 10, 5, 3, 2]) ** 2))


def test_two_references_have_one_degree_of_freedom() -> None:
    lopsided = Dependence(10, (np.array([0] * 9 + [1]),), "")
    assert lopsided.units(np.full(10, 0.1)) == pytest.approx(2)


def test_the_variance_of_a_mean_is_the_usual_one() -> None:
    values = np.random.default_rng(0).random(30)
    weight = np.full(30, 1 / 30)
    influence = (weight * (values - values.mean()))[:, None]
    alone = Dependence(30, (), "")
    assert float(alone.variance(influence, weight)[0, 0]) == pytest.approx(np.var(values, ddof=1) / 30, rel=1e-12)
    assert alone.units(weight) == pytest.approx(30)
    clustered = Dependence(30, (np.arange(30) // 5,), "")
    means = values.reshape(6, 5).mean(axis=1)
    assert float(clustered.variance(influence, weight)[0, 0]) == pytest.approx(np.var(means, ddof=1) / 6, rel=1e-12)
    assert clustered.units(weight) == pytest.approx(6)
    assert float(alone.skewness(influence)[0, 0]) == pytest.approx(stats.skew(values) / np.sqrt(30), rel=1e-12)


def test_strata_are_tables_of_their_own() -> None:
    rng = np.random.default_rng(1)
    T, kinds = 60, tuple(rng.integers(0, 12, (3, 60)))
    group = rng.integers(0, 3, T)
    weight = 1 / np.bincount(group)[group]
    values = rng.random((T, 2))
    influence = weight[:, None] * (values - np.stack([values[group == g].mean(axis=0) for g in range(3)])[group])
    whole = Dependence(T, kinds, "")
    found = whole.variance(influence, weight, group, 3), whole.units(weight, group, 3)
    for g in range(3):
        part = whole.at(np.flatnonzero(group == g))
        mine = influence[group == g], weight[group == g]
        np.testing.assert_allclose(found[0][g], part.variance(*mine)[0], rtol=1e-12)
        np.testing.assert_allclose(found[1][g], part.units(mine[1]), rtol=1e-12)
    assert not whole.skewness(influence, group, 3).any()
    clustered = Dependence(T, kinds[:1], "")
    for g in range(3):
        part = clustered.at(np.flatnonzero(group == g))
        skewness = part.skewness(influence[group == g])[0]
        np.testing.assert_allclose(clustered.skewness(influence, group, 3)[g], skewness, rtol=1e-12)
        assert skewness.any()


def test_one_cluster_tells_no_error() -> None:
    together = Dependence(3, (np.zeros(3, dtype=np.int64),), "")
    assert np.isnan(together.variance(np.array([[1.0], [-1.0], [0.0]]), np.full(3, 1 / 3))).all()
    assert together.units(np.full(3, 1 / 3)) == pytest.approx(1)


# Intervals


def test_intervals_are_students_and_wilsons() -> None:
    found = t_interval(2.0, 0.3, units=8.0)
    assert found[2:] == pytest.approx(stats.t.interval(0.95, 7, 2.0, 0.3), rel=1e-12)
    # As many tosses as the standard error of a proportion says: 40 heads of 100, by Wilson's formula with z for t.
    share = share_interval(40.0, 100 * np.sqrt(0.4 * 0.6 / 100), units=1e12)
    wilson = stats.binomtest(40, 100).proportion_ci(method="wilson")
    assert (share.low / 100, share.high / 100) == pytest.approx((wilson.low, wilson.high), rel=1e-6)
    edge = stats.binomtest(0, 50).proportion_ci(method="wilson")
    assert share_interval(0.0, 0.0, units=50.0).low == 0
    assert share_interval(0.0, 0.0, units=50.0).high / 100 > edge.high
    assert np.isnan(share_interval(50.0, 1.0, units=1.0).low)


def test_skewness_moves_both_ends_of_an_interval() -> None:
    plain, right = t_interval(1.0, 0.1, 50.0), t_interval(1.0, 0.1, 50.0, skew=0.2)
    assert right.low > plain.low
    assert right.high > plain.high
    # The transformation and its inverse, as Hall prints it.
    t, skew = (1.0 - right.low) / 0.1, 0.2
    assert t + skew * (t**2 / 3 + 1 / 6) + skew**2 * t**3 / 27 == pytest.approx(stats.t.ppf(0.975, 49), rel=1e-9)


def test_p_values_are_those_of_the_t_test() -> None:
    values = np.random.default_rng(3).normal(0.1, 1, 40)
    se = values.std(ddof=1) / np.sqrt(40)
    assert p_value(values.mean(), se, 40.0) == pytest.approx(stats.ttest_1samp(values, 0).pvalue, rel=1e-9)
    assert p_value(0.0, 0.0, 9.0) == 1.0
    # The same difference in every unit: as likely as so many heads, or so many tails.
    assert p_value(0.1, 0.0, 9.0) == pytest.approx(2 * 0.5**9)
    assert np.isnan(p_value(0.1, 0.1, 1.0))
    assert np.isnan(p_value(0.1, float("nan"), 9.0))


def test_holm_goes_down_the_ordered_p_values() -> None:
    found = holm([0.01, float("nan"), 0.011, 0.3, 0.04])
    np.testing.assert_allclose(found, [0.04, np.nan, 0.04, 0.3, 0.08])
    np.testing.assert_allclose(holm([0.9, 0.8]), [1, 1])


# Error bars of scores


def scored(table: Triplets, P: np.ndarray) -> tuple[Values, Clustering, list[dict[str, Any]]]:
    link = clustering_of(table)
    values = values_per_row(table, P)
    return values_of(table, P, values, link), link, by_group(table, values)


def grouped(T: int, seed: int, **labels: Any) -> tuple[Triplets, np.ndarray]:
    table = random_table(T, seed=seed, group=[("a", "a", "b")[k % 3] for k in range(T)], **labels)
    return table, expit(2 * (table.d0 - table.d1))


def test_error_bars_of_groups_pooled_and_mean() -> None:
    table, P = grouped(300, 1)
    values, link, records = scored(table, P)
    found = errors(values, table.codes("group"), link)
    nll = values.columns[:, 0]
    rows = {"a": nll[table.codes("group")[1] == 0], "b": nll[table.codes("group")[1] == 1], "all": nll}
    usual = {name: each.std(ddof=1) / np.sqrt(len(each)) for name, each in rows.items()}
    for name, se in usual.items():
        assert found[name].se[0] == pytest.approx(se, rel=1e-12)
        assert found[name].units[0] == pytest.approx(len(rows[name]))
    assert found["mean"].se[0] == pytest.approx(np.hypot(usual["a"], usual["b"]) / 2, rel=1e-12)
    assert [record["group"] for record in records] == ["a", "b", "mean", "all"]


def test_the_mean_of_many_small_groups() -> None:
    rng = np.random.default_rng(3)
    told, means = [], []
    for _ in range(200):
        values = rng.normal(size=(100, len(MEASURES[2]))) + 50
        code = np.arange(100) // 2
        each = Values(MEASURES[2], values, np.ones(100, dtype=np.int64))
        found = errors(each, ([str(k) for k in range(50)], code), Clustering(Dependence(100, (), ""), None))
        told.append(found["mean"].se[1] ** 2)
        means.append(values[:, 1].mean())
    assert np.mean(told) == pytest.approx(np.var(means), rel=0.25)
    lonely = ([str(k) for k in range(100)], np.arange(100))
    assert np.isnan(errors(each, lonely, Clustering(Dependence(100, (), ""), None))["mean"].se).all()


def test_observers_are_a_sample_from_two_on() -> None:
    table, _ = observed(30, 5, np.random.default_rng(1), 0.5)
    clustering = clustering_of(table)
    assert clustering.description == f"{ALONE}; votes by observer too (5 observers); tests may be a little cautious"
    assert clustering.units(np.full(30, 1 / 30)) == pytest.approx(5)


def test_few_of_them_are_named_in_plain_words() -> None:
    def caveats(columns: dict[str, Any]) -> list[str]:
        frame = pl.DataFrame({name: [str(v) for v in values] for name, values in columns.items()})
        return Clustering(find_dependence(frame)).caveats()

    assert caveats({"ref": [k % 20 for k in range(60)]}) == []
    few = "other references could give quite different scores, and tests may miss real differences"
    assert caveats({"ref": [k % 5 for k in range(60)]}) == [f"only 5 references: {few}"]
    unequal = "a few of the 31 references have most of the triplets: the effective number is 4: "
    more = "; ± is somewhat too small (by up to a quarter in simulations), though intervals hold"
    assert caveats({"ref": [*range(31), *[0] * 30]}) == [unequal + few + more]
    (images,) = caveats(dict(zip(("ref", "x0", "x1"), zip(*combinations(range(8), 3), strict=True), strict=True)))
    assert images.startswith("only 8 images: other images could give quite different scores, and tests may miss real ")
    assert images.endswith("; intervals of large differences are too narrow (coverage 87 to 91 % in simulations)")
    (one,) = caveats({"ref": ["r"] * 40})
    assert one == "error bars and tests are for this one reference alone: others could give quite different scores"


def test_observers_named_at_random_do_not_shrink_the_error() -> None:
    rng = np.random.default_rng(12)
    table, P = observed(100, 5, rng, 0.0)
    assert table.votes is not None
    plain = errors(scored(table, P)[0], None, Clustering(clustering_of(table).rows))["all"].se
    for _ in range(6):
        names = pl.Series("observer", rng.integers(0, 20, 500)).cast(pl.String)
        named = replace(table, votes=table.votes.with_columns(names))
        values, clustering, _ = scored(named, P)
        assert (errors(values, None, clustering)["all"].se >= plain - 1e-12).all()


def test_the_nll_per_vote_is_a_ratio() -> None:
    table, P = grouped(400, 2)
    values, link, _ = scored(table, P)
    found = errors(values, table.codes("group"), link)["all"].se[len(values.measures)]
    weights = row_weights(link.rows, 4000, np.random.default_rng(0))
    drawn = (weights @ values.columns[:, 0]) / (weights @ table.M)
    assert found == pytest.approx(drawn.std(), rel=0.06)


@pytest.mark.parametrize("kind", ["alone", "ref", "images"])
def test_the_bootstrap_agrees_with_the_formula(kind: str) -> None:
    rng = np.random.default_rng(4)
    T = 600
    labels = {"alone": {}, "ref": {"ref": rng.integers(0, 60, T)}, "images": {}}[kind]
    if kind == "images":
        labels = dict(zip(("ref", "x0", "x1"), rng.integers(0, 50, (3, T)), strict=True))
    table, P = grouped(T, 5, **labels)
    values, link, _ = scored(table, P)
    analytic = errors(values, table.codes("group"), link)
    drawn = bootstrap_errors(values, table.codes("group"), link.rows, draws=1500, seed=0)
    assert set(drawn) == {"a", "b", "mean", "all"}
    # With images in several places the bootstrap is too cautious, by design.
    lowest, highest = (0.9, 1.1) if kind != "images" else (0.9, np.sqrt(3) * 1.1)
    for group in ("a", "b", "mean", "all"):
        ratio = drawn[group][[0, 1, 2, 3, -1]] / analytic[group].se[[0, 1, 2, 3, -1]]
        assert (ratio > lowest).all()
        assert (ratio < highest).all()


def test_drawn_tables_are_seeded_and_whole() -> None:
    together = Dependence(40, (np.arange(40) // 4,), "")
    rows = drawn_rows(together, np.random.default_rng(1))
    assert len(rows) == 40
    counts = np.bincount(rows, minlength=40).reshape(10, 4)
    assert (counts == counts[:, :1]).all()
    columns = np.arange(40.0)[:, None]
    one, same, other = (bootstrap_means(columns, together, draws=20, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


def test_bars_that_cannot_be_known_are_none() -> None:
    nothing = {"nll_se": None, "nll_low": None, "nll_high": None}
    assert bar("nll", None, 0.1, 9.0) == nothing
    assert bar("nll", np.inf, 0.1, 9.0) == nothing
    assert bar("nll", 1.0, 0.1, 1.0) == nothing
    assert bar("nll", 0.1, 0.3, 9.0)["nll_low"] == 0
    ends = bar("agreement", 99.0, 2.0, 30.0)
    assert 0 < ends["agreement_low"] < 99 < ends["agreement_high"] < 100


def observed(T: int, observers: int, rng: np.random.Generator, spread: float) -> tuple[Triplets, np.ndarray]:
    """Five votes a triplet; observers differ in how well they see."""
    d0, d1 = rng.random((2, T))
    row = np.repeat(np.arange(T), 5)
    observer = rng.permuted(np.tile(np.arange(observers), (T, 1)), axis=1)[:, :5].ravel()
    skill = np.exp(spread * rng.normal(size=observers))[observer]
    choice = rng.random(5 * T) < expit(4 * skill * (d0 - d1)[row])
    columns = {"triplet": row, "observer": observer, "choice": choice.astype(int), "d0": d0[row], "d1": d1[row]}
    return Triplets.from_frame(columns), expit(4 * (d0 - d1))


def test_observers_who_differ_widen_the_error_bars_as_they_should() -> None:
    rng = np.random.default_rng(6)
    means, told, rows = [], [], []
    for _ in range(150):
        table, P = observed(200, 15, rng, 1.0)
        values, link, _ = scored(table, P)
        assert link.description == f"{ALONE}; votes by observer too (15 observers); tests may be a little cautious"
        means.append(values.columns[:, :4].mean(axis=0))
        told.append(errors(values, None, link)["all"].se[:4] ** 2)
        rows.append(errors(values, None, Clustering(link.rows, None))["all"].se[:4] ** 2)
    true, told_, rows_ = np.var(means, axis=0), np.mean(told, axis=0), np.mean(rows, axis=0)
    assert (told_ / true > 0.7).all()
    assert (told_ / true < 1.4).all()
    # Without observers the error would be told as less than two thirds of what it is.
    assert (rows_ / true < 0.45).all()


def test_what_a_vote_moves_is_its_residual_times_what_it_changes() -> None:
    table, P = observed(30, 8, np.random.default_rng(7), 0.5)
    link = clustering_of(table)
    assert link.votes is not None
    found = vote_effects(lambda row, n, M, p: -log_likelihood(n, M, p), link.votes, table.n, table.M, P)
    for vote in range(0, 150, 7):
        row, chosen = int(link.votes.row[vote]), int(link.votes.chosen[vote])
        others = table.n[row] - chosen
        with_, without = (-log_likelihood(others + k, 5, P[row]) for k in (1, 0))
        assert found[vote] == pytest.approx(float((chosen - P[row]) * (with_ - without)), rel=1e-9)


# Comparisons


def three(T: int = 400) -> tuple[dict[str, Values], Clustering]:
    rng = np.random.default_rng(8)
    d0, d1 = rng.random((2, T))
    table = Triplets.from_frame({"n": rng.binomial(3, expit(5 * (d0 - d1))), "M": [3] * T, "d0": d0, "d1": d1})
    link = clustering_of(table)
    surfaces = {"poor": np.full(T, 0.5), "good": expit(5 * (d0 - d1)), "near": expit(4.8 * (d0 - d1))}
    return {name: values_of(table, P, values_per_row(table, P), link) for name, P in surfaces.items()}, link


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
    drawn = {name: bootstrap_means(each.columns, link.rows, draws=3000, seed=1) for name, each in values.items()}
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


def test_values_of_several_runs_are_averaged() -> None:
    values, _ = three(20)
    mean = mean_values([values["good"], values["poor"]])
    np.testing.assert_allclose(mean.columns, (values["good"].columns + values["poor"].columns) / 2)
    assert mean_values([values["good"]]) is values["good"]


# Coverage, in short; the whole study is in benchmarks/verdicts.py


@pytest.mark.parametrize("clustered", [False, True])
def test_intervals_cover_the_truth_and_the_test_keeps_its_level(clustered: bool) -> None:
    rng = np.random.default_rng(9 + clustered)
    tables, T = 400, 150
    nodes = np.linspace(-4, 4, 81)

    def draw(rows: int, refs: int) -> tuple[Triplets, dict[str, np.ndarray]]:
        ref = np.arange(rows) % refs
        x = rng.normal(size=rows)
        noise = [0.6 * rng.normal(size=rows) + (0.8 * rng.normal(size=refs)[ref] if clustered else 0) for _ in "ab"]
        n = rng.binomial(2, expit(2 * x))
        labels = {"ref": ref} if clustered else {}
        table = Triplets.from_frame({"n": n, "M": [2] * rows, "d0": np.exp(x), "d1": np.ones(rows), **labels})
        return table, {name: expit(np.interp(x + each, nodes, nodes)) for name, each in zip("ab", noise, strict=True)}

    fresh, P = draw(400_000, 40_000)
    truth = {name: float(-log_likelihood(fresh.n, fresh.M, each).mean()) for name, each in P.items()}
    covered, alarms = [], []
    for _ in range(tables):
        table, P = draw(T, 30)
        link = clustering_of(table)
        values = {name: values_of(table, each, values_per_row(table, each), link) for name, each in P.items()}
        for name, each in values.items():
            error = errors(each, None, link)["all"]
            ends = bar("nll", each.columns[:, 0].mean(), error.se[0], error.units[0], skew=error.skew[0])
            covered.append(ends["nll_low"] <= truth[name] <= ends["nll_high"])
        alarms.append(compare(values, link, estimator="any")[0]["p"] < 0.05)
    assert 0.92 < np.mean(covered) < 0.975
    assert 0.02 < np.mean(alarms) < 0.085


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


def test_draws_do_not_depend_on_names_that_were_seen_before() -> None:
    """Polars numbers categories for the whole process, in the order in which names are first seen."""
    drawn, seen = [], pl.Series([f"seen-{k}" for k in range(30)][::-1], dtype=pl.Categorical)
    for name in ("new", "seen"):
        rows = clustering_of(random_table(T=60, ref=[f"{name}-{k}" for k in range(30)] * 2)).rows
        drawn.append(drawn_rows(rows, np.random.default_rng(1)).tolist())
    assert drawn[0] == drawn[1]
    assert len(seen) == 30
