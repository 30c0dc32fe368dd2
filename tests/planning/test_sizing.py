"""`twoafc plan size`: components of variance from a pilot, and the study that they ask for."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import twoafc
from commands import code_of
from conftest import random_table
from twoafc import planning
from twoafc.planning import Components, SingleVotes, Study, estimate_components


def votes(seed: int, *, observers: bool, largest: int = 3) -> SingleVotes:
    """A few votes with effects of references, triplets and observers, weighted."""
    rng = np.random.default_rng(seed)
    ref = rng.integers(0, 4, 9)
    triplet = np.repeat(np.arange(9), rng.integers(1, largest + 1, 9))
    observer = rng.integers(0, 3, len(triplet))
    v = rng.normal(size=4)[ref][triplet] + rng.normal(size=9)[triplet] + rng.normal(size=len(triplet))
    weight = rng.uniform(0.5, 2, 9)[triplet]
    return SingleVotes(v + observer, weight, triplet, ref[triplet], observer if observers else None)


def slowly(votes: SingleVotes) -> tuple[float, float, float, float]:
    """The components by a double loop over pairs of votes."""
    w = votes.weight
    mean = np.average(votes.v, weights=w)
    observer = np.arange(len(w)) if votes.observer is None else votes.observer
    sums: dict[str, list[float]] = {}
    again: dict[str, list[float]] = {}
    numbers: dict[str, int] = {}
    for i, j in combinations(range(len(w)), 2):
        same = observer[i] == observer[j]
        if votes.triplet[i] == votes.triplet[j]:
            kind = "triplet"
        elif votes.ref[i] == votes.ref[j]:
            kind = "ref"
        else:
            kind = "observer" if same else "apart"
        product = w[i] if kind == "triplet" else w[i] * w[j]
        numbers[kind] = numbers.get(kind, 0) + 1
        pair = product * (votes.v[i] - mean) * (votes.v[j] - mean)
        for found, value in ((sums, pair), (again, product * same)):
            entry = found.setdefault(kind, [0.0, 0.0])
            entry[0] += value
            entry[1] += product
    apart = sums["apart"][0] / sums["apart"][1]
    total = (w * (votes.v - mean) ** 2).sum() / w.sum() - apart
    rho = {}
    for kind, usual in (("triplet", 0.2), ("ref", 0.0), ("observer", 0.0)):
        value, products = sums.get(kind, [0.0, 1.0])
        number = numbers.get(kind, 0)
        rho[kind] = (number * (value / products - apart) / total + 100 * usual) / (number + 100)
    share = {kind: value / products for kind, (value, products) in again.items()}
    of_observers = max(rho["observer"], 0.0) if votes.observer is not None else 0.0
    of_references = max(rho["ref"] - share.get("ref", 0.0) * of_observers, 0.0)
    of_triplets = max(rho["triplet"] - of_references - share.get("triplet", 0.0) * of_observers, 0.0)
    of_votes = max(1 - of_references - of_triplets - of_observers, 0.0)
    return total * of_references, total * of_triplets, total * of_votes, total * of_observers


@given(st.integers(0, 10_000), st.booleans())
@settings(max_examples=30, deadline=None)
def test_components_are_those_of_a_double_loop(seed: int, observers: bool) -> None:
    drawn = votes(seed, observers=observers)
    found = estimate_components(drawn)
    components = (found.references, found.triplets, found.votes, found.observers)
    assert components == pytest.approx(slowly(drawn), abs=1e-9)


def world(seed: int, references: int, per_reference: int, M: int, observers: int) -> SingleVotes:
    """Normal effects with variances 0.2, 0.3, 1 and 0.1."""
    rng = np.random.default_rng(seed)
    triplet = np.repeat(np.arange(references * per_reference), M)
    ref, observer = triplet // per_reference, rng.integers(0, observers, len(triplet))
    effects = (
        0.2**0.5 * rng.normal(size=references)[ref]
        + 0.3**0.5 * rng.normal(size=references * per_reference)[triplet]
        + 0.1**0.5 * rng.normal(size=observers)[observer]
    )
    return SingleVotes(effects + rng.normal(size=len(triplet)), np.ones(len(triplet)), triplet, ref, observer)


def test_components_are_recovered() -> None:
    found = [estimate_components(world(seed, 400, 5, 3, 200)) for seed in range(20)]
    for name, truth in {"references": 0.2, "triplets": 0.3, "votes": 1.0, "observers": 0.1}.items():
        values = [getattr(each, name) for each in found]
        assert np.mean(values) == pytest.approx(truth, abs=4 * np.std(values) / 20**0.5)


def test_weighted_pilots_have_the_components_of_the_population() -> None:
    """Triplets that vary more are drawn more often: without the right weights they would seem to vary less."""
    rng = np.random.default_rng(5)
    spread = np.exp(rng.normal(size=4000))
    between, within = 0.5 * spread * rng.normal(size=4000), spread
    chance = np.minimum(1.0, 400 * spread / spread.sum())
    found = []
    for _ in range(40):
        rows = np.flatnonzero(rng.random(4000) < chance)
        triplet = np.repeat(rows, 3)
        v = between[triplet] + within[triplet] * rng.normal(size=len(triplet))
        found.append(estimate_components(SingleVotes(v, 1 / chance[triplet], triplet, triplet, None)))
    for name, truth in {"triplets": between.var(), "votes": np.mean(within**2)}.items():
        values = [each.triplets + each.references if name == "triplets" else each.votes for each in found]
        assert np.mean(values) == pytest.approx(truth, rel=0.08), name


def test_the_jackknife_knows_the_spread_of_the_components() -> None:
    drawn = [world(seed, 120, 3, 2, 60) for seed in range(60)]
    estimates = [estimate_components(each) for each in drawn]
    parts = planning.left_out(drawn[0])
    assert len(parts) == 40
    for name in ("triplets", "votes"):
        spread = np.std([getattr(each, name) for each in estimates])
        values = np.array([getattr(each, name) for each in parts])
        assert (39 * values.var()) ** 0.5 == pytest.approx(spread, rel=0.5)


def test_the_standard_error_is_that_of_repeated_studies() -> None:
    true = Components(0.2, 0.3, 1.0, 0.1)
    study = Study(se=1.0, references=30, observers=12)
    means = [world(seed, 30, 4, 2, 12).v.mean() for seed in range(1500)]
    assert float(study.standard_error(true, 120, 2)) == pytest.approx(np.std(means), rel=0.08)


def test_without_repeats_votes_correlate_as_usual() -> None:
    found = estimate_components(votes(1, observers=False, largest=1))
    assert found.intraclass == pytest.approx(0.2)
    assert found.triplets + found.references == pytest.approx(found.votes / 4)


@pytest.mark.parametrize(("K", "J", "observers"), [(5, None, 0.005), (40, None, 0.005), (40, 8, 0.005), (40, 8, 0.0)])
def test_power_is_that_of_the_noncentral_t(K: int, J: int | None, observers: float) -> None:
    """The test has the degrees of freedom of few people even if these do not differ."""
    components = Components(0.01, 0.02, 0.1, observers)
    study = Study(difference=0.1, references=K, observers=J)
    freedom = min(K, J or K) - 1
    away = 0.1 / float(study.standard_error(components, 200, 2))
    reach = stats.t.ppf(0.975, freedom)
    expected = stats.nct.sf(reach, freedom, away) + stats.nct.cdf(-reach, freedom, away)
    assert float(study.power_of(components, 200, 2)) == pytest.approx(expected, abs=1e-6)


@given(st.floats(0, 0.1), st.floats(0, 0.1), st.floats(0.01, 1), st.floats(0.01, 0.3), st.integers(1, 5), st.booleans())
@settings(max_examples=50, deadline=None)
def test_the_study_is_the_smallest_that_is_enough(
    of_references: float, of_triplets: float, of_votes: float, difference: float, M: int, by_power: bool
) -> None:
    components = Components(of_references, of_triplets, of_votes, per_reference=3)
    study = Study(difference=difference) if by_power else Study(se=difference / 3)
    T = study.triplets(components, M)
    assert T is not None
    assert study.reached(components, T, M)
    assert T <= 4 or not study.reached(components, T - 1, M)


def test_more_power_votes_and_references_need_more_and_fewer_triplets() -> None:
    components = Components(0.01, 0.02, 0.1, per_reference=4)
    T = [Study(difference=0.05, power=power).triplets(components, 1) for power in (0.5, 0.8, 0.95)]
    assert sorted(T) == T  # type: ignore[type-var]
    by_votes = [Study(difference=0.05).triplets(components, M) for M in (1, 2, 5)]
    assert by_votes == sorted(by_votes, reverse=True)  # type: ignore[type-var]
    assert Study(difference=0.05, references=10).triplets(components, 1) is None


def test_the_cheapest_study_is_named() -> None:
    components = Components(0.0, 0.02, 0.1, 0.001, per_observer=50)
    found = planning.size(components, pair=("a", "b"), difference=0.05, cost_per_vote=0.1, cost_per_observer=20)
    assert found.best is not None
    assert found.best["cost"] == min(row["cost"] for row in found.rows)
    assert found.sentence.startswith("To tell a and b apart by 0.05 nats per vote with 80 % power")
    assert f"at a cost of {found.best['cost']:,.0f}" in found.sentence


@pytest.fixture(scope="module")
def pilot() -> pl.DataFrame:
    return planning.simulated_pilot("weber", (0.1, 1.0), triplets=160, votes=2, references=40)


@pytest.fixture(scope="module")
def result(pilot: pl.DataFrame) -> twoafc.Result:
    return twoafc.evaluate(pilot, error_bars="fixed")


def test_a_table_a_result_and_its_folder_give_the_same(
    pilot: pl.DataFrame, result: twoafc.Result, tmp_path: Path
) -> None:
    result.write(tmp_path / "results")
    pilot.write_csv(tmp_path / "pilot.csv")
    found = [
        planning.size(each, difference=0.05) for each in (tmp_path / "pilot.csv", result, str(tmp_path / "results"))
    ]
    assert len({each.sentence for each in found}) == 1
    assert found[0].interval is not None
    assert set(found[0].errors) == {"references", "triplets", "votes", "observers", "intraclass"}
    low, high = found[0].interval
    assert found[0].best is not None
    assert low < found[0].best["triplets"] < high


@pytest.mark.parametrize("measure", ["nll", "score_2afc", "score_2afc_distance"])
def test_the_difference_is_that_of_the_result_per_vote(result: twoafc.Result, measure: str) -> None:
    found = planning.size(result, measure=measure, se=1.0)
    scores = result.frame().filter(split="test", group="all")
    a, b = (scores.filter(distance=name) for name in "ab")
    name = {"nll": "nll_per_vote", "score_2afc": "score_2afc_votes"}.get(measure, "score_2afc_distance_votes")
    assert found.components.difference == pytest.approx(a[name].item() - b[name].item())


@pytest.mark.parametrize("measure", ["score_2afc", "score_2afc_distance"])
def test_ties_are_worth_what_they_are_in_the_result(pilot: pl.DataFrame, measure: str) -> None:
    coarse = pilot.with_columns(pl.col("b_d0", "b_d1").round(0))
    found = {}
    for ties in ("half", "x0"):
        result = twoafc.evaluate(coarse, error_bars="fixed", ties=ties)
        scores = result.frame().filter(split="test", group="all")
        a, b = (scores.filter(distance=name)[f"{measure}_votes"].item() for name in "ab")
        found[ties] = planning.size(result, measure=measure, se=1.0).components.difference
        assert found[ties] == pytest.approx(a - b)
    assert found["half"] != pytest.approx(found["x0"])


def test_a_pilot_of_single_triplets_says_little_of_references(pilot: pl.DataFrame) -> None:
    alone = pilot.with_columns(ref="triplet")
    found = planning.size(alone, difference=0.05, references=10)
    assert (
        "the pilot has few triplets of one reference: the variance between references is poorly estimated"
        in found.notes
    )
    assert not planning.size(alone, measure="score_2afc_distance", se=1.0).notes


def test_mistakes(pilot: pl.DataFrame) -> None:
    for mistake, text in (
        ({}, "give the difference to detect, or the standard error to reach: one of difference and se"),
        ({"difference": -1.0}, "difference must be a positive number; got -1"),
        ({"difference": 0.1, "power": 1.2}, "power must lie between 0.05 and 1; got 1.2"),
        ({"difference": 0.1, "measure": "aj"}, "measure must be one of nll, score_2afc, score_2afc_distance; got aj"),
        ({"difference": 0.1, "pair": ("a", "x")}, "there is no distance x; there are a, b"),
        ({"difference": 0.1, "pair": ("a", "a")}, "a pair is two distances; got a, a"),
    ):
        with pytest.raises(ValueError, match=f"^{text}$"):
            planning.size(pilot, **mistake)  # type: ignore[arg-type]
    three = pilot.with_columns(c_d0="a_d0", c_d1="a_d1")
    with pytest.raises(twoafc.DataError, match=r"^name the two distances to compare \(--pair\); there are a, b, c$"):
        planning.size(three, difference=0.1)
    with pytest.raises(ValueError, match=r"^noise is two numbers of at least 0, of the two distances; got \[1\]$"):
        planning.simulated_pilot("weber", [1])


def test_where_no_study_is_large_enough_the_reason_is_said(
    pilot: pl.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = planning.Components(references=0.01, triplets=0.02, votes=0.12, per_reference=4)
    assert planning.size(given, difference=1e-6).sentence.endswith(", more than 100,000,000 triplets are needed")
    few = planning.size(given, difference=0.01, references=5).sentence
    assert few.endswith("no number of triplets is enough: references or people are too few")
    pilot.write_csv(tmp_path / "pilot.csv")
    assert code_of("plan", "size", tmp_path / "pilot.csv", "--pair", "a", "b", "--difference", 1e-6) == 0
    assert capsys.readouterr().out.endswith(", more than 100,000,000 triplets are needed\n")


def test_a_result_is_planned_from_by_auto(pilot: pl.DataFrame) -> None:
    both = twoafc.evaluate(pilot, estimators=["density", "auto"], error_bars="fixed")
    auto = twoafc.evaluate(pilot, estimators="auto", error_bars="fixed")
    assert planning.size(both, se=0.02).record() == planning.size(auto, se=0.02).record()
    assert planning.size(both, se=0.02, estimator="density").record() != planning.size(auto, se=0.02).record()


def test_people_whose_votes_are_not_counted_vote_once_each() -> None:
    study = Study(difference=0.1, cost_per_observer=2)
    unknown = Components(0.01, 0.02, 0.1, observers=0.5)
    once = Components(0.01, 0.02, 0.1, observers=0.5, per_observer=1)
    assert study.numbers(unknown, 100, 3) == study.numbers(once, 100, 3) == (100, 300)
    assert study.standard_error(unknown, 100, 3) == study.standard_error(once, 100, 3)


def test_a_test_needs_two_references_and_as_many_people_as_votes() -> None:
    given = planning.Components(references=0.01, triplets=0.02, votes=0.12, per_reference=4)
    assert planning.size(given, difference=5.0).best["references"] >= 2  # type: ignore[index]
    people = planning.size(given, difference=0.05, observers=2, votes=[1, 2, 5])
    assert [row["votes_per_triplet"] for row in people.rows] == [1, 2]


def test_studies_that_make_no_sense_are_refused() -> None:
    table = random_table(40).to_frame().rename({"d0": "a_d0", "d1": "a_d1"}).with_columns(b_d0="a_d0", b_d1="a_d1")
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (table, {"measure": "score_2afc_distance"}, "a and b never differ in the pilot: their difference is known to "),
        (table, {"votes": [0]}, r"votes on a triplet must be whole numbers of at least 1; got \[0\]$"),
        (table.with_columns(ref=pl.lit("one")), {}, "a pilot needs two references at least, to show how much they "),
        (Components(0.1, 0.1, 1), {"pair": ("a", "a")}, "a pair is two distances; got a, a$"),
        (Components(0.1, 0.1, 1), {"cost_per_vote": -1}, "cost_per_vote must be at least 0; got -1$"),
        (
            Components(0.1, 0.1, 1),
            {"cost_per_observer": 2},
            r"a cost of people needs their number: give observers or per_observer \(--observers, --per-observer\)$",
        ),
        (
            twoafc.evaluate(table, estimators="spline", error_bars="fixed"),
            {"pair": ("a", "b"), "estimator": "density"},
            "the pilot has no estimator density; it has spline$",
        ),
    ]
    for pilot, options, text in cases:
        with pytest.raises(ValueError, match=f"^{text}"):
            planning.size(pilot, difference=0.01, **options)
    with pytest.raises(ValueError, match=r"^votes is a variance, a number of at least 0; got -1$"):
        Components(0.1, 0.1, -1)


def test_what_a_pilot_cannot_show_is_said(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, pilot: pl.DataFrame
) -> None:
    found = planning.size(pilot, difference=0.05, observers=5)
    assert found.components.observers == 0
    assert "the pilot does not show how much people differ: the variance between them is taken to be 0" in found.notes
    assert "people differ" not in " ".join(planning.size(pilot, difference=0.05).notes)
    once = pilot.with_columns(n=(pl.col("n") * 2 > pl.col("M")).cast(int), M=1)
    once.write_csv(tmp_path / "pilot.csv")
    assert code_of("plan", "size", tmp_path / "pilot.csv", "--difference", 0.1) == 0
    assert "Two votes on one triplet correlate by 0.2; M of them" in capsys.readouterr().out
    unknown = replace(planning.size(pilot, difference=0.05), interval=(12.0, 1e12)).sentence
    assert unknown.endswith("; they say little of the number of triplets: more votes are needed to plan.")
