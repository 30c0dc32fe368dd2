"""Calibration, dispersion, residuals, sides and lapses: against loops, and recovered from worlds that have them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit

from pairs_world import falling, world
from twoafc.core import Uniform
from twoafc.files import restored
from twoafc.inference import (
    Clustering,
    Dependence,
    Goodness,
    asymmetry,
    calibration,
    calibration_slope,
    clustering_of,
    goodness_of_fit,
    intraclass_correlation,
    lapses,
    residual_map,
)
from twoafc.metrics import nll
from twoafc.table import Triplets


def alone(T: int) -> Clustering:
    return Clustering(Dependence(T, (), ""), None)


def votes(T: int, seed: int, *, M: int = 3, spread: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """n, M and P of a world; with a spread, triplets of the same P differ."""
    rng = np.random.default_rng(seed)
    P = rng.uniform(0.05, 0.95, T)
    p = rng.beta(P / spread, (1 - P) / spread) if spread else P
    return rng.binomial(M, p), np.full(T, M), P


# Calibration


def test_bins_against_slow_sums() -> None:
    n, M, P = votes(1000, 1)
    result = calibration(n, M, P, alone(1000))
    assert [each.triplets for each in result.bins] == [50] * 20
    edges = np.sort(P).reshape(20, 50)
    for each, values in zip(result.bins, edges, strict=True):
        rows = (values[0] <= P) & (values[-1] >= P)
        assert each.votes == M[rows].sum()
        assert pytest.approx(values.mean()) == each.P
        assert each.share == pytest.approx(n[rows].sum() / M[rows].sum())
        assert each.low < each.share < each.high
    gaps = [abs(each.share - each.P) for each in result.bins]
    assert result.ece == pytest.approx(np.mean(gaps))


def test_a_calibrated_p_loses_nothing_on_average() -> None:
    for spread in (0.0, 0.5):
        result = [calibration(*votes(600, seed, spread=spread), alone(600)) for seed in range(60)]
        lost = np.array([each.calibration for each in result])
        # Without the correction twenty bins would seem to lose 20 / 2 / 600 = 0.017, more where votes go together.
        assert abs(lost.mean()) < 3 * lost.std() / np.sqrt(60) + 0.001
        assert np.mean([each.ece for each in result]) == pytest.approx(
            np.mean([e.ece_by_chance for e in result]), rel=0.1
        )
        assert np.mean([each.slope.low < 1 < each.slope.high for each in result]) > 0.87


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_wrong_scale_is_found_with_its_cost(factor: float) -> None:
    n, M, P = votes(20_000, 2)
    stated = expit(logit(P) / factor)
    result = calibration(n, M, stated, alone(20_000))
    assert result.slope.value == pytest.approx(factor, abs=0.05)
    assert result.slope.low < factor < result.slope.high
    assert result.calibration == pytest.approx(nll(n, M, stated) - nll(n, M, P), rel=0.1)
    assert result.rmse > 0.03
    assert nll(n, M, stated) == pytest.approx(result.floor - result.sharpness + result.calibration, rel=1e-12)


def test_p_of_one_half_has_no_slope() -> None:
    n, M, _ = votes(50, 3)
    assert np.isnan(calibration_slope(n, M, np.full(50, 0.5), alone(50)).value)
    result = calibration(n, M, np.full(50, 0.5), alone(50))
    assert len(result.bins) == 1
    assert result.sharpness == pytest.approx(result.calibration)


def test_unanimous_votes_and_a_certain_p_raise_no_error() -> None:
    result = calibration(np.array([2, 2, 0, 0]), np.full(4, 2), np.array([1.0, 1.0, 0.0, 0.0]), alone(4))
    assert np.isfinite(result.calibration)


# Dispersion


def slow_correlation(n: np.ndarray, M: np.ndarray, P: np.ndarray) -> float:
    """Mean over ordered pairs of votes on one triplet, relative to that of P (1 - P)."""
    over, under = 0.0, 0.0
    for k, m, p in zip(n, M, P, strict=True):
        cast = np.array([1.0] * k + [0.0] * (m - k)) - p
        for i in range(m):
            for j in range(m):
                if i != j:
                    over += cast[i] * cast[j]
                    under += p * (1 - p)
    return over / under


def test_the_intraclass_correlation_is_over_pairs_of_votes() -> None:
    rng = np.random.default_rng(4)
    M = rng.integers(1, 6, 40)
    n, P = rng.binomial(M, 0.4), rng.uniform(0.1, 0.9, 40)
    result = intraclass_correlation(n, M, P, alone(40))
    assert result is not None
    assert result.value == pytest.approx(slow_correlation(n, M, P), rel=1e-12)


def test_the_intraclass_correlation_is_recovered() -> None:
    for spread in (0.0, 0.3):
        truth = spread / (1 + spread)
        result = [intraclass_correlation(*votes(500, seed, M=4, spread=spread), alone(500)) for seed in range(100)]
        assert np.mean([each.value for each in result if each]) == pytest.approx(truth, abs=0.01)
        assert np.mean([each.low < truth < each.high for each in result if each]) > 0.88
    assert intraclass_correlation(*votes(50, 1, M=1), alone(50)) is None
    sure = np.array([1.0, 0.0])
    assert np.isnan(intraclass_correlation(np.array([2, 0]), np.array([2, 2]), sure, alone(2)).value)  # type: ignore[union-attr]


# Residuals


def test_residuals_are_summed_by_cell_with_mirrors() -> None:
    rng = np.random.default_rng(5)
    T, G = 2000, 8
    d0, d1 = rng.random((2, T))
    M = rng.integers(1, 4, T)
    n, P = rng.binomial(M, 0.5), expit(2 * (d0 - d1))
    result = residual_map(n, M, P, d0, d1, alone(T))
    U = Uniform.learn(d0, d1)
    for i in range(G):
        for j in range(i):
            total, count, triplets = 0.0, 0, 0
            for k, m, p, a, b in zip(n, M, P, U(d0), U(d1), strict=True):
                if a < b:
                    k, p, a, b = m - k, 1 - p, b, a
                if int(min(a * G, G - 1)) == i and int(min(b * G, G - 1)) == j:
                    total, count, triplets = total + k - m * p, count + m, triplets + 1
            assert result.residual[i, j] == pytest.approx(total / count, rel=1e-9)
            assert result.residual[j, i] == -result.residual[i, j]
            assert result.triplets[i, j] == result.triplets[j, i] == triplets
    assert (np.diag(result.residual) == 0).all()


def test_a_bump_that_the_surface_misses_is_described() -> None:
    rng = np.random.default_rng(6)
    d0, d1 = rng.random((2, 8000))
    P = expit(3 * (d0 - d1))
    bump = (d0 > 0.76) & (d0 < 0.86) & (d1 < 0.11)
    n = rng.binomial(3, np.where(bump, 0.6, P))
    worst = residual_map(n, np.full(8000, 3), P, d0, d1, alone(8000)).worst()
    assert worst is not None
    assert worst.startswith("the nearer image is chosen ")
    assert "% less often than P predicts where its distance is 0.000121 to 0.126 and the other's 0.748 to 0.87" in worst
    clean = residual_map(rng.binomial(3, P), np.full(8000, 3), P, d0, d1, alone(8000))
    assert clean.worst() is None


def test_a_surface_that_is_right_raises_no_alarm() -> None:
    alarms = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        d0, d1 = rng.random((2, 300))
        P = expit(12 * (d0 - d1))
        result = residual_map(rng.binomial(1, P), np.ones(300, dtype=np.int64), P, d0, d1, alone(300))
        alarms.append(result.worst() is not None)
    assert np.mean(alarms) < 0.1


# Sides and lapses


def sided(T: int, seed: int, preference: float, *, shown: bool) -> tuple[Triplets, np.ndarray]:
    rng = np.random.default_rng(seed)
    d0, d1 = rng.random((2, T))
    P = expit(3 * (d0 - d1))
    if not shown:
        n = rng.binomial(4, np.clip(P + preference, 0, 1))
        return Triplets.from_frame({"n": n, "M": [4] * T, "d0": d0, "d1": d1}), P
    # Each triplet is shown both ways round; the second image gains, wherever it stands.
    row, swapped = np.repeat(np.arange(T), 4), np.tile([False, True], 2 * T)
    chance = np.clip(np.where(swapped, 1 - P[row], P[row]) + preference, 0, 1)
    names = np.array([[f"{k}a", f"{k}b"] for k in range(T)])[row]
    columns = {
        "ref": row,
        "x0": np.where(swapped, names[:, 1], names[:, 0]),
        "x1": np.where(swapped, names[:, 0], names[:, 1]),
        "d0": np.where(swapped, d1[row], d0[row]),
        "d1": np.where(swapped, d0[row], d1[row]),
        "choice": (rng.random(4 * T) < chance).astype(int),
    }
    return Triplets.from_frame(columns), P


@pytest.mark.parametrize("shown", [True, False])
def test_a_preference_for_one_side_is_found(shown: bool) -> None:
    table, P = sided(1500, 7, 0.04, shown=shown)
    result = asymmetry(table, P, clustering_of(table))
    assert result["shown"] == shown
    assert result["low"] < 4 * 0.97 < result["high"]
    assert result["p"] < 0.001
    where = "as shown" if shown else "of the table"
    assert result["sentence"].startswith(f"people prefer the second image {where}: ")
    assert result["sentence"].endswith("at random") != shown
    table, P = sided(1500, 8, 0.0, shown=shown)
    assert asymmetry(table, P, clustering_of(table))["sentence"].startswith(
        "no preference for the first or the second image is detected"
    )


def test_swaps_hide_a_preference_from_the_table_but_not_from_the_votes() -> None:
    table, P = sided(2000, 9, 0.05, shown=True)
    assert asymmetry(table, P, clustering_of(table))["p"] < 1e-6
    merged = Triplets.from_frame(table.to_frame())
    assert asymmetry(merged, P, clustering_of(merged))["p"] > 0.01


def test_the_bound_on_lapses_covers_and_is_narrow() -> None:
    bounds = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        x = rng.normal(scale=2, size=1500)
        P = expit(3 * x)
        n = rng.binomial(2, 0.05 + 0.9 * P)  # a tenth of the votes is cast at random
        bounds.append(lapses(n, np.full(1500, 2), P, alone(1500))["high"])
    assert np.mean(np.array(bounds) >= 10) > 0.93
    assert np.median(bounds) < 16


def test_too_few_votes_for_a_bound_on_lapses() -> None:
    result = lapses(np.array([1]), np.array([1]), np.array([0.9]), alone(1))
    assert result == {
        "high": None,
        "votes": 0,
        "sentence": "no upper bound on random votes: there are too few votes, or P is never certain",
    }


def test_standard_errors_include_what_observers_share() -> None:
    """Twelve observers, each with a preference of its own for a side: none of all of them together."""
    alarms, slopes = [], []
    for seed in range(80):
        rng = np.random.default_rng(seed)
        d0, d1 = rng.random((2, 150))
        P = expit(3 * (d0 - d1))
        row, observer = np.repeat(np.arange(150), 4), rng.integers(12, size=600)
        side, skill = rng.normal(0, 0.15, 12)[observer], np.exp(rng.normal(0, 0.7, 12))[observer]
        chance = np.clip(expit(skill * 3 * (d0 - d1)[row]) + side, 0, 1)
        columns = {"triplet": row, "observer": observer, "d0": d0[row], "d1": d1[row]}
        table = Triplets.from_frame({**columns, "choice": (rng.random(600) < chance).astype(int)})
        clusters = clustering_of(table)
        alarms.append(asymmetry(table, P, clusters)["p"] < 0.05)
        slopes.append(calibration_slope(table.n, table.M, P, clusters))
    assert np.mean(alarms) < 0.15
    spread = np.std([each.value for each in slopes])
    assert 0.7 < np.mean([each.se for each in slopes]) / spread < 1.4


def test_votes_that_all_agree_give_no_slope() -> None:
    n, P = np.array([2, 2, 0, 0]), np.array([0.9, 0.8, 0.2, 0.1])
    assert np.isnan(calibration_slope(n, np.full(4, 2), P, alone(4)).value)
    table = Triplets.from_frame({"n": n, "M": [2] * 4, "d0": [2.0, 2, 1, 1], "d1": [1.0, 1, 2, 2]})
    sentences = goodness_of_fit(table, P, clustering_of(table)).sentences()
    assert sentences[0] == "the calibration slope of P cannot be estimated"
    one = Triplets.from_frame({"n": [2], "M": [2], "d0": [2.0], "d1": [1.0]})
    sentences = goodness_of_fit(one, np.array([0.8]), clustering_of(one)).sentences()
    assert sentences[3] == "a preference for one side cannot be estimated from so few triplets"


# All at once


def test_goodness_of_pairs_is_that_of_their_votes_alone() -> None:
    table = world(2000, seed=3)["good"]
    P = falling(np.log(table.d))
    result = goodness_of_fit(table, P, clustering_of(table))
    assert (result.residuals, result.asymmetry, result.lapses) == (None, None, None)
    assert result.calibration.slope.low < 1 < result.calibration.slope.high
    constant = np.full(len(table), table.share)
    assert result.calibration.floor == pytest.approx(nll(table.n, table.M, constant))
    assert all("triplet" not in sentence for sentence in result.sentences())
    again = restored(Goodness, json.loads(json.dumps(result.record())))
    assert again.record() == result.record()


def test_goodness_in_words_and_in_plain_values() -> None:
    rng = np.random.default_rng(10)
    d0, d1 = rng.random((2, 3000))
    P = expit(4 * (d0 - d1))
    n = rng.binomial(3, rng.beta(P / 0.4, (1 - P) / 0.4))
    table = Triplets.from_frame({"n": n, "M": [3] * 3000, "d0": d0, "d1": d1})
    result = goodness_of_fit(table, expit(8 * (d0 - d1)), clustering_of(table))
    calibrated, unexplained, misfit, side, random = result.sentences()
    assert calibrated.startswith("P is overconfident (slope 0.5")
    assert unexplained.startswith("two votes on one triplet correlate beyond P by 0.")
    assert misfit.startswith("largest misfit of P: the nearer image is chosen ")
    assert side.startswith("no preference")
    assert random.startswith("at most ")
    record: dict[str, Any] = result.record()
    assert set(record) == {"calibration", "intraclass", "residuals", "asymmetry", "lapses", "sentences", "row"}
    assert record["calibration"]["slope"]["value"] == result.calibration.slope.value
    fine = goodness_of_fit(table, P, clustering_of(table)).sentences()
    assert fine[0].startswith("no over- or underconfidence of P is detected (slope 1.0")
    single = Triplets.from_frame({"n": (n > 1).astype(int), "M": [1] * 3000, "d0": d0, "d1": d1})
    unexplained = goodness_of_fit(single, P, clustering_of(single)).sentences()[1]
    assert unexplained == "variation that the distance leaves unexplained cannot be estimated from one vote per triplet"
