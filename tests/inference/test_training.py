"""The noise of training: against its definition, and on worlds where both distances are equally good."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.special import expit

from drawing import plain_results
from twoafc import Density, Network, Settings, Triplets, evaluate
from twoafc.errors import DataError
from twoafc.inference import (
    MEASURES,
    Clustering,
    Dependence,
    HalfScores,
    Values,
    bar,
    compare,
    errors,
    training_variance,
)
from twoafc.results import HALVES, Result

NLL, CHOICE = MEASURES[2].index("nll"), MEASURES[2].index("score_2afc")


def values_with_halves(T: int, seed: int, *, crossed: bool = False, noise: float = 1.0) -> Values:
    rng = np.random.default_rng(seed)
    apart = noise * (rng.normal(size=(6, T, len(MEASURES[2]))) + rng.normal(size=(6, 1, len(MEASURES[2]))))
    columns = 50 + rng.normal(size=(T, len(MEASURES[2])))
    return Values(MEASURES[2], columns, rng.integers(1, 5, T), halves=HalfScores(apart, crossed, 6.0))


def slow_training(apart: np.ndarray, factor: float, *, crossed: bool) -> float:
    """The definition, split by split, for independent rows."""
    between = np.mean([np.mean(D) ** 2 / 2 for D in apart])
    return factor * (between if crossed else max(between - interaction(apart), 0.0))


def interaction(apart: np.ndarray) -> float:
    """That of row and fit, for independent rows."""
    return float(np.mean([np.var(D, ddof=1) / len(D) / 2 for D in apart]))


@pytest.mark.parametrize("noise", [0.3, 1.15, 3.0])
@pytest.mark.parametrize("crossed", [False, True])
@pytest.mark.parametrize("measure", ["nll", "score_2afc"])
def test_the_error_of_a_difference_includes_training(measure: str, crossed: bool, noise: float) -> None:
    a, b = (values_with_halves(40, seed, crossed=crossed, noise=noise) for seed in (1, 2))
    clustering, k = Clustering(Dependence(40, (), "")), MEASURES[2].index(measure)
    record = next(r for r in compare({"a": a, "b": b}, clustering, estimator="e") if r["measure"] == measure)
    assert a.halves is not None
    assert b.halves is not None
    rows = np.var(a.columns[:, k] - b.columns[:, k], ddof=1) / 40
    apart = a.halves.apart[:, :, k] - b.halves.apart[:, :, k]
    factor = {"nll": 1 / 8 if crossed else 1 / 4, "score_2afc": 1 / 2}[measure]
    if measure == "score_2afc" and not crossed:
        factor = min(max(interaction(apart) / (2 * rows), 1 / 4), 0.4)
        assert (factor == 1 / 4, factor == 0.4) == (noise < 1, noise > 2)
    training = slow_training(apart, factor, crossed=crossed)
    assert training > 0
    assert record["se"] == pytest.approx(np.sqrt(rows + training), rel=1e-9)
    assert record["df"] == pytest.approx((rows + training) ** 2 / (rows**2 / 39 + training**2 / 6), rel=1e-9)


def test_the_error_of_a_score_includes_training_by_group_too() -> None:
    values = values_with_halves(60, 3)
    group = np.arange(60) % 2
    clustering = Clustering(Dependence(60, (), ""))
    assert values.halves is not None
    whole = errors(values, (["x", "y"], group), clustering)
    fixed = errors(replace(values, halves=None), (["x", "y"], group), clustering)
    for name, rows in {"all": slice(None), "x": group == 0, "y": group == 1}.items():
        added = slow_training(values.halves.apart[:, rows, NLL], 0.25, crossed=False)
        assert whole[name].se[NLL] ** 2 == pytest.approx(fixed[name].se[NLL] ** 2 + added, rel=1e-9)
    assert (whole["mean"].se[: CHOICE + 1] >= fixed["mean"].se[: CHOICE + 1]).all()


def test_splits_with_a_fit_that_diverged_are_left_out() -> None:
    means, spread = np.array([[0.4], [np.nan], [0.2]]), np.array([[0.01], [0.01], [0.01]])
    kept = training_variance(means, spread, ["nll"], crossed=True)
    assert kept == pytest.approx(training_variance(means[[0, 2]], spread[[0, 2]], ["nll"], crossed=True))
    assert np.isnan(training_variance(np.full((2, 1), np.nan), np.ones((2, 1)), ["nll"], crossed=True)).all()


def drawn(T: int, rng: np.random.Generator, noises: tuple[float, float] = (0.3, 0.3), **labels: Any) -> Triplets:
    """Two distances that see the same images, each with noise of its own."""
    true = np.exp(rng.normal(size=(2, T)))
    columns: dict[str, Any] = {"n": rng.binomial(3, expit(2 * np.log(true[0] / true[1]))), "M": [3] * T, **labels}
    for name, noise in zip("ab", noises, strict=True):
        seen = true * np.exp(noise * rng.normal(size=(2, T)))
        columns |= {f"{name}_d0": seen[0], f"{name}_d1": seen[1]}
    return Triplets.from_frame(columns)


@pytest.mark.slow
def test_equally_good_distances_are_rarely_told_apart_after_little_training() -> None:
    """150 training triplets: without the noise of training more than a tenth of tables would alarm."""
    rng = np.random.default_rng(4)
    alarms: dict[str, list[bool]] = {"analytic": [], "fixed": []}
    for _ in range(60):
        train, test = drawn(150, rng), drawn(3000, rng)
        for bars, found in alarms.items():
            result = evaluate(train, test, estimators=["density"], settings=Settings(error_bars=bars))  # type: ignore[arg-type]
            found.append(result.comparisons[0]["p"] < 0.05)
    assert sum(alarms["fixed"]) > 12
    assert sum(alarms["analytic"]) < 9


def test_what_the_error_bars_cover_is_said() -> None:
    rng = np.random.default_rng(5)
    small, large, test = drawn(100, rng), drawn(2000, rng), drawn(200, rng)

    def words(train: Triplets, *tables: Triplets, **settings: Any) -> str:
        estimators = settings.pop("estimators", ["density"])
        return evaluate(train, *tables, estimators=estimators, settings=Settings(**settings)).error_bars

    start, end = "95 % intervals for other test triplets; noise of training ", "triplets taken as independent"
    assert words(small, test) == f"{start}included; {end}"
    assert words(small) == f"{start}included; {end}"
    assert words(large, test) == f"{start}negligible with 2000 training triplets; {end}"
    assert words(small, test, error_bars="fixed") == f"{start}left out; {end}"
    both = {"density": Density(), "network": Network(epochs=1)}
    assert words(small, test, estimators=both) == f"{start}included for density, left out for network; {end}"


def test_noise_that_is_left_out_and_few_rows_get_a_caution() -> None:
    rng = np.random.default_rng(9)
    train, test = drawn(60, rng), drawn(400, rng)
    few = "only 60 training triplets: fits are rough, and error bars and tests are unreliable"
    assert [text.partition(" (in ")[0] for text in evaluate(train, test).caveats[1:]] == [few]
    fixed = evaluate(train, test, settings=Settings(error_bars="fixed")).caveats
    assert fixed[2] == (
        "the noise of training counts here and is left out for auto: error bars are too small, and too many "
        "differences are significant; --error-bars analytic includes it"
    )
    network = evaluate(train, test, estimators={"network": Network(epochs=1)})
    assert "left out for network" in network.caveats[2]
    assert network.caveats[2].endswith("; --error-bars refit includes it")
    _, rough = evaluate(drawn(150, rng), test, estimators=["density", "spline"]).caveats
    assert rough.startswith(
        "only 150 training triplets: error bars of the NLL are too small for density (in simulations"
    )
    (unnamed,) = evaluate(drawn(300, rng), test, estimators=["density"]).caveats
    assert unnamed.startswith("error bars take triplets as independent: the table has no column ref; ")


def test_tables_too_small_for_halves_and_estimators_that_need_more_rows() -> None:
    rng = np.random.default_rng(10)
    assert "noise of training included" in evaluate(drawn(5, rng), drawn(50, rng), estimators="density").error_bars
    assert evaluate(drawn(5, rng), estimators="density").notes[0].startswith("no test table: 5-fold")
    for rows in (1, 4):
        with pytest.raises(DataError, match=rf"^train has {rows} triplets?; at least 5 are needed, and some hundreds "):
            evaluate(drawn(rows, rng), drawn(50, rng))

    class Picky(Density):
        def fit(self, table: Any, **options: Any) -> Any:
            if len(table) < 50:
                raise ValueError("needs 50 rows")
            return super().fit(table, **options)

    message = (
        r"^mine could not be fitted to half of the training table, 30 rows \(ValueError: needs 50 rows\); "
        "--error-bars fixed needs no such fits$"
    )
    with pytest.raises(DataError, match=message):
        evaluate(drawn(60, rng), drawn(50, rng), estimators={"mine": Picky()})


def test_a_folder_without_noise_of_training_does_not_hide_that_of_another(tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    test = drawn(400, rng)
    with plain_results():
        evaluate(drawn(60, rng)["a"], test["a"], estimators=["density"]).write(tmp_path / "small")
        evaluate(drawn(20_000, rng)["b"], test["b"], estimators=["density"]).write(tmp_path / "large")
    between = Result.read(tmp_path / "small").compare(tmp_path / "large")
    assert between.notes[:2] == [
        "400 triplets; small: noise of training included; large: noise of training negligible with 20000 training "
        "triplets; triplets taken as independent",
        "fitted to 60 and 20000 training triplets: differences of NLL are also those of the training tables",
    ]
    (record,) = (r for r in between.comparisons if r["measure"] == "nll")
    small = Result.read(tmp_path / "small").scores[-1]
    assert record["df"] < 100
    assert record["se"] > 0.5 * small["nll_se"]


@pytest.mark.parametrize("tested", [True, False])
def test_folders_share_the_error_bars_that_evaluate_gave(tmp_path: Path, tested: bool) -> None:
    rng = np.random.default_rng(6)
    names = [f"t{k}" for k in range(120)]
    train = drawn(120, rng, triplet=names)
    tables = (train, drawn(300, rng)) if tested else (train,)
    both = evaluate(*tables, estimators=["density"])
    with plain_results():
        both.write(tmp_path / "both")
        for name in "ab":
            evaluate(*(table[name] for table in tables), estimators=["density"]).write(tmp_path / name)
    again = Result.read(tmp_path / "both")
    assert again.rows[HALVES].dtype == pl.Array(pl.Float64, 20 if tested else 10)
    assert HALVES not in again.outcomes("a").columns
    between = Result.read(tmp_path / "a").compare(tmp_path / "b")
    assert both.error_bars.split("; ")[1] == "noise of training included"
    for one, other in zip(both.comparisons, between.comparisons, strict=True):
        for name in ("difference", "se", "df", "p"):
            assert one[name] == pytest.approx(other[name], rel=1e-9), (one["measure"], name)


def test_few_references_in_training_give_few_degrees_of_freedom() -> None:
    rng = np.random.default_rng(7)
    train, test = drawn(60, rng, ref=[str(k % 3) for k in range(60)]), drawn(400, rng)
    result = evaluate(train, test, estimators=["density"])
    assert result.card["training"] == {"splits": 10, "cross_validated": False, "df": 2.0}
    for folds in (2, 3):
        crossed = evaluate(train, estimators=["density"], settings=Settings(folds=folds))
        assert np.isfinite([r["p"] for r in crossed.comparisons]).all()


def test_a_bar_without_halves_is_as_before() -> None:
    values = replace(values_with_halves(30, 8), halves=None)
    error = errors(values, None, Clustering(Dependence(30, (), "")))["all"]
    nll = values.columns[:, NLL]
    assert error.se[NLL] == pytest.approx(nll.std(ddof=1) / np.sqrt(30), rel=1e-12)
    assert bar("nll", float(nll.mean()), float(error.se[NLL]), float(error.units[NLL]))["nll_se"] == error.se[NLL]


def test_no_remedy_is_named_that_is_already_in_use() -> None:
    rng = np.random.default_rng(3)
    table = drawn(300, rng)
    two = replace(table, labels=table.labels.with_columns(ref=pl.Series(["A"] * 297 + ["B"] * 3)))
    (left_out,) = (text for text in evaluate(two, estimators=["density"]).caveats if "left out" in text)
    assert "--error-bars" not in left_out


def test_a_caution_for_train_and_test_is_given_once() -> None:
    rng = np.random.default_rng(4)
    tables = [drawn(200, rng) for _ in range(2)]
    flat = [replace(table, distances={**table.distances, "flat": (np.ones(200), np.ones(200))}) for table in tables]
    said = evaluate(*flat, estimators=["density"]).verdict()
    assert sum("flat is constant" in text for text in said) == 1
