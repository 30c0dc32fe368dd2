"""Simulated worlds: the laws of P, and tables drawn from it."""

from __future__ import annotations

import re
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twoafc.worlds import DISTANCES, WORLDS, simulate, true_probability

worlds = pytest.mark.parametrize("world", list(WORLDS))
distances = st.floats(0, 1e6)
lapses = st.floats(0, 1)


@worlds
@given(d0=distances, d1=distances, lapse=lapses)
def test_P_is_a_probability_and_antisymmetric(world, d0, d1, lapse):
    P, mirrored = true_probability(world, d0, d1, lapse), true_probability(world, d1, d0, lapse)
    assert lapse / 2 <= P <= 1 - lapse / 2 + 1e-15
    assert P + mirrored == pytest.approx(1, abs=1e-14)


@pytest.mark.parametrize("world", [world for world in WORLDS if world != "turning"])
@given(d0=distances, d1=distances, further=distances)
def test_P_never_falls_as_d0_grows(world, d0, d1, further):
    assert true_probability(world, d0 + further, d1) >= true_probability(world, d0, d1) - 1e-15


@worlds
@given(d=distances, lapse=lapses)
def test_equal_distances_have_P_of_one_half(world, d, lapse):
    assert true_probability(world, d, d, lapse) == pytest.approx(0.5, abs=1e-15)


@pytest.mark.parametrize("world", [world for world in WORLDS if world not in ("useless", "turning")])
def test_P_is_near_1_where_x1_is_much_closer(world):
    assert true_probability(world, 20.0, 0.01) > 0.98


def test_the_formulas():
    assert true_probability("weber", 6.0, 2.0) == pytest.approx(1 / (1 + 3**-2.5))
    assert true_probability("weber", 6.0, 2.0, lapse=0.1) == pytest.approx(0.05 + 0.9 / (1 + 3**-2.5))
    normal = NormalDist().cdf
    assert true_probability("thurstone", 2.0, 1.0) == pytest.approx(normal(1 / np.sqrt(2 * 0.5**2)))
    assert true_probability("sqrt_noise", 2.0, 1.0) == pytest.approx(normal(1 / np.sqrt(0.5**2 * 3)))
    assert true_probability("saturating", 1.0, 0.5) == pytest.approx(normal((1 / 2 - 1 / 3) / np.sqrt(2 * 0.1**2)))
    assert true_probability("useless", 1.0, 0.5) == 0.5


@worlds
def test_shapes_broadcast(world):
    assert true_probability(world, np.ones((3, 1)), np.ones(4)).shape == (3, 4)


@worlds
def test_votes_follow_P(world):
    table = simulate(world, triplets=20_000, votes=5, lapse=0.1, seed=3)
    P, n, M = (table[name].to_numpy() for name in ("P", "n", "M"))
    np.testing.assert_array_equal(P, true_probability(world, table["d0"], table["d1"], 0.1))
    for tenth in range(10):
        inside = np.floor(10 * P) == tenth
        if inside.any():
            error = np.sqrt((P * (1 - P) * M)[inside].sum())
            assert abs((n - M * P)[inside].sum()) < 4.5 * error


def test_seeds_reproduce_and_differ():
    settings = {"triplets": 50, "votes": [1, 3], "references": 7}
    assert simulate(seed=1, **settings).equals(simulate(seed=1, **settings))
    assert not simulate(seed=1, **settings).equals(simulate(seed=2, **settings))


def test_a_seed_gives_the_same_distances_in_every_world():
    tables = [simulate(world, triplets=20, votes=5, lapse=lapse) for world in WORLDS for lapse in (0, 0.3)]
    assert all(table.select("d0", "d1").equals(tables[0].select("d0", "d1")) for table in tables)


def test_several_numbers_of_votes_are_equally_likely():
    table = simulate(triplets=6000, votes=[2, 5, 9], seed=5)
    counts = dict(table["M"].value_counts().iter_rows())
    assert set(counts) == {2, 5, 9}
    assert all(abs(count - 2000) < 4 * np.sqrt(6000 * 2 / 9) for count in counts.values())
    assert (table["n"] <= table["M"]).all()


def test_references_are_used_evenly_and_only_where_asked_for():
    table = simulate(triplets=100, votes=5, references=30)
    assert table.columns == ["triplet", "ref", "n", "M", "d0", "d1", "P"]
    assert set(table["ref"].value_counts()["count"]) == {3, 4}
    assert simulate(triplets=5, votes=5).columns == ["triplet", "n", "M", "d0", "d1", "P"]


def test_distances_are_log_normal_and_correlated():
    table = simulate(triplets=50_000, votes=1, seed=8)
    logs = np.log(table.select("d0", "d1").to_numpy())
    assert logs.mean() == pytest.approx(0, abs=0.02)
    assert logs.std() == pytest.approx(0.8, abs=0.02)
    assert np.corrcoef(logs.T)[0, 1] == pytest.approx(0.4, abs=0.02)


@pytest.mark.parametrize("world", [world for world in WORLDS if world not in ("useless", "turning")])
def test_the_better_choice_is_taken_about_four_times_in_five(world):
    P = simulate(world, triplets=20_000, votes=1)["P"].to_numpy()
    assert 0.75 < np.maximum(P, 1 - P).mean() < 0.85


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"world": "flat"},
            "there is no world 'flat'; the names are: weber, thurstone, sqrt_noise, saturating, turning, useless",
        ),
        ({"triplets": 0}, "triplets must be at least 1; got 0"),
        ({"votes": 0}, "votes must be whole numbers, at least 1; got 0"),
        ({"votes": [5, -2]}, "votes must be whole numbers, at least 1; got [5, -2]"),
        ({"votes": []}, "votes must be whole numbers, at least 1; got []"),
        ({"votes": [2.5, 3]}, "votes must be whole numbers, at least 1; got [2.5, 3]"),
        ({"lapse": 1.5}, "lapse must lie in [0, 1]; got 1.5"),
        ({"lapse": float("nan")}, "lapse must lie in [0, 1]; got nan"),
        ({"references": 0}, "references must lie in [1, triplets]; got 0 of 10 triplets"),
        ({"references": 11}, "references must lie in [1, triplets]; got 11 of 10 triplets"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        simulate(**{"triplets": 10, "votes": 5, **arguments})


@pytest.mark.parametrize(
    ("d0", "d1", "found"), [(-1, 1, "d0 has -1"), ([1, np.nan], 1, "d0 has nan"), (1, np.inf, "d1 has inf")]
)
def test_wrong_distances_are_refused(d0, d1, found):
    with pytest.raises(ValueError, match=f"^distances must be finite and at least 0; {found}$"):
        true_probability("weber", d0, d1)


def test_a_world_that_is_not_monotone():
    assert true_probability("turning", 1.0, 0.01) > 0.98
    assert true_probability("turning", 100.0, 1.0) < 0.02
    assert true_probability("turning", 4.0, 0.25) == pytest.approx(0.5)


def test_distances_of_other_kinds():
    drawn = {kind: simulate("weber", triplets=20_000, votes=1, distances=kind, seed=4) for kind in DISTANCES}
    tails = {kind: table["d0"].quantile(0.999) / table["d0"].median() for kind, table in drawn.items()}
    assert tails["uniform"] < tails["discrete"] < tails["lognormal"] < tails["heavy"]
    discrete = drawn["discrete"]
    assert discrete["d0"].n_unique() == 10
    assert 0.05 < (discrete["d0"] == discrete["d1"]).mean() < 0.3
    with pytest.raises(
        ValueError, match="there are no distances 'odd'; the names are: lognormal, uniform, heavy, discrete"
    ):
        simulate("weber", triplets=5, votes=1, distances="odd")
