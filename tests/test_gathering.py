"""What makes large counts quick: places on a lattice, wider bins, and rows that score alike taken together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import random_table
from twoafc import Density, Spline, Triplets
from twoafc.counted import CountedTriplets
from twoafc.counts import Lattice, tally
from twoafc.estimators import counted, fit_alike, kernel, kernel_sums
from twoafc.evaluation import gathering
from twoafc.inference import Together, by_group, errors, values_of, values_per_row
from twoafc.inference.counted import alone
from twoafc.places import Places


@pytest.fixture(scope="module")
def table() -> CountedTriplets:
    rng = np.random.default_rng(0)
    d0, d1 = np.exp(0.3 * rng.normal(size=(2, 4000)))
    d0[:300] = 0.0
    d0[200:600] = d1[200:600]
    d1[600:900] = d0[600:900] * (1 + 1e-6)
    M = rng.choice([1, 2, 5], 4000)
    votes = {"n": rng.binomial(M, d0**3 / (d0**3 + d1**3 + 1e-9)), "M": M}
    return CountedTriplets.of(
        tally(Triplets.from_frame({**votes, "d0": d0, "d1": d1, "group": rng.choice(["a", "b"], 4000)}), Lattice(32))
    )


@pytest.mark.parametrize("density", [Density(), Density(sigma=0.3, grid_size=7)])
def test_sums_on_a_lattice_are_those_over_places_and_over_rows(table: CountedTriplets, density: Density) -> None:
    fit = density.fit(table)
    anywhere = density.fit(replace(table, places=Places(table.places.d0, table.places.d1)))
    _, u0, u1 = table.uniformised()
    asked = {"sigma": density.sigma, "grid_size": density.grid_size}
    rows = kernel_sums((u0, u1), table.n.astype(int), table.M.astype(int), count=table.count, **asked)
    for a, b, c in zip(fit.sums, anywhere.sums, rows, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(a, c, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(fit.covariances, anywhere.covariances, rtol=1e-9, atol=1e-9)


def test_a_lattice_too_wide_to_be_had_in_full_gives_the_same(
    table: CountedTriplets, monkeypatch: pytest.MonkeyPatch
) -> None:
    dense = Density().fit(table)
    monkeypatch.setattr(counted, "DENSEST", 10)
    np.testing.assert_allclose(Density().fit(table).surface, dense.surface, atol=1e-12)


def test_products_of_any_size_give_the_same_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    some = random_table(3000)
    _, u0, u1 = some.uniformised()
    asked: dict[str, Any] = {"sigma": 0.05, "grid_size": 30}
    usual = kernel_sums((u0, u1), some.n, some.M, **asked)
    monkeypatch.setattr(kernel, "WORK", 1)
    for a, b in zip(usual, kernel_sums((u0, u1), some.n, some.M, **asked), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from([4, 64]))
def test_wider_bins_of_a_table_are_those_of_coarser_counts(seed: int, per_octave: int) -> None:
    rng = np.random.default_rng(seed)
    d = np.round(rng.lognormal(size=(2, 60)), rng.integers(0, 6)) * rng.choice([0, 1], (2, 60), p=[0.1, 0.9])
    M = rng.integers(1, 4, 60)
    frame = {"n": rng.binomial(M, 0.5), "M": M, "d0": d[0], "d1": d[1]}
    counts = tally(Triplets.from_frame(frame), Lattice(per_octave))
    found, expected = CountedTriplets.of(counts).wider(), CountedTriplets.of(counts.coarser())
    np.testing.assert_array_equal(found.places.d0, expected.places.d0)
    np.testing.assert_array_equal(found.places.d1, expected.places.d1)
    np.testing.assert_array_equal(found.uniform.at_most, expected.uniform.at_most)
    for a, b in zip(found.votes, expected.votes, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_a_spline_fitted_alike_to_the_same_table_is_the_same(table: CountedTriplets) -> None:
    for spline in (Spline(size=6), Spline(size=6, monotone=True)):
        fit = spline.fit(table)
        again = fit_alike(fit, table)
        P = fit.probability(table.places.d0, table.places.d1)
        np.testing.assert_allclose(again.probability(table.places.d0, table.places.d1), P, atol=2e-3)


def assert_scored_alike(table: CountedTriplets, P: np.ndarray) -> CountedTriplets:
    """Scores and error bars of rows taken together are those of the rows."""
    fewer, level = gathering.gathered(table, P)
    assert fewer.count.sum() == table.count.sum()
    links = Together(alone(fewer)), Together(alone(table))
    values = values_per_row(fewer, level), values_per_row(table, P[table.place])
    for a, b in zip(by_group(fewer, values[0]), by_group(table, values[1]), strict=True):
        assert a.pop("group") == b.pop("group")
        assert a == pytest.approx(b, rel=1e-5, abs=1e-5)
        assert [a[name] for name in ("triplets", "votes", "ties", "ties_model")] == [
            b[name] for name in ("triplets", "votes", "ties", "ties_model")
        ]
        for name in ("agreement", "score_2afc", "score_2afc_distance"):
            assert a[name] == pytest.approx(b[name], rel=1e-12)
    found = errors(values_of(fewer, level, values[0], links[0]), fewer.groups, links[0])
    expected = errors(values_of(table, P[table.place], values[1], links[1]), table.groups, links[1])
    for group, error in expected.items():
        np.testing.assert_allclose(found[group].se, error.se, rtol=1e-4)
        np.testing.assert_allclose(found[group].skew, error.skew, rtol=1e-3, atol=1e-6)
    return fewer


def test_rows_that_score_alike_are_scored_together(table: CountedTriplets, monkeypatch: pytest.MonkeyPatch) -> None:
    d0, d1 = table.places.d0, table.places.d1
    P = (d0**2 + 1e-6) / (d0**2 + d1**2 + 2e-6)
    fewer = assert_scored_alike(table, P)
    assert len(fewer) < len(table)
    # Chances on the very edges of most likely counts, and those that are halves and certain.
    edges = np.array([0.5, 1 / 3, 2 / 3, 1 / 6, np.nextafter(0.5, 0), np.nextafter(1 / 3, 1), 0.25])
    assert_scored_alike(table, edges[np.arange(len(P)) % len(edges)])
    monkeypatch.setattr(gathering, "MOST", 0)
    sorted_rows, _ = gathering.gathered(table, P)
    np.testing.assert_array_equal(sorted_rows.count, fewer.count)
    np.testing.assert_array_equal(sorted_rows.n, fewer.n)


def test_votes_against_certainty_stay_impossible(table: CountedTriplets) -> None:
    P = np.where(np.arange(len(table.places.d0)) % 2, 1.0, 0.0)
    fewer, level = gathering.gathered(table, P)
    assert set(level) == {0.0, 1.0}
    assert values_per_row(fewer, level)["nll"].max() == np.inf


@pytest.mark.parametrize("at", [1.0, 0.5])
def test_a_value_that_many_distances_have_is_where_it_is(at: float) -> None:
    """As where distances are held to at most 1: the map jumps there, and nowhere else."""
    rng = np.random.default_rng(0)
    d = rng.lognormal(size=(2, 20_000))
    d = np.minimum(d, 1.0) if at == 1 else np.where(rng.random((2, 20_000)) < 0.3, at, d)
    some = Triplets.from_frame({"n": np.ones(20_000, int), "M": np.full(20_000, 2), "d0": d[0], "d1": d[1]})
    exact, found = some.uniformised()[0], CountedTriplets.of(tally(some)).uniform
    near = np.concatenate([[at, at * 0.999], np.linspace(0.1, 1.0, 200) * at * 0.9999])
    np.testing.assert_allclose(found(near), exact(near), atol=3e-3)
    assert found(at) == pytest.approx(exact(at), abs=1e-3)
