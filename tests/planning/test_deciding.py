"""`twoafc gate`: three outcomes of a non-inferiority test, in nats per vote."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

import twoafc
from commands import code_of, refused


def votes(triplets: int = 240, **noise: float) -> pl.DataFrame:
    """Votes on triplets of 40 references, and noisy copies of the distance that they follow."""
    world = twoafc.worlds.simulate("weber", triplets=triplets, votes=[1, 2, 4], references=40, seed=3)
    rng = np.random.default_rng(1)
    columns = {
        f"{name}_d{k}": world[f"d{k}"] * np.exp(spread * rng.normal(size=triplets))
        for name, spread in noise.items()
        for k in (0, 1)
    }
    return world.select("triplet", "ref", "n", "M").with_columns(**columns)


@pytest.fixture(scope="module")
def result() -> twoafc.Result:
    return twoafc.evaluate(votes(good=0.1, alike=0.12, bad=1.5), error_bars="fixed", folds=2)


@pytest.fixture(scope="module")
def folder(result: twoafc.Result, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gate") / "results"
    result.write(path)
    return path


def slowly(result: twoafc.Result, baseline: str, candidate: str) -> tuple[float, float, float]:
    """The loss with its one-sided limits, by loops over references: a ratio of sums, linearised."""
    one, other = (result.outcomes(name) for name in (baseline, candidate))
    apart = [b - a for a, b in zip(one["nll"], other["nll"], strict=True)]
    loss = sum(apart) / one["M"].sum()
    sums: dict[str, float] = {}
    share: dict[str, float] = {}
    for ref, x, M in zip(one["ref"], apart, one["M"], strict=True):
        sums[ref] = sums.get(ref, 0.0) + (x - loss * M) / one["M"].sum()
        share[ref] = share.get(ref, 0.0) + 1 / len(one)
    squares = sum(s**2 for s in share.values())
    se = sum(sums[ref] ** 2 / (1 - 2 * share[ref] + squares) for ref in sums) ** 0.5
    reach = stats.t.ppf(0.95, 1 / squares - 1) * se
    return loss, loss - reach, loss + reach


def test_the_loss_is_that_of_slow_loops(result: twoafc.Result) -> None:
    for pair in (("good", "alike"), ("good", "bad"), ("bad", "alike")):
        found = twoafc.gate(result, result, max_loss=0.02, distance=pair)
        assert (found.loss, found.low, found.high) == pytest.approx(slowly(result, *pair), rel=1e-9)


def test_the_outcome_follows_from_the_limits(result: twoafc.Result) -> None:
    found = twoafc.gate(result, result, max_loss=0.02, distance=("good", "bad"))
    assert found.low is not None
    assert found.high is not None
    assert 0 < found.low < found.high
    margins = {found.low - 1e-6: "fail", found.loss: "undecided", found.high + 1e-6: "pass"}
    for margin, outcome in margins.items():
        assert twoafc.gate(result, result, max_loss=margin, distance=("good", "bad")).outcome == outcome
    turned = twoafc.gate(result, result, max_loss=0.02, distance=("bad", "good"))
    assert (turned.loss, turned.high) == pytest.approx((-found.loss, -found.low))


def test_the_noise_of_training_widens_the_limits() -> None:
    table = votes(good=0.1, bad=0.5)
    fixed, whole = (
        twoafc.gate(found, found, max_loss=0.1, distance=("good", "bad"))
        for found in (twoafc.evaluate(table, folds=2, error_bars=kind) for kind in ("fixed", "analytic"))
    )
    assert fixed.loss == pytest.approx(whole.loss)
    assert fixed.se is not None
    assert whole.se is not None
    assert fixed.se < whole.se


def test_the_loss_is_weighted() -> None:
    table = votes(good=0.1, bad=0.5).with_columns(weight=pl.Series([2.0] * 80 + [1.0] * 160))
    result = twoafc.evaluate(table, folds=2, error_bars="fixed")
    found = twoafc.gate(result, result, max_loss=0.1, distance=("good", "bad"))
    one, other = (result.outcomes(name) for name in ("good", "bad"))
    weight = one["weight"].to_numpy()
    assert found.loss == pytest.approx(weight @ (other["nll"] - one["nll"]).to_numpy() / (weight @ one["M"].to_numpy()))


def test_a_candidate_that_rules_out_votes_fails(result: twoafc.Result) -> None:
    rows = result.rows.with_columns(
        P=pl.when((pl.col("distance") == "bad") & (pl.col("n") > 0)).then(0.0).otherwise("P"),
    )
    broken = result.replace(triplets=rows)
    assert twoafc.gate(broken, broken, max_loss=9, distance=("good", "bad")).outcome == "fail"
    assert twoafc.gate(broken, broken, max_loss=-9, distance=("bad", "good")).outcome == "pass"


def test_printed_limits_lie_on_the_side_of_the_margin_that_decides(result: twoafc.Result) -> None:
    names = ("good", "alike")
    exact = twoafc.gate(result, result, max_loss=0.5, distance=names)
    assert exact.low is not None
    assert exact.high is not None
    for margin, word in ((exact.high + 1e-6, "at most "), (exact.low - 1e-6, "at least ")):
        line = str(twoafc.gate(result, result, max_loss=margin, distance=names))
        printed = float(line.partition(word)[2].partition(",")[0])
        assert (printed < margin) == (word == "at most "), line
    equal = replace(exact, outcome="undecided", loss=0.0, low=0.0, high=0.0, max_loss=0.0)
    assert "between 0.000 and 0.000, which includes the margin 0 " in str(equal)


def test_exit_codes_one_line_and_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = ("gate", "--baseline", folder, "--candidate", folder, "--distance", "good", "--distance")
    assert code_of(*both, "alike", "--max-loss", 0.5) == 0
    line = capsys.readouterr().out
    assert line.startswith("pass: loss of alike against good ")
    assert line.count("\n") == 1
    assert code_of(*both, "bad", "--max-loss", 0.001) == 1
    assert capsys.readouterr().out.startswith("fail: ")
    assert code_of(*both, "bad", "--max-loss", 0.22, "--json") == 3
    found = json.loads(capsys.readouterr().out)
    assert (found["outcome"], found["exit_code"], found["triplets"]) == ("undecided", 3, 240)
    assert found["low"] < 0.22 < found["high"]
    assert code_of(*both, "bad", "--max-loss", 0.22, "--pass-undecided", "--json") == 0
    assert json.loads(capsys.readouterr().out)["exit_code"] == 0


def test_what_the_limits_depend_on_is_printed_beside_the_line(
    result: twoafc.Result, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = votes(60, good=0.3, bad=1.0).with_columns(ref=pl.lit("one"))
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder, folds in zip(folders, (2, 3), strict=True):
        twoafc.evaluate(table, folds=folds, error_bars="fixed").write(folder)
    assert (
        code_of("gate", "--baseline", folders[0], "--candidate", folders[1], "--distance", "good", "--max-loss", 9) == 0
    )
    said = capsys.readouterr()
    assert said.out.count("\n") == 1
    one, unlike = said.err.splitlines()
    assert one.startswith("note: error bars and tests are for this one reference alone")
    assert unlike == "note: the evaluations differ (folds 2 and folds 3): part of the loss may come from that"
    assert "evaluations differ" not in " ".join(twoafc.gate(result, result, max_loss=1, distance=("good", "bad")).notes)


def test_mistakes(folder: Path, result: twoafc.Result, capsys: pytest.CaptureFixture[str]) -> None:
    both = ("--baseline", folder, "--candidate", folder)
    for distance, text in {
        (): f"{folder} has several distances: good, alike, bad; name the baseline's (--distance)",
        ("--distance", "bad"): f"baseline and candidate are both bad of {folder}; name two distances of it",
        ("--distance", "ssim"): f"{folder} has no distance ssim; it has good, alike, bad",
    }.items():
        assert refused(capsys, *map(str, ("gate", *both, *distance, "--max-loss", 0.1))) == text
    pair, good = {"distance": ("good", "bad")}, {"distance": "good"}
    fewer = result.replace(triplets=result.rows.filter(pl.col("triplet").cast(pl.Int64) < 200))
    other = result.replace(triplets=result.rows.with_columns(n=pl.col("M") - pl.col("n")))
    renamed = result.replace(triplets=result.rows.with_columns(estimator=pl.lit("mine")))
    cases: list[tuple[twoafc.Result, dict[str, Any], str]] = [
        (result, pair | {"estimator": "density"}, "^baseline and candidate have no estimator density in common; they "),
        (result, {"max_loss": np.nan}, "^max_loss must be a finite number of nats per vote; got nan$"),
        (result, {"distance": ("a", "b", "c")}, "^a gate compares two distances, .*; got a, b, c$"),
        (
            fewer,
            good,
            "^baseline and candidate must be tested on the same triplets; there are .* and 200 in .*, 200 of one name: "
            "evaluate both on the same test table$",
        ),
        (other, good, "^folders are compared on the same test table; "),
        (renamed, good, "must be fitted by the same estimator; they share none$"),
    ]
    for candidate, options, text in cases:
        with pytest.raises(ValueError, match=text):
            twoafc.gate(result, candidate, **({"max_loss": 0.1} | options))
