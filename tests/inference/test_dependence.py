"""Which rows share a cluster, and variances against double loops over pairs of rows."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from scoring import ALONE, observed
from twoafc.inference import Clustering, Dependence, clustering_of, find_dependence, vote_effects
from twoafc.inference.dependence import Strata
from twoafc.metrics import log_likelihood


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
    strata = Strata(group, 3)
    found = whole.variance(influence, weight, strata), whole.units(weight, strata)
    for g in range(3):
        part = whole.at(np.flatnonzero(group == g))
        mine = influence[group == g], weight[group == g]
        np.testing.assert_allclose(found[0][g], part.variance(*mine)[0], rtol=1e-12)
        np.testing.assert_allclose(found[1][g], part.units(mine[1]), rtol=1e-12)
    assert not whole.skewness(influence, strata).any()
    clustered = Dependence(T, kinds[:1], "")
    for g in range(3):
        part = clustered.at(np.flatnonzero(group == g))
        skewness = part.skewness(influence[group == g])[0]
        np.testing.assert_allclose(clustered.skewness(influence, strata)[g], skewness, rtol=1e-12)
        assert skewness.any()


def test_one_cluster_tells_no_error() -> None:
    together = Dependence(3, (np.zeros(3, dtype=np.int64),), "")
    assert np.isnan(together.variance(np.array([[1.0], [-1.0], [0.0]]), np.full(3, 1 / 3))).all()
    assert together.units(np.full(3, 1 / 3)) == pytest.approx(1)


# Votes


def test_what_a_vote_moves_is_its_residual_times_what_it_changes() -> None:
    table, P = observed(30, 8, np.random.default_rng(7), 0.5)
    link = clustering_of(table)
    assert link.ballots is not None
    found = vote_effects(lambda row, n, M, p: -log_likelihood(n, M, p), link.ballots, table.n, table.M, P)
    for vote in range(0, 150, 7):
        row, chosen = int(link.ballots.row[vote]), int(link.ballots.chosen[vote])
        others = table.n[row] - chosen
        with_, without = (-log_likelihood(others + k, 5, P[row]) for k in (1, 0))
        assert found[vote] == pytest.approx(float((chosen - P[row]) * (with_ - without)), rel=1e-9)
