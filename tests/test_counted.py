from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import expit, ndtr

from conftest import random_table
from twoafc import Density, Network, Settings, Spline, Triplets, evaluate, worlds
from twoafc.core import Uniform
from twoafc.counted import ByReference, CountedTriplets
from twoafc.counts import Counts, Lattice, tally
from twoafc.errors import DataError
from twoafc.estimators import load
from twoafc.estimators.clusters import clusters_of
from twoafc.estimators.origin import fit_counts, refit
from twoafc.evaluation import evaluate_counts
from twoafc.evaluation.binning import binning
from twoafc.evaluation.by_reference import by_reference
from twoafc.evaluation.left_out import _fit
from twoafc.evaluation.loop import Job, Prediction
from twoafc.evaluation.reach import ceiling_of
from twoafc.evaluation.records import Scored
from twoafc.inference import by_group, values_per_row
from twoafc.inference.ceiling import ceiling
from twoafc.inference.counted import CountedDependence, alone
from twoafc.inference.dependence import Dependence
from twoafc.inference.errorbars import Errors, Together, errors, values_of
from twoafc.places import Places, roundest
from twoafc.results import Run

rows = st.lists(
    st.tuples(
        st.integers(0, 4), st.integers(1, 4), st.floats(0.0, 9.0), st.floats(0.0, 9.0), st.integers(1, 5), st.booleans()
    ),
    min_size=2,
    max_size=25,
)
Drawn = list[tuple[int, int, float, float, int, bool]]


def counted_and_repeated(drawn: Drawn, *, references: int | None = None) -> tuple[CountedTriplets, Triplets]:
    """Rows with a count, and the table in which each stands so many times: one map for both."""
    n, M, d0, d1, count, group = (np.array(column) for column in zip(*drawn, strict=True))
    n, each = np.minimum(n, M), np.repeat(np.arange(len(drawn)), count)
    labels = {"group": np.where(group, "a", "b")[each]} | ({"ref": each % references} if references else {})
    repeated = Triplets.from_frame({"n": n[each], "M": M[each], "d0": d0[each], "d1": d1[each], **labels})
    names, codes = np.unique(np.where(group, "a", "b"), return_inverse=True)
    uniform = Uniform.learn(repeated.d0, repeated.d1)
    place = np.arange(len(drawn))
    kept = ByReference(place % references, place, place, count) if references else None
    groups = (names.tolist(), codes)
    table = CountedTriplets(Places(d0, d1), place, n, M, count, uniform, groups, place if references else None, kept)
    return table, repeated


PLACES = np.linspace(0, 9, 7)[:, None], np.linspace(0.3, 8.7, 6)[None, :]


@settings(deadline=None, max_examples=40)
@given(
    rows,
    st.builds(
        Density,
        sigma=st.floats(0.01, 1.0),
        grid_size=st.integers(2, 9),
        sigma_along=st.none() | st.floats(0.01, 1.0),
    ),
)
def test_a_row_that_stands_for_several_is_several_rows_to_the_density(drawn: Drawn, density: Density) -> None:
    table, repeated = counted_and_repeated(drawn)
    one, other = density.fit(table), density.fit(repeated)
    assert one.settings == other.settings
    np.testing.assert_allclose(one.surface, other.surface, rtol=0, atol=1e-11)
    np.testing.assert_allclose(one.standard_error(*PLACES), other.standard_error(*PLACES), rtol=1e-7, atol=1e-11)
    np.testing.assert_allclose(one.plane_log_likelihood, other.plane_log_likelihood, rtol=1e-9)


def test_one_triplet_of_a_row_is_left_out_where_a_width_is_chosen() -> None:
    some = random_table(60)
    count = np.random.default_rng(0).integers(1, 6, 60)
    drawn = list(zip(some.n, some.M, some.d0, some.d1, count, [True] * 60, strict=True))
    table, repeated = counted_and_repeated(drawn)
    for density in (Density(sigma="auto"), Density(sigma="auto", sigma_along="auto")):
        one, other = density.fit(table), density.fit(repeated)
        assert one.settings == other.settings
        np.testing.assert_allclose(one.surface, other.surface, rtol=0, atol=1e-11)
    # Were whole rows left out, votes on the same place would not be seen, and the kernel would be wider.
    alone = Density(sigma="auto").fit(some)
    assert one.settings.sigma != alone.settings.sigma


@settings(deadline=None, max_examples=15)
@given(rows, st.booleans())
def test_a_row_that_stands_for_several_is_several_rows_to_the_spline(drawn: Drawn, ref: bool) -> None:
    table, repeated = counted_and_repeated(drawn, references=(len(drawn) + 1) // 2 if ref else None)
    one, other = Spline(size=5, link="logit").fit(table), Spline(size=5, link="logit").fit(repeated)
    # Sums in another order differ in the last bit, of which the iterations make a little more.
    np.testing.assert_allclose(one.probability(*PLACES), other.probability(*PLACES), rtol=0, atol=1e-6)
    assert one.dispersion == pytest.approx(other.dispersion, rel=1e-5)


@settings(deadline=None, max_examples=8)
@given(rows, st.sampled_from(["uniform", "raw"]))
def test_a_row_that_stands_for_several_is_several_rows_to_the_network(drawn: Drawn, inputs: Any) -> None:
    table, repeated = counted_and_repeated(drawn)
    network = Network(solver="lbfgs", inputs=inputs)
    one, other = network.fit(table), network.fit(repeated)
    assert one.chance_nll == pytest.approx(other.chance_nll, rel=1e-12)
    # A hundred steps downhill enlarge what rounding leaves.
    assert one.training_nll[-1] == pytest.approx(other.training_nll[-1], rel=1e-3, abs=1e-3)


def tastes() -> Triplets:
    """A hundred references, each with distances near one place and a taste of its own."""
    rng = np.random.default_rng(2)
    ref, centre = np.arange(4000) % 100, 0.2 + 0.8 * rng.random((2, 100))
    d0, d1 = centre[:, ref] + rng.normal(scale=0.01, size=(2, 4000))
    P = expit(2 * (d0 - d1) + rng.normal(scale=2, size=100)[ref])
    return Triplets.from_frame({"n": rng.binomial(2, P), "M": np.full(4000, 2), "d0": d0, "d1": d1, "ref": ref})


def test_a_width_for_references_is_chosen_from_what_was_counted_of_them() -> None:
    table = tastes()
    exact = float(Density(sigma="auto").fit(table).settings.sigma)
    kept, lost = (
        float(Density(sigma="auto").fit(CountedTriplets.of(tally(table, keep_refs=keep))).settings.sigma)
        for keep in (True, False)
    )
    assert kept == pytest.approx(exact, rel=0.35)
    assert lost < exact / 2
    assert clusters_of(CountedTriplets.of(tally(table))) is None


def assert_same_errors(found: Errors, expected: Errors) -> None:
    assert list(found) == list(expected)
    for group, error in expected.items():
        np.testing.assert_allclose(found[group].se, error.se, rtol=1e-6, atol=1e-9)
        assert found[group].units == pytest.approx(error.units)
        # Of values that are all alike the skewness is that of their rounding.
        spread = error.se > 1e-6
        np.testing.assert_allclose(found[group].skew[spread], error.skew[spread], rtol=1e-5, atol=1e-7)


@settings(deadline=None, max_examples=30)
@given(rows)
def test_scores_and_error_bars_of_counts_are_those_of_the_triplets(drawn: Drawn) -> None:
    table, repeated = counted_and_repeated(drawn)
    each = np.repeat(np.arange(len(drawn)), table.count)
    P = np.clip(np.linspace(0.1, 0.9, len(drawn)), 0.02, 0.98)
    one, other = values_per_row(table, P), values_per_row(repeated, P[each])
    for a, b in zip(by_group(table, one), by_group(repeated, other), strict=True):
        assert a.pop("group") == b.pop("group")
        assert a == pytest.approx(b, rel=1e-9)
    link, plain = Together(alone(table)), Together(Dependence(len(repeated), (), ""))
    bars = errors(values_of(table, P, one, link), table.groups, link)
    expected = errors(values_of(repeated, P[each], other, plain), repeated.groups, plain)
    assert_same_errors(bars, expected)


@settings(deadline=None, max_examples=20)
@given(rows, st.integers(15, 25))
def test_error_bars_by_reference_are_those_of_the_triplets(drawn: Drawn, references: int) -> None:
    drawn = drawn * 4  # so that there are enough references, and several rows of each
    table, repeated = counted_and_repeated(drawn, references=references)
    each = np.repeat(np.arange(len(drawn)), table.count)
    P = np.linspace(0.1, 0.9, len(drawn))
    plain = Together(Dependence(len(repeated), ((np.arange(len(drawn)) % references)[each],), ""))
    prediction = Prediction(Run("distance", "density", None, Density().fit(table)), "test", table, P, False)
    one, link = by_reference(Scored(prediction, values_of(table, P, values_per_row(table, P), plain), []))
    assume("clustered" in link.told)
    assert one.values is not None
    values = values_of(repeated, P[each], values_per_row(repeated, P[each]), plain)
    assert_same_errors(errors(one.values, one.codes, link), errors(values, repeated.groups, plain))
    of_counts, of_rows = ceiling_of(one, link), ceiling(repeated.n, repeated.M, clusters=plain.rows)
    assert of_counts.nll_lowest == pytest.approx(of_rows.nll_lowest, abs=1e-6, nan_ok=True)
    assert of_counts.human_triplets_se == pytest.approx(of_rows.human_triplets_se, nan_ok=True)


@pytest.mark.parametrize("ends", [(0.0, 0.8987), (0.3137, np.inf)])
@pytest.mark.parametrize("estimator", [Density(), Spline()])
def test_where_distances_end_at_one_value_p_is_that_of_the_triplets(ends: Any, estimator: Density | Spline) -> None:
    rng = np.random.default_rng(0)
    shared = 0.6 * rng.standard_normal(20_000)
    d0, d1 = (np.exp(-0.5 + shared + 0.5 * rng.standard_normal(20_000)) for _ in range(2))
    n = rng.binomial(2, d0**2 / (d0**2 + d1**2))
    table = Triplets.from_frame({"n": n, "M": np.full(20_000, 2), "d0": np.clip(d0, *ends), "d1": np.clip(d1, *ends)})
    counts = tally(table)
    exact = estimator.fit(table)

    def error(counts: Counts) -> tuple[float, float]:
        rows = CountedTriplets.of(counts)
        fit = estimator.fit(rows)
        off = exact.probability(table.d0, table.d1) - fit.probability(table.d0, table.d1)
        stated = binning(fit, rows).error_P
        return float(np.sqrt(np.mean(off**2))), stated

    of_known, of_unknown = error(counts), error(replace(counts, atoms={}))
    assert of_known[0] < 0.005
    # Where the value is not known it may lie anywhere in its bin, and about that is stated.
    assert of_unknown[0] < 2.5 * of_unknown[1]


@pytest.mark.parametrize("per_octave", [128, 256])
@pytest.mark.parametrize("ends", [(0.0, 1.0), (0.9, np.inf), (0.5, 0.8987)])
def test_few_test_triplets_are_where_the_training_table_has_them(per_octave: int, ends: tuple[float, float]) -> None:
    def votes(T: int, seed: int) -> Triplets:
        rng = np.random.default_rng(seed)
        d = rng.lognormal(0, 0.8, (2, T))
        n = rng.binomial(5, d[0] ** 2 / (d[0] ** 2 + d[1] ** 2))
        d = np.clip(d, *ends)
        return Triplets.from_frame({"n": n, "M": np.full(T, 5), "d0": d[0], "d1": d[1]})

    train, test = votes(10_000, 1), votes(100, 2)
    exact = evaluate(train, test, estimators=["density"])
    test_counts = {"distance": tally(test, Lattice(per_octave))}
    found = evaluate_counts({"distance": tally(train)}, test_counts, estimators=["density"])
    (one,), (other,) = ([record for record in result.scores if record["split"] == "test"] for result in (exact, found))
    for name in ("nll", "agreement", "score_2afc"):
        assert other[name] == pytest.approx(one[name], rel=0.01)


def test_what_wide_bins_hide_of_a_reference_is_in_its_error_bars() -> None:
    def votes(T: int, seed: int) -> Triplets:
        rng = np.random.default_rng(seed)
        ref = rng.integers(0, 60, T)
        d, taste = rng.uniform(0.9, 1, (2, T)), rng.normal(0, 1.5, 60)[ref]
        n = rng.binomial(3, expit(60 * (d[0] - d[1]) + taste))
        labels = {"ref": ref, "group": np.where(ref % 3, "a", "b")}
        return Triplets.from_frame({"n": n, "M": np.full(T, 3), "d0": d[0], "d1": d[1], **labels})

    train, test = votes(1500, 1), votes(6000, 2)
    exact = evaluate(train, test, estimators=["density"])
    counted = [{"distance": tally(table, keep_refs=True)} for table in (train, test)]
    found = evaluate_counts(*counted, estimators=["density"])
    known = {record["group"]: record for record in exact.scores if record["split"] == "test"}
    for record in (record for record in found.scores if record["split"] == "test"):
        for name in ("nll_se", "nll_per_vote_se", "agreement_se"):
            assert record[name] == pytest.approx(known[record["group"]][name], rel=0.15)


def test_few_references_are_taken_as_given_and_lone_ones_stand_alone() -> None:
    told = {}
    for name, ref in {"few": np.arange(60) % 3, "lone": np.arange(60), "many": np.arange(60) % 20}.items():
        counts = {"distance": tally(random_table(60, ref=ref), keep_refs=True)}
        told[name] = evaluate_counts(counts, counts).error_bars.split("; ", 1)[1]
    assert told == {
        "few": "each triplet stands alone; the few references are taken as given",
        "lone": "each triplet stands alone",
        "many": "clustered by ref",
    }


def test_the_ceiling_of_counts_is_that_of_the_triplets() -> None:
    rng = np.random.default_rng(0)
    M = rng.choice([1, 2, 5], 1200)
    n = rng.binomial(M, rng.beta(0.8, 0.8, 1200))
    ref = np.arange(1200) % 150
    kinds, times = np.unique(np.stack([n, M]), axis=1, return_counts=True)
    found, expected = ceiling(*kinds, clusters=CountedDependence(times, None, "")), ceiling(n, M)
    for one, other in ((found, expected), *zip(found.by_votes, expected.by_votes, strict=True)):
        numbers = {name: value for name, value in vars(other).items() if isinstance(value, int | float)}
        assert {name: getattr(one, name) for name in numbers} == pytest.approx(numbers, rel=1e-6, nan_ok=True)
    kinds, times = np.unique(np.stack([n, M, ref]), axis=1, return_counts=True)
    together = CountedDependence(times, Dependence(len(times), (kinds[2],), ""), "")
    expected = ceiling(n, M, clusters=ref)
    found = ceiling(kinds[0], kinds[1], clusters=together)
    for name in ("nll_lowest", "nll_highest", "score_2afc_lowest", "human_triplets_se", "human_pairs_se", "floor_nll"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-6)
    assert found.note == expected.note


distances = st.lists(
    st.tuples(st.floats(0, 1e14), st.floats(0, 1e14)) | st.floats(0, 3).map(lambda d: (d, d * (1 + 1e-9))),
    min_size=1,
    max_size=20,
)


@settings(deadline=None, max_examples=50)
@given(distances, st.sampled_from([4, 128]))
def test_every_row_lies_in_its_bins_on_the_right_side_of_the_diagonal(
    drawn: list[tuple[float, float]], per_octave: int
) -> None:
    d0, d1 = np.array(drawn).T
    counts = tally(
        Triplets.from_frame({"n": [1] * len(d0), "M": [2] * len(d0), "d0": d0, "d1": d1}), Lattice(per_octave)
    )
    table = CountedTriplets.of(counts)
    np.testing.assert_array_equal(np.sign(table.d0 - table.d1), counts.cells["sign"])
    last = counts.lattice.bins - 1
    for d, name in ((table.d0, "bin0"), (table.d1, "bin1")):
        bins = counts.cells[name].to_numpy()
        # Beyond the last edge there is no middle: a distance stands for it that may lie just below.
        np.testing.assert_array_equal(counts.lattice.index(d)[bins < last], bins[bins < last])
    u = table.uniform(np.sort(np.concatenate([table.d0, table.d1])))
    assert (np.diff(u) >= 0).all()
    assert table.uniform.at_most[-1] == 2 * len(d0)


def test_the_map_of_counts_is_the_exact_one_within_a_bin() -> None:
    table = Triplets.from_frame(worlds.simulate("weber", triplets=20_000, votes=2))
    exact, found = Uniform.learn(table.d0, table.d1), CountedTriplets.of(tally(table)).uniform
    d = np.exp(np.linspace(-2.5, 2.5, 1001))
    assert np.abs(exact(d) - found(d)).max() < 1e-3


def drawn_world(kind: str, T: int, seed: int, M: int = 2) -> Triplets:
    """Votes that depend on hidden normal scores alone, with distances of several shapes."""
    rng = np.random.default_rng(seed)
    z0, z1 = rng.normal(size=(2, T))
    shapes = {
        "log-normal": np.exp,
        "thousandths": lambda z: 1e-3 * np.exp(0.3 * z),
        "ties": lambda z: np.round(np.exp(0.5 * z), 1),
        "zeros": lambda z: np.maximum(z, 0.0),
        "up to 1": ndtr,
        "0.8 to 1": lambda z: 0.8 + 0.2 * ndtr(z),
        "at most 0.9": lambda z: np.minimum(np.exp(z), 0.9),
        "0 to 255": lambda z: np.round(255 * ndtr(z)),
        "1 + d / 1000": lambda z: 1 + 1e-3 * np.exp(0.7 * z - 1.5),
        "1 + d / 100": lambda z: 1 + 1e-2 * np.exp(0.7 * z - 1.5),
        "100 + d": lambda z: 100 + np.exp(0.7 * z - 1.5),
        "all tiny": lambda z: 1e-14 * np.exp(0.7 * z - 1.5),
        "most tiny": lambda z: 1e-12 * np.exp(0.7 * z - 1.5),
        "most huge": lambda z: 1e13 * np.exp(0.7 * z - 1.5),
    }
    d0, d1 = shapes[kind](z0), shapes[kind](z1)
    n = rng.binomial(M, expit(2 * (z0 - z1)))
    return Triplets.from_frame({"n": n, "M": np.full(T, M), "d0": d0, "d1": d1})


@pytest.mark.parametrize("estimator", [Density(), Spline()], ids=["density", "spline"])
@pytest.mark.parametrize("kind", ["log-normal", "thousandths", "ties", "zeros", "up to 1", "0.8 to 1"])
def test_the_stated_error_is_the_true_one(kind: str, estimator: Density | Spline) -> None:
    train = drawn_world(kind, 100_000, 1)
    counts = tally(train)
    table = CountedTriplets.of(counts)
    fit, exact = estimator.fit(table), estimator.fit(train)
    stated = binning(fit, table)
    some = train.where(np.arange(0, 100_000, 50))
    error = fit.probability(some.d0, some.d1) - exact.probability(some.d0, some.d1)
    true = float(np.sqrt(np.mean(error**2)))
    assert stated.error_P_in_se is not None
    # So few bins cost the more the better the smoother: what is stated may fall short there.
    assert true < (3 if kind == "0.8 to 1" else 2) * stated.error_P
    if kind in ("log-normal", "thousandths", "zeros"):
        assert stated.error_P_in_se < 0.3
    if kind == "0.8 to 1":
        assert stated.error_P_in_se > 0.5


@pytest.mark.parametrize("estimator", [Density(), Spline()], ids=["density", "spline"])
@pytest.mark.parametrize("kind", ["1 + d / 1000", "1 + d / 100", "100 + d", "all tiny", "most tiny", "most huge"])
def test_bins_that_lose_nearly_all_say_so(kind: str, estimator: Density | Spline) -> None:
    train = drawn_world(kind, 20_000, 1)
    table = CountedTriplets.of(tally(train))
    fit, exact = estimator.fit(table), estimator.fit(train)
    error = fit.probability(train.d0, train.d1) - exact.probability(train.d0, train.d1)
    true, stated = float(np.sqrt(np.mean(error**2))), binning(fit, table)
    assert true > 0.1
    assert true / 1.5 < stated.error_P <= 0.5
    assert stated.error_P_in_se is not None
    assert stated.error_P_in_se > 10
    assert stated.widest > 0.8
    assert (stated.beyond > 0.8) == (kind in ("all tiny", "most tiny", "most huge"))


@pytest.mark.parametrize("kind", ["ties", "0 to 255", "at most 0.9", "zeros"])
def test_values_that_repeat_are_no_loss(kind: str) -> None:
    train = drawn_world(kind, 50_000, 1)
    table = CountedTriplets.of(tally(train))
    fit, exact = Density().fit(table), Density().fit(train)
    error = fit.probability(train.d0, train.d1) - exact.probability(train.d0, train.d1)
    assert np.sqrt(np.mean(error**2)) < 2e-3
    stated = binning(fit, table)
    assert stated.widest < 0.02
    assert stated.error_P_in_se is not None
    assert stated.error_P_in_se < 0.5


@given(st.floats(1e-12, 1e12), st.sampled_from([1, 128, 4096]))
def test_the_roundest_number_of_a_bin_lies_in_it(d: float, per_octave: int) -> None:
    lattice = Lattice(per_octave)
    low, high = lattice.edges[lattice.index(d) :][:2]
    found = roundest(low, high)
    assert low <= found < high
    short = float(f"{d:.3g}")
    if low <= short < high:
        assert len(f"{found:.15g}".replace(".", "").strip("0").split("e")[0]) <= 3


def test_finer_bins_bring_the_fit_to_the_exact_one() -> None:
    train = drawn_world("0.8 to 1", 30_000, 3)
    exact = Density().fit(train).probability(train.d0, train.d1)
    fits = [Density().fit(CountedTriplets.of(tally(train, Lattice(p)))) for p in (64, 256, 2048)]
    costs = [np.abs(fit.probability(train.d0, train.d1) - exact).mean() for fit in fits]
    assert costs[0] > 3 * costs[1] > 9 * costs[2]
    assert costs[2] < 2e-4


def test_an_error_is_stated_where_bins_cannot_be_wider_too() -> None:
    table = CountedTriplets.of(tally(drawn_world("log-normal", 20_000, 1), Lattice(2)))
    assert 0.02 < binning(Density().fit(table), table).error_P < 0.5
    tied = tally(Triplets.from_frame({"n": [1, 0], "M": [2, 2], "d0": [1.0, 2.0], "d1": [1.0, 2.0]}))
    table = CountedTriplets.of(tied)
    assert binning(Density().fit(table), table).error_P == 0


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


def counts_of(table: Triplets, *, keep_refs: bool = False) -> dict[str, Counts]:
    return {name: tally(table[name], keep_refs=keep_refs) for name in table.distances}


def test_an_evaluation_of_counts_is_that_of_the_triplets(tables: tuple[Triplets, Triplets]) -> None:
    train, test = tables
    exact = evaluate(train, test, estimators=("density", "auto"))
    found = evaluate_counts(
        counts_of(train, keep_refs=True), counts_of(test, keep_refs=True), estimators=("density", "auto")
    )
    assert found.error_bars == exact.error_bars
    assert "clustered by ref" in found.error_bars
    assert found.triplets is None
    assert found.comparisons == []
    assert [str(finding) for finding in found.findings] == [
        "note: both: the tables were counted, not checked; what twoafc check looks at is in single triplets; "
        "run it on a part of them"
    ]
    assert found.notes[-1].startswith("counted in bins, 128 for each doubling of a distance: P is moved by about 0.0")
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
        assert record["nll_se"] == pytest.approx(other["nll_se"], rel=0.02)
        assert record["score_2afc_distance_se"] == pytest.approx(other["score_2afc_distance_se"], rel=1e-6)
        if "explained_low" in other:
            assert record["explained_low"] == pytest.approx(other["explained_low"], abs=0.01)
    assert found.ceiling is not None
    assert exact.ceiling is not None
    assert found.ceiling.nll_lowest == pytest.approx(exact.ceiling.nll_lowest, abs=1e-6)


def test_counts_without_references_say_that_they_are_not_clustered(tables: tuple[Triplets, Triplets]) -> None:
    train, test = (counts_of(table["good"]) for table in tables)
    found = evaluate_counts(train, test, estimators=("network",), settings=Settings(seeds=2))
    assert found.error_bars.endswith("; not clustered: the counts keep no references")
    assert "network on counts: L-BFGS on all votes at once, since Adam takes triplets one at a time" in found.notes
    (over,) = (r for r in found.scores if r.get("runs") and (r["split"], r["group"]) == ("test", "all"))
    assert over["runs"] == 2
    assert over["nll_sd"] > 0


def test_bins_too_wide_are_warned_of() -> None:
    train, test = ({"d": tally(drawn_world("0.8 to 1", 20_000, seed), Lattice(32))} for seed in (1, 2))
    warned = [note for note in evaluate_counts(train, test).notes if note.startswith("warning")]
    assert len(warned) == 2
    assert re.fullmatch(
        r"warning: d, density: the bins cost more than a standard error of P on average, [\d.]+; "
        r"count again with --per-octave \d+",
        warned[0],
    )
    assert re.fullmatch(
        r"warning: d: one bin holds \d+% of the distances; count again with --per-octave \d+", warned[1]
    )


def test_distances_that_no_bins_suit_are_warned_of() -> None:
    told = {}
    for kind in ("1 + d / 1000", "all tiny", "log-normal"):
        counts = {"d": tally(drawn_world(kind, 5_000, 1))}
        told[kind] = [note for note in evaluate_counts(counts, counts).notes if note.startswith("warning")]
    none = "no number of bins will do: subtract from the distance what all have in common"
    assert told["1 + d / 1000"][0].endswith(f"; {none}")
    assert told["1 + d / 1000"][1] == f"warning: d: one bin holds 100% of the distances; {none}"
    assert told["all tiny"][1] == (
        "warning: d: 100.0% of the distances lie below 9e-13 or above 1e+12; "
        "all of these share a bin, so multiply the distance by a constant"
    )
    assert told["log-normal"] == []


@pytest.mark.parametrize("keep_refs", [False, True])
def test_cross_validation_of_counts_is_that_of_the_triplets(keep_refs: bool) -> None:
    rng = np.random.default_rng(3)
    z, ref = rng.normal(size=(2, 20_000)), rng.integers(0, 4000, 20_000)
    columns = {"n": rng.binomial(2, expit(2 * (z[0] - z[1]))), "M": np.full(20_000, 2), "d0": np.exp(z[0])}
    columns |= {"d1": np.exp(z[1]), "group": np.arange(20_000) % 2} | ({"ref": ref} if keep_refs else {})
    table = Triplets.from_frame(columns)
    asked: dict[str, Any] = {"estimators": ("density", "auto"), "settings": Settings(folds=4, seed=1)}
    exact = {(r["estimator"], r["split"], r["group"]): r for r in evaluate(table, **asked).scores}
    result = evaluate_counts({"distance": tally(table, keep_refs=keep_refs)}, **asked)
    found = {(r["estimator"], r["split"], r["group"]): r for r in result.scores}
    assert list(found) == list(exact)
    assert result.notes[0] == "no test table: 4-fold cross-validation; folds split triplets, not references"
    assert result.findings[0].table == "train"
    for estimator in ("density", "auto"):
        folds = [found[estimator, f"fold-{k}", "all"] for k in range(4)]
        assert sum(fold["triplets"] for fold in folds) == 20_000
        assert all((fold["nll_se"] is None) == keep_refs for fold in folds)
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


def test_folds_are_as_smooth_as_all_where_references_say_how_smooth_that_is() -> None:
    auto = Density(sigma="auto")
    for keep in (True, False):
        counts = tally(tastes(), keep_refs=keep)
        run = Run("distance", "density", None, fit_counts(auto, counts))
        others = counts.split(2, seed=0)[0]
        found, anew = _fit(Job("distance", "density", None, auto), run, others), auto.fit(CountedTriplets.of(others))
        if keep:
            assert float(found.settings.sigma) == float(run.fit.settings.sigma) > 2 * float(anew.settings.sigma)
        else:
            assert found.settings == anew.settings


class Own:
    def fit(self, table: Triplets) -> Any:
        raise AssertionError


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"estimators": {"own": Own()}}, "counts can be fitted by density, spline and network; own takes triplets"),
        (
            {"settings": Settings(error_bars="bootstrap")},
            "error bars of counts are analytic; bootstrap draws triplets, and counts have none",
        ),
        (
            {"settings": Settings(simulated_seed=1)},
            "simulated scores of counts are exact expectations; a seed draws triplets, and counts have none",
        ),
        ({"distances": ["x"]}, "the train table has no distance x; it has distance"),
    ],
)
def test_what_counts_cannot_give_is_refused(options: dict[str, Any], message: str) -> None:
    counts = {"distance": tally(random_table(50))}
    with pytest.raises(ValueError, match=r"counts|table") as caught:
        evaluate_counts(counts, counts, **options)
    assert str(caught.value) == message


def test_adam_is_refused_with_the_reason() -> None:
    with pytest.raises(ValueError, match=r"counts|table") as caught:
        Network().fit(CountedTriplets.of(tally(random_table(50))))
    assert str(caught.value) == ("Adam takes triplets one at a time, and counts have none; use Network(solver='lbfgs')")


ESTIMATORS = [Density(sigma="auto"), Spline(), Network(solver="lbfgs"), Network(solver="lbfgs", inputs="raw")]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: type(each).__name__)
def test_models_carry_their_counts_and_are_refitted_to_the_sum(estimator: Any, tmp_path: Path) -> None:
    whole = random_table(600, ref=np.arange(600) % 70)
    halves = [fit_counts(estimator, tally(whole.where(np.arange(600) % 2 == half), keep_refs=True)) for half in (0, 1)]
    for place, half in enumerate(halves):
        half.save(tmp_path / f"{place}.npz")
    again = [load(tmp_path / f"{place}.npz") for place in (0, 1)]
    d = whole.d0[:20]
    for half, loaded in zip(halves, again, strict=True):
        assert loaded.origin is not None
        assert loaded.origin.counts == half.origin.counts
        assert loaded.settings == half.settings
        np.testing.assert_array_equal(loaded.probability(d, d[::-1]), half.probability(d, d[::-1]))
    merged, expected = refit(again), fit_counts(estimator, tally(whole, keep_refs=True))
    assert merged.settings == expected.settings
    np.testing.assert_array_equal(merged.probability(d, d[::-1]), expected.probability(d, d[::-1]))
    assert merged.origin is not None
    assert merged.origin.counts.cells.equals(expected.origin.counts.cells)


def test_models_that_do_not_merge_are_refused_with_the_reason() -> None:
    counts = tally(random_table(50))
    one = fit_counts(Density(), counts)
    for other, message in (
        (
            Density().fit(random_table(50)),
            "only models fitted to counts can be merged; b.npz carries none: "
            "fit it with twoafc evaluate --engine, or merge the tables",
        ),
        (
            fit_counts(Density(sigma=0.1), counts),
            "models of one estimator and its settings merge; "
            "a.npz is Density(sigma=0.022727272727272728, grid_size=20, prior=0.001, sigma_along=None), "
            "b.npz Density(sigma=0.1, grid_size=20, prior=0.001, sigma_along=None)",
        ),
        (
            fit_counts(Density(), tally(random_table(50), Lattice(64))),
            "counts on one lattice add; a.npz has 128 bins per octave, b.npz 64: count one of them again, "
            "or take the finer ones on wider bins (Counts.coarser)",
        ),
    ):
        with pytest.raises(DataError) as caught:
            refit([one, other], names=["a.npz", "b.npz"])
        assert str(caught.value) == message


def test_a_model_whose_counts_were_tampered_with_is_refused(tmp_path: Path) -> None:
    from twoafc.files import save_archive

    fit = fit_counts(Density(), tally(random_table(50)))
    name, path = "density", tmp_path / "m.npz"
    arrays = fit.arrays()
    own = {field: getattr(fit.settings, field) for field in ("sigma", "grid_size", "prior", "sigma_along")}
    more = {"counts_count": arrays["counts_count"] + 1}
    for changed, message in (
        (more, "the map must be of the counts that the model carries; it is of another number of triplets"),
        (
            {"counts_n": arrays["counts_M"] + 1},
            "the counts that it carries are not usable: n must lie in [0, M]; in the file some are not",
        ),
        (
            {"counts_card": np.frombuffer(b"no", dtype=np.uint8)},
            "the card of the model's counts is not readable",
        ),
        (
            {"counts_other": np.zeros(1)},
            "the counts that it carries are not usable: the file holds other, which no counts have",
        ),
    ):
        save_archive(path, name, own, arrays | changed)
        with pytest.raises(DataError) as caught:
            load(path)
        assert str(caught.value) == f"{path} is not a usable model; {message}"
    save_archive(path, name, own, {key: each for key, each in arrays.items() if key != "counts_card"})
    with pytest.raises(DataError, match="is not a usable model; it holds counts_M, which no density model has"):
        load(path)


def test_a_fit_of_counts_without_groups_is_that_with_groups() -> None:
    table = random_table(300, group=np.arange(300) % 3)
    with_groups, without = (
        CountedTriplets.of(tally(each)) for each in (table, replace(table, labels=table.labels.drop("group")))
    )
    np.testing.assert_allclose(Density().fit(with_groups).surface, Density().fit(without).surface, atol=1e-12)
    for each in (with_groups, without):
        assert len(each.places.d0) == len(set(zip(each.d0.tolist(), each.d1.tolist(), strict=True)))


def test_the_card_tells_of_the_bins(tmp_path: Path) -> None:

    counts = {"distance": tally(random_table(200, ref=np.arange(200) % 30), keep_refs=True)}
    found = evaluate_counts(counts, counts)
    found.write(tmp_path / "out")
    told = json.loads((tmp_path / "out" / "scores.json").read_text())["card"]
    assert told["data"]["train"]["references"] == "kept"
    assert set(told["fits"][0]["binning"]) == {
        "per_octave",
        "bins",
        "error_P",
        "error_P_in_se",
        "largest_P",
        "largest_P_in_se",
        "widest",
        "beyond",
    }
    assert not (tmp_path / "out" / "triplets.parquet").exists()
