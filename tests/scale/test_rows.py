"""Counts as rows: fits, scores and error bars are those of the triplets, but for the width of the bins."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, ndtr

from conftest import random_table
from counting import tally
from twoafc import Counts, DataError, Density, Network, Settings, Spline, Triplets, count, evaluate, load, worlds
from twoafc.core import Uniform
from twoafc.inference import (
    Dependence,
    by_group,
    clustering_of,
    errors,
    estimate_ceiling,
    values_of,
    values_per_row,
)
from twoafc.scale import carried_by, fit_counts, lattice, merge
from twoafc.table import assign_folds, split_rows

rows = st.lists(
    st.tuples(
        st.integers(0, 4), st.integers(1, 4), st.floats(0.0, 9.0), st.floats(0.0, 9.0), st.integers(1, 5), st.booleans()
    ),
    min_size=2,
    max_size=25,
)
Drawn = list[tuple[int, int, float, float, int, bool]]
PLACES = np.linspace(0, 9, 7)[:, None], np.linspace(0.3, 8.7, 6)[None, :]


def counted_and_repeated(
    drawn: Drawn, *, references: int | None = None, several: bool = False
) -> tuple[Triplets, Triplets]:
    """Rows with a count, and the table in which each stands so many times: one map for both.

    The triplets of a row have one reference, or are of `several`.
    """
    n, M, d0, d1, times, group = (np.array(column) for column in zip(*drawn, strict=True))
    each = np.repeat(np.arange(len(drawn)), times)
    columns = {"n": np.minimum(n, M), "M": M, "d0": d0, "d1": d1, "group": np.where(group, "a", "b")}
    columns |= {"ref": np.arange(len(drawn)) % references} if references else {}
    repeated = {name: column[each] for name, column in columns.items()}
    table, by_ref = Triplets.from_frame(columns), None
    if several and references:
        repeated["ref"] = np.arange(len(each)) // 2 * 7 % references  # parts of one triplet and of two
        by_ref = pl.DataFrame({"row": each, "ref": repeated["ref"]}).group_by("row", "ref").len("count")
        table = replace(table, labels=table.labels.drop("ref"))
    whole = Triplets.from_frame(repeated)
    return replace(table, count=times, uniform=Uniform.learn(whole.d0, whole.d1), by_ref=by_ref), whole


@settings(max_examples=40)
@given(rows, st.builds(Density, sigma=st.floats(0.01, 1.0), grid_size=st.integers(2, 9)))
def test_a_row_that_stands_for_several_is_several_rows_to_the_density(drawn: Drawn, density: Density) -> None:
    table, repeated = counted_and_repeated(drawn)
    one, other = density.fit(table), density.fit(repeated)
    assert one.settings == other.settings
    np.testing.assert_allclose(one.surface, other.surface, rtol=0, atol=1e-11)
    np.testing.assert_allclose(one.standard_error(*PLACES), other.standard_error(*PLACES), rtol=1e-7, atol=1e-11)
    np.testing.assert_allclose(one.plane_log_likelihood, other.plane_log_likelihood, rtol=1e-9)


@pytest.mark.parametrize(("references", "several"), [(None, False), (10, False), (10, True)])
def test_one_triplet_of_a_row_is_left_out_where_a_width_is_chosen(references: int | None, several: bool) -> None:
    some = random_table(60)
    times = np.random.default_rng(0).integers(1, 6, 60)
    drawn = list(zip(some.n, some.M, some.d0, some.d1, times, [True] * 60, strict=True))
    table, repeated = counted_and_repeated(drawn, references=references, several=several)
    one, other = Density(sigma="auto").fit(table), Density(sigma="auto").fit(repeated)
    assert one.settings == other.settings
    np.testing.assert_allclose(one.surface, other.surface, rtol=0, atol=1e-11)
    if references is None:
        # Were whole rows left out, votes on the same place would not be seen, and the kernel would be wider.
        assert one.settings.sigma != Density(sigma="auto").fit(some).settings.sigma


@settings(max_examples=15)
@given(rows, st.booleans(), st.booleans())
def test_a_row_that_stands_for_several_is_several_rows_to_the_spline(drawn: Drawn, ref: bool, several: bool) -> None:
    references = min((len(drawn) + 1) // 2, 10) if ref else None
    table, repeated = counted_and_repeated(drawn, references=references, several=several)
    one, other = Spline(size=5, link="logit").fit(table), Spline(size=5, link="logit").fit(repeated)
    # Sums in another order differ in the last bit, of which the iterations make a little more.
    np.testing.assert_allclose(one.probability(*PLACES), other.probability(*PLACES), rtol=0, atol=1e-6)
    assert one.dispersion == pytest.approx(other.dispersion, rel=1e-5)


@settings(max_examples=8)
@given(rows, st.sampled_from(["uniform", "raw"]))
def test_a_row_that_stands_for_several_is_several_rows_to_the_network(drawn: Drawn, inputs: Any) -> None:
    table, repeated = counted_and_repeated(drawn)
    network = Network(solver="lbfgs", inputs=inputs)
    one, other = network.fit(table), network.fit(repeated)
    assert one.chance_nll == pytest.approx(other.chance_nll, rel=1e-12)
    # A hundred steps downhill enlarge what rounding leaves.
    assert one.training_nll[-1] == pytest.approx(other.training_nll[-1], rel=1e-3, abs=1e-3)


@settings(max_examples=30)
@given(rows, st.sampled_from([None, 20]), st.booleans())
def test_scores_and_error_bars_of_rows_with_a_count_are_those_of_the_triplets(
    drawn: Drawn, references: int | None, several: bool
) -> None:
    drawn = drawn * 4 if references else drawn  # so that there are enough references, and several rows of each
    table, repeated = counted_and_repeated(drawn, references=references, several=several)
    assert table.count is not None
    each = np.repeat(np.arange(len(drawn)), table.count)
    P = np.linspace(0.1, 0.9, len(drawn))
    one, other = values_per_row(table, P), values_per_row(repeated, P[each])
    for a, b in zip(by_group(table, one), by_group(repeated, other), strict=True):
        assert a.pop("group") == b.pop("group")
        assert a == pytest.approx(b, rel=1e-9)
    link, plain = clustering_of(table), clustering_of(repeated)
    assert ("clustered" in plain.description) == (len(plain.rows.kinds) > 0) == (len(link.rows.kinds) > 0)
    found = errors(values_of(table, P, one, link), table.groups, link)
    expected = errors(values_of(repeated, P[each], other, plain), repeated.groups, plain)
    assert list(found) == list(expected)
    for group, error in expected.items():
        np.testing.assert_allclose(found[group].se, error.se, rtol=1e-6, atol=1e-9)
        assert found[group].units == pytest.approx(error.units)
        # Of values that are all alike the skewness is that of their rounding.
        spread = error.se > 1e-6
        np.testing.assert_allclose(found[group].skew[spread], error.skew[spread], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("clustered", [False, True])
def test_the_ceiling_of_rows_with_a_count_is_that_of_the_triplets(clustered: bool) -> None:
    rng = np.random.default_rng(0)
    M = rng.choice([1, 2, 5], 1200)
    n = rng.binomial(M, rng.beta(0.8, 0.8, 1200))
    ref = np.arange(1200) % 150 if clustered else np.zeros(1200, dtype=np.int64)
    kinds, times = np.unique(np.stack([n, M, ref]), axis=1, return_counts=True)
    together = Dependence(len(times), (kinds[2],) if clustered else (), "", times)
    expected, found = (
        estimate_ceiling(n, M, clusters=ref if clustered else None),
        estimate_ceiling(*kinds[:2], clusters=together),
    )
    numbers = {name: value for name, value in vars(expected).items() if isinstance(value, int | float)}
    assert {name: getattr(found, name) for name in numbers} == pytest.approx(numbers, rel=1e-6, nan_ok=True)
    assert found.note == expected.note


@pytest.mark.parametrize("joined", [False, True])
def test_kept_references_do_not_change_the_rows(joined: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lattice, "MOST", 0 if joined else 10**6)
    table = random_table(3000, ref=np.random.default_rng(0).integers(0, 40, 3000), group=np.arange(3000) % 2)
    plain, kept = (tally(table, keep_refs=keep_refs).table() for keep_refs in (False, True))
    assert kept.by_ref is not None
    assert kept.by_ref["ref"].unique().sort().to_list() == list(range(40))
    found, expected = (
        np.array(
            sorted(zip(rows.n, rows.M, rows.labels["group"], rows.d0, rows.d1, rows.count, strict=True)), dtype="O"
        )
        for rows in (kept, plain)
    )
    assert len(found) == len(expected)
    assert (found[:, :3] == expected[:, :3]).all()
    np.testing.assert_allclose(found[:, 3:].astype(np.float64), expected[:, 3:].astype(np.float64), rtol=1e-12)
    np.testing.assert_array_equal(np.bincount(kept.by_ref["row"], kept.by_ref["count"]), kept.count)
    by_triplets = table.labels["ref"].value_counts()["count"].sort().to_list()
    assert kept.by_ref.group_by("ref").agg(pl.col("count").sum())["count"].sort().to_list() == by_triplets


@pytest.mark.parametrize("folds", [2, 3])
def test_whole_references_are_in_one_fold(folds: int) -> None:
    some = random_table(80)
    times = np.random.default_rng(1).integers(1, 9, 80)
    drawn = list(zip(some.n, some.M, some.d0, some.d1, times, [True] * 80, strict=True))
    table, repeated = counted_and_repeated(drawn, references=10, several=True)
    parts, fold = split_rows(table, folds, seed=3)
    expected = assign_folds(repeated, folds, seed=3)
    assert parts.count is not None
    assert parts.count.sum() == len(repeated)
    references = repeated.labels["ref"].to_numpy()
    for k in range(folds):
        left_out = parts.where(fold == k)
        assert left_out.by_ref is not None
        assert {str(ref) for ref in left_out.by_ref["ref"]} == set(references[expected == k])
        np.testing.assert_array_equal(np.bincount(left_out.by_ref["row"], left_out.by_ref["count"]), left_out.count)
        assert sorted(np.repeat(left_out.d0, left_out.count)) == sorted(repeated.d0[expected == k])


def test_one_kept_reference_is_no_sample() -> None:
    counts = {"distance": tally(random_table(60, ref=["r"] * 60), keep_refs=True)}
    for tables in ((counts, counts), (counts,)):
        assert evaluate(*tables).error_bars.endswith("; triplets taken as independent; for this one reference alone")


def test_references_are_clusters_from_two_on() -> None:
    told = {}
    for name, ref in {"few": np.arange(60) % 3, "lone": np.arange(60), "many": np.arange(60) % 20}.items():
        counts = {"distance": tally(random_table(60, ref=ref), keep_refs=True)}
        told[name] = evaluate(counts, counts).error_bars.split("; ", 1)[1]
    assert told == {
        "few": "noise of training left out; clustered by ref (3 references)",
        "lone": "noise of training left out; triplets taken as independent",
        "many": "noise of training left out; clustered by ref (20 references)",
    }


pairs_of_distances = st.lists(
    st.tuples(st.floats(0, 1e14), st.floats(0, 1e14)) | st.floats(0, 3).map(lambda d: (d, d * (1 + 1e-9))),
    min_size=1,
    max_size=20,
)


@settings(max_examples=60)
@given(pairs_of_distances, st.sampled_from([4, 128, 4096]), st.booleans())
def test_every_row_is_on_the_right_side_of_the_diagonal(
    drawn: list[tuple[float, float]], per_octave: int, joined: bool
) -> None:
    d0, d1 = np.array(drawn).T
    table = Triplets.from_frame({"n": [1] * len(d0), "M": [2] * len(d0), "d0": d0, "d1": d1})
    counts = tally(table, per_octave=per_octave)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lattice, "MOST", 0 if joined else 10**6)
        rows = counts.table()
    assert rows.count is not None
    signs = {sign: int(rows.count[np.sign(rows.d0 - rows.d1) == sign].sum()) for sign in (-1, 0, 1)}
    assert signs == {sign: int((np.sign(d0 - d1) == sign).sum()) for sign in (-1, 0, 1)}
    if not joined:
        np.testing.assert_array_equal(np.sign(rows.d0 - rows.d1), counts.cells["sign"])
    assert rows.uniform is not None
    assert rows.uniform.at_most[-1] == 2 * len(d0)
    assert (np.diff(rows.uniform.values) > 0).all()
    for d in (rows.d0, rows.d1):
        assert ((d >= min(d0.min(), d1.min()) * (1 - 1e-12)) & (d <= max(d0.max(), d1.max()))).all()


def drawn_world(kind: str, T: int, seed: int, M: int = 2) -> Triplets:
    """Votes that depend on hidden normal scores alone, with distances of several shapes."""
    rng = np.random.default_rng(seed)
    z0, z1 = rng.normal(size=(2, T))
    shapes = {
        "log-normal": np.exp,
        "thousandths": lambda z: 1e-3 * np.exp(0.3 * z),
        "ties": lambda z: np.round(np.exp(0.5 * z), 1),
        "hundredths": lambda z: np.round(ndtr(z), 2),
        "zeros": lambda z: np.maximum(z, 0.0),
        "up to 1": ndtr,
        "0.8 to 1": lambda z: 0.8 + 0.2 * ndtr(z),
        "at most 0.8987": lambda z: np.minimum(np.exp(z), 0.8987),
        "at least 0.3137": lambda z: np.maximum(np.exp(z), 0.3137),
        "0 to 255": lambda z: np.round(255 * ndtr(z)),
        "1 + d / 1000": lambda z: 1 + 1e-3 * np.exp(0.7 * z - 1.5),
        "100 + d": lambda z: 100 + np.exp(0.7 * z - 1.5),
        "all tiny": lambda z: 1e-14 * np.exp(0.7 * z - 1.5),
        "most huge": lambda z: 1e13 * np.exp(0.7 * z - 1.5),
    }
    d0, d1 = shapes[kind](z0), shapes[kind](z1)
    n = rng.binomial(M, expit(2 * (z0 - z1)))
    return Triplets.from_frame({"n": n, "M": np.full(T, M), "d0": d0, "d1": d1})


def counts_of(table: Triplets, **options: Any) -> Counts:
    (counts,) = count(table, **options).values()
    return counts


SOUND = ("log-normal", "thousandths", "ties", "hundredths", "zeros", "up to 1", "at most 0.8987", "at least 0.3137")


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("estimator", [Density(), Spline()], ids=["density", "spline"])
@pytest.mark.parametrize("kind", [*SOUND, "0 to 255"])
def test_bins_cost_next_to_nothing(
    kind: str, estimator: Density | Spline, joined: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lattice, "MOST", 0 if joined else 10**6)
    train, test = drawn_world(kind, 50_000, 1), drawn_world(kind, 5_000, 2)
    counts = counts_of(train)
    assert counts.widest < lattice.WIDEST
    exact, found = (estimator.fit(each).probability(test.d0, test.d1) for each in (train, counts.table()))
    assert np.sqrt(np.mean((exact - found) ** 2)) < 2e-3


def test_cells_that_become_one_row_cost_less_than_bins(monkeypatch: pytest.MonkeyPatch) -> None:
    counts, test = counts_of(drawn_world("log-normal", 200_000, 1)), drawn_world("log-normal", 5_000, 2)
    found = []
    for most in (0, 10**6):
        monkeypatch.setattr(lattice, "MOST", most)
        found.append(Density().fit(counts.table()).probability(test.d0, test.d1))
    assert np.sqrt(np.mean((found[0] - found[1]) ** 2)) < 5e-5


def test_finer_bins_bring_the_fit_to_the_exact_one() -> None:
    train = drawn_world("0.8 to 1", 30_000, 3)
    exact = Density().fit(train).probability(train.d0, train.d1)
    fits = [Density().fit(counts_of(train, per_octave=p).table()) for p in (32, 128, 512)]
    costs = [np.abs(fit.probability(train.d0, train.d1) - exact).mean() for fit in fits]
    assert costs[0] > 3 * costs[1] > 9 * costs[2]
    assert costs[2] < 5e-4


@pytest.mark.parametrize(
    ("kind", "per_octave", "told"),
    [
        ("0.8 to 1", 32, r"one bin contains \d+% of the distances; count again with --per-octave \d+"),
        ("100 + d", 512, r"one bin contains \d+% of the distances; more bins do not help: subtract from the .*"),
        (
            "1 + d / 1000",
            4096,
            r"one bin contains \d+% .*; more bins do not help: subtract from the distance what all .*",
        ),
        ("all tiny", 128, r"100.0% of the distances lie below 9e-13 or above 1e\+12; .* multiply the distance by a .*"),
        ("most huge", 128, r"\d+\.\d% of the distances lie below 9e-13 or above 1e\+12; .*"),
    ],
)
def test_bins_too_wide_are_warned_of(kind: str, per_octave: int, told: str) -> None:
    counts = {"distance": counts_of(drawn_world(kind, 5_000, 1), per_octave=per_octave)}
    (warned,) = (note for note in evaluate(counts, counts).notes if note.startswith("warning"))
    assert re.fullmatch(f"warning: distance: {told}", warned)
    sound = {"distance": counts_of(drawn_world(SOUND[0], 5_000, 2), per_octave=per_octave)}
    assert warned in evaluate(sound, counts).notes  # of the test table


@pytest.mark.parametrize("kind", SOUND)
def test_sound_bins_are_not_warned_of(kind: str) -> None:
    assert len(counts_of(drawn_world(kind, 5_000, 1)).bin_notes) == 1


@pytest.fixture(scope="module")
def tables() -> tuple[Triplets, Triplets]:
    """Two tables with groups, references that repeat and two distances."""
    made = []
    for seed, T, M in ((1, 40_000, 2), (2, 10_000, 5)):
        rng = np.random.default_rng(seed)
        ref, z = rng.integers(0, T // 5, T), rng.normal(size=(2, T))
        taste = rng.normal(scale=0.7, size=T // 5)
        noisy = z + rng.normal(scale=0.7, size=(2, T))
        columns = {"good_d0": np.exp(z[0]), "good_d1": np.exp(z[1])}
        columns |= {"poor_d0": np.round(np.exp(noisy[0]), 1), "poor_d1": np.round(np.exp(noisy[1]), 1)}
        votes = {"n": rng.binomial(M, expit(2 * (z[0] - z[1]) + taste[ref])), "M": np.full(T, M)}
        labels = {"group": np.array(["a", "b", "c"])[rng.integers(0, 3, T)], "ref": ref}
        made.append(Triplets.from_frame(votes | labels | columns))
    return made[0], made[1]


def test_an_evaluation_of_counts_is_that_of_the_triplets(tables: tuple[Triplets, Triplets]) -> None:
    exact = evaluate(*tables, estimators=("density", "auto"))
    found = evaluate(*(count(table, keep_refs=True) for table in tables), estimators=("density", "auto"))
    assert found.error_bars == exact.error_bars
    assert "clustered by ref" in found.error_bars
    assert found.triplets is None
    assert found.comparisons == []
    assert found.findings == []
    assert any("checks and results of single triplets need the triplets themselves" in note for note in found.notes)
    assert found.notes[-1].startswith("poor: counted in bins, 128 for each doubling of the distance; no bin of several")
    known = {(r["distance"], r["estimator"], r["split"], r["group"]): r for r in exact.scores}
    assert len(known) == len(found.scores)
    for record in found.scores:
        other = known[tuple(record[name] for name in ("distance", "estimator", "split", "group"))]
        assert record["nll"] == pytest.approx(other["nll"], abs=3e-4)
        assert record["nll_per_vote"] == pytest.approx(other["nll_per_vote"], abs=2e-4)
        assert record["agreement"] == pytest.approx(other["agreement"], abs=0.1)
        assert record["nll_simulated"] == pytest.approx(other["nll_simulated"], abs=3e-4)
        for name in ("triplets", "votes", "ties"):
            assert record[name] == other[name]
        for name in ("score_2afc_distance", "score_2afc"):
            assert record[name] == pytest.approx(other[name], abs=1e-9 if name.endswith("distance") else 0.05)
        assert record["nll_se"] == pytest.approx(other["nll_se"], rel=0.01)
        assert record["score_2afc_distance_se"] == pytest.approx(other["score_2afc_distance_se"], rel=1e-6)
        if "explained_low" in other:
            assert record["explained_low"] == pytest.approx(other["explained_low"], abs=0.01)
    assert found.ceiling is not None
    assert exact.ceiling is not None
    assert found.ceiling.nll_lowest == pytest.approx(exact.ceiling.nll_lowest, abs=1e-6)


def test_the_ceiling_of_counts_is_that_of_all_their_distances() -> None:
    """Whichever comes first: the best function is as good as each of them."""
    drawn = []
    for T, seed in ((4000, 1), (3000, 2)):
        rng = np.random.default_rng(seed)
        true = np.exp(rng.normal(size=(2, T)))
        noisy = true * np.exp(3 * rng.normal(size=(2, T)))
        votes = {"n": rng.binomial(2, true[0] ** 3 / (true[0] ** 3 + true[1] ** 3)), "M": [2] * T}
        drawn.append({"good": true, "poor": noisy, "votes": votes})
    tables = [
        [
            Triplets.from_frame(one["votes"] | {f"{name}_d{k}": one[name][k] for name in names for k in (0, 1)})
            for one in drawn
        ]
        for names in (("good", "poor"), ("poor", "good"))
    ]
    exact = evaluate(*tables[0])
    for pair in tables:
        found = evaluate(*map(count, pair))
        assert found.ceiling is not None
        assert exact.ceiling is not None
        for field in ("nll_lowest", "nll_highest", "nll_low", "gain_lowest", "gain_highest", "score_2afc_lowest"):
            assert getattr(found.ceiling, field) == pytest.approx(getattr(exact.ceiling, field), rel=1e-3), field
        for name in ("good", "poor"):
            shares = [
                (record["explained_low"], record["explained_high"])
                for result in (found, exact)
                for record in result.scores
                if record["distance"] == name and record["split"] == "test"
            ]
            assert shares[0] == pytest.approx(shares[1], abs=0.3)


def test_counts_of_one_distance_need_no_mapping(tables: tuple[Triplets, Triplets]) -> None:
    train, test = (count(table["good"]) for table in tables)
    assert evaluate(train["good"], test["good"]).scores == evaluate(train, test).scores


def test_counts_without_references_are_not_clustered(tables: tuple[Triplets, Triplets]) -> None:
    train, test = (count(table["good"]) for table in tables)
    found = evaluate(train, test, estimators=("network",), settings=Settings(seeds=2))
    assert found.error_bars.endswith("; not clustered: the counts keep no references")
    assert "network on counts: Adam needs single triplets, so L-BFGS is used" in found.notes
    (over,) = (r for r in found.scores if r.get("runs") and (r["split"], r["group"]) == ("test", "all"))
    assert over["runs"] == 2
    assert over["nll_sd"] > 0


@pytest.mark.parametrize("keep_refs", [False, True])
def test_cross_validation_of_counts_is_that_of_the_triplets(keep_refs: bool) -> None:
    rng = np.random.default_rng(3)
    z, ref = rng.normal(size=(2, 20_000)), rng.integers(0, 4000, 20_000)
    columns = {"n": rng.binomial(2, expit(2 * (z[0] - z[1]))), "M": np.full(20_000, 2), "d0": np.exp(z[0])}
    columns |= {"d1": np.exp(z[1]), "group": np.arange(20_000) % 2} | ({"ref": ref} if keep_refs else {})
    table = Triplets.from_frame(columns)
    asked: dict[str, Any] = {"settings": Settings(folds=4, seed=1), "estimators": ["density"]}
    exact = {(r["estimator"], r["split"], r["group"]): r for r in evaluate(table, **asked).scores}
    result = evaluate(count(table, keep_refs=keep_refs), **asked)
    found = {(r["estimator"], r["split"], r["group"]): r for r in result.scores}
    assert list(found) == list(exact)
    by = ", split by ref" if keep_refs else "; folds split triplets, not references"
    assert f"no test table: 4-fold cross-validation{by}" in result.notes
    for estimator in ("density",):
        folds = [found[estimator, f"fold-{k}", "all"] for k in range(4)]
        assert sum(fold["triplets"] for fold in folds) == 20_000
        for group in ("0", "1", "mean", "all"):
            one, other = (each[estimator, "test", group] for each in (found, exact))
            assert one["triplets"] == other["triplets"]
            # Other folds alone move the one as much.
            assert one["nll"] == pytest.approx(other["nll"], abs=1.5e-3)
            assert one["nll_se"] == pytest.approx(other["nll_se"], rel=0.02)
            assert one["score_2afc_distance"] == pytest.approx(other["score_2afc_distance"], abs=1e-9)
        # Triplets left out are less well known than those that were fitted.
        assert found[estimator, "test", "all"]["nll"] > found[estimator, "train", "all"]["nll"]
        mean = np.average([fold["nll"] for fold in folds], weights=[fold["triplets"] for fold in folds])
        assert found[estimator, "test", "all"]["nll"] == pytest.approx(mean, abs=1e-9)


def test_each_triplet_has_the_same_chance_of_each_fold() -> None:
    table = Triplets.from_frame({"n": [1] * 900, "M": [1] * 900, "d0": [1.0, 2.0, 3.0] * 300, "d1": [2.0] * 900})
    rows = tally(table).table()
    drawn = []
    for seed in range(300):
        parts, fold = split_rows(rows, 3, seed=seed)
        assert parts.count is not None
        assert parts.count.min() > 0
        drawn.append(np.bincount(fold * 3 + np.searchsorted(rows.d0, parts.d0), parts.count, 9))
    # Binomial, 300 triplets and a third: the mean of 300 draws has an error of 0.47.
    assert np.abs(np.mean(drawn, axis=0) - 100).max() < 2.5
    np.testing.assert_allclose(np.var(drawn, axis=0), 200 / 3, rtol=0.35)


@pytest.mark.parametrize(
    ("folds", "told"),
    [
        (1, "folds must lie between 2 and the number of triplets, 3; found 1"),
        (4, "folds must lie between 2 and the number of triplets, 3; found 4"),
        (3, "each fold must have triplets; of 3 one of 3 folds got none: use fewer folds"),
    ],
)
def test_folds_must_be_possible(folds: int, told: str) -> None:
    rows = tally(Triplets.from_frame({"n": [1] * 3, "M": [1] * 3, "d0": [1.0, 2.0, 3.0], "d1": [2.0] * 3})).table()
    with pytest.raises(DataError) as caught:
        [split_rows(rows, folds, seed=seed) for seed in range(20)]
    assert str(caught.value) == told


class Own:
    def fit(self, table: Triplets) -> Any:
        raise AssertionError


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"estimators": {"own": Own()}},
            "only estimators with takes_counts = True can be fitted to counts; own takes triplets",
        ),
        (
            {"settings": Settings(error_bars="bootstrap")},
            "error_bars='bootstrap' needs single triplets; these are counts of them: use the table that was counted",
        ),
        ({"distances": ["x"]}, "the train table has no distance x; it has distance"),
    ],
)
def test_what_counts_cannot_give_is_refused(options: dict[str, Any], message: str) -> None:
    counts = {"distance": tally(random_table(50))}
    with pytest.raises(ValueError, match=r"counts|table") as caught:
        evaluate(counts, counts, **options)
    assert str(caught.value) == message


def test_counts_and_triplets_are_not_mixed() -> None:
    table = random_table(50)
    counts = {"distance": tally(table)}
    with pytest.raises(TypeError, match=r"^train and test must both be tables, or both counts of distances$"):
        evaluate(counts, table)
    with pytest.raises(DataError, match=r"^train and test must both be counts, or both tables of single triplets$"):
        evaluate(counts["distance"].table(), table)


def test_adam_is_refused_with_the_reason() -> None:
    with pytest.raises(ValueError, match=r"^Adam needs single triplets, not counts; use Network\("):
        Network().fit(tally(random_table(50)).table())


ESTIMATORS = [Density(sigma="auto"), Spline(), Network(solver="lbfgs"), Network(solver="lbfgs", inputs="raw")]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: type(each).__name__)
def test_models_carry_their_counts(estimator: Any, tmp_path: Path) -> None:
    whole = random_table(600, ref=np.arange(600) % 70)
    halves = [tally(whole.where(np.arange(600) % 2 == half), keep_refs=True) for half in (0, 1)]
    fit = fit_counts(estimator, halves[0])
    fit.save(tmp_path / "m.npz")
    again: Any = load(tmp_path / "m.npz")
    d = whole.d0[:20]
    assert carried_by(again) == (estimator, halves[0])
    assert again.settings == fit.settings
    np.testing.assert_array_equal(again.probability(d, d[::-1]), fit.probability(d, d[::-1]))
    one, other = fit_counts(estimator, merge(halves)), fit_counts(estimator, tally(whole, keep_refs=True))
    np.testing.assert_array_equal(one.probability(d, d[::-1]), other.probability(d, d[::-1]))


def test_counts_that_were_changed_in_a_model_are_refused() -> None:
    fit = fit_counts(Density(), tally(random_table(50)))
    changed = {**fit.carried, "counts_n": fit.carried["counts_M"] + 1}
    with pytest.raises(DataError, match=r"^the counts are damaged: the cells and the histogram do not agree$"):
        carried_by(replace(fit, carried=changed))
    with pytest.raises(DataError, match=r"^the model carries no counts$"):
        carried_by(replace(fit, carried={}))


def test_the_map_of_counts_is_the_exact_one_within_a_fine_bin() -> None:
    table = Triplets.from_frame(worlds.simulate("weber", triplets=20_000, votes=2))
    exact, found = Uniform.learn(table.d0, table.d1), counts_of(table).uniform
    d = np.exp(np.linspace(-2.5, 2.5, 1001))
    assert np.abs(exact(d) - found(d)).max() < 1e-3


def test_the_card_describes_the_counts(tmp_path: Path) -> None:
    counts = {"distance": tally(random_table(200, ref=np.arange(200) % 30), keep_refs=True)}
    evaluate(counts, counts).write(tmp_path / "out")
    told = json.loads((tmp_path / "out" / "scores.json").read_text())["card"]
    assert told["data"]["train"]["references"] == "kept"
    assert 0 <= told["data"]["train"]["widest_bin"]["distance"] < 0.05
    assert not (tmp_path / "out" / "triplets.parquet").exists()
