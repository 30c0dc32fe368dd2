from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from conftest import random_table
from twoafc.errors import DataError
from twoafc.estimators import Density, Network, Spline, estimator
from twoafc.estimators.models import SETTINGS
from twoafc.evaluation import Settings, evaluate
from twoafc.inference import all_measures, share_interval
from twoafc.metrics import nll, score_2afc_distance
from twoafc.results import Result
from twoafc.table import Triplets, assign_folds


def wide(T: int, seed: int, **columns: Any) -> Triplets:
    """Two distances, a good and a shuffled one, for the same votes."""
    table = random_table(T, seed=seed)
    order = np.random.default_rng(seed).permutation(T)
    d0, d1 = table.d0, table.d1
    distances = {"good_d0": d0, "good_d1": d1, "bad_d0": d0[order], "bad_d1": d1[order]}
    return Triplets.from_frame({"n": table.n, "M": table.M, **distances, **columns})


def one(found: Result, **wanted: Any) -> dict[str, Any]:
    (record,) = (r for r in found.scores if all(r[name] == value for name, value in wanted.items()))
    return record


@dataclass(frozen=True)
class Coin:
    """The least estimator that keeps the contract: P = 1/2, whatever the distances."""

    seen: list[int] = field(default_factory=list, compare=False)

    def fit(self, table: Triplets) -> Coin:
        self.seen.append(len(table))
        return self

    def probability(self, d0: Any, d1: Any) -> Any:
        return np.full(np.shape(d0), 0.5)


def test_scores_are_those_of_fitting_by_hand() -> None:
    train, test = wide(400, 1), wide(150, 2)
    found = evaluate(train, test, estimators=["density"])
    for name in ("good", "bad"):
        P = Density().fit(train[name]).probability(test[name].d0, test[name].d1)
        record = one(found, distance=name, split="test", group="all")
        assert record["nll"] == pytest.approx(nll(test.n, test.M, P), rel=1e-12)
        raw = score_2afc_distance(test.n, test.M, test[name].d0, test[name].d1)
        assert record["score_2afc_distance"] == pytest.approx(raw, rel=1e-12)
        seen = Density().fit(train[name]).probability(train[name].d0, train[name].d1)
        assert one(found, distance=name, split="train")["nll"] == pytest.approx(nll(train.n, train.M, seen), rel=1e-12)
    assert len(found.runs) == 2
    assert found.notes == []
    long = found.triplets.filter(distance="good")
    assert long["nll"].mean() == pytest.approx(one(found, distance="good", split="test")["nll"], rel=1e-12)
    columns = "triplet n M distance estimator seed diverged d0 d1 P nll P_halves"
    assert found.triplets.columns == columns.split()


def test_cross_validation_scores_triplets_that_the_fit_has_not_seen() -> None:
    refs = np.repeat(np.arange(20), 20)
    train = wide(400, 3, ref=refs)
    found = evaluate(
        train, distances=["good"], estimators={"d": Density(sigma=0.1)}, settings=Settings(folds=4, seed=5)
    )
    assert found.notes == ["no test table: 4-fold cross-validation, split by ref"]
    assert [r["split"] for r in found.scores] == ["train", "fold-0", "fold-1", "fold-2", "fold-3", "test"]
    parts = [one(found, split=f"fold-{k}") for k in range(4)]
    assert sum(part["triplets"] for part in parts) == 400
    pooled = np.average([part["nll"] for part in parts], weights=[part["triplets"] for part in parts])
    assert one(found, split="test")["nll"] == pytest.approx(pooled, rel=1e-12)
    # By hand: the fold that holds the first reference.
    fold = assign_folds(train, 4, seed=5)
    held = fold == fold[0]
    fit = Density(sigma=0.1).fit(train["good"].where(~held))
    by_hand = fit.probability(train["good"].d0[held], train["good"].d1[held])
    np.testing.assert_allclose(found.triplets["P"].to_numpy()[held], by_hand, rtol=1e-12)


def test_a_users_own_estimator_takes_part() -> None:
    coin = Coin()
    found = evaluate(wide(60, 1), wide(30, 2), estimators={"coin": coin, "density": Density()}, distances=["good"])
    assert coin.seen == [60] + [30] * 20  # the whole table, then ten splits into halves
    record = one(found, estimator="coin", split="test")
    assert record["score_2afc"] == 50
    assert record["ties_model"] == 30
    assert estimator("evaluation.test_evaluation:Coin").fit(wide(5, 0)["good"]).probability([1.0], [2.0]).tolist() == [
        0.5
    ]


@pytest.mark.parametrize("tested", ["other", "same", "folds"])
def test_an_estimator_may_return_one_array_for_all_tables(tested: str) -> None:
    arrays = {T: np.random.default_rng(T).random(T) for T in range(1, 91)}

    class Shared(Coin):
        def probability(self, d0: Any, d1: Any) -> Any:
            return arrays[len(d0)]

    class Copied(Coin):
        def probability(self, d0: Any, d1: Any) -> Any:
            return arrays[len(d0)].copy()

    train = random_table(90, seed=1)
    test = {"other": random_table(90, seed=2), "same": train, "folds": None}[tested]
    shared, copied = (
        evaluate(train, test, estimators={"a": kind(), "b": kind()}, folds=3 if test is None else None).scores
        for kind in (Shared, Copied)
    )
    assert shared == copied
    splits = ["train", "fold-0", "fold-1", "fold-2", "test"] if test is None else ["train", "test"]
    assert [(r["estimator"], r["split"]) for r in shared] == [(name, split) for name in "ab" for split in splits]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lasso", f"no estimator 'lasso'; there are {', '.join(SETTINGS)}, or your own as package.module:Name"),
        ("nowhere:Mine", "no estimator 'nowhere:Mine'; No module named 'nowhere'"),
        ("math:pi", r"an estimator needs a method fit\(table\); math:pi has none"),
    ],
)
def test_an_unknown_estimator_is_refused(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        estimator(name)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (lambda d0, d1: d0 * 0 + 2, r"mine must give P in \[0, 1\]; row 0 has P=2.0 \(40 of 40\)"),
        (lambda d0, d1: d0 * np.nan, r"mine must give P in \[0, 1\]; row 0 has P=nan \(40 of 40\)"),
        (lambda d0, d1: 0.5, r"mine must give one P per row, \(40,\); found \(\)"),
    ],
)
def test_an_estimator_that_breaks_its_promise_is_refused(value: Any, message: str) -> None:
    class Mine:
        def fit(self, table: Triplets) -> Mine:
            return self

        probability = staticmethod(value)

    with pytest.raises(DataError, match=message):
        evaluate(wide(40, 1), wide(30, 2), estimators={"mine": Mine()})


def test_seeds_give_a_record_each_and_a_summary() -> None:
    quick = {"network": Network(epochs=1), "density": Density()}
    settings = Settings(seeds=3, seed=7)
    found = evaluate(wide(300, 1), wide(100, 2), distances=["good"], estimators=quick, settings=settings)
    runs = [r for r in found.scores if r["estimator"] == "network" and r["split"] == "test" and r["seed"] is not None]
    assert [r["seed"] for r in runs] == [7, 8, 9]
    summary = one(found, estimator="network", split="test", seed=None)
    assert summary["nll"] == pytest.approx(np.mean([r["nll"] for r in runs]))
    assert summary["nll_sd"] == pytest.approx(np.std([r["nll"] for r in runs], ddof=1))
    assert summary["runs"] == 3
    assert len([r for r in found.scores if r["estimator"] == "density" and r["split"] == "test"]) == 1


def test_folds_beside_a_test_table_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^folds cross-validate a single table; there is a test table too$"):
        evaluate(wide(60, 1), wide(50, 2), folds=3)


def test_intervals_over_seeds_do_not_depend_on_other_estimators() -> None:
    bars = []
    for names in (["network"], ["network", "auto"], ["auto", "network"]):
        estimators = {name: Network(epochs=1) if name == "network" else name for name in names}
        chosen = [estimators[name] for name in names]
        found = evaluate(wide(60, 1), wide(100, 2), distances=["good"], estimators=chosen, settings=Settings(seeds=2))
        record = one(found, estimator="network", split="test", seed=None)
        bars.append([record[name] for name in ("nll", "nll_se", "nll_low", "nll_high", "score_2afc_high")])
    assert bars[0] == bars[1] == bars[2]


def test_a_diverged_run_is_reported_and_left_out_of_the_mean() -> None:
    wild = {"network": Network(learning_rate=1e30)}
    found = evaluate(wide(300, 1), wide(100, 2), distances=["good"], estimators=wild, settings=Settings(seeds=2))
    records = [r for r in found.scores if r["split"] == "test"]
    assert [r["diverged"] for r in records] == [1, 1, 2]
    assert found.notes == [f"good, network, seed {seed}: the run diverged" for seed in (0, 1)]
    summary = records[-1]
    assert (summary["runs"], summary["nll"]) == (2, None)


def test_a_run_that_diverges_in_a_fold_alone_is_told() -> None:
    @dataclass(frozen=True)
    class Fickle:
        diverged: bool = False

        def fit(self, table: Triplets) -> Fickle:
            return Fickle(diverged=len(table) < 60)

        def probability(self, d0: Any, d1: Any) -> Any:
            return np.full(np.shape(d0), 0.5)

    found = evaluate(wide(60, 1), estimators={"fickle": Fickle()}, distances=["good"], settings=Settings(folds=2))
    assert found.notes[1:] == [f"good, fickle: the run on fold-{k} diverged" for k in (0, 1)]
    assert one(found, split="test")["diverged"] == 1


def test_an_infinite_nll_is_told() -> None:
    class Sure:
        def fit(self, table: Triplets) -> Sure:
            return self

        def probability(self, d0: Any, d1: Any) -> Any:
            return np.where(d0 > d1, 1.0, 0.0)

    found = evaluate(wide(40, 1), wide(30, 2), estimators={"sure": Sure()}, distances=["good"])
    assert one(found, split="test")["nll"] == np.inf
    assert found.notes == ["good, sure: the NLL on test is infinite; it assigns probability 0 to observed votes"]


def test_tables_must_share_what_is_asked_for() -> None:
    train = wide(50, 1)
    other = Triplets.from_frame({"n": [1] * 5, "M": [1] * 5, "good_d0": [1.0] * 5, "good_d1": [2.0] * 5})
    found = evaluate(train, other, estimators=["density"])
    assert found.notes == ["left out, since only one of the two tables has them: bad"]
    with pytest.raises(DataError, match="the test table has no distance bad; it has good"):
        evaluate(train, other, distances=["bad"])
    with pytest.raises(DataError, match="the train table has no distance ugly; it has good, bad"):
        evaluate(train, distances=["ugly"])
    lone = Triplets.from_frame({"n": [1] * 5, "M": [1] * 5, "d0": [1.0] * 5, "d1": [2.0] * 5})
    with pytest.raises(DataError, match="train and test must share a distance; train has good, bad, test has distance"):
        evaluate(train, lone)


def test_progress_is_told() -> None:
    told: list[tuple[int, int, str]] = []
    evaluate(wide(40, 1), wide(20, 2), progress=lambda *each: told.append(each))
    assert told == [
        (0, 2, "good, auto"),
        (1, 2, "bad, auto"),
        (0, 2, "good, auto: fits to halves"),
        (1, 2, "bad, auto: fits to halves"),
        (2, 2, "scores"),
    ]


@pytest.mark.parametrize("change", [lambda d: d**6, np.log1p, lambda d: np.exp(d) * 1e-100])
def test_an_increasing_change_of_a_distance_changes_no_score(change: Any) -> None:
    train, test = wide(300, 1)["good"], wide(200, 2)["good"]
    # Tested at training values, so that nothing depends on how the map runs between them.
    rows = np.random.default_rng(0).integers(0, 600, (2, 200))
    seen = np.concatenate(train.columns)
    test = replace(test, distances={"good": (seen[rows[0]], seen[rows[1]])})

    def changed(table: Triplets) -> Triplets:
        return replace(table, distances={"good": tuple(change(column) for column in table.columns)})

    chosen = {"density": Density(), "spline": Spline(), "network": Network(epochs=2)}
    # Half a table does not have all those values: its noise is the same but for the steps between them.
    fixed = Settings(error_bars="fixed")
    scores, others = (
        evaluate(*tables, estimators=chosen, settings=fixed).scores
        for tables in ((train, test), (changed(train), changed(test)))
    )
    for one_score, other in zip(scores, others, strict=True):
        for name in all_measures(2):
            assert other[name] == pytest.approx(one_score[name], abs=1e-6), (one_score["estimator"], name)
            assert other[f"{name}_se"] == pytest.approx(one_score[f"{name}_se"], abs=1e-6)


def test_the_default_is_auto_with_a_word_on_the_papers_density() -> None:
    train, test = wide(300, 1), wide(200, 2)
    found = evaluate(train, test)
    assert {record["estimator"] for record in found.scores} == {"auto"}
    paper = evaluate(train, test, estimators=["density"])
    for name, nll_of_density in found.card["paper_density_nll"].items():
        record = one(paper, distance=name, split="test", group="all")
        assert nll_of_density == pytest.approx(record["nll"], rel=1e-12)
    assert "the paper's density gives the same order of the distances" in found.notes
    assert not any("paper's density" in note for note in paper.notes)
    single = evaluate(train["good"], test["good"])
    assert f"the paper's density gives good an NLL of {single.card['paper_density_nll']['good']:.4f}" in single.notes
    both = evaluate(train, test, estimators=["auto", "density"])
    assert not any("paper's density" in note for note in both.notes)


def test_another_order_under_the_papers_density_is_said() -> None:
    rng = np.random.default_rng(3)

    def table(T: int) -> Triplets:
        true = np.exp(rng.normal(size=(2, T)))
        columns: dict[str, Any] = {"n": rng.binomial(3, true[0] / true.sum(axis=0)), "M": [3] * T}
        # The density smooths sharp distances most: noise on one of two that are nearly alike turns their order.
        for k in range(8):
            seen = true * np.exp(0.3 * rng.normal(size=(2, T)))
            columns |= {f"d{k}_d0": seen[0], f"d{k}_d1": seen[1]}
        return Triplets.from_frame(columns)

    found = evaluate(table(60), table(60))
    (note,) = (note for note in found.notes if "paper's density" in note)
    order = sorted(found.card["paper_density_nll"], key=found.card["paper_density_nll"].get)
    listed = ", ".join(order[:5])
    assert note == f"the paper's density gives another order, the best first: {listed}, ... (--estimator density)"


# Error bars, floor and ceiling, findings


def together_of(T: int, seed: int) -> Triplets:
    """Two distances on triplets of thirty references."""
    return wide(T, seed, ref=np.arange(T) % 30, group=np.where(np.arange(T) % 3, "a", "b"))


def test_every_score_has_an_error_bar() -> None:
    found = evaluate(together_of(300, 1), together_of(240, 2), estimators=["density"])
    assert found.error_bars == (
        "95 % intervals for other test triplets; noise of training included; clustered by ref (30 references)"
    )
    for record in found.scores:
        for name in ("nll", "nll_per_vote", "agreement", "score_2afc", "score_2afc_distance", "nll_simulated"):
            assert record[f"{name}_low"] <= record[name] <= record[f"{name}_high"]
            assert record[f"{name}_se"] > 0
    good = found.triplets.filter(distance="good")
    means = good.group_by("ref").agg(pl.col("nll").mean())["nll"].to_numpy()
    tables, fixed_bars = (together_of(300, 1), together_of(240, 2)), Settings(error_bars="fixed")
    fixed = evaluate(*tables, estimators=["density"], settings=fixed_bars)
    alone = one(fixed, distance="good", split="test", group="all")
    assert alone["nll_se"] == pytest.approx(means.std(ddof=1) / np.sqrt(30), rel=1e-9)
    record = one(found, distance="good", split="test", group="all")
    assert record["nll_se"] >= alone["nll_se"]
    assert [r["measure"] for r in found.comparisons] == ["nll", "score_2afc", "score_2afc_distance"]
    assert record["nll_letters"] == "a"
    assert one(found, distance="bad", split="test", group="all")["nll_letters"] == "b"


def test_error_bars_from_drawn_tables() -> None:
    train, test = together_of(300, 1), together_of(240, 2)
    analytic, drawn, refitted = (
        evaluate(train, test, settings=Settings(error_bars=way, draws=30, seed=3))  # type: ignore[arg-type]
        for way in ("analytic", "bootstrap", "refit")
    )
    for found, told in ((drawn, "from 30 drawn tables"), (refitted, "from 30 drawn training tables")):
        assert told in found.error_bars
        for mine, other in zip(found.scores, analytic.scores, strict=True):
            assert mine["nll"] == other["nll"]
            if mine["split"] == "test":
                low, high = (0.7, 1.4) if found is drawn else (1.0, 3.0)
                assert low * other["nll_se"] < mine["nll_se"] < high * other["nll_se"]
    # What does not depend on the fit has no error from it.
    raw = [one(found, distance="good", split="test", group="all") for found in (analytic, refitted)]
    assert raw[0]["score_2afc_distance_se"] == pytest.approx(raw[1]["score_2afc_distance_se"], rel=1e-12)
    for mine, other in zip(refitted.comparisons, analytic.comparisons, strict=True):
        assert mine["se"] >= other["se"]
    once, again = (evaluate(train, test, settings=Settings(error_bars="refit", draws=2, seed=3)) for _ in range(2))
    assert once.scores == again.scores


def test_a_cross_validated_table_is_drawn_as_a_whole() -> None:
    found = evaluate(together_of(240, 1), settings=Settings(error_bars="refit", draws=8, folds=3), distances=["good"])
    record = one(found, distance="good", split="test", group="all")
    plain = evaluate(together_of(240, 1), settings=Settings(folds=3), distances=["good"])
    other = one(plain, distance="good", split="test", group="all")
    assert 0.5 * other["nll_se"] < record["nll_se"] < 3 * other["nll_se"]
    # Eight drawn tables have seven degrees of freedom.
    low, high = (record[f"score_2afc_distance_{end}"] for end in ("low", "high"))
    wilson = share_interval(record["score_2afc_distance"], record["score_2afc_distance_se"], 8.0)
    assert (low, high) == pytest.approx((wilson.low, wilson.high))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"seeds": 0}, "seeds must be at least 1; found 0"),
        ({"seed": -1}, "seed must be at least 0; found -1"),
        ({"error_bars": "none"}, "error_bars must be analytic, fixed, bootstrap or refit; found 'none'"),
        ({"draws": 1}, "draws must be at least 2; found 1"),
        ({"ties": "none"}, "ties must be half or x0; found 'none'"),
    ],
)
def test_settings_are_checked(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="must be") as caught:
        Settings(**wrong)
    assert str(caught.value) == message


def test_floor_and_ceiling_are_those_of_the_tested_votes() -> None:
    train, test = wide(500, 1), wide(400, 2)
    found = evaluate(train, test)
    assert found.ceiling is not None
    assert found.ceiling.floor_nll == pytest.approx(nll(test.n, test.M, np.full(400, 0.5)), rel=1e-12)
    record = one(found, distance="good", split="test", group="all")
    assert 0 < record["explained_low"] < record["explained_high"]
    assert "explained_low" not in one(found, distance="good", split="train", group="all")
    told = found.remarks()[1:]
    assert told[0].startswith("floor: P = 1/2 has NLL ")
    assert told[1].startswith("ceiling: the best function of the triplet has NLL between ")
    assert told[2].startswith("people: one agrees with another on ")


def test_single_votes_tell_no_ceiling() -> None:
    rng = np.random.default_rng(1)
    d0, d1 = rng.random((2, 200))
    table = Triplets.from_frame({"choice": (d0 > d1).astype(int), "d0": d0, "d1": d1})
    found = evaluate(table, settings=Settings(folds=2))
    assert found.remarks()[1].endswith("; M = 1 only: no ceiling can be known")
    record = one(found, split="test", group="all")
    assert record["explained_low"] is None
    # But the best function is as good as the distance by itself, which is always right.
    assert found.ceiling is not None
    assert found.ceiling.score_2afc_lowest > 94
    assert found.ceiling.nll_highest < np.log(2)


def test_what_is_wrong_with_the_tables_is_told() -> None:
    train = wide(800, 1)
    flipped = Triplets.from_frame(train.to_frame().with_columns(n=train.M - train.n))
    found = evaluate(flipped, wide(400, 2), distances=["good"])
    assert [finding.code for finding in found.findings if finding.level == "warning"] == ["direction"]
    assert any(remark.startswith("warning: ") for remark in found.remarks())
