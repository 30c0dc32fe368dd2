"""The result as one object: written to a folder and read back, of triplets and of pairs."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import twoafc
from commands import refused
from conftest import random_table
from drawing import plain_results
from pairs_world import falling
from pairs_world import world as pairs
from twoafc import plots, worlds
from twoafc.arrays import FloatArray
from twoafc.cli import main
from twoafc.errors import DataError
from twoafc.estimators import Network, NetworkFit, estimator
from twoafc.evaluation import Settings, evaluate
from twoafc.results import Result, describe_files
from twoafc.table import Pairs, Triplets


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    frame = worlds.simulate("weber", triplets=300, votes=3, seed=1)
    table = Triplets.from_frame(
        frame.rename({"d0": "a b_d0", "d1": "a b_d1"}).with_columns(**{"a/b_d0": frame["d0"], "a/b_d1": frame["d1"]})
    )
    folder = tmp_path_factory.mktemp("folder") / "results"
    settings, names = Settings(folds=2, seeds=2), ("density", "network")
    with plain_results():
        evaluate(table, estimators=names, settings=settings).write(folder)
    return folder


def test_models_are_found_whatever_their_distances_are_called(finished: Path) -> None:
    read = Result.read(finished)
    assert read.fits == [
        (name, label, seed)
        for name in ("a b", "a/b")
        for label, seed in (("density", None), ("network", 0), ("network", 1))
    ]
    a, b = (read.fit(name, "density") for name in ("a b", "a/b"))
    assert np.array_equal(a.probability([0.1], [0.2]), b.probability([0.1], [0.2]))
    assert len(read.rows) == 2 * 3 * 300
    assert read.votes is None
    assert (read.ties, read.error_bar_method) == ("half", "analytic")


def test_asking_for_what_is_not_there(finished: Path) -> None:
    read = Result.read(finished)
    with pytest.raises(DataError, match=r"^no distance 'c' in .*results; it has a b, a/b$"):
        read.outcomes("c")
    with pytest.raises(DataError, match=r"^no estimator 'spline' in .*results; it has density, network$"):
        read.outcomes(estimator="spline")
    with pytest.raises(DataError, match=r"results has no model of a b, spline$"):
        read.fit("a b", "spline")


def test_results_without_single_rows_say_so_where_these_are_needed(tmp_path: Path) -> None:
    with plain_results():
        evaluate(random_table(60)).replace(triplets=None).write(tmp_path / "r")
    assert Result.read(tmp_path / "r").triplets is None
    with pytest.raises(
        DataError, match=r"^single triplets are needed; .* has no triplets\.parquet \(results of counts have none\)$"
    ):
        _ = Result.read(tmp_path / "r").rows


def same_folders(one: Path, other: Path) -> None:
    """Check that two folders hold the same files with the same contents."""
    names = sorted(path.relative_to(one) for path in one.rglob("*") if path.is_file())
    assert names == sorted(path.relative_to(other) for path in other.rglob("*") if path.is_file())
    for name in names:
        if name.suffix == ".parquet":
            assert pl.read_parquet(one / name).equals(pl.read_parquet(other / name))
        elif name.suffix not in (".npz", ".pdf", ".svg"):
            assert (one / name).read_text(encoding="utf-8") == (other / name).read_text(encoding="utf-8"), name


class Sure:
    """An estimator of the user's own that is sure, wrong, and saves no model."""

    def fit(self, table: Triplets) -> Sure:
        return self

    def probability(self, d0: FloatArray, d1: FloatArray) -> FloatArray:
        return np.asarray(d0 > d1, dtype=np.float64)


def test_a_result_that_is_read_writes_the_same_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Figures are named, not drawn: that is tested elsewhere, and takes longer than all the rest.
    monkeypatch.setattr(plots, "save", lambda figure, *paths, dpi: [path.touch() for path in paths])
    votes = {"choice": [0, 1, 1] * 60, "observer": [f"o{k % 7}" for k in range(180)]}
    d = np.repeat(np.random.default_rng(0).lognormal(size=(2, 60)), 3, axis=1)
    table = Triplets.from_frame(votes | {"triplet": np.repeat(np.arange(60), 3), "d0": d[0], "d1": d[1]})
    chosen = {"density": estimator("density"), "network": Network(epochs=1), "sure": Sure()}
    found = evaluate(table, estimators=chosen, settings=Settings(folds=2, seeds=2))
    assert any(record["nll"] == np.inf for record in found.scores)
    found.write(tmp_path / "one")
    read = Result.read(tmp_path / "one")
    assert read.scores == found.scores
    assert read.ceiling == found.ceiling
    assert read.findings == found.findings
    assert read.votes is not None
    assert found.votes is not None
    assert read.votes.equals(found.votes)
    assert read.remarks() == found.remarks()
    assert read.summary().equals(found.summary())
    assert repr(read) == repr(found)
    assert [(run.distance, run.estimator, run.seed) for run in read.runs] == read.fits[:3]
    for key, goodness in found.goodness.items():
        assert read.goodness[key].sentences() == goodness.sentences()
    read.write(tmp_path / "two")
    same_folders(tmp_path / "one", tmp_path / "two")
    path = found.report(tmp_path / "page.html")
    assert path.read_text(encoding="utf-8") == (tmp_path / "one" / "report.html").read_text(encoding="utf-8")


def test_the_model_is_of_a_run_that_did_not_diverge(tmp_path: Path) -> None:
    table = random_table(60)
    with plain_results():
        found = evaluate(table, estimators=[Network(epochs=1)], settings=Settings(seeds=2))
        found.write(tmp_path / "results")
    first, second = (run.fit for run in found.runs)
    assert isinstance(first, NetworkFit)
    broken = replace(first, parameters=first.parameters * np.nan)
    broken.save(tmp_path / "results" / "models" / "distance-network-seed0.npz")
    read = Result.read(tmp_path / "results")
    again = found.replace(runs=[replace(found.runs[0], fit=broken), found.runs[1]])
    for result in (read, again):
        np.testing.assert_array_equal(result.fit("distance", "network").probability(1, 2), second.probability(1, 2))
    (tmp_path / "results" / "models" / "distance-network-seed1.npz").unlink()
    lone = Result.read(tmp_path / "results")
    assert np.isnan(lone.fit("distance", "network").probability(1, 2))
    assert lone.model("distance", "density") is None


# Pairs.

PAIR_FILES = [
    "comparisons.csv",
    "figures",
    "models",
    "pairs.parquet",
    "report.html",
    "scores.csv",
    "scores.json",
    "tables.md",
    "tables.tex",
]


@pytest.fixture(scope="module")
def of_pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    train = pairs(600, seed=1, group=["a", "b", "b"] * 200)
    test = pairs(300, seed=2, group=["a", "b", "b"] * 100)
    folder = tmp_path_factory.mktemp("pairs") / "results"
    evaluate(train, test, estimators=["density", "spline"]).write(folder)
    return folder


def test_a_folder_of_pairs_holds_what_it_should(of_pairs: Path, tmp_path: Path) -> None:
    assert sorted(os.listdir(of_pairs)) == PAIR_FILES
    content = json.loads((of_pairs / "scores.json").read_text())
    assert content["card"]["kind"] == "pairs"
    assert content["card"]["data"]["train"]["pairs"] == 600
    assert {"sigma": 1 / 44, "grid_size": 20}.items() <= content["card"]["fits"][0].items()
    assert len(content["scores"]) == len(pl.read_csv(of_pairs / "scores.csv")) == 2 * 2 * 2 * 4
    rows = pl.read_parquet(of_pairs / "pairs.parquet")
    assert len(rows) == 4 * 300
    assert sorted(os.listdir(of_pairs / "figures")) == [
        f"{kind}.{ending}"
        for kind in ("curves-density", "curves-spline", "differences", "reliability-density", "reliability-spline")
        for ending in ("pdf", "svg")
    ]
    tested = rows.filter(distance="good", estimator="spline")
    fit = twoafc.load(of_pairs / "models" / "good-spline.npz")
    np.testing.assert_array_equal(fit.probability(tested["d"]), tested["P"].to_numpy())
    text = (of_pairs / "tables.md").read_text()
    assert "**AP % ↑, distance only by group on test**" in text
    assert "good – poor" in text
    assert r"\begin{table}" in (of_pairs / "tables.tex").read_text()
    read = Result.read(of_pairs)
    assert (read.row, read.k, read.ceiling) == ("pair", 1, None)
    assert read.goodness["good", "density"].residuals is None  # they need two distances
    assert read.outcomes("poor", "density")["P"].len() == 300
    read.write(tmp_path / "again")
    same_folders(of_pairs, tmp_path / "again")


def test_a_floor_that_is_infinite_is_restored(tmp_path: Path) -> None:
    d = np.linspace(0, 1, 40)
    train, test = (Pairs.from_frame({"n": [n] * 40, "M": [3] * 40, "d": d}) for n in (0, 1))
    found = evaluate(train, test, estimators=["spline"])
    found.write(tmp_path / "one")
    read = Result.read(tmp_path / "one")
    assert read.scores == found.scores
    assert read.scores[-1]["nll_floor"] == np.inf
    read.write(tmp_path / "two")
    same_folders(tmp_path / "one", tmp_path / "two")


@pytest.mark.parametrize("command", ["failures", "query --triplet 3"])
def test_what_takes_triplets_refuses_pairs_in_one_line(
    of_pairs: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name, *options = command.split()
    said = refused(capsys, name, str(of_pairs), *options)
    what = command.removesuffix(" 3")
    assert said == (
        f"{what} needs results of triplets; {of_pairs} has results of pairs; use twoafc report or twoafc compare"
    )


def test_a_model_of_pairs_is_queried(of_pairs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["query", f"{of_pairs}/models/good-spline.npz", "--d", "0.5", "--votes", "3", "--observed", "1", "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert list(answer) == ["d", "votes", "P", "standard_error", "counts"]
    assert answer["P"] == pytest.approx(falling(np.log(0.5)), abs=0.1)
    assert sum(count["probability"] for count in answer["counts"]) == pytest.approx(1)
    main(["query", f"{of_pairs}/models/good-density.npz", "--d", "0.5", "--votes", "3"])
    said = capsys.readouterr().out
    assert "(standard error): the chance of same at d = 0.5" in said
    assert "Counts of 3 votes for same" in said


def attributes(result: Result) -> dict[str, Any]:
    """Everything public that a result has, apart from what depends on where it is, in a form that can be compared."""
    place = ("folder", "name", "plot", "fused")
    names = [name for name in dir(result) if not name.startswith("_") and name not in place]
    values = {name: value for name in names if not callable(value := getattr(result, name))}
    fits = [(run.distance, run.estimator, run.seed, run.diverged, run.fit.summary()) for run in values.pop("runs")]
    frames = {name: getattr(result, name)() for name in ("frame", "summary", "table", "outcomes")}
    kinds = [type(frame) for frame in frames.values()]
    rows = {name: None if values[name] is None else values[name].to_dicts() for name in ("triplets", "votes", "rows")}
    goodness = {key: str(value.record()) for key, value in result.goodness.items()}
    values["ceiling"] = None if result.ceiling is None else str(asdict(result.ceiling))
    return values | rows | {"goodness": goodness, "runs": fits, "frames": kinds, "repr": repr(result)}


@pytest.mark.parametrize("kind", ["triplets", "seeds", "pairs", "pandas"])
def test_a_result_that_is_read_is_the_one_that_was_written(tmp_path: Path, kind: str) -> None:
    train, test = random_table(120, seed=1, ref=[f"r{row % 12}" for row in range(120)]), random_table(60, seed=2)
    if kind == "triplets":
        train.to_frame().write_csv(tmp_path / "train.csv")
        result = evaluate(train, test)
        result.card["data"]["train"] |= describe_files(tmp_path / "train.csv")
    elif kind == "seeds":
        result = evaluate(train, estimators=("network", "density"), seeds=2)
    elif kind == "pairs":
        result = evaluate(pairs(80))
    else:
        result = evaluate(train.to_frame().to_pandas(), folds=3)
    result.write(tmp_path / "results")
    read = attributes(Result.read(tmp_path / "results"))
    for name, value in attributes(result).items():
        assert read[name] == value, name
    again = Result.read(tmp_path / "results")
    again.write(tmp_path / "elsewhere" / "results")
    assert attributes(Result.read(tmp_path / "elsewhere" / "results")) == read
