"""`twoafc plan choose`: probabilities, exact weights, caps, batches, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, logit
from threadpoolctl import threadpool_info, threadpool_limits

import twoafc
from commands import refused
from studying import judge, pool
from twoafc import Triplets, planning
from twoafc.arrays import FloatArray
from twoafc.planning import balance, batch_weights, systematic


@given(st.lists(st.floats(0.001, 1.0), min_size=3, max_size=30), st.integers(0, 1000), st.booleans())
@settings(max_examples=60, deadline=None)
def test_systematic_sampling_takes_the_rounded_sum_of_each_reference(
    chances: list[float], seed: int, by_reference: bool
) -> None:
    rng = np.random.default_rng(seed)
    chance, ref = np.array(chances), rng.integers(0, 4, len(chances))
    rows = systematic(chance, rng, ref if by_reference else None)
    assert len(set(rows.tolist())) == len(rows)
    assert np.floor(chance.sum() - 1e-6) <= len(rows) <= np.ceil(chance.sum() + 1e-6)
    assert set(np.flatnonzero(chance >= 1)) <= set(rows.tolist())
    for each in range(4) if by_reference else ():
        total = chance[ref == each].sum()
        assert np.floor(total - 1e-6) <= (ref[rows] == each).sum() <= np.ceil(total + 1e-6)


@pytest.mark.parametrize("order", ["chance", "reference", "expected"])
def test_every_row_is_drawn_with_its_probability(order: str) -> None:
    rng = np.random.default_rng(1)
    chance, ref, expected = rng.random(20), rng.integers(0, 5, 20), rng.normal(size=20)
    draws = 4000
    times = np.zeros(20)
    for _ in range(draws):
        rows = systematic(chance, rng, ref if order == "reference" else None, expected if order == "expected" else None)
        times[rows] += 1
    assert np.abs(times / draws - chance).max() < 4 * 0.5 / draws**0.5


def test_chosen_rows_have_the_mean_of_the_expected_difference() -> None:
    rng = np.random.default_rng(2)
    expected, size = rng.normal(size=3000), rng.gamma(3, size=3000)
    chance = 200 * size / size.sum()
    errors = []
    for along in (None, expected):
        drawn = (systematic(chance, rng, None, along) for _ in range(300))
        errors.append([expected[rows] @ (1 / chance[rows]) / 3000 - expected.mean() for rows in drawn])
    plain, balanced = np.std(errors, axis=1)
    assert balanced < 0.5 * plain
    assert abs(np.mean(errors[1])) < 4 * balanced / 300**0.5


def test_probabilities_sum_to_the_triplets_and_weights_are_their_inverse() -> None:
    table = pool()
    chosen = planning.choose(table, votes=110, seed=3)
    assert len(chosen.frame) == 100
    assert chosen.inclusion.sum() == pytest.approx(100)
    assert chosen.inclusion.min() >= 0.1 * 100 / len(table) * 0.99
    assert chosen.frame["weight"].to_numpy() == pytest.approx(1 / chosen.inclusion[chosen.rows])
    assert chosen.frame["votes_wanted"].value_counts().sort("votes_wanted")["count"].to_list() == [90, 10]
    assert chosen.frame["first"].value_counts().sort("first")["count"].to_list() == [50, 50]
    assert chosen.frame.equals(planning.choose(table, votes=110, seed=3).frame)
    assert not chosen.frame.equals(planning.choose(table, votes=110, seed=4).frame)


def test_where_distances_disagree_more_is_asked() -> None:
    chosen = planning.choose(pool(2000), votes=230, measure="score_2afc_distance", uniform=0.1)
    frame = pool(2000)
    apart = ((frame["a_d0"] > frame["a_d1"]) != (frame["b_d0"] > frame["b_d1"])).to_numpy()
    assert chosen.inclusion[apart].min() > 5 * chosen.inclusion[~apart].max()
    P = {name: chosen.P[name].astype(np.float64) for name in "ab"}
    by_nll = planning.choose(pool(2000), votes=230)
    size = np.abs(np.log(P["a"] / (1 - P["a"])) - np.log(P["b"] / (1 - P["b"])))
    assert np.corrcoef(by_nll.inclusion, size)[0, 1] > 0.8
    assert min(by_nll.gains.values()) > 1


def test_weighted_sums_are_unbiased_with_caps_and_over_batches() -> None:
    """The mean over a small pool of a column, by weights of two batches, the second chosen by what the first shows."""
    rng = np.random.default_rng(5)
    x, ref = rng.gamma(1, size=80), rng.integers(0, 8, 80)
    means = []
    for _ in range(1500):
        chance = 12 * (x + 0.2) / (x + 0.2).sum()
        first = systematic(np.minimum(chance, 1), rng, ref)
        # What was learnt: more where x was large in the first batch, by reference; none of the first batch again.
        again = 0.1 + np.bincount(ref[first], x[first], minlength=8)[ref]
        again[first] = 0
        again = np.minimum(10 * again / again.sum(), 1)
        second = systematic(again, rng)
        batch = np.repeat([1, 2], [len(first), len(second)])
        inclusion = np.concatenate([np.minimum(chance, 1)[first], again[second]])
        means.append(batch_weights(batch, inclusion) @ x[np.concatenate([first, second])] / 80)
    assert np.mean(means) == pytest.approx(x.mean(), abs=4 * np.std(means) / len(means) ** 0.5)


def test_a_cap_needs_references() -> None:
    with pytest.raises(twoafc.DataError, match=r"^a cap for each reference needs a column ref; the pool has none$"):
        planning.choose(pool().drop("ref"), votes=20, per_reference=2)
    some = pool().with_columns(ref=pl.when(pl.int_range(pl.len()) > 2).then("ref"))
    with pytest.raises(twoafc.DataError, match=r"needs the references of all triplets; ref is empty in 3 rows$"):
        planning.choose(some, votes=20, per_reference=2)


def test_what_cannot_be_written_is_refused_before_anything_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out, gone = tmp_path / "pool.csv", tmp_path / "next.csv", tmp_path / "gone" / "x.png"
    pool().write_csv(path)
    before = path.read_bytes()
    cases: dict[str, list[Any]] = {
        f"{path} is read; write to another file": ["--out", path],
        f"{out} is written already; write to another file": ["--out", out, "--look-at", out],
        f"no such folder: {gone.parent}": ["--out", out, "--figure", gone],
        "a table is written as .csv or .parquet; found x.png": ["--out", out, "--look-at", gone],
        "figures are written as svg, pdf, png; found 'f.xyz'; change its suffix": ["--out", out, "--figure", "f.xyz"],
    }
    for text, options in cases.items():
        assert refused(capsys, "plan", "choose", "--pool", str(path), "--votes", "50", *map(str, options)) == text
        assert path.read_bytes() == before
        assert list(tmp_path.iterdir()) == [path]


def test_a_cap_holds_and_a_batch_leaves_out_what_was_asked() -> None:
    table = pool()
    first = planning.choose(table, votes=100, per_reference=2, repeats=0.0)
    assert first.frame["ref"].value_counts()["count"].max() <= 2
    assert first.frame["votes_wanted"].unique().to_list() == [1]
    second = planning.choose(table, votes=200, judged=judge(first.frame), per_reference=3, repeats=0.2)
    assert second.batch == 2
    fresh = planning.choose(table.filter(~pl.col("triplet").is_in(first.frame["triplet"].implode())), votes=200)
    assert fresh.frame["triplet"].to_list() != second.frame["triplet"].to_list()
    assert not set(second.frame["triplet"]) & set(first.frame["triplet"])
    assert (second.inclusion[first.rows] == 0).all()
    assert second.inclusion.max() <= 1
    assert second.frame["ref"].value_counts()["count"].max() <= 3
    n = len(second.frame)
    assert second.frame["weight"].to_numpy() == pytest.approx(n / (n + 100) / second.inclusion[second.rows])
    study = planning.read_judged([judge(first.frame), judge(second.frame)])
    assert study["weight"].sum() == pytest.approx(len(table), rel=0.15)
    # A pilot, which is no batch of the study, shows where distances differ, and that is all.
    pilot = judge(first.frame).drop("batch", "inclusion", "weight", "first", "votes_wanted")
    assert planning.choose(table, votes=50, judged=pilot).batch == 1


def test_the_largest_relative_variance_of_the_pairs_is_smallest() -> None:
    rng = np.random.default_rng(0)
    sizes = rng.gamma(1, size=(3, 400)) * np.array([[1.0], [5.0], [0.1]])

    def worst(weight: Any) -> float:
        whole = np.sqrt(weight @ sizes**2)
        return max(whole.sum() * (each**2 / whole).sum() / each.sum() ** 2 for each in sizes)

    found = worst(balance(sizes))
    grid = np.linspace(0.02, 0.96, 30)
    tried = [worst(np.array([a, b, 1 - a - b]) / sizes.sum(axis=1) ** 2) for a in grid for b in grid if a + b < 1]
    assert found <= min(tried) * 1.01
    assert balance(sizes[:1] * 0).tolist() == [0.0]


def test_probabilities_follow_the_formula() -> None:
    """One pair, no votes: the size of a triplet, by the formula of the module."""
    table = pool(400, names="ab")
    chosen = planning.choose(table, votes=44, uniform=0.1, repeats=0.1)
    distances = {name: (table[f"{name}_d0"].to_numpy(), table[f"{name}_d1"].to_numpy()) for name in "ab"}
    predicted = planning.predict(distances, None, "ab")
    p, (a, b) = predicted.together, predicted.of_pool.values()
    size = np.sqrt(((logit(a) - logit(b)) ** 2 + 0.1**2) * p * (1 - p) + 0.02**2)
    expected = 40 * (0.9 * size / size.sum() + 0.1 / 400)
    assert expected.max() < 1
    np.testing.assert_allclose(chosen.inclusion, expected, rtol=1e-4)


def test_a_constant_distance_has_no_correlation() -> None:
    table = pool(100, names="ab").with_columns(b_d0=pl.lit(1.0), b_d1=pl.lit(1.0))
    assert np.isfinite(planning.choose(table, votes=20).inclusion).all()


def test_all_pairs_and_named_ones() -> None:
    table = pool(400, names="abc")
    assert [*planning.choose(table, votes=50).gains] == [("a", "b"), ("a", "c"), ("b", "c")]
    chosen = planning.choose(table, votes=50, pairs=[("c", "a")])
    assert [*chosen.gains] == [("c", "a")]
    assert repr(chosen).startswith("batch 1: 45 of 400 triplets, 50 votes; chosen uniformly, ")
    look = planning.extremes(chosen, table, pair=("a", "c"), number=5)
    assert "weight" not in look.columns
    assert look["note"][0] == "to look at, not a sample: no weight"
    apart = np.abs(np.log(look["P_a"] / (1 - look["P_a"])) - np.log(look["P_c"] / (1 - look["P_c"])))
    assert apart.to_list() == sorted(apart, reverse=True)


def test_tables_without_names_and_of_single_votes(tmp_path: Path) -> None:
    table = pool(200).drop("triplet", "ref")
    table.write_csv(tmp_path / "pool.csv")
    first = planning.choose(tmp_path / "pool.csv", votes=60, seed=1)
    assert first.frame["triplet"].to_list() == [str(row) for row in first.rows]
    assert first.frame["a_d0"].to_list() == table["a_d0"].gather(first.rows).to_list()
    single = first.frame[np.repeat(np.arange(len(first.frame)), first.frame["votes_wanted"].to_numpy())]
    single = single.with_columns(choice=pl.Series(np.random.default_rng(0).integers(0, 2, len(single))))
    single.write_csv(tmp_path / "votes.csv")
    second = planning.choose(tmp_path / "pool.csv", votes=60, judged=str(tmp_path / "votes.csv"))
    assert second.batch == 2
    study = planning.read_judged(tmp_path / "votes.csv")
    assert len(study) == 60
    assert twoafc.Triplets.from_frame(study).weight is not None


def test_mistakes(tmp_path: Path) -> None:
    table = pool(100)
    first = planning.choose(table, votes=46).frame
    few = r"triplets \(10% are asked twice\), and the pool has 100 that were not asked yet; ask for at most 110 votes"
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (table, {"votes": 400}, f"400 votes are 364 {few}"),
        (table, {"votes": 0}, "votes must be at least 1; got 0"),
        (table, {"measure": "aj"}, "measure must be nll or score_2afc_distance; got aj"),
        (table, {"uniform": 2}, r"uniform is a share in \[0, 1\]; got 2"),
        (table, {"uniform": 0}, "uniform must be above 0: otherwise some triplets are never chosen, and no weights .*"),
        (table, {"per_reference": 0}, "per_reference must be at least 1; got 0"),
        (table, {"pairs": [("a", "x")]}, "there is no distance x; there are a, b"),
        (table, {"pairs": [("a", "a")]}, "a pair is two distances; got a, a"),
        (table.drop("b_d0", "b_d1"), {}, "a pool needs two distances, NAME_d0 and NAME_d1 each; found a"),
        (table[:0], {}, "the pool has no rows"),
        (first, {}, "a choice adds the column batch, which the pool has: is it an earlier choice\\?"),
        (table.with_columns(n=pl.lit(1)), {}, "a pool has no votes; found the column n: drop it, or give .*"),
        (pl.concat([table, table]), {}, "triplets of a pool must have different names; t0 occurs twice"),
        (
            table[:50],
            {"judged": judge(first)},
            "batches of a study must be drawn from one pool; triplet t.* is not in it",
        ),
        (
            table,
            {"judged": judge(first).drop("b_d0", "b_d1")},
            "the votes so far have no distance b; they have a",
        ),
        (
            table,
            {"judged": judge(first).with_columns(inclusion=pl.lit(0.0))},
            r"inclusion must lie in \(0, 1\], as the choice gave it, and batch be a whole number; triplet t\d+ has "
            r"batch=1, inclusion=0.0 \(42 of 42 rows\)",
        ),
        (
            table,
            {"judged": [judge(first), judge(first.drop("batch"))]},
            "some votes have the columns triplet, batch and inclusion, and some do not; give the votes of one study",
        ),
        (
            table,
            {"judged": [judge(first), judge(first.with_columns(batch=pl.lit(2)))]},
            r"a triplet is asked in one batch; t\d+ has votes in batches 1 and 2: leave out the votes on batch 1 that "
            "came after batch 2 was chosen",
        ),
        (
            table,
            {"judged": [judge(first), judge(first.with_columns(inclusion=pl.col("inclusion") / 2))]},
            r"a triplet is asked in one batch, with one inclusion; t\d+ has several",
        ),
        (
            pl.concat([table, pool(5).with_columns(triplet="new" + pl.col("triplet"))]),
            {"judged": judge(first)},
            "batches of a study must be drawn from one pool; batch 1 is from 100 triplets, and this pool has 105",
        ),
        (
            table.with_columns(a_d1=1.5 * pl.col("a_d1")),
            {"judged": judge(first)},
            r"batches of a study must be drawn from one pool; a_d1 of triplet t\d+ is [\d.]+ there and [\d.]+ in the "
            r"votes \(42 of 42 triplets\)",
        ),
        (
            table,
            {"judged": judge(first).with_columns(batch_size=pl.lit(7))},
            r"batch 1 has 7 triplets \(batch_size\), and 42 have votes",
        ),
        (
            table.with_columns(triplet=pl.when(pl.int_range(pl.len()) != 3).then("triplet")),
            {},
            "triplet must not be missing; row 3 has no triplet",
        ),
    ]
    for each, options, text in cases:
        with pytest.raises(ValueError, match=f"^{text}$"):
            planning.choose(each, **({"votes": 30} | options))
    few = pool(100, references=5)
    with pytest.raises(twoafc.DataError, match=r"^27 triplets are wanted; with 2 of a reference at most there are 10$"):
        planning.choose(few, votes=30, per_reference=2)
    chosen = planning.choose(pool(100, names="abc"), votes=20, pairs=[("a", "b")])
    with pytest.raises(twoafc.DataError, match=r"^the choice has no predictions of c; choose for this pair too$"):
        planning.extremes(chosen, pool(100, names="abc"), pair=("a", "c"))


def world_of_two(T: int = 4000) -> tuple[dict[str, Any], FloatArray, Triplets]:
    """Distances a and b whose errors are independent, P that follows a twice as much as b, and one vote on each."""
    rng = np.random.default_rng(2)
    z = rng.normal(size=(2, T))
    scores = {name: z + 0.7 * rng.normal(size=(2, T)) for name in "ab"}
    P = expit(sum(slope * (scores[name][0] - scores[name][1]) for name, slope in (("a", 0.8), ("b", 0.4))))
    distances = {name: (np.exp(z0), np.exp(z1)) for name, (z0, z1) in scores.items()}
    columns = {f"{name}_d{k}": ends[k] for name, ends in distances.items() for k in (0, 1)}
    votes = Triplets.from_frame({"n": rng.binomial(1, P), "M": np.ones(T, dtype=int)} | columns)
    return distances, P, votes


def test_predictions_approach_the_truth_with_the_votes() -> None:
    distances, P, votes = world_of_two()
    errors = []
    for judged in (None, votes.at(np.arange(300)), votes):
        predicted = planning.predict(distances, judged, ["a"])
        errors.append(float(np.abs(logit(predicted.together) - logit(P)).mean()))
    assert errors[0] > 1.2 * errors[1] > 1.2 * 1.5 * errors[2]
    assert errors[2] < 0.1
    assert list(predicted.of_pool) == list(predicted.of_judged) == ["a"]


def test_each_distance_predicts_the_mean_over_triplets_that_it_cannot_separate() -> None:
    """By the true P of many other triplets, averaged over small squares of the plane of the two distances."""
    distances, P, votes = world_of_two(40_000)
    predicted = planning.predict(distances, votes, "ab")
    for name in "ab":
        place = [np.searchsorted(np.quantile(d, np.linspace(0.05, 0.95, 13)), d) for d in distances[name]]
        square = place[0] * 14 + place[1]
        counts = np.bincount(square)
        own, true = (np.bincount(square, values) / counts for values in (predicted.of_pool[name], P))
        assert np.abs(own - true).mean() < 0.02


def test_coefficients_are_those_of_the_penalised_likelihood() -> None:
    from twoafc.planning.choosing import TREND, TREND_ERROR, _logistic

    rng = np.random.default_rng(2)
    x = rng.normal(size=(100, 3))
    y = rng.binomial(1, expit(x @ [0.4, 0.1, 0]))
    table = Triplets.from_frame({"n": y, "M": np.ones(100, dtype=int), "d0": np.ones(100), "d1": np.ones(100)})

    def loss(trend: Any) -> float:
        likelihood = y * np.log(expit(x @ trend)) + (1 - y) * np.log(expit(-x @ trend))
        return float(-likelihood.sum() + (((trend - TREND) / TREND_ERROR) ** 2).sum() / 2)

    found = _logistic(table, x, TREND, TREND_ERROR**-2)
    assert found == pytest.approx(minimize(loss, TREND, tol=1e-10).x, abs=1e-4)


def test_a_choice_leaves_the_threads_of_the_blas_as_they_were() -> None:
    def threads() -> list[int]:
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    with threadpool_limits(2, user_api="blas"):
        planning.choose(pool(200, names="abcd"), votes=20)
        assert set(threads()) == {2}
