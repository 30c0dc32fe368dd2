"""Sampling weights through a whole evaluation: what is reported, written and compared."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from commands import refused
from drawing import plain_results
from twoafc import Density, Network, Result, Spline, Triplets, check, evaluate
from twoafc.cli import main
from twoafc.errors import DataError
from twoafc.evaluation import sweep


def frame(seed: int, T: int = 160, *, k: int = 2, weights: bool = True) -> pl.DataFrame:
    """Two distances, references and groups; large weights where the distances are large."""
    rng = np.random.default_rng(seed)
    d0, d1 = np.exp(rng.normal(size=(2, T)))
    M = rng.integers(1, 5, T)
    P = d0 / (d0 + d1) if k == 2 else 1 / (1 + d0)
    names = {"ref": [f"r{i}" for i in rng.integers(30, size=T)], "group": rng.choice(["g", "h"], T)}
    columns: dict[str, Any] = {"a_d0": d0, "a_d1": d1, "b_d0": d0 * np.exp(0.7 * rng.normal(size=T)), "b_d1": d1}
    if k == 1:
        columns = {"a_d": d0, "b_d": d0 + rng.random(T)}
    own = {"weight": np.exp(0.5 * rng.normal(size=T) + 0.3 * np.log(d0))} if weights else {}
    return pl.DataFrame({"n": rng.binomial(M, P), "M": M, **columns, **names, **own})


@pytest.fixture(scope="module")
def whole() -> Result:
    return evaluate(frame(1), frame(2))


def same(one: Any, other: Any, rtol: float = 1e-12) -> None:
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for name in one:
            same(one[name], other[name], rtol)
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            same(a, b, rtol)
    elif isinstance(one, float | np.ndarray):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol)
    elif not isinstance(one, str):
        assert one == other


def figures(result: Result) -> list[Any]:
    goodness = [each.record() for each in result.goodness.values()]
    ceiling = None if result.ceiling is None else asdict(result.ceiling)
    return [result.scores, result.comparisons, goodness, ceiling, len(result.findings)]


@pytest.mark.parametrize(
    "asked",
    [
        {"estimators": ["auto", "density"]},
        {"estimators": {"d": Density(sigma="auto"), "n": Network(epochs=2)}, "error_bars": "fixed"},
        {"error_bars": "bootstrap", "draws": 10},
        {"error_bars": "refit", "draws": 3, "estimators": "density"},
    ],
)
@pytest.mark.parametrize("tested", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_weights_of_one_change_no_figure(asked: dict[str, Any], tested: bool) -> None:
    tables = [frame(seed, weights=False) for seed in (1, 2)[: 1 + tested]]
    plain = evaluate(*tables, **asked)
    ones = evaluate(*(each.with_columns(weight=pl.lit(1.0)) for each in tables), **asked)
    same(figures(plain), figures(ones))


@pytest.mark.slow
def test_weights_of_one_change_no_figure_of_pairs() -> None:
    tables = [frame(seed, k=1, weights=False) for seed in (1, 2)]
    ones = [each.with_columns(weight=pl.lit(1.0)) for each in tables]
    asked: Any = {"estimators": {"s": Spline(), "d": Density(sigma="auto")}}
    same(figures(evaluate(*tables, **asked)), figures(evaluate(*ones, **asked)))


@pytest.mark.parametrize("k", [1, 2])
def test_only_ratios_of_weights_count(k: int) -> None:
    tables = [frame(seed, k=k) for seed in (1, 2)]
    scaled = [each.with_columns(weight=4096 * pl.col("weight")) for each in tables]
    one, other = evaluate(*tables, estimators=["auto", "density"]), evaluate(*scaled, estimators=["auto", "density"])
    same(figures(one), figures(other), rtol=1e-9)
    odd = evaluate(*(each.with_columns(weight=pl.col("weight") / 7) for each in tables))
    for a, b in zip(one.scores[:4], odd.scores[:4], strict=True):
        assert a["nll"] == pytest.approx(b["nll"], rel=1e-6)


def test_the_reader_is_told_and_the_card_has_it(whole: Result, tmp_path: Path) -> None:
    train, test, result = frame(1), frame(2), whole
    w = test["weight"]
    effective = w.sum() ** 2 / (w**2).sum()
    caveat = f"scores are weighted (column weight): 160 triplets, effective number {effective:.0f}"
    assert f"Caution: {caveat}." in result.verdict()
    assert caveat in result.remarks()
    assert result.card["data"]["test"]["effective"] == pytest.approx(effective)
    plain = evaluate(train.drop("weight"), test.drop("weight"))
    assert "effective" not in plain.card["data"]["test"]
    assert plain.card["data"]["test"]["contents_sha256"] != result.card["data"]["test"]["contents_sha256"]
    assert not any("weight" in line for line in plain.remarks())
    result.report(tmp_path / "report.html")
    assert caveat in (tmp_path / "report.html").read_text(encoding="utf-8")
    note = "only test has a column weight: train rows are unweighted"
    assert note in evaluate(train.drop("weight"), test).notes
    pairs = evaluate(frame(1, k=1)).remarks()
    assert any(each.startswith("scores are weighted (column weight): 160 pairs, effective number") for each in pairs)
    found = sweep(Triplets.from_frame(train)["a"], sigmas=[0.1], grid_sizes=(), folds=2)
    weighted = "scores are weighted (column weight): 160 triplets, effective number"
    assert any(each.startswith(weighted) for each in found.notes)


def test_a_score_is_that_of_the_rows_on_disk(whole: Result, tmp_path: Path) -> None:
    with plain_results():
        whole.write(tmp_path / "results")
    read = Result.read(tmp_path / "results")
    for name in ("a", "b"):
        rows = read.outcomes(name)
        assert rows["weight"].to_list() == frame(2)["weight"].to_list()
        (record,) = (r for r in whole.scores if (r["distance"], r["split"], r["group"]) == (name, "test", "all"))
        assert np.average(rows["nll"], weights=rows["weight"]) == pytest.approx(record["nll"])
    same(read.compare().comparisons, whole.comparisons)


def test_folders_are_compared_with_their_weights(whole: Result, tmp_path: Path) -> None:
    train, test = frame(1), frame(2)
    parts = [evaluate(train, test, distances=[name]) for name in "ab"]
    for name, part in zip("ab", parts, strict=True):
        with plain_results():
            part.write(tmp_path / name)
    folders = [Result.read(tmp_path / name) for name in "ab"]
    expected = {r["measure"]: r for r in whole.comparisons}
    for compared in (folders[0].compare(folders[1]), parts[0].compare(parts[1])):
        for record in compared.comparisons:
            for field in ("difference", "se", "low", "high", "p", "df"):
                assert record[field] == pytest.approx(expected[record["measure"]][field], rel=1e-9)
        values = {(r["distance"], r["measure"]): r["value"] for r in compared.letters}
        (record,) = (r for r in whole.scores if (r["distance"], r["split"], r["group"]) == ("a", "test", "all"))
        assert values["a", "nll"] == pytest.approx(record["nll"])
        assert any(note.startswith("scores are weighted") for note in compared.notes)
    with pytest.raises(DataError, match="has weights and the result has none; evaluate them on the same table"):
        folders[0].compare(evaluate(train.drop("weight"), test.drop("weight"), distances=["b"]))
    other = evaluate(train, test.with_columns(pl.col("weight").reverse()), distances=["b"])
    with pytest.raises(DataError, match="folders are compared on the same test table; triplet 0 has n="):
        folders[0].compare(other)


def test_the_command_takes_the_column(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, seed in {"train": 1, "test": 2}.items():
        frame(seed).write_csv(tmp_path / f"{name}.csv")
    train, test = str(tmp_path / "train.csv"), str(tmp_path / "test.csv")
    with plain_results():
        main(["evaluate", "--train", train, "--test", test, "--out", str(tmp_path / "results")])
    assert "scores are weighted (column weight): 160 triplets, effective number" in capsys.readouterr().out
    assert "Scores are weighted by sampling weights." in (tmp_path / "results" / "tables.tex").read_text()
    assert refused(capsys, "count", train, "--out", str(tmp_path / "counts")) == (
        f"{train}: counts have no weights; the table has a column weight: evaluate the table itself, or drop it"
    )
    frame(1).with_columns(weight=pl.lit(0)).write_csv(train)
    assert refused(capsys, "evaluate", "--train", train) == (
        f"{train}: weight must be positive; row 0 (line 2) has weight=0 (160 of 160 rows)"
    )


def test_an_estimator_of_the_user_is_named() -> None:
    class Half:
        def fit(self, table: Any) -> Any:
            return self

        def probability(self, d0: Any, d1: Any) -> Any:
            return np.full(np.shape(d0), 0.5)

    note = "half: its fit is weighted only if it uses table.mass"
    assert note in evaluate(frame(1), frame(2), estimators={"half": Half()}, error_bars="fixed").notes
    plain = [frame(seed, weights=False) for seed in (1, 2)]
    assert note not in evaluate(*plain, estimators={"half": Half()}, error_bars="fixed").notes


def test_few_rows_in_effect_are_few() -> None:
    train = frame(1).with_columns(weight=pl.when(pl.int_range(pl.len()) < 20).then(1000.0).otherwise(1.0))
    result = evaluate(train, frame(2))
    assert any(caveat.startswith("only 2") and "training triplets in effect" in caveat for caveat in result.caveats)


def test_checks_look_at_the_population() -> None:
    """Triplets chosen where a sound distance errs, and large ones: no similarity, and no other units."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(2, 60_000))
    chosen = rng.random(60_000) < 1 / (1 + np.exp(-1.5 * (z[0] - z[1])))
    errs = chosen != (z[0] > z[1])
    chances = np.where(errs, 0.04, 0.004) * np.exp(0.7 * (z[0] + z[1]).clip(-3, 3))
    rows = rng.random(60_000) < np.minimum(1, chances)
    columns = {"n": chosen.astype(int), "M": [1] * 60_000, "d0": np.exp(z[0]), "d1": np.exp(z[1])}
    whole = pl.DataFrame(columns).with_columns(weight=pl.Series(1 / np.minimum(1, chances)))
    train, test = whole.filter(pl.Series(rows)), whole.filter(pl.Series(~rows)).drop("weight").head(3000)
    codes = [(each.code, each.table) for each in check(train.drop("weight"), test)]
    assert ("direction", "train") in codes
    assert check(train, test) == []
