"""Pairs with "same" votes: the table, the curves P(same | d), the average precision, scores, results and commands."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import expit
from twoafc.jnd import average_precision, fit_curve
from twoafc.jnd.bandwidth import LATTICE, _clusters_left_out, _pairs_left_out, choose_sigma
from twoafc.jnd.card import describe
from twoafc.jnd.comparisons import COMPARED
from twoafc.jnd.drawn import reweighted, spread
from twoafc.jnd.errorbars import values_of
from twoafc.jnd.names import file_holds_pairs
from twoafc.jnd.precision import Ranking
from twoafc.jnd.scores import ALL_MEASURES, MEASURES, Prediction

import trees
import twoafc
from commands import refused
from twoafc import DataError, Density, Network, Pairs, Settings, Spline, jnd, metrics
from twoafc.cli import main
from twoafc.files import read_archive, save_archive
from twoafc.inference.comparisons import compare, sentence
from twoafc.inference.errorbars import together

FloatArray = NDArray[np.float64]
ESTIMATORS: dict[str, Any] = {"density": Density(), "auto": Density(sigma="auto"), "spline": Spline()}


def falling(z: FloatArray, slope: float = 2.0) -> FloatArray:
    """The chance of "same" in the simulated world, by the logarithm of its distance."""
    return np.asarray(0.02 + 0.95 * expit(-slope * z - 0.4))


def world(T: int = 400, seed: int = 0, noise: float = 0.8, M: int = 3, **columns: object) -> Pairs:
    """Pairs of which one distance tells all, and another, noisier, tells less."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=T)
    good, poor = np.exp(z), np.exp(z + noise * rng.normal(size=T))
    frame = {"n": rng.binomial(M, falling(z)), "M": np.full(T, M), "good_d": good, "poor_d": poor}
    return Pairs.from_frame(frame | columns)


def frame(**columns: object) -> dict[str, Any]:
    return {"n": [1, 2], "M": [3, 3], "d": [0.1, 0.2]} | columns


# The table.


def test_a_table_of_pairs_is_read(tmp_path: Path) -> None:
    path = tmp_path / "jnd.csv"
    path.write_text("triplet,group,ref,x,n,M,lpips_d,ssim_d\na,g,r,s,1,3,0.1,0.2\nb,h,r,t,3,3,0.05,0.3\n")
    table = Pairs.read(path)
    assert repr(table) == "Pairs(2 pairs, 6 votes, M = 3, 67 % same, distances: lpips, ssim)"
    assert table.labels.columns == ["pair", "group", "ref", "x"]
    assert table["ssim"].d.tolist() == [0.2, 0.3]
    assert table.share == 4 / 6
    assert not table.n.flags.writeable


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_a_table_that_is_written_reads_the_same(tmp_path: Path, name: str) -> None:
    table = world(30, group=["a", "b"] * 15, ref=[f"r{k % 7}" for k in range(30)])
    table.write(tmp_path / name)
    again = Pairs.read(tmp_path / name)
    assert again.to_frame().equals(table.to_frame())
    assert describe(again)["contents_sha256"] == describe(table)["contents_sha256"]


def test_a_file_tells_by_its_head_what_it_holds(tmp_path: Path) -> None:
    for name, head, pairs in (
        ("a.csv", "\ufeffn;M;lpips_d", True),
        ("b.tsv", '\n"n"\t"M"\t"d"', True),
        ("c.csv.gz", "n,M,ssim_d", True),
        ("d.csv", "n,M,ssim_d0,ssim_d1", False),
        ("e.csv", "", False),
    ):
        opener = gzip.open if name.endswith(".gz") else open
        with opener(tmp_path / name, "wt", encoding="utf-8") as file:
            file.write(head)
        assert file_holds_pairs(tmp_path / name) is pairs
    (tmp_path / "f.csv").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "g.parquet").write_bytes(b"PAR1")
    for name in ("f.csv", "g.parquet", "none.csv", "none.parquet"):
        assert not file_holds_pairs(tmp_path / name)


def test_plain_d_is_a_distance_too() -> None:
    table = Pairs.from_frame(frame())
    assert list(table.distances) == ["distance"]
    assert table.to_frame().columns == ["pair", "n", "M", "d"]


def test_votes_are_merged_whichever_image_comes_first() -> None:
    votes = {
        "choice": [1, 0, 1, 1],
        "ref": ["a", "b", "a", "a"],
        "x": ["b", "a", "b", "c"],
        "observer": ["o", "p", "q", "o"],
        "d": [0.1, 0.1, 0.1, 0.3],
    }
    table = Pairs.from_frame(votes)
    assert (table.n.tolist(), table.M.tolist(), table.d.tolist()) == ([2, 1], [3, 1], [0.1, 0.3])
    assert table.votes is not None
    assert table.votes.to_dict(as_series=False) == {
        "row": [0, 0, 0, 1],
        "choice": [1, 0, 1, 1],
        "observer": ["o", "p", "q", "o"],
    }
    # Another group is another pair; a name alone will do; what nothing identifies stays single.
    assert len(Pairs.from_frame(votes | {"group": ["g", "g", "h", "h"]})) == 3
    named = {"choice": [1, 0], "pair": ["k", "k"], "d": [0.1, 0.1]}
    assert Pairs.from_frame(named).n.tolist() == [1]
    assert Pairs.from_frame({"choice": [1, 0], "d": [0.1, 0.1]}).M.tolist() == [1, 1]
    kept = table.where([1])
    assert kept.votes is not None
    assert kept.votes["row"].to_list() == [0]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"n": [1], "M": [2], "d": [1.0], "ssim_d0": [1.0], "ssim_d1": [2.0]},
            "a table has pairs (NAME_d) or triplets (NAME_d0 and NAME_d1), since n counts other votes in each; "
            "found d and ssim_d0",
        ),
        (
            {"n": [1], "M": [2], "d0": [1.0], "d1": [2.0]},
            "no distance of pairs in the table; expected a column d, or NAME_d; found n, M, d0, d1",
        ),
        ({"n": [1], "M": [2], "_d": [1.0]}, "a distance needs a name before its _d; found the column _d"),
        (
            {"n": [1], "M": [2], "d": [1.0], "distance_d": [2.0]},
            "two distances are called distance; plain d goes by that name, so give it another",
        ),
        ({"n": [], "M": [], "d": []}, "the table has no rows"),
        ({"M": [2], "d": [1.0]}, "missing column n; a table has n and M, or choice; found M, d"),
        (frame(n=[4, 0]), "n must lie in [0, M]; row 0 has n=4, M=3 (1 of 2 rows)"),
        (frame(d=[0.1, np.inf]), "d must be finite; row 1 has d=inf (1 of 2 rows)"),
        (frame(d=[0.1, None]), "d must not be missing; row 1 has no d (1 of 2 rows)"),
        (frame(x=["a", ""]), "x must not be missing; row 1 has no x (1 of 2 rows)"),
        (frame(pair=[None, "b"]), "pair must not be missing; row 0 has no pair (1 of 2 rows)"),
        (frame(x=[[1], [2]]), "x must be text or numbers; the column holds List(Int64)"),
        (frame(pair=[0, 1], triplet=[0, 1]), "a pair is named by the column pair or by triplet; found both"),
        (
            frame(group=["a", "all"]),
            "a group must not be named all or mean (names of summary rows); row 1 has group='all' (1 of 2 rows)",
        ),
        (
            {"choice": [1, 0], "pair": ["k", "k"], "d": [0.1, 0.2]},
            "votes on one pair must have the same distance (distance); row 1 has 0.2, row 0 0.1 (1 of 2 rows)",
        ),
    ],
)
def test_a_wrong_table_is_refused(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError) as caught:
        Pairs.from_frame(columns)
    assert str(caught.value) == message


def test_a_wrong_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("n,M,d\n4,3,1\n")
    with pytest.raises(DataError) as caught:
        Pairs.read(tmp_path / "t.csv")
    assert str(caught.value) == f"{tmp_path / 't.csv'}: n must lie in [0, M]; row 0 (line 2) has n=4, M=3 (1 of 1 rows)"
    with pytest.raises(DataError, match=r"^no such file: none\.csv$"):
        Pairs.read("none.csv")


def test_a_distance_that_is_not_there_is_refused() -> None:
    with pytest.raises(DataError, match=r"^no distance 'tea' in the table; it has good, poor$"):
        world(10)["tea"]
    with pytest.raises(ValueError, match=r"^the table has 2 distances; choose one, table\[NAME\], of good, poor$"):
        _ = world(10).d


# The average precision.


def field_score(d: FloatArray, share: FloatArray) -> float:
    """The field's score, step by step: precision and recall pair by pair, the envelope, the area under it."""
    order = sorted(range(len(d)), key=lambda k: d[k])
    precision, recall, same = [0.0], [0.0], 0.0
    for place, k in enumerate(order, start=1):
        same += share[k]
        precision.append(same / place)
        recall.append(same / share.sum())
    area = 0.0
    for k in range(1, len(precision)):
        area += (recall[k] - recall[k - 1]) * max(precision[k:])
    return 100 * area


def slow_with_ties(d: FloatArray, share: FloatArray) -> float:
    """The same with all pairs at one distance taken at once."""
    points = [(share[d <= at].sum() / share.sum(), share[d <= at].mean()) for at in np.unique(d)]
    area, before = 0.0, 0.0
    for k, (recall, _) in enumerate(points):
        area += (recall - before) * max(precision for _, precision in points[k:])
        before = recall
    return 100 * area


VOTES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12)), min_size=1, max_size=40)


@given(VOTES.filter(lambda rows: any(n for n, _ in rows)), st.randoms(use_true_random=False))
def test_average_precision_is_the_fields(rows: list[tuple[int, int]], random: Any) -> None:
    n, tied = (np.array(column) for column in zip(*rows, strict=True))
    apart = tied + np.arange(len(n)) / 1000
    assert average_precision(n, 3, apart) == pytest.approx(field_score(apart, n / 3), rel=1e-12)
    found = average_precision(n, 3, tied)
    assert found == pytest.approx(slow_with_ties(tied, n / 3), rel=1e-12)
    # Neither the order of the rows nor the scale of the distance matters, and ties never count as found in order.
    shuffled = random.sample(range(len(n)), len(n))
    assert average_precision(n[shuffled], 3, np.exp(tied)[shuffled]) == pytest.approx(found, rel=1e-12)
    best = max(field_score(tied + sign * n / 1000, n / 3) for sign in (-1, 1))
    assert found <= best + 1e-9


def test_the_order_of_ties_would_matter_to_a_plain_sort() -> None:
    n, d = np.array([3, 0, 3, 0]), np.array([1.0, 1.0, 2.0, 2.0])
    assert average_precision(n, 3, d) == 50
    assert field_score(d, n / 3) == pytest.approx(100 * (0.5 + 1 / 3))
    assert field_score(d, n[[1, 0, 3, 2]] / 3) == 50


def test_without_a_same_vote_there_is_no_average_precision() -> None:
    assert np.isnan(average_precision([0, 0], 3, [1, 2]))
    assert np.isnan(Ranking.by([1, 2]).values(np.zeros(2))).all()


@given(VOTES.filter(lambda rows: sum(n for n, _ in rows) > 1), st.integers(0, 100))
def test_influence_is_the_derivative(rows: list[tuple[int, int]], pick: int) -> None:
    n, d = (np.array(column, dtype=np.float64) for column in zip(*rows, strict=True))
    # Shares that make no two precisions equal: there the envelope has a corner, and two derivatives.
    share = (n + np.random.default_rng(len(n)).random(len(n))) / 4
    ranking, k, step = Ranking.by(d), pick % len(n), 1e-7
    by_weight, by_share = ranking.influence(share)
    assert by_weight.sum() == pytest.approx(0, abs=1e-9)
    here = ranking.average_precision(share)
    weight, moved = np.ones(len(n)), share.copy()
    weight[k] += step
    moved[k] += step
    assert (ranking.average_precision(share, weight) - here) / step == pytest.approx(by_weight[k], abs=1e-3)
    assert (ranking.average_precision(moved) - here) / step == pytest.approx(by_share[k], abs=1e-3)
    assert ranking.values(share).mean() == pytest.approx(here)


# The curves.


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_known_curve_is_recovered_within_its_errors(name: str) -> None:
    d = np.exp(np.linspace(-1.5, 1.5, 7))
    off, tolerance = [], []
    for seed in range(12):
        fit: Any = fit_curve(world(1500, seed=seed)["good"], ESTIMATORS[name])
        P, se = fit.probability(d), fit.standard_error(d)
        off.append((P - falling(np.log(d))) / se)
        tolerance.append(np.abs(P - falling(np.log(d))).max())
    assert np.mean(np.abs(off) < 2) > 0.85
    assert 0.6 < np.std(off) < 1.3
    assert np.mean(tolerance) < {"density": 0.08, "auto": 0.06, "spline": 0.04}[name]


@pytest.mark.parametrize("name", ["density", "spline"])
def test_errors_know_of_references_that_repeat(name: str) -> None:
    def drawn(seed: int) -> Pairs:
        rng = np.random.default_rng(seed)
        ref = rng.integers(60, size=900)
        z, liking = rng.normal(size=900), rng.normal(size=60)
        n = rng.binomial(3, expit(-2 * z + liking[ref]))
        return Pairs.from_frame({"n": n, "M": [3] * 900, "d": np.exp(z), "ref": ref})

    d = np.exp([-1.0, 0.0, 1.0])
    fits: list[Any] = [fit_curve(drawn(seed)["distance"], ESTIMATORS[name]) for seed in range(80)]
    spread = np.std([fit.probability(d) for fit in fits], axis=0, ddof=1)
    se = np.mean([fit.standard_error(d) for fit in fits], axis=0)
    assert (spread / se > 0.6).all()
    # A tenth too small in the middle, for the spline: one dispersion serves the whole curve.
    assert (spread / se < 1.4).all()


def test_the_density_curve_is_the_plain_sum() -> None:
    table = world(80, seed=3)["poor"]
    fit: Any = fit_curve(table, Density(sigma=0.1, grid_size=5, prior=0.5))
    u = (np.argsort(np.argsort(table.d)) + 0.5) / 80
    for i, node in enumerate(np.linspace(0, 1, 5)):
        K = np.exp(-((u - node) ** 2) / (2 * 0.1**2))
        P = (np.sum(table.n * K) + 0.5 * table.share) / (np.sum(table.M * K) + 0.5)
        assert fit.curve[i] == pytest.approx(P, rel=1e-12)
        own = np.sum(K**2 * (table.n - P * table.M) ** 2)
        assert fit.sums[2, i] == pytest.approx(own, rel=1e-9)
        if i:
            moved = K * (table.n - P * table.M)
            assert fit.sums[3, i - 1] == pytest.approx(moved @ before, rel=1e-9)  # noqa: F821
        before = K * (table.n - P * table.M)  # noqa: F841
    between = fit.uniform.inverse(0.25 / 2)
    assert fit.probability(between) == pytest.approx(fit.curve[:2].mean(), rel=1e-9)


def test_where_there_is_no_data_density_gives_the_overall_share() -> None:
    table = Pairs.from_frame({"n": [3] * 9 + [0], "M": [3] * 10, "d": [1.0] * 9 + [2.0]})
    fit: Any = fit_curve(table, Density(sigma=0.01, grid_size=101))
    empty = fit.uniform.inverse(0.7)
    assert fit.probability(empty) == pytest.approx(0.9)
    assert fit.standard_error(empty) == pytest.approx(np.sqrt(1 / 12), rel=1e-3)
    assert fit.standard_error(1.0) < 0.1


@settings(max_examples=25, deadline=None)
@example([(0, 0), (0, 0), (0, 1), (1, 1)], "auto")  # widths that only rounding tells apart
@given(VOTES.filter(lambda rows: len(rows) > 1), st.sampled_from(sorted(ESTIMATORS)))
def test_laws_of_curves(rows: list[tuple[int, int]], name: str) -> None:
    n, d = (np.array(column) for column in zip(*rows, strict=True))
    columns = {"n": n, "M": np.full(len(n), 3), "d": d / 3}
    at = np.linspace(-1, 6, 15)
    fit: Any = fit_curve(Pairs.from_frame(columns), ESTIMATORS[name])
    P = fit.probability(at)
    assert ((P >= 0) & (P <= 1)).all()
    se = fit.standard_error(at)
    assert (np.isfinite(se) & (se >= 0)).all()
    turned: Any = fit_curve(Pairs.from_frame({key: column[::-1] for key, column in columns.items()}), ESTIMATORS[name])
    np.testing.assert_allclose(turned.probability(at), P, atol=1e-6)
    # Outside the training range, what holds at its ends.
    assert P[0] == pytest.approx(float(fit.probability(d.min() / 3 - 1e-9)), abs=1e-6)
    assert fit.probability(at.reshape(3, 5)).shape == fit.standard_error(at.reshape(3, 5)).shape == (3, 5)
    assert np.shape(fit.probability(0.5)) == ()


def test_unanimous_votes_leave_room_for_doubt() -> None:
    table = Pairs.from_frame({"n": [3] * 50, "M": [3] * 50, "d": np.arange(50.0)})
    for estimator in ESTIMATORS.values():
        fit: Any = fit_curve(table, estimator)
        assert 0.97 < fit.probability(25.0) <= 1
        assert 0.001 < fit.standard_error(25.0) < 0.1


def test_a_curve_need_not_fall() -> None:
    rng = np.random.default_rng(0)
    d = rng.random(4000)
    table = Pairs.from_frame({"n": rng.binomial(3, 0.2 + 2 * (d - 0.5) ** 2), "M": [3] * 4000, "d": d})
    for estimator in ESTIMATORS.values():
        P = fit_curve(table, estimator).probability([0.02, 0.5, 0.98])
        np.testing.assert_allclose(P, [0.66, 0.2, 0.66], atol=0.07)


def test_sigma_is_the_one_under_which_pairs_left_out_are_likeliest() -> None:
    table = world(60, seed=5)
    u = (np.argsort(np.argsort(table.distances["good"])) + 0.5) / 60
    cell = np.minimum((u * LATTICE).astype(np.int64), LATTICE - 1)
    at = (cell + 0.5) / LATTICE

    def slow(sigma: float, left: NDArray[np.int64]) -> float:
        total = 0.0
        for part in np.unique(left):
            out = left == part
            for k in np.flatnonzero(out):
                K = np.exp(-((at - at[k]) ** 2) / (2 * sigma**2)) * ~out
                P = (K @ table.n + 0.001 * table.share) / (K @ table.M + 0.001)
                total += table.n[k] * np.log(P) + (table.M[k] - table.n[k]) * np.log(1 - P)
        return total

    for sigma in (0.05, 0.2):
        fast = _pairs_left_out(cell, table.n, table.M, 0.001)(sigma)
        assert fast == pytest.approx(slow(sigma, np.arange(60)), rel=1e-9)
        clusters = np.arange(60) % 20  # twenty clusters, so that each is left out alone
        fast = _clusters_left_out(cell, table.n, table.M, clusters, 0.001)(sigma)
        assert fast == pytest.approx(slow(sigma, clusters), rel=1e-9)
    chosen = choose_sigma(u, table.n, table.M, None, prior=0.001)
    tried = [_pairs_left_out(cell, table.n, table.M, 0.001)(chosen * factor) for factor in (0.5, 1, 2)]
    assert tried[1] == max(tried)


class Half:
    """A user's own estimator of pairs."""

    def fit_pairs(self, table: Pairs) -> Half:
        return self

    def probability(self, d: FloatArray) -> FloatArray:
        return np.full(np.shape(d), 0.5)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (Network(), "network has no form for pairs; use density or spline"),
        (Density(sigma_along=0.1), "pairs have no diagonal to be smoothed along; found sigma_along=0.1"),
        (Spline(monotone=True), "monotone is a setting of surfaces; the curve of pairs is not held to fall"),
        ("tea", "an estimator of pairs needs a method fit_pairs(table); 'tea' has none"),
    ],
)
def test_an_estimator_without_a_form_for_pairs_says_so(estimator: Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        fit_curve(world(10)["good"], estimator)
    assert str(caught.value) == message


# Saved models.


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_saved_curve_says_the_same(tmp_path: Path, name: str) -> None:
    fit: Any = fit_curve(world(200)["good"], ESTIMATORS[name])
    fit.save(tmp_path / "m.npz")
    again: Any = twoafc.load(tmp_path / "m.npz")
    d = np.linspace(0, 5, 50)
    np.testing.assert_array_equal(again.probability(d), fit.probability(d))
    np.testing.assert_array_equal(again.standard_error(d), fit.standard_error(d))
    assert again.settings == fit.settings


def test_load_reads_surfaces_too(tmp_path: Path) -> None:
    table = twoafc.Triplets.from_frame({"n": [1], "M": [2], "d0": [1.0], "d1": [2.0]})
    Density().fit(table).save(tmp_path / "m.npz")
    assert type(twoafc.load(tmp_path / "m.npz")).__name__ == "DensityFit"
    with pytest.raises(DataError, match=r"^no such file: none\.npz$"):
        twoafc.load("none.npz")


@pytest.mark.parametrize(
    ("kind", "changed", "message"),
    [
        ("density", {"sums": np.zeros((6, 3))}, "sums must be finite numbers of shape (6, 20); found float64 (6, 3)"),
        ("density", {"sums": -np.ones((6, 20))}, "sums over votes must not be negative, nor n exceed M; those of the"),
        ("density", {"share": np.array(1.5)}, "the share of same must lie in [0, 1]; found 1.5"),
        ("density", {"tea": np.zeros(2)}, "it holds tea, which no pairs-density model has"),
        ("density", {"sigma": "auto"}, "a fitted curve has one sigma of its own; that of the model has not"),
        ("density", {"grid_size": 1}, "grid_size must be a whole number, at least 2; found 1"),
        ("spline", {"theta": np.zeros(3)}, "theta must be finite numbers of shape (11,); found float64 (3,)"),
        ("spline", {"covariance": -np.eye(11)}, "the covariance must be symmetric and positive; that of the model"),
        ("spline", {"dispersion": np.array(0.5)}, "dispersion must be at least 1 and precision positive; those of"),
        ("spline", {"link": np.array(7)}, "link must be 0 or 1; found 7"),
        ("spline", {"link": "probit"}, "the link must be the one asked for, probit; that of the model is"),
        ("spline", {"values": np.array([1.0, 0.0])}, "the map's counts must be whole numbers, one per value; those"),
    ],
)
def test_a_model_that_makes_no_sense_is_refused(
    tmp_path: Path, kind: str, changed: dict[str, Any], message: str
) -> None:
    fit: Any = fit_curve(world(50)["good"], Density() if kind == "density" else Spline(link="logit"))
    fit.save(tmp_path / "m.npz")
    name, saved, arrays = read_archive(tmp_path / "m.npz")
    saved |= {key: value for key, value in changed.items() if not isinstance(value, np.ndarray)}
    arrays |= {key: value for key, value in changed.items() if isinstance(value, np.ndarray)}
    save_archive(tmp_path / "m.npz", name, saved, arrays)
    with pytest.raises(DataError) as caught:
        twoafc.load(tmp_path / "m.npz")
    assert str(caught.value).startswith(f"{tmp_path / 'm.npz'} is not a usable model; {message}")


@pytest.mark.parametrize(("lost", "message"), [("share", "it has no share"), ("prior", "its settings have no prior")])
def test_a_model_that_is_not_whole_is_refused(tmp_path: Path, lost: str, message: str) -> None:
    path = tmp_path / "m.npz"
    fit: Any = fit_curve(world(50)["good"], Density())
    fit.save(path)
    name, saved, arrays = read_archive(path)
    save_archive(
        path,
        name,
        {key: value for key, value in saved.items() if key != lost},
        {key: value for key, value in arrays.items() if key != lost},
    )
    with pytest.raises(DataError) as caught:
        twoafc.load(path)
    assert str(caught.value) == f"{path} is not a whole model; {message}"


# Scores.


def record(found: jnd.PairsEvaluation, **wanted: str) -> dict[str, Any]:
    (one,) = (r for r in found.scores if all(r[key] == value for key, value in wanted.items()))
    return one


@pytest.fixture(scope="module")
def evaluated() -> jnd.PairsEvaluation:
    train = world(600, seed=1, group=["a", "b", "b"] * 200)
    test = world(300, seed=2, group=["a", "b", "b"] * 100)
    return jnd.evaluate(train, test, estimators=["density", "spline"])


def test_scores_are_what_they_say(evaluated: jnd.PairsEvaluation) -> None:
    train, test = world(600, seed=1)["good"], world(300, seed=2)["good"]
    P = fit_curve(train, Spline()).probability(test.d)
    one = record(evaluated, distance="good", estimator="spline", split="test", group="all")
    assert one["nll"] == pytest.approx(metrics.nll(test.n, test.M, P))
    assert one["nll_per_vote"] == pytest.approx(metrics.nll_per_vote(test.n, test.M, P))
    assert one["agreement"] == pytest.approx(metrics.agreement(test.n, test.M, P))
    assert one["average_precision"] == pytest.approx(field_score(test.d, test.n / test.M))
    assert one["nll_simulated"] == pytest.approx(metrics.expected_nll(test.M, P))
    assert one["agreement_simulated"] == pytest.approx(metrics.expected_agreement(test.M, P))
    assert one["nll_floor"] == pytest.approx(metrics.nll(test.n, test.M, np.full(300, train.share)))
    assert one["average_precision_floor"] == pytest.approx(100 * (test.n / test.M).mean())
    assert (one["pairs"], one["votes"], one["ties"], one["seed"]) == (300, 900, 0, None)
    drawn = [metrics.simulate(test.M, P, seed=seed) for seed in range(64)]
    expected = np.mean([field_score(test.d, n / test.M) for n in drawn])
    assert one["average_precision_simulated"] == pytest.approx(expected)
    frame = evaluated.pairs.filter(distance="good", estimator="spline")
    np.testing.assert_array_equal(frame["P"].to_numpy(), P)
    assert frame["nll"].mean() == pytest.approx(one["nll"])


def test_groups_have_scores_of_their_own(evaluated: jnd.PairsEvaluation) -> None:
    test = world(300, seed=2)["poor"]
    rows = np.arange(300) % 3 == 0
    a, b, mean, pooled = (
        record(evaluated, distance="poor", estimator="density", split="test", group=group)
        for group in ("a", "b", "mean", "all")
    )
    assert a["average_precision"] == pytest.approx(field_score(test.d[rows], (test.n / test.M)[rows]))
    assert b["average_precision"] == pytest.approx(field_score(test.d[~rows], (test.n / test.M)[~rows]))
    for name in (*MEASURES, "nll_floor", "average_precision_floor"):
        assert mean[name] == pytest.approx((a[name] + b[name]) / 2)
    assert mean["average_precision_se"] == pytest.approx(
        np.hypot(a["average_precision_se"], b["average_precision_se"]) / 2, rel=0.02
    )
    assert (a["pairs"] + b["pairs"], mean["pairs"], pooled["pairs"]) == (300, 300, 300)
    for one in (a, b, mean, pooled):
        for name in (*MEASURES, "nll_per_vote"):
            assert one[f"{name}_low"] <= one[name] <= one[f"{name}_high"]
            assert one[f"{name}_se"] > 0


def test_the_floor_is_told(evaluated: jnd.PairsEvaluation) -> None:
    one = record(evaluated, distance="good", estimator="spline", split="test", group="all")
    share = world(600, seed=1).share
    assert evaluated.notes == [
        f"floor: the constant P = {share:.3f}, the share of same in the training votes, has an NLL of "
        f"{one['nll_floor']:.4f} ({one['nll_per_vote_floor']:.4f} per vote), and "
        f"{one['average_precision_floor']:.2f} % average precision comes without any order"
    ]
    assert evaluated.error_bars == "95 % intervals of the fitted curves on other pairs; each pair stands alone"


def test_distances_are_compared(evaluated: jnd.PairsEvaluation) -> None:
    assert [(r["estimator"], r["measure"], r["a"], r["b"]) for r in evaluated.comparisons] == [
        (estimator, measure, "good", "poor")
        for estimator in ("density", "spline")
        for measure in ("nll", "average_precision")
    ]
    one = evaluated.comparisons[-1]
    best, worst = (
        record(evaluated, distance=name, estimator="spline", split="test", group="all") for name in ("good", "poor")
    )
    assert one["difference"] == pytest.approx(best["average_precision"] - worst["average_precision"])
    assert one["low"] < one["difference"] < one["high"]
    assert one["different"]
    assert one["sentence"].startswith("good puts same pairs first better than poor: ")
    assert (best["average_precision_letters"], worst["average_precision_letters"]) == ("a", "b")


def test_sentences() -> None:
    table = world(60, seed=2)
    link = together(table.rows())
    one = Prediction("good", "e", "test", table["good"], np.full(60, 0.5), np.full(60, 0.5))
    values = values_of(one, link)
    alike = compare({"a": values, "b": values}, link, estimator="e", measures=COMPARED)
    assert [r["sentence"] for r in alike] == ["a and b are the same on every pair"] * 2
    assert [(r["p"], r["different"]) for r in alike] == [(1.0, False)] * 2
    told = sentence(COMPARED["nll"], "a", "b", (np.nan, 1, 1, 1), 1.0)
    assert told == "a and b cannot be compared: a mean or its error is not finite"


def test_errors_by_formula_are_those_of_a_bootstrap() -> None:
    table = world(600, seed=4, group=["a", "b"] * 300, ref=[str(k // 4) for k in range(600)])["poor"]
    link = together(table.rows())
    assert link.told == "clustered by ref"
    P = fit_curve(table, Spline()).probability(table.d)
    one = Prediction("poor", "spline", "test", table, P, np.full(600, 0.5))
    drawn = {name: spread(each) for name, each in reweighted(one, link, Settings(draws=400)).items()}
    found = {r["group"]: r for r in jnd.evaluate(table, table, estimators=["spline"]).scores if r["split"] == "test"}
    assert set(drawn) == set(found) == {"a", "b", "mean", "all"}
    for group, errors in drawn.items():
        for name, se in zip(ALL_MEASURES, errors, strict=True):
            assert found[group][f"{name}_se"] == pytest.approx(se, rel=0.15), (group, name)


@pytest.mark.parametrize(("way", "told"), [("bootstrap", "the fitted curves"), ("refit", "curves fitted")])
def test_error_bars_from_drawn_tables(way: Any, told: str) -> None:
    train, test = world(200, seed=4, group=["a", "b"] * 100), world(150, seed=5, group=["a", "b", "b"] * 50)
    for tables in ((train,), (train, test)):
        plain = jnd.evaluate(*tables, estimators=["density"], settings=Settings(folds=2))
        found = jnd.evaluate(*tables, estimators=["density"], settings=Settings(error_bars=way, draws=40, folds=2))
        assert found.error_bars.startswith(f"95 % intervals of {told}")
        assert found.error_bars.endswith(", from 40 drawn tables; each pair stands alone")
        for one, other in zip(plain.scores, found.scores, strict=True):
            assert one["nll"] == other["nll"]
            if not one["split"].startswith("fold"):
                for name in ("nll", "average_precision"):
                    assert 0.5 < other[f"{name}_se"] / one[f"{name}_se"] < {"bootstrap": 2, "refit": 4}[way]
        for one, other in zip(plain.comparisons, found.comparisons, strict=True):
            assert one["difference"] == other["difference"]
            assert 0.5 < other["se"] / one["se"] < {"bootstrap": 2, "refit": 4}[way]


def test_a_group_that_is_hardly_drawn_has_no_error() -> None:
    drawn = np.array([[1.0, np.nan], [2.0, np.nan], [3.0, 1.0]])
    assert spread(drawn).tolist() == pytest.approx([1.0, np.nan], nan_ok=True)


def test_intervals_hold_what_they_promise() -> None:
    """Pairs of 80 references with a liking of their own: 95 % intervals of the AP and of its paired difference."""
    rng = np.random.default_rng(0)

    def drawn(references: int) -> Pairs:
        ref = np.repeat(np.arange(references), 5)
        z = rng.normal(size=len(ref)) + 0.7 * rng.normal(size=references)[ref]
        other = z + 0.8 * rng.normal(size=len(ref)) + 0.5 * rng.normal(size=references)[ref]
        n = rng.binomial(3, expit(-2 * z + rng.normal(size=references)[ref]))
        return Pairs.from_frame({"n": n, "M": np.full(len(ref), 3), "a_d": z, "b_d": other, "ref": ref})

    big = drawn(40_000)
    truth = {name: average_precision(big.n, big.M, d) for name, d in big.distances.items()}
    held, apart, runs = 0, 0, 200
    for _ in range(runs):
        table = drawn(80)
        link = together(table.rows())
        half = np.full(len(table), 0.5)
        values = {name: values_of(Prediction(name, "e", "test", table[name], half, half), link) for name in "ab"}
        (one,) = (
            r for r in compare(values, link, estimator="e", measures=COMPARED) if r["measure"] == "average_precision"
        )
        apart += one["low"] <= truth[one["a"]] - truth[one["b"]] <= one["high"]
        column = values["a"].columns[:, [MEASURES.index("average_precision")]]
        weight = np.full(len(table), 1 / len(table))
        se = link.standard_errors((column - column.mean()) * weight[:, None], weight)[0, 0]
        held += abs(column.mean() - truth["a"]) < 1.99 * se
    assert 0.90 <= held / runs <= 0.99
    assert 0.90 <= apart / runs <= 0.99


def test_observers_who_cast_many_votes_widen_the_error() -> None:
    rng = np.random.default_rng(3)
    pair, observer = np.repeat(np.arange(150), 8), np.tile(np.arange(8), 150)
    z = rng.normal(size=150)
    strict = 3 * rng.normal(size=8)
    frame = {
        "choice": rng.binomial(1, expit(-z[pair] + strict[observer])),
        "pair": pair,
        "d": np.exp(z)[pair],
    }
    known = jnd.evaluate(*[Pairs.from_frame(frame | {"observer": observer})] * 2, estimators=["spline"])
    unknown = jnd.evaluate(*[Pairs.from_frame(frame)] * 2, estimators=["spline"])
    assert known.error_bars.endswith("each pair stands alone; votes by observer too")
    for name in ("nll", "average_precision"):
        assert known.scores[-1][name] == pytest.approx(unknown.scores[-1][name])
    assert known.scores[-1]["average_precision_se"] > 1.5 * unknown.scores[-1]["average_precision_se"]


def test_cross_validation_keeps_references_together() -> None:
    table = world(120, seed=6, ref=[str(k // 3) for k in range(120)])["good"]
    found = jnd.evaluate(table, estimators={"mine": Half()}, settings=Settings(folds=4))
    assert {r["split"] for r in found.scores} == {"train", "fold-0", "fold-1", "fold-2", "fold-3", "test"}
    assert found.notes[0] == "no test table: 4-fold cross-validation, split by ref"
    assert found.error_bars.endswith("; clustered by ref")
    test = record(found, split="test")
    assert test["pairs"] == sum(record(found, split=f"fold-{k}")["pairs"] for k in range(4)) == 120
    # The floor of a fold is the share of the others.
    assert test["nll_floor"] != record(found, split="train")["nll_floor"]


def test_nobody_said_same() -> None:
    table = Pairs.from_frame({"n": [0] * 20, "M": [3] * 20, "a_d": np.arange(20.0), "b_d": np.arange(20.0) % 7})
    found = jnd.evaluate(table, table, estimators=["density", "spline"])
    assert found.notes[-1] == "nobody said same on test: there is no average precision"
    for one in found.scores:
        assert one["average_precision"] is None
        assert one["average_precision_se"] is None
        assert one["average_precision_floor"] is None
        assert one["nll"] >= 0
    unlike = [r for r in found.comparisons if r["measure"] == "average_precision"]
    assert all(r["sentence"].endswith("cannot be compared: a mean or its error is not finite") for r in unlike)


class Wrong(Half):
    def probability(self, d: FloatArray) -> FloatArray:
        return np.full(np.shape(d), 1.5)


class Short(Half):
    def probability(self, d: FloatArray) -> FloatArray:
        return np.array([0.5])


class Sure(Half):
    def probability(self, d: FloatArray) -> FloatArray:
        return np.ones(np.shape(d))


def test_an_estimator_is_held_to_its_promise() -> None:
    table = world(20)["good"]
    with pytest.raises(DataError, match=r"^w must give P in \[0, 1\]; row 0 has P=1.5 \(20 of 20\)$"):
        jnd.evaluate(table, table, estimators={"w": Wrong()})
    with pytest.raises(DataError, match=r"^s must give one P per pair, \(20,\); found \(1,\)$"):
        jnd.evaluate(table, table, estimators={"s": Short()})
    found = jnd.evaluate(table, table, estimators={"sure": Sure()})
    assert found.notes[-1] == ("good, sure: the NLL on test is infinite; votes were cast to which it gives no chance")


def test_arguments_that_make_no_sense_are_refused() -> None:
    table = world(20)
    with pytest.raises(DataError, match=r"^train and test must share a distance; train has good, test has poor$"):
        jnd.evaluate(table["good"], table["poor"])
    with pytest.raises(DataError, match=r"^the test table has no distance good; it has poor$"):
        jnd.evaluate(table, table["poor"], distances=["good"])
    with pytest.raises(DataError, match=r"^folds must lie between 2 and the number of pairs, 20; found 21$"):
        jnd.evaluate(table, settings=Settings(folds=21))
    with pytest.raises(ValueError, match=r"^ties are a matter of 2AFC scores, which pairs have not; found ties='x0'$"):
        jnd.evaluate(table, table, settings=Settings(ties="x0"))
    found = jnd.evaluate(table, table["poor"], settings=Settings(simulated_seed=3))
    assert found.notes[0] == "left out, since only one of the two tables has them: good"


# The commands.


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    world(300, seed=1, group=["a", "b"] * 150).write("jnd_train.csv")
    world(200, seed=2, group=["a", "b"] * 100).write("jnd_test.parquet")
    return tmp_path


def failure(capsys: pytest.CaptureFixture[str], command: str) -> str:
    return refused(capsys, *command.split())


def test_the_commands_take_pairs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = "evaluate --train jnd_train.csv --test jnd_test.parquet --estimator density --estimator spline --out r"
    main(command.split())
    said = capsys.readouterr().out
    told = json.loads(Path("r", "scores.json").read_text())
    best = min((r for r in told["scores"] if r["split"] == "test" and r["group"] == "all"), key=lambda r: r["nll"])
    assert f"{best['nll']:.4f} ± {best['nll_se']:.4f} a" in said
    assert f"{best['average_precision']:.2f} ± {best['average_precision_se']:.2f}" in said
    assert "note: floor: the constant P = " in said
    assert said.endswith("Results: r\nReport: r/report.html\n")
    main([*command.split(), "--json"])
    assert json.loads(capsys.readouterr().out)["scores"] == told["scores"]


def test_one_table_is_cross_validated(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["evaluate", "--train", "jnd_train.csv", "--folds", "3", "--distance", "good", "--sigma", "auto"])
    assert "note: no test table: 3-fold cross-validation, split by pair" in capsys.readouterr().out
    told = json.loads(Path("results", "scores.json").read_text())
    assert {r["distance"] for r in told["scores"]} == {"good"}
    assert told["comparisons"] == []
    main(["evaluate", "--train", "jnd_train.csv", "--estimator", "auto", "--quiet"])
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("evaluate --train jnd_train.csv --estimator network", "network has no form for pairs; use density or spline"),
        (
            "evaluate --train jnd_train.csv --sigma-along 0.1",
            "pairs have no diagonal to be smoothed along; found sigma_along=0.1",
        ),
        (
            "evaluate --train jnd_train.csv --ties x0",
            "ties are a matter of 2AFC scores, which pairs have not; found ties='x0'",
        ),
        (
            "evaluate --train jnd_train.csv --test triplets.csv",
            "triplets.csv: no distance of pairs in the table; expected a column d, or NAME_d; found n, M, d0, d1",
        ),
        (
            "evaluate --train triplets.csv --test jnd_test.parquet",
            "triplets.csv: no distance of pairs in the table; expected a column d, or NAME_d; found n, M, d0, d1",
        ),
        (
            "evaluate --train both.csv",
            "both.csv: a table has pairs (NAME_d) or triplets (NAME_d0 and NAME_d1), since n counts other votes in "
            "each; found a_d and a_d0",
        ),
        (
            "evaluate --train both.parquet",
            "both.parquet: a table has pairs (NAME_d) or triplets (NAME_d0 and NAME_d1), since n counts other votes "
            "in each; found a_d and a_d0",
        ),
        (
            "evaluate --train jnd_train.csv --strict",
            "--strict asks for the checks of triplets; there are none for pairs",
        ),
    ],
)
def test_a_mistake_gets_one_line(here: Path, capsys: pytest.CaptureFixture[str], command: str, message: str) -> None:
    Path("triplets.csv").write_text("n,M,d0,d1\n1,2,0.5,1\n2,2,1,0.5\n")
    Path("both.csv").write_text('"n";"M";"a_d0";"a_d1";"a_d"\n1;2;1;1;1\n')
    pl.DataFrame({"n": [1], "M": [2], "a_d0": [1.0], "a_d1": [2.0], "a_d": [1.0]}).write_parquet("both.parquet")
    assert failure(capsys, command) == message
    assert not Path("results").exists()


def test_from_images_to_scores(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """BAPPS JND on disk, measured, then evaluated: the table between needs no touch."""
    trees.write_jnd(here, 12, subsets=("cnn", "traditional"))
    main(
        [
            "measure",
            "jnd",
            "--distance",
            "rmse",
            "--distance",
            "euclidean",
            "--workers",
            "1",
            "--out",
            "measured.csv",
            "--quiet",
        ]
    )
    main(["evaluate", "--train", "measured.csv", "--folds", "3", "--estimator", "spline", "--out", "r"])
    assert "Scores on test: 24 pairs, 72 votes" in capsys.readouterr().out
    told = json.loads(Path("r", "scores.json").read_text())
    assert {r["group"] for r in told["scores"] if r["split"] == "test"} == {"cnn", "traditional", "mean", "all"}
    # The one is a multiple of the other: they put all pairs in one order.
    (same,) = (r for r in told["comparisons"] if r["measure"] == "average_precision")
    assert same["sentence"] == f"{same['a']} and {same['b']} are the same on every pair"
