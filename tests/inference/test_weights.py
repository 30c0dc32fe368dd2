"""Scores, error bars, comparisons and ceilings with sampling weights, against loops, copies of rows and known truth."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from conftest import random_table
from twoafc import Pairs, Triplets
from twoafc.inference import (
    MEASURES,
    Ranking,
    all_measures,
    bar,
    bootstrap_errors,
    by_group,
    clustering_of,
    compare,
    errors,
    estimate_ceiling,
    goodness_of_fit,
    halves_of,
    independent_rows,
    values_of,
    values_per_row,
)
from twoafc.metrics import agreement_per_triplet, log_likelihood
from twoafc.table import Votes


def chance(table: Votes) -> np.ndarray:
    """A P that is a function of the distances."""
    return expit(table.columns[0] - (table.columns[1] if table.k == 2 else 1.0))


def scored(table: Votes, P: np.ndarray | None = None) -> tuple[Any, Any]:
    P = chance(table) if P is None else P
    clustering = clustering_of(table)
    return values_of(table, P, values_per_row(table, P, draws=0), clustering), clustering


def weighted_table(k: int = 2, T: int = 90, seed: int = 0, **columns: Any) -> Votes:
    rng = np.random.default_rng(seed)
    refs: dict[str, Any] = {"ref": rng.integers(0, 12, T), "group": rng.choice(["g", "h"], T)} | columns
    table = random_table(T, seed=seed, weight=rng.integers(1, 6, T), **refs)
    if k == 2:
        return table
    own = {"n": table.M - table.n, "M": table.M, "d": table.d0, "weight": table.weight}
    return Pairs.from_frame(own | refs)


def copied(table: Votes) -> Votes:
    """Every row as often as its weight says, in its cluster; copies have names of their own."""
    assert table.weight is not None
    repeated = table.at(np.repeat(np.arange(len(table)), table.weight.astype(np.int64)))
    labels = repeated.labels.with_columns(**{table.row: np.arange(len(repeated)).astype(str)})
    return replace(repeated, weight=None, labels=labels)


@pytest.mark.parametrize("k", [1, 2])
def test_a_weight_is_so_many_copies_in_one_cluster(k: int) -> None:
    """The same scores and standard errors, overall, by group and for their mean; weights cost degrees of freedom."""
    table = weighted_table(k)
    found = {}
    for name, one in {"weighted": table, "copied": copied(table)}.items():
        values, clustering = scored(one)
        P = chance(one)
        grouped = None
        assert one.groups is not None
        by_itself = None
        if k == 1:
            by_itself = values_per_row(one, P, group=one.groups[1], draws=0)
            grouped = values_of(one, P, by_itself, clustering, group=one.groups[1])
        records = by_group(one, values_per_row(one, P, draws=0), by_itself)
        halves = halves_of(one, np.stack([P, P**2, P**1.5, P])[None].reshape(2, 2, -1), crossed=False, df=2.0)
        found[name] = records, errors(values, one.groups, clustering, grouped)
        found[f"{name} with halves"] = records, errors(replace(values, halves=halves), None, clustering)
    for kind in ("", " with halves"):
        (records, bars), (others, other_bars) = found[f"weighted{kind}"], found[f"copied{kind}"]
        for one, other in zip(records, others, strict=True):
            for measure in all_measures(k):
                assert one[measure] == pytest.approx(other[measure], rel=1e-9), measure
        for group, error in bars.items():
            other = other_bars[group]
            np.testing.assert_allclose(error.se, other.se, rtol=1e-9)
            np.testing.assert_allclose(error.skew, other.skew, rtol=1e-9, atol=1e-12)
            assert (error.units <= other.units + 1e-9).all()
    assert [record["group"] for record in found["weighted"][0]] == ["g", "h", "mean", "all"]
    # Numbers of rows, votes and ties are those of the table.
    last = found["weighted"][0][-1]
    assert (last[f"{table.row}s"], last["votes"]) == (len(table), table.M.sum())


def test_scores_are_weighted_means() -> None:
    table = weighted_table()
    P, w = chance(table), table.weight
    assert w is not None
    record = by_group(table, values_per_row(table, P))[-1]
    total = nll = votes = aj = 0.0
    for t in range(len(table)):
        total += w[t]
        votes += w[t] * table.M[t]
        nll -= w[t] * float(log_likelihood(table.n[t], table.M[t], P[t]))
        aj += w[t] * float(agreement_per_triplet(table.n[t], table.M[t], P[t]))
    assert record["nll"] == pytest.approx(nll / total)
    assert record["agreement"] == pytest.approx(aj / total)
    assert record["nll_per_vote"] == pytest.approx(nll / votes)


def test_the_variance_is_the_clustered_one_of_linearised_means() -> None:
    """A double loop over rows that share a reference, divided by what few references leave."""
    table = weighted_table()
    values, clustering = scored(table)
    w, ref = table.weight, table.codes("ref")[1]
    assert w is not None
    s, x = w / w.sum(), values.columns[:, 0]
    own = {r: s[ref == r].sum() for r in set(ref.tolist())}
    squares = sum(share**2 for share in own.values())
    variance = 0.0
    for i in range(len(table)):
        for j in range(len(table)):
            if ref[i] == ref[j]:
                product = s[i] * (x[i] - s @ x) * s[j] * (x[j] - s @ x)
                variance += product / (1 - 2 * own[int(ref[i])] + squares)
    error = errors(values, None, clustering)["all"]
    assert error.se[0] == pytest.approx(variance**0.5)
    assert error.units[0] == pytest.approx(min(1 / squares, (s**2).sum() ** 2 / (s**4).sum()))


def test_the_variance_has_fewer_degrees_of_freedom_where_weights_are_unequal() -> None:
    w = np.random.default_rng(0).lognormal(size=50)
    values, clustering = scored(random_table(50, weight=w))
    units = errors(values, None, clustering)["all"].units[0]
    assert units == pytest.approx((w**2).sum() ** 2 / (w**4).sum())
    two = random_table(6, weight=[1000.0, 1, 1, 1, 1, 1])
    assert errors(scored(two)[0], None, clustering_of(two))["all"].units[0] == 2


def test_observers_are_clustered_with_weights() -> None:
    """Copies of a triplet with all its votes: the same part of the variance."""
    rng = np.random.default_rng(3)
    T, times = 40, np.random.default_rng(4).integers(1, 4, 40)
    d = rng.lognormal(size=(2, T))
    row = np.repeat(np.arange(T), 5)
    observer = rng.integers(0, 8, len(row))
    choice = rng.random(len(row)) < expit(np.log(d[0] / d[1])[row] + rng.normal(size=8)[observer])

    def table(rows: np.ndarray, names: list[str], **columns: Any) -> Triplets:
        own = {"choice": choice[rows].astype(int), "observer": [f"o{k}" for k in observer[rows]]}
        images = {"ref": [f"r{k}" for k in row[rows]], "x0": names, "x1": ["b"] * len(rows)}
        distances = {"d0": d[0][row[rows]], "d1": d[1][row[rows]]}
        return Triplets.from_frame(own | images | distances | columns)

    once = np.arange(len(row))
    weighted = table(once, [f"a{k}" for k in row], weight=times[row])
    again = np.concatenate([np.flatnonzero(row == t) for t in range(T) for _ in range(times[t])])
    names = [f"a{t}-{copy}" for t in range(T) for copy in range(times[t]) for _ in range(5)]
    results = []
    for each in (weighted, table(again, names)):
        values, clustering = scored(each)
        assert clustering.ballots is not None
        results.append(errors(values, None, clustering)["all"])
    # Copies of a triplet share a reference; the first differs by the correction for few references alone.
    np.testing.assert_allclose(results[0].se, results[1].se, rtol=1e-9)


def test_weights_of_one_change_no_figure() -> None:
    for k in (1, 2):
        table = weighted_table(k)
        plain, ones = replace(table, weight=None), replace(table, weight=np.ones(len(table)))
        results = []
        for one in (plain, ones):
            values, clustering = scored(one)
            bars = errors(values, one.groups, clustering)
            drawn = bootstrap_errors(values, one.groups, clustering.rows, draws=20, seed=1)
            fit = goodness_of_fit(one, chance(one), clustering).record()
            ceiling = asdict(estimate_ceiling(one.n, one.M, clusters=clustering.rows)) if k == 2 else {}
            results.append([bars, drawn, fit, ceiling])
        compare_deeply(*results)


def compare_deeply(one: Any, other: Any) -> None:
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for name in one:
            compare_deeply(one[name], other[name])
    elif isinstance(one, list | tuple):
        for a, b in zip(one, other, strict=True):
            compare_deeply(a, b)
    elif isinstance(one, float | np.ndarray):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    else:
        assert one == other


@settings(max_examples=10)
@given(scale=st.floats(1e-3, 1e3), seed=st.integers(0, 100))
def test_neither_the_scale_of_weights_nor_the_order_of_rows_counts(scale: float, seed: int) -> None:
    table = weighted_table(seed=seed)
    assert table.weight is not None
    order = np.random.default_rng(seed).permutation(len(table))
    results: list[Any] = []
    for one in (table, replace(table, weight=scale * table.weight).at(order)):
        values, clustering = scored(one)
        bars = errors(values, one.groups, clustering)
        ceiling = asdict(estimate_ceiling(one.n, one.M, clusters=clustering.rows))
        results.append([bars, ceiling, goodness_of_fit(one, chance(one), clustering).calibration.ece])
        results[-1].append(independent_rows(values, clustering))
    (bars, *first), (other_bars, *second) = results
    for group, error in bars.items():
        for a, b in zip(error, other_bars[group], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9)
    assert first[0]["nll_lowest"] == pytest.approx(second[0]["nll_lowest"], rel=1e-5)
    assert first[1:] == pytest.approx(second[1:], rel=1e-9)


def test_average_precision_of_copies_and_its_influence() -> None:
    rng = np.random.default_rng(2)
    d, share, weight = np.round(rng.random(30), 1), rng.random(30), rng.integers(1, 5, 30)
    ranking = Ranking.by(d, weight.astype(np.float64))
    copies = Ranking.by(np.repeat(d, weight))
    assert ranking.average_precision(share) == pytest.approx(copies.average_precision(np.repeat(share, weight)))
    assert np.average(ranking.values(share), weights=weight) == pytest.approx(ranking.average_precision(share))
    by_weight, by_share = ranking.influence(share)
    for k in range(30):
        step = 1e-6 * (np.arange(30) == k)
        moved = Ranking.by(d, weight + step).average_precision(share) - ranking.average_precision(share)
        assert moved / 1e-6 == pytest.approx(by_weight[k], abs=1e-3)
        moved = ranking.average_precision(share + step) - ranking.average_precision(share)
        assert moved / 1e-6 == pytest.approx(weight[k] * by_share[k], abs=1e-3)


@pytest.mark.parametrize("halves", [False, True])
def test_differences_are_weighted(halves: bool) -> None:
    table = weighted_table()
    found = []
    for one in (table, copied(table)):
        P = chance(one)
        values = {}
        for name, power in {"a": 1.0, "b": 0.8}.items():
            values[name], clustering = scored(one, P**power)
            if halves:
                fits = np.stack([P, P**0.9, P**power, P**0.7]).reshape(2, 2, -1)
                values[name] = replace(values[name], halves=halves_of(one, fits, crossed=False, df=2.0))
        found.append(compare(values, clustering, estimator="e"))
    for record, other in zip(*found, strict=True):
        assert (record["a"], record["b"]) == (other["a"], other["b"])
        for name in ("difference", "se"):
            assert record[name] == pytest.approx(other[name], rel=1e-9, abs=1e-12)
        assert record["df"] <= other["df"] + 1e-9


def test_the_order_of_two_distances_is_that_of_weighted_means() -> None:
    frame = {"n": [1, 0, 1, 1], "M": [1] * 4, "d0": [2.0, 1.0, 3.0, 2.0], "d1": [1.0, 2.0, 1.0, 3.0]}
    table = Triplets.from_frame(frame | {"weight": [1.0, 1.0, 1.0, 50.0]})
    values = {"a": scored(table, np.array([0.9, 0.1, 0.9, 0.2]))[0], "b": scored(table, np.full(4, 0.5))[0]}
    (record,) = compare(values, clustering_of(table), estimator="e")[:1]
    assert record["a"] == "b"


def test_ceiling_and_goodness_of_copies() -> None:
    """Means and their errors are those of copies; how many votes are pooled, and so the bounds, may differ."""
    table = weighted_table(T=200)
    again = copied(table)
    one, other = (estimate_ceiling(each.n, each.M, clusters=clustering_of(each).rows) for each in (table, again))
    for name in ("floor_nll", "human_triplets", "human_triplets_se", "human_pairs", "human_pairs_se"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-9)
    assert (one.triplets, other.triplets) == (200, len(again))
    fits = [goodness_of_fit(each, chance(each), clustering_of(each)) for each in (table, again)]
    np.testing.assert_allclose(*(fit.intraclass[:2] for fit in fits), rtol=1e-9)
    np.testing.assert_allclose(*(fit.calibration.slope[:2] for fit in fits), rtol=1e-7)
    np.testing.assert_allclose(*(fit.calibration.floor for fit in fits), rtol=1e-9)
    for name in ("value", "se"):
        np.testing.assert_allclose(*(fit.asymmetry[name] for fit in fits), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(*(fit.lapses["high"] for fit in fits), rtol=0.05)
    assert sum(each.triplets for each in fits[0].calibration.bins) == 200


def test_the_ceiling_is_that_of_the_population() -> None:
    """Of triplets that are sure and others that are not, the sure ones are drawn five times as often."""
    rng = np.random.default_rng(1)
    sure, weight = np.arange(3000) < 2500, np.where(np.arange(3000) < 2500, 1.0, 5.0)
    p = np.where(sure, 0.98, 0.6)
    table = Triplets.from_frame(
        {"n": rng.binomial(5, p), "M": [5] * 3000, "d0": rng.random(3000), "d1": rng.random(3000), "weight": weight}
    )
    truth = 100 * (0.98 + 0.6) / 2
    for each, holds in ((table, True), (replace(table, weight=None), False)):
        found = estimate_ceiling(each.n, each.M, clusters=clustering_of(each).rows)
        assert (found.score_2afc_lowest <= truth <= found.score_2afc_highest) == holds


def test_bars_by_bootstrap_agree_with_the_formula() -> None:
    table = weighted_table(T=400, ref=np.arange(400) // 4)
    values, clustering = scored(table)
    drawn = bootstrap_errors(values, table.groups, clustering.rows, draws=1500, seed=0)
    found = errors(values, table.groups, clustering)
    for group in ("all", "g", "mean"):
        np.testing.assert_allclose(drawn[group][:4], found[group].se[:4], rtol=0.12)


def test_weighted_rows_are_worth_fewer() -> None:
    rng = np.random.default_rng(0)
    table = random_table(500, weight=rng.lognormal(sigma=1.0, size=500))
    values, clustering = scored(table)
    assert independent_rows(values, clustering) == pytest.approx(table.effective_rows, rel=0.02)
    assert f"scores are weighted (column weight): 500 triplets, effective number {table.effective_rows:.0f}" in (
        clustering.caveats()
    )
    assert clustering_of(replace(table, weight=None)).weighting == []


@pytest.mark.slow
def test_scores_of_a_chosen_sample_are_those_of_the_population() -> None:
    """Triplets chosen where two distances disagree: no bias, and 95 % intervals cover about so often."""
    rng = np.random.default_rng(7)
    N, size, replays = 20_000, 300, 400
    z = rng.normal(size=(2, N))
    n = rng.binomial(3, expit(1.5 * (z[0] - z[1])))
    noisy = z + rng.normal(size=z.shape)
    disagreement = np.abs((noisy - z)[0] - (noisy - z)[1])
    chances = size * (0.9 * disagreement / disagreement.sum() + 0.1 / N)
    P = {name: expit(0.7 * (each[0] - each[1])) for name, each in {"a": z, "b": noisy}.items()}
    frame = {"n": n, "M": np.full(N, 3), "d0": np.exp(noisy[0]), "d1": np.exp(noisy[1]), "weight": 1 / chances}
    whole = Triplets.from_frame(frame)
    values = {name: values_per_row(whole, each) for name, each in P.items()}
    measured = ["nll", "score_2afc"]
    truth = {(name, m): values[name][m].mean() for name in "ab" for m in measured}
    inside: dict[Any, list[bool]] = {}
    found: dict[Any, list[float]] = {}
    unweighted = []
    for _ in range(replays):
        rows = np.flatnonzero(rng.random(N) < chances)
        table = whole.where(rows)
        clustering = clustering_of(table)
        scores = {name: values_of(table, P[name][rows], values_per_row(table, P[name][rows]), clustering) for name in P}
        unweighted.append(values["b"]["score_2afc"][rows].mean())
        for name, own in scores.items():
            record = by_group(table, values_per_row(table, P[name][rows]))[-1]
            error = errors(own, None, clustering)["all"]
            for m in measured:
                k = MEASURES[2].index(m)
                ends = bar(m, record[m], error.se[k], error.units[k], skew=error.skew[k])
                found.setdefault((name, m), []).append(record[m])
                inside.setdefault((name, m), []).append(ends[f"{m}_low"] <= truth[name, m] <= ends[f"{m}_high"])
        for record in compare(scores, clustering, estimator="e"):
            if record["measure"] in measured:
                m, sign = record["measure"], 1 if record["a"] == "a" else -1
                low, high = sorted((sign * record["low"], sign * record["high"]))
                inside.setdefault(("a - b", m), []).append(low <= truth["a", m] - truth["b", m] <= high)
    for key, values_found in found.items():
        spread = np.std(values_found) / replays**0.5
        assert abs(np.mean(values_found) - truth[key]) < 4 * spread
    for key, covered in inside.items():
        assert 0.925 <= np.mean(covered) <= 0.975, (key, np.mean(covered))
    # Without weights the score of b would be several per cent too low.
    assert np.mean(unweighted) < truth["b", "score_2afc"] - 3
