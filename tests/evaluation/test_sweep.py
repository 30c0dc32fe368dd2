"""The sweep: that each point is what `evaluate` gives, whatever the workers, and its folder."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import pairs_world
from commands import refused
from conftest import random_table
from twoafc import metrics
from twoafc.cli import main
from twoafc.estimators import Density
from twoafc.evaluation import (
    Settings,
    Sweep,
    draw_sweep,
    evaluate,
    nodes_for,
    sweep,
    sweep_remarks,
    sweep_table,
    write_sweep,
)
from twoafc.inference import COMPARED, holm, sentence
from twoafc.table import Triplets, assign_folds


def table(T: int, seed: int) -> Triplets:
    """Two distances, one better than the other, and references that repeat."""
    frame = random_table(T, seed=seed, ref=[f"r{i % 40}" for i in range(T)]).to_frame()
    rng = np.random.default_rng(seed + 100)  # other draws than those of the distances
    noise = {f"b_d{k}": frame[f"d{k}"].to_numpy() * rng.lognormal(sigma=0.5, size=T) for k in (0, 1)}
    return Triplets.from_frame(frame.rename({"d0": "a_d0", "d1": "a_d1"}).with_columns(**noise))


TRAIN, TEST = table(600, 1), table(250, 2)
SWEPT: dict[str, Any] = {"sigmas": [0.2, 0.05], "grid_sizes": [30, 5], "grid_size": 25}


TOLD: list[tuple[int, int, str]] = []


@pytest.fixture(scope="module")
def found() -> Sweep:
    TOLD.clear()
    return sweep(TRAIN, TEST, **SWEPT, progress=lambda *each: TOLD.append(each))


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


@pytest.fixture
def files(here: Path) -> Path:
    TRAIN.write("train.csv")
    TEST.write("test.csv")
    return here


def failure(capsys: pytest.CaptureFixture[str], command: str) -> str:
    return refused(capsys, *command.split())


@pytest.mark.parametrize("test", [TEST, None])
def test_each_point_is_what_evaluate_gives(test: Triplets | None) -> None:
    found = sweep(TRAIN, test, **SWEPT, folds=2, seed=4, distances=["b"])
    chosen = {str(i): Density(sigma=r["sigma"], grid_size=r["grid_size"]) for i, r in enumerate(found.scores)}
    fixed = Settings(folds=2, seed=4, error_bars="fixed")
    scores = evaluate(TRAIN["b"], test and test["b"], estimators=chosen, settings=fixed).frame()
    tested = scores.filter(split="test", group="all")
    for i, record in enumerate(found.scores):
        one = tested.filter(distance=record["distance"], estimator=str(i)).row(0, named=True)
        for name in ("triplets", "votes", "nll", "nll_se", "nll_low", "nll_high", "agreement", "agreement_se"):
            assert record[name] == pytest.approx(one[name], rel=1e-9), name
        assert record["score_2afc_high"] == pytest.approx(one["score_2afc_high"], rel=1e-9)


def test_the_frame_has_a_row_for_each_point_in_order(found: Sweep) -> None:
    frame = found.frame()
    assert frame.columns[:6] == ["distance", "parameter", "sigma", "grid_size", "triplets", "votes"]
    for name in ("a", "b"):
        sigmas = frame.filter(distance=name, parameter="sigma")
        assert sigmas["sigma"].to_list() == sorted({0.05, 0.2, 1 / 44, found.automatic[name].sigma})
        assert set(sigmas["grid_size"]) == {25}
        grids = frame.filter(distance=name, parameter="grid_size")
        assert grids["grid_size"].to_list() == [5, 20, 30]
        assert set(grids["sigma"]) == {1 / 44}
    assert found.parameters == ["sigma", "grid_size"]
    assert found.distances == ["a", "b"]


def test_what_is_found_does_not_depend_on_the_workers(found: Sweep) -> None:
    for workers in (1, 3):
        again = sweep(TRAIN, TEST, **SWEPT, workers=workers, distances=["a"])
        assert again.scores == [record for record in found.scores if record["distance"] == "a"]
        assert again.automatic["a"] == found.automatic["a"]


def test_automatic_and_chosen_are_those_of_the_estimator(found: Sweep) -> None:
    for name in ("a", "b"):
        automatic = Density(sigma="auto").fit(TRAIN[name]).settings
        assert found.automatic[name] == automatic
        assert automatic.grid_size == nodes_for(float(automatic.sigma))
        assert found.automatic_values("sigma")[name] == automatic.sigma
        assert found.at(name, "sigma", float(automatic.sigma))["sigma"] == automatic.sigma


def test_curves_are_the_scores_in_order(found: Sweep) -> None:
    curve = found.curves("sigma", "agreement")["b"]
    rows = found.frame().filter(distance="b", parameter="sigma")
    for values, column in zip(curve, ("sigma", "agreement", "agreement_low", "agreement_high"), strict=True):
        np.testing.assert_array_equal(values, rows[column].to_numpy())
    assert (np.diff(curve.x) > 0).all()
    assert found.best("b", "sigma")["nll"] == rows["nll"].min()
    assert ((curve.low <= curve.value) & (curve.value <= curve.high)).all()


def test_the_automatic_sigma_is_compared_with_the_papers_in_pairs(found: Sweep) -> None:
    for name, record in zip(("a", "b"), found.comparisons, strict=True):
        assert record["distance"] == name
        ends = {
            "the automatic sigma": found.at(name, "sigma", float(found.automatic[name].sigma))["nll"],
            "the paper's sigma": found.at(name, "sigma", 1 / 44)["nll"],
        }
        assert record["difference"] == pytest.approx(ends[record["a"]] - ends[record["b"]])
        assert record["difference"] <= 0
        # Paired: less than the errors of the two by themselves, which share their triplets.
        assert record["se"] < found.at(name, "sigma", 1 / 44)["nll_se"]
        assert found.tested[name]["nll"] == pytest.approx(ends["the automatic sigma"], rel=1e-12)


def test_p_values_are_corrected_over_the_distances(found: Sweep) -> None:
    p = [record["p"] for record in found.comparisons]
    np.testing.assert_allclose([record["p_holm"] for record in found.comparisons], holm(p))
    assert max(record["p_holm"] / record["p"] for record in found.comparisons) == pytest.approx(2)
    for record in found.comparisons:
        assert record["different"] == (record["p_holm"] < 0.05)
        ends = [record[key] for key in ("difference", "se", "low_holm", "high_holm")]
        worded = sentence(COMPARED[2]["nll"], record["a"], record["b"], ends, record["p_holm"], tests=2)
        assert record["sentence"] == worded


def test_without_a_test_table_sigma_is_chosen_without_the_triplets_that_are_scored() -> None:
    found = sweep(TRAIN, sigmas=[0.1], grid_sizes=(), grid_size=25, folds=2, seed=4, distances=["b"])
    table, fold = TRAIN["b"], assign_folds(TRAIN, 2, seed=4)
    P = {"automatic": np.empty(len(table)), "paper": np.empty(len(table))}
    for k in range(2):
        kept, left = table.where(fold != k), table.where(fold == k)
        chosen = Density(sigma="auto").fit(kept).settings.sigma
        for name, sigma in (("automatic", chosen), ("paper", 1 / 44)):
            P[name][fold == k] = Density(sigma=sigma, grid_size=25).fit(kept).probability(left.d0, left.d1)
    nll = {name: float(metrics.nll(table.n, table.M, each)) for name, each in P.items()}
    assert found.tested["b"]["nll"] == pytest.approx(nll["automatic"], rel=1e-9)
    (record,) = found.comparisons
    assert abs(record["difference"]) == pytest.approx(abs(nll["automatic"] - nll["paper"]), rel=1e-6)
    # The point of the curve is a width chosen from all triplets: another number, which the table does not show.
    at = found.at("b", "sigma", float(found.automatic["b"].sigma))["nll"]
    assert at != found.tested["b"]["nll"]
    assert sweep_table(found, "sigma").rows[0][4].startswith(f"{nll['automatic']:.4f} ± ")
    assert "its NLL is that of choosing anew in each fold" in " ".join(sweep_remarks(found))


def test_triplets_of_both_tables_are_told_as_evaluate_does(found: Sweep) -> None:
    same = sweep(TRAIN, TRAIN, sigmas=[0.1], grid_sizes=(), grid_size=10, distances=["a"])
    shared = [each for each in evaluate(TRAIN["a"], TRAIN["a"]).findings if each.code.startswith("shared")]
    assert [each.code for each in same.findings] == ["shared_triplets", "shared_references"]
    assert same.findings == shared
    assert str(shared[0]) in sweep_remarks(same)
    assert [each.code for each in found.findings] == ["shared_references"]


def test_the_automatic_number_of_nodes_is_marked_where_it_is_in_the_range() -> None:
    few = sweep(TRAIN, TEST, sigmas=(), grid_sizes=[5, 40], distances=["a"])
    assert few.automatic_values("grid_size") == {}
    assert few.comparisons == []
    many = sweep(TRAIN, TEST, sigmas=(), grid_sizes=[5, 80], distances=["a"])
    assert many.automatic_values("grid_size") == {"a": 66}
    assert [r["grid_size"] for r in many.scores] == [5, 20, 66, 80]


def test_progress_is_told_up_to_the_end(found: Sweep) -> None:
    assert [done for done, _, _ in TOLD] == list(range(1, len(found.scores) + 1))
    assert TOLD[-1] == (14, 14, "b, grid_size")


def test_an_error_in_progress_ends_the_sweep_at_once() -> None:
    def stop(done: int, total: int, what: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(TRAIN, TEST, **SWEPT, workers=1, progress=stop)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sigmas": (), "grid_sizes": ()}, "there is nothing to sweep; give sigmas, grid sizes, or both"),
        ({"sigmas": ["auto"]}, "sigmas to sweep must be numbers; found 'auto'"),
        ({"sigmas": [0.1, -1.0]}, "sigma must be a positive number or auto; found -1.0"),
        ({"grid_sizes": [1]}, "grid_size must be a whole number, at least 2; found 1"),
        (
            {"grid_sizes": [5, 100_000]},
            "grid sizes to sweep must be at most 1000, since memory grows with their square; found 100000",
        ),
        ({"workers": 0}, "workers must be at least 1; found 0"),
        ({"distances": ["c"]}, "the train table has no distance c; it has a, b"),
    ],
)
def test_mistakes_are_told(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole text is compared
        sweep(TRAIN, TEST, **options)
    assert str(caught.value) == message


def test_the_figure_draws_the_curves_with_their_marks(found: Sweep) -> None:
    (ax,) = draw_sweep(found, "sigma", "nll").axes
    lines = {line.get_label(): line for line in ax.lines}
    np.testing.assert_array_equal(lines["a"].get_xdata(), found.curves("sigma")["a"].x)
    np.testing.assert_array_equal(lines["a"].get_ydata(), found.curves("sigma")["a"].value)
    marks = {
        (float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in ax.lines if len(line.get_xdata()) == 1
    }
    for name, settings in found.automatic.items():
        at = found.at(name, "sigma", float(settings.sigma))
        assert any(x == at["sigma"] and y == pytest.approx(at["nll"], rel=1e-12) for x, y in marks)
    assert ax.get_xscale() == "log"


def test_the_summary_tells_best_automatic_and_papers(found: Sweep) -> None:
    table = sweep_table(found, "sigma")
    assert table.header[1::2] == ("best sigma", "automatic sigma", "paper's sigma")
    row = dict(zip(table.header[1::2], table.rows[0][1::2], strict=True))
    assert row["paper's sigma"] == "0.0227"
    assert row["automatic sigma"] == f"{found.automatic['a'].sigma:.3g}"
    assert table.rows[0][-1].startswith(f"{found.at('a', 'sigma', 1 / 44)['nll']:.4f} ± ")
    assert sweep_table(found, "grid_size").header[1::2] == ("best nodes", "paper's nodes")
    assert sweep_remarks(found)[0].startswith("± standard error; ")


COMMAND = "sweep --train train.csv --test test.csv --sigma 0.1 --sigma 0.3 --distance a"


def test_the_command_writes_a_folder(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([*COMMAND.split(), "--grid-size", "8"])
    said = capsys.readouterr().out
    told = json.loads(Path("sweep/sweep.json").read_text())
    drawn = [
        f"figures/sweep-{p}-{m}.{e}"
        for p in ("sigma", "grid_size")
        for m in ("nll", "agreement")
        for e in ("pdf", "svg")
    ]
    held = sorted(path.relative_to("sweep").as_posix() for path in Path("sweep").rglob("*") if path.is_file())
    assert held == sorted(["sweep.csv", "sweep.json", "tables.md", "tables.tex", *drawn])
    assert told["format"] == 2
    assert told["card"]["files"] == held
    assert told["card"]["kind"] == "sweep"
    assert told["card"]["data"]["test"]["file"] == "test.csv"
    assert told["chosen"] == {"sigma": 1 / 44, "grid_size": 20}
    assert told["held"] == {"sigma": 1 / 44, "grid_size": 100}
    frame = pl.read_csv("sweep/sweep.csv")
    assert frame["nll"].to_list() == pytest.approx([r["nll"] for r in told["scores"]])
    assert {0.1, 0.3, told["automatic"]["a"]["sigma"]} <= set(frame.filter(parameter="sigma")["sigma"])
    assert "best sigma" in said
    assert "Sweep: sweep" in said.splitlines()
    assert f"{frame['nll'].min():.4f}" in Path("sweep/tables.md").read_text()


@pytest.mark.parametrize("test", ["", " --test test.csv"])
def test_pairs_are_swept(here: Path, capsys: pytest.CaptureFixture[str], test: str) -> None:
    train, other = pairs_world.world(300, 1), pairs_world.world(150, 2)
    train.write("train.csv")
    other.write("test.csv")
    main([*f"sweep --train train.csv{test} --sigma 0.1 --grid-size 8 --distance good".split(), "--json"])
    found = json.loads(capsys.readouterr().out)
    settings = Settings(error_bars="fixed", folds=None if test else 5)
    for record in found["scores"]:
        density = Density(sigma=record["sigma"], grid_size=record["grid_size"])
        whole = evaluate(train["good"], other["good"] if test else None, estimators=density, settings=settings).frame()
        one = whole.filter(split="test", group="all").row(0, named=True)
        for name in ("pairs", "votes", "nll", "nll_se", "agreement", "average_precision", "average_precision_se"):
            assert record[name] == pytest.approx(one[name], rel=1e-9), name
    said = Path("sweep/tables.md").read_text()
    assert f"{len(other if test else train)} pairs" in said
    assert "nats per pair" in said
    assert "triplet" not in said
    assert Path("sweep/figures/sweep-sigma-nll.svg").is_file()


def test_one_table_is_cross_validated_and_json_is_all_that_is_printed(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["sweep", "--train", "train.csv", "--grid-size", "6", "--folds", "2", "--distance", "b", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["card"]["notes"] == ["no test table: 2-fold cross-validation, split by ref"]
    assert {r["parameter"] for r in told["scores"]} == {"grid_size"}


def test_an_earlier_sweep_is_replaced_as_a_whole_and_nothing_else(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    main([*COMMAND.split(), "--grid-size", "9", "--quiet"])
    before = {path: path.read_bytes() for path in Path("sweep").rglob("*") if path.is_file()}

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("twoafc.plots.save", full)
        assert failure(capsys, f"{COMMAND} --quiet") == "sweep could not be written: No space left on device"
    assert {path: path.read_bytes() for path in Path("sweep").rglob("*") if path.is_file()} == before
    main([*COMMAND.split(), "--quiet"])
    assert capsys.readouterr().out == ""
    assert not any("grid_size" in name for name in os.listdir("sweep/figures"))
    Path("sweep/mine.txt").write_text("keep")
    said = failure(capsys, COMMAND)
    assert said == "sweep contains other files (mine.txt); choose a new folder, or one with sweeps alone"
    assert Path("sweep/mine.txt").read_text() == "keep"
    assert [name for name in os.listdir() if name.startswith(".")] == []


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (f"{COMMAND} --folds 3", "--folds cross-validates a single table; there is a test table too"),
        (f"{COMMAND} --out train.csv", "train.csv is a file; sweeps are written to a folder"),
        (
            "sweep --train data/t.csv --out data",
            "data/t.csv lies in data, which would be replaced as a whole; name another folder",
        ),
        (
            "sweep --train train.csv --test pairs.csv",
            "train and test must have rows of one kind; train has triplets, test pairs",
        ),
    ],
)
def test_mistakes_get_one_line(files: Path, capsys: pytest.CaptureFixture[str], command: str, message: str) -> None:
    Path("data").mkdir()
    TRAIN.write("data/t.csv")
    pl.DataFrame({"n": [1, 0], "M": [1, 1], "ssim_d": [0.1, 0.2]}).write_csv("pairs.csv")
    assert failure(capsys, command) == message


def test_names_in_other_scripts_and_with_odd_signs_are_drawn(here: Path) -> None:
    names = {"a": "距離", "b": "a$b$"}
    frame = TEST.to_frame().rename({f"{old}_d{k}": f"{new}_d{k}" for old, new in names.items() for k in (0, 1)})
    found = sweep(Triplets.from_frame(frame), sigmas=[0.1], grid_sizes=(), grid_size=10, folds=2)
    write_sweep(found, here / "s", {})
    assert "距離" in Path("s/figures/sweep-sigma-nll.svg").read_text(encoding="utf-8")
