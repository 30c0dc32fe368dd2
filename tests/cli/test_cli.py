"""The commands as a user types them; each mistake gets one line and exit code 2."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import reduce
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import twoafc
from commands import PROGRAM, refused
from conftest import random_table
from twoafc.cli import COMMANDS, app, main
from twoafc.estimators.models import SETTINGS
from twoafc.table import Triplets

pytestmark = pytest.mark.usefixtures("plain")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


EVALUATE = "evaluate --train train.csv --test test.csv"


def run(command: str) -> None:
    """Run a command in this process."""
    main(command.split())


@pytest.fixture
def tables(here: Path) -> Path:
    random_table(400, seed=1, group=["g", "h"] * 200).write(here / "train.csv")
    random_table(150, seed=2, group=["g", "h"] * 75).write(here / "test.csv")
    return here


def scores() -> dict[str, Any]:
    told: dict[str, Any] = json.loads(Path("results", "scores.json").read_text())
    return told


def test_evaluate_with_a_test_table(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(f"{EVALUATE} --estimator density --out results")
    said = capsys.readouterr().out
    record = next(r for r in scores()["scores"] if r["split"] == "test" and r["group"] == "all")
    assert f"{record['nll']:.4f}" in said
    assert "Results: results" in said.splitlines()
    assert scores()["card"]["data"]["test"]["file"] == "test.csv"


def test_evaluate_with_one_table_cross_validates(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("evaluate --train train.csv --folds 3 --seed 4")
    assert "note: no test table: 3-fold cross-validation, split by triplet" in capsys.readouterr().out
    assert {r["split"] for r in scores()["scores"]} == {"train", "fold-0", "fold-1", "fold-2", "test"}


def test_evaluate_takes_many_distances_estimators_and_seeds(here: Path) -> None:
    table = random_table(200).to_frame()
    table.with_columns(a_d0="d0", a_d1="d1", b_d0="d1", b_d1="d0").drop("d0", "d1").write_csv("t.csv")
    Path("mine.py").write_text(
        "class Mine:\n"
        "    def fit(self, table):\n"
        "        return self\n"
        "    def probability(self, d0, d1):\n"
        "        return d0 / (d0 + d1)\n"
    )
    command = "evaluate --train t.csv --test t.csv --estimator density --estimator network --estimator mine:Mine"
    run(f"{command} --seeds 2 --distance a --distance b --sigma 0.1 --grid-size 9 --quiet")
    told = scores()
    assert {(r["distance"], r["estimator"]) for r in told["scores"]} == {
        (d, e) for d in "ab" for e in ("density", "network", "mine:Mine")
    }
    assert told["card"]["estimators"]["density"]["sigma"] == 0.1
    assert told["card"]["estimators"]["density"]["grid_size"] == 9
    by_name = {r["distance"]: r for r in told["scores"] if r["estimator"] == "density" and r["split"] == "test"}
    # b is a with its sides changed: its raw score is the complement of a's.
    assert by_name["a"]["score_2afc_distance"] + by_name["b"]["score_2afc_distance"] == pytest.approx(100)
    assert by_name["a"]["nll"] == pytest.approx(by_name["b"]["nll"], rel=1e-9)
    models = ["a-density.npz", "a-network-seed0.npz", "a-network-seed1.npz"]
    assert sorted(os.listdir("results/models"))[:3] == models
    assert all("mine" not in name for name in os.listdir("results/models"))


def test_the_options_of_scores_reach_them(tables: Path) -> None:
    random_table(100, seed=3).to_frame().with_columns(d1="d0").write_csv("ties.csv")
    command = "evaluate --train train.csv --test ties.csv --quiet"
    run(f"{command} --ties x0")
    record = next(r for r in scores()["scores"] if r["split"] == "test")
    assert record["ties"] == record["triplets"] == 100
    table = twoafc.Triplets.read("ties.csv")
    assert record["score_2afc_distance"] == pytest.approx(100 * (1 - table.n / table.M).mean())
    assert scores()["card"]["tie_rule"] == "a tie counts as a choice of x0"
    run(command)
    assert next(r for r in scores()["scores"] if r["split"] == "test")["score_2afc_distance"] == 50


def test_auto_is_the_default_and_says_what_it_is(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(EVALUATE)
    said = capsys.readouterr().out
    assert "note: auto is a smoothing spline; in simulations its P was nearest to the truth" in said
    assert "note: the paper's density gives distance an NLL of " in said
    assert type(twoafc.load("results/models/distance-auto.npz")).__name__ == "SplineFit"
    # A setting of the density asks for the density.
    run(f"{EVALUATE} --sigma 0.05 --quiet")
    assert twoafc.load("results/models/distance-density.npz").settings.sigma == 0.05  # type: ignore[union-attr]


def test_json_is_all_that_is_printed_when_asked_for(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(f"{EVALUATE} --json")
    said = capsys.readouterr()
    assert json.loads(said.out) == scores()
    assert said.err == ""


def test_query_prints_p_and_every_count(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(f"{EVALUATE} --estimator density --quiet")
    model = "results/models/distance-density.npz"
    run(f"query {model} --d0 0.31 --d1 0.52 --votes 5 --observed 2 --json")
    answer = json.loads(capsys.readouterr().out)
    fit = twoafc.load(model)
    assert answer["P"] == pytest.approx(float(fit.probability(0.31, 0.52)))
    assert answer["standard_error"] == pytest.approx(float(fit.standard_error(0.31, 0.52)))  # type: ignore[union-attr]
    assert sum(count["probability"] for count in answer["counts"]) == pytest.approx(1)
    assert [count["observed"] for count in answer["counts"]] == [False, False, True, False, False, False]
    for count in answer["counts"]:
        assert count["nll"] == pytest.approx(twoafc.metrics.nll([count["j"]], [5], [answer["P"]]))
    run(f"query {model} --d0 0.31 --d1 0.52 --votes 5 --observed 2")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"P = {answer['P']:.4f} ± {answer['standard_error']:.4f} (standard error)")
    (marked,) = (line for line in lines if "observed" in line)
    second = answer["counts"][2]
    assert marked.split() == ["2", f"{second['probability']:.4f}", f"{second['nll']:.4f}", "observed"]


def test_query_of_a_network_has_no_standard_error(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(f"{EVALUATE} --estimator network --quiet")
    run("query results/models/distance-network.npz --d0 1 --d1 2 --votes 1")
    first = capsys.readouterr().out.splitlines()[0]
    assert "standard error" not in first
    assert first.startswith("P = 0.")


def test_simulate_writes_the_true_p(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("simulate --out t.parquet --world thurstone --triplets 500 --votes 1 --votes 5 --lapse 0.1 --seed 3")
    assert capsys.readouterr().out == "500 simulated triplets of world thurstone: t.parquet\n"
    table = pl.read_parquet("t.parquet")
    assert set(table["M"]) == {1, 5}
    true = twoafc.worlds.true_probability("thurstone", table["d0"].to_numpy(), table["d1"].to_numpy(), 0.1)
    assert table["P"].to_numpy() == pytest.approx(true)
    assert table["P"].min() >= 0.05
    run("evaluate --train t.parquet --quiet")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("evaluate --train none.csv", "no such file: none.csv"),
        (
            "evaluate --train train.csv --test bad.csv",
            "bad.csv: n must lie in [0, M]; row 0 (line 2) has n=3, M=2 (1 of 1 rows)",
        ),
        ("evaluate --train train.csv --folds 1", "folds must lie between 2 and the number of triplets, 400; found 1"),
        ("evaluate --train train.csv --seeds 0", "seeds must be at least 1; found 0"),
        ("evaluate --train train.csv --seed -1", "seed must be at least 0; found -1"),
        (
            "evaluate --train train.csv --test test.csv --folds 3",
            "--folds cross-validates a single table; there is a test table too",
        ),
        ("evaluate --train train.csv --sigma -1", "sigma must be a positive number or auto; found -1.0"),
        (
            "evaluate --train train.csv --distance ssim lpips",
            "lpips: not expected here; several names have commas between them (--distance a,b), numbers the option "
            "each (--votes 1 --votes 3)",
        ),
        (
            "evaluate --train train.csv --estimator tea",
            f"no estimator 'tea'; there are {', '.join(SETTINGS)}, or your own as package.module:Name",
        ),
        (
            "evaluate --train train.csv --estimator network --sigma 1",
            "--sigma is a setting of density; add --estimator density",
        ),
        ("evaluate --train train.csv --out train.csv", "train.csv is a file; results are written to a folder"),
        (
            "evaluate --train train.csv --out .",
            ". is or contains the current folder, which cannot be replaced as a whole; name another",
        ),
        ("query train.csv --d0 1 --d1 2 --votes 5", "train.csv is not a readable twoafc model: File is not a zip file"),
        (
            "simulate --out t.csv --world flat",
            "there is no world 'flat'; the names are: weber, thurstone, sqrt_noise, saturating, turning, useless",
        ),
        ("simulate --out nowhere/t.csv", "no such folder: nowhere"),
        ("simulate --out t.txt", "a table is written as .csv or .parquet; found t.txt"),
        ("demo --triplets 3", "triplets must be at least 40, or there is nothing to fit; found 3"),
    ],
)
def test_a_mistake_gets_one_line(tables: Path, capsys: pytest.CaptureFixture[str], command: str, message: str) -> None:
    Path("bad.csv").write_text("n,M,d0,d1\n3,2,1,1\n")
    assert refused(capsys, *command.split()) == message
    assert sorted(os.listdir()) == ["bad.csv", "test.csv", "train.csv"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--votes 0", "votes must be at least 1; found 0"),
        ("--votes 5 --observed 6", "observed must lie in [0, 5], the votes; found 6"),
        ("--votes 5 --d0 nan", "distances must be finite; found d0=nan, d1=2.0"),
    ],
)
def test_a_question_without_sense_is_refused(
    tables: Path, capsys: pytest.CaptureFixture[str], options: str, message: str
) -> None:
    twoafc.Density().fit(random_table()).save("m.npz")
    d0 = "" if "--d0" in options else "--d0 1"
    assert refused(capsys, *f"query m.npz {d0} --d1 2 {options}".split()) == message


def test_a_reader_who_leaves_is_no_error(tables: Path) -> None:
    command = f"{sys.executable} -m twoafc check train.csv --test test.csv | true"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_closed_or_full_standard_output(tables: Path) -> None:
    Path("plain.py").write_text(PROGRAM)
    evaluate = f"{sys.executable} plain.py {EVALUATE} --json"
    done = subprocess.run(["bash", "-c", f"{evaluate} >&-"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert twoafc.Result.read("results").scores
    check = f"{sys.executable} -m twoafc check"
    done = subprocess.run(["bash", "-c", f"{check} train.csv > /dev/full"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "twoafc: [Errno 28] No space left on device\n")
    done = subprocess.run(["bash", "-c", f"{check} none.csv >&- 2>&-"], capture_output=True)
    assert (done.returncode, done.stderr) == (2, b"")


def test_a_path_of_thousands_of_signs_is_shown_in_part(capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, "check", "loop/" * 1000 + "t.csv")
    assert "..." in said
    assert len(said) < 500
    assert "loop/t.csv" in said


def test_a_users_files_are_neither_run_nor_replaced(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("csv.py", "matplotlib.py", "polars.py"):
        Path(name).write_text("raise SystemExit('the file of the user was run')")
    command = [sys.executable, "-c", "from twoafc.cli import main; main()", *EVALUATE.split()]
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}
    assert subprocess.run(command, env=environment, capture_output=True).returncode == 0
    for folder, file in (("p", "models/precious.pt"), ("q", "train.csv"), ("r", "scores.json")):
        Path(folder, file).parent.mkdir(parents=True)
        Path(folder, file).write_text("ten years of work")
        said = f"{folder} contains other files ({file}); choose a new folder, or one with results alone"
        assert refused(capsys, "evaluate", "--train", "train.csv", "--out", folder) == said
        assert refused(capsys, "demo", "--triplets", "100", "--out", folder) == said
        assert Path(folder, file).read_text() == "ten years of work"


def test_inputs_and_folders_of_the_user_are_not_replaced(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("demo --triplets 200 --out d")
    capsys.readouterr()
    said = refused(capsys, *["evaluate", "--train", "d/train.csv", "--test", "d/test.csv", "--out", "d"])
    assert said == "d/train.csv lies in d, which would be replaced as a whole; name another folder"
    Path("e", "mine").mkdir(parents=True)
    Path("f").mkdir()
    Path("f", "link").symlink_to("..")
    for folder, held in (("e", "mine"), ("f", "link")):
        said = refused(capsys, "evaluate", "--train", "train.csv", "--out", folder)
        assert said.startswith(f"{folder} contains other files ({held}")
        assert Path(folder, held).exists()
    os.chdir("e/mine")
    assert "is or contains the current folder" in refused(
        capsys, "evaluate", "--train", "../../train.csv", "--out", ".."
    )


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_narrow_terminal_gets_its_table_and_the_files_are_whole(tables: Path, encoding: str) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0", "LC_ALL": "C"}
    command = [sys.executable, "-c", PROGRAM, *EVALUATE.split()]
    done = subprocess.run(command, env=environment, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"NLL ?" in done.stdout
    assert "NLL ↓" in Path("results", "tables.md").read_text(encoding="utf-8")


def test_a_folder_behind_a_link_is_replaced_in_its_place(tables: Path) -> None:
    Path("there").mkdir()
    Path("link").symlink_to("there")
    for _ in range(2):
        run(f"{EVALUATE} --quiet --out link")
    assert Path("link").is_symlink()
    assert Path("there", "scores.csv").is_file()
    assert sorted(os.listdir()) == ["link", "test.csv", "there", "train.csv"]


def test_a_diverged_model_gives_no_answer(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    twoafc.Network(learning_rate=1e30).fit(random_table()).save("m.npz")
    said = "the model gives no P; the run that made it diverged"
    assert refused(capsys, *["query", "m.npz", "--d0", "1", "--d1", "2", "--votes", "5"]) == said


def test_version_and_help() -> None:
    for option, expected in (("--version", twoafc.__version__), ("--help", "evaluate")):
        done = subprocess.run([sys.executable, "-m", "twoafc", option], capture_output=True, text=True, check=True)
        assert expected in done.stdout


EXPLAINED = [*(command for command in COMMANDS if command != "plan"), "plan size", "plan choose", "plan status"]


@pytest.mark.parametrize("command", EXPLAINED)
def test_every_option_of_every_command_is_explained(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    main([*command.split(), "--help"])
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    function = reduce(lambda inner, name: inner[name], command.split(), app)
    for argument in function.assemble_argument_collection(parse_docstring=True):
        assert argument.parameter.help, f"{command} {argument.name}"
        assert argument.parameter.help.split()[0] in shown


def test_strict_takes_warnings_as_errors(capsys: pytest.CaptureFixture[str]) -> None:
    table = random_table(800)
    flipped = table.to_frame().with_columns(n=table.M - table.n)
    Triplets.from_frame(flipped).write("flipped.csv")
    told = refused(capsys, "evaluate", "--train", "flipped.csv", "--strict")
    assert told.startswith("--strict: train, distance: the votes are flipped (n must count x1), or ")
    assert not Path("results").exists()
    run("evaluate --train flipped.csv")
    assert "\nwarning: train, distance: the votes are flipped" in capsys.readouterr().out


def test_a_model_is_asked_for_the_chance_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fit = twoafc.Density().fit(twoafc.worlds.simulate("weber", triplets=200, votes=2, seed=1))
    fit.save(tmp_path / "m.npz")
    main(["query", str(tmp_path / "m.npz"), "--d0", "1", "--d1", "1"])
    said = capsys.readouterr().out
    assert said.startswith("P = 0.5000 ± ")
    assert "note" not in said
    main(["query", str(tmp_path / "m.npz"), "--d0", "1", "--d1", "1e6"])
    least, most = fit.uniform.values[[0, -1]]
    note = (
        f"note: the model was fitted to distances from {least:.4g} to {most:.4g}; outside this range P is taken at its "
        "nearest end"
    )
    assert capsys.readouterr().out.splitlines()[1] == note
    main(["query", str(tmp_path / "m.npz"), "--d0", "1", "--d1", "1", "--json"])
    assert set(json.loads(capsys.readouterr().out)) == {"d0", "d1", "P", "standard_error"}


def test_commands_and_options_are_listed_in_the_order_of_the_work(capsys: pytest.CaptureFixture[str]) -> None:
    run("--help")
    shown = capsys.readouterr().out
    places = [
        shown.index(f"│ {name} ") for name in ("demo", "fetch", "measure", "check", "evaluate", "compare", "report")
    ]
    assert places == sorted(places)
    run("evaluate --help")
    shown = capsys.readouterr().out
    places = [shown.index(f"─ {name} ─") for name in ("Data", "Method", "Comparison", "Large tables", "Output")]
    assert places == sorted(places)


def test_names_with_commas_short_names_and_few_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = twoafc.worlds.simulate("weber", triplets=60, votes=2, seed=1)
    for name in ("lpips_alex", "ssim", "rmse"):
        frame = frame.with_columns(**{f"{name}_d0": frame["d0"], f"{name}_d1": frame["d1"]})
    frame.drop("d0", "d1").write_csv(tmp_path / "votes.csv")
    asked = ["evaluate", "--train", str(tmp_path / "votes.csv"), "--out", str(tmp_path / "r"), "--json"]
    main([*asked, "--distance", "lpips,ssim", "--baseline", "lpips", "--folds", "2"])
    result = json.loads(capsys.readouterr().out)
    assert {record["distance"] for record in result["scores"]} == {"lpips_alex", "ssim"}
    assert result["card"]["planned"] == [["ssim", "lpips_alex"]]
    main(["compare", str(tmp_path / "r"), "--pair", "lpips", "ssim"])
    assert "lpips_alex and ssim have the same NLL on every triplet" in capsys.readouterr().out
    assert twoafc.Result.read(tmp_path / "r").outcomes("lpips")["distance"][0] == "lpips_alex"
    frame.drop("d0", "d1").head(2).write_csv(tmp_path / "two.csv")
    message = "train has 2 triplets; at least 5 are needed, and some hundreds for a verdict"
    assert refused(capsys, "evaluate", "--train", str(tmp_path / "two.csv"), "--out", str(tmp_path / "r")) == message


def test_a_study_is_evaluated_under_its_own_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = twoafc.worlds.simulate("weber", triplets=60, votes=1, seed=1)
    frame = frame.select(
        pl.when(pl.col("n") == 1).then(pl.lit("right")).otherwise(pl.lit("left")).alias("Response"), "d0", "d1"
    )
    path = str(tmp_path / "study.csv")
    frame.write_csv(path)
    out = ["--out", str(tmp_path / "r")]
    assert refused(capsys, "evaluate", "--train", path, *out).endswith("; perhaps --rename Response=choice")
    assert refused(capsys, "evaluate", "--train", path, "--rename", "Response", *out) == (
        "--rename takes OLD=NEW, such as response=choice; got Response"
    )
    main(["evaluate", "--train", path, "--rename", "Response=choice", "--folds", "2", "--quiet", *out])
    main(["check", path, "--rename", "Response=choice"])
    assert capsys.readouterr().out.splitlines()[0] == "train: 60 triplets, 60 votes, M = 1, distances: distance"


def test_an_error_that_cannot_be_written_is_in_the_exit_code() -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "twoafc", "check", "nothing.csv"]
        assert subprocess.run(command, stderr=full).returncode == 2


LEAVING = """
import threading, time
import twoafc.cli as cli
threading.Thread(target=time.sleep, args=(60,)).start()
def app(*_, **__):
    print("said before")
    raise {error}
cli.app = app
cli.main()
"""


@pytest.mark.parametrize(
    ("error", "code", "last"),
    [("RuntimeError('a mistake of ours')", 1, ["RuntimeError: a mistake of ours"]), ("SystemExit(3)", 3, [])],
)
def test_threads_that_are_left_hide_no_error_and_no_output(error: str, code: int, last: list[str]) -> None:
    program = [sys.executable, "-c", LEAVING.format(error=error), "check"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr.splitlines()[-1:]) == (code, "said before\n", last)
