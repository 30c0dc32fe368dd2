"""`twoafc query --triplet`: what results say of one tested triplet, and its card."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import polars as pl
import pytest

import twoafc
from commands import refused
from conftest import random_table
from drawing import plain_results
from twoafc import metrics
from twoafc.cli import main
from twoafc.errors import DataError
from twoafc.results import Result, ask, ask_triplet, draw_card


def table(T: int, seed: int) -> pl.DataFrame:
    frame = random_table(T, seed=seed).to_frame()
    named = {f"x{k}": pl.Series([f"{k}-{i}" for i in range(T)]) for k in (0, 1)}
    named |= {"triplet": pl.Series([f"cnn/{i}" for i in range(T)]), "ref": pl.Series([f"r{i % 7}" for i in range(T)])}
    return frame.with_columns(b_d0="d1", b_d1="d0", **named).rename({"d0": "a_d0", "d1": "a_d1"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Result with a test table, and cross-validated ones with seeds."""
    place = tmp_path_factory.mktemp("query")
    table(300, 1).write_csv(place / "train.csv")
    table(80, 2).write_csv(place / "test.csv")
    with plain_results():
        tables = f"--train {place}/train.csv --test {place}/test.csv"
        main(f"evaluate {tables} --estimator density --out {place}/res --quiet".split())
        folds = f"evaluate --train {place}/test.csv --folds 2 --seeds 2 --distance b --out {place}/folds --quiet"
        main([*folds.split(), "--estimator", "density", "--estimator", "network"])
    return place


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def test_the_answer_is_that_of_the_model_where_there_was_a_test_table(folder: Path) -> None:
    results = Result.read(folder / "res")
    for row in results.rows.head(5).iter_rows(named=True):
        told = ask_triplet(results, row["triplet"])
        assert list(told["answers"]) == ["a", "b"]
        answer = told["answers"]["a"]
        fit = twoafc.load(folder / "res/models/a-density.npz")
        asked = ask(fit, row["d0"], row["d1"], votes=row["M"], observed=row["n"])
        assert answer == asked | {"nll": row["nll"], "P_model": asked["P"]}
        assert answer["P"] == row["P"]
        assert [c["nll"] for c in answer["counts"] if c["observed"]] == pytest.approx([row["nll"]])
        assert (told["n"], told["M"], told["estimator"], told["ref"]) == (row["n"], row["M"], "density", row["ref"])
        # b is a with its sides changed, and was fitted so: it says the same.
        assert told["answers"]["b"]["P"] == pytest.approx(answer["P"])


def test_the_tested_P_is_told_apart_from_that_of_the_model(folder: Path) -> None:
    results = Result.read(folder / "folds")
    told = ask_triplet(results, "cnn/3")["answers"]["b"]
    tested = results.rows.filter(triplet="cnn/3", estimator="density")
    assert told["P"] == tested["P"].item()
    model = twoafc.load(folder / "folds/models/b-density.npz")
    assert told["P_model"] == model.probability(told["d0"], told["d1"])
    assert told["P_model"] != told["P"]
    assert told["standard_error"] == model.standard_error(told["d0"], told["d1"])  # type: ignore[union-attr]
    network = ask_triplet(results, "cnn/3", names=["b"], estimator="network")["answers"]["b"]
    seeds = results.rows.filter(triplet="cnn/3", estimator="network")["P"].to_numpy()
    assert network["P"] == pytest.approx(seeds.mean())
    assert network["nll"] == pytest.approx(-metrics.log_likelihood(tested["n"], tested["M"], seeds.mean()).item())
    assert network["standard_error"] is None


def test_a_model_with_the_tested_P_but_for_rounding_is_not_shown_beside_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with plain_results():
        main([*f"evaluate --train {folder}/train.csv --test {folder}/test.csv --out auto --quiet".split()])
    for triplet in Result.read("auto").rows["triplet"].unique(maintain_order=True)[:12]:
        capsys.readouterr()
        main(["query", "auto", "--triplet", triplet])
        assert "P, model" not in capsys.readouterr().out


def test_the_command_prints_and_draws(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["query", f"{folder}/res", "--triplet", "cnn/3"])
    said = capsys.readouterr().out
    told = ask_triplet(Result.read(folder / "res"), "cnn/3")
    assert f"Triplet cnn/3: {told['n']} of {told['M']} chose x1\nref r3, x0 0-3, x1 1-3\n" in said
    for name, answer in told["answers"].items():
        assert f"{answer['P']:.4f} ± {answer['standard_error']:.4f}" in said
        assert re.search(rf"{name} .* {answer['nll']:.4f}", said)
    observed = next(line for line in said.splitlines() if "observed" in line)
    assert observed.split() == [
        str(told["n"]),
        *(f"{each['counts'][told['n']]['nll']:.4f}" for each in told["answers"].values()),
        "observed",
    ]
    assert said.splitlines()[-1] == "Card of a: triplet-cnn_3.svg"
    assert os.listdir() == ["triplet-cnn_3.svg"]
    assert "cnn/3 (a, density)" in Path("triplet-cnn_3.svg").read_text(encoding="utf-8")
    assert "P, model" not in said


def test_cross_validated_results_show_both(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["query", f"{folder}/folds", "--triplet", "cnn/3", "--distance", "b", "--out", "card.png"])
    said = capsys.readouterr().out
    answer = ask_triplet(Result.read(folder / "folds"), "cnn/3")["answers"]["b"]
    assert f" {answer['P']:.4f}   {answer['P_model']:.4f} ± {answer['standard_error']:.4f} " in said
    assert "P is the tested one; the model in the folder" in said
    assert Path("card.png").read_bytes()[:4] == b"\x89PNG"
    # The error is the model's, not that of the P that was tested.
    asked = ask_triplet(Result.read(folder / "folds"), "cnn/3", names=["b"])
    figure = draw_card(asked, asked["answers"], None)
    assert figure.axes[1].get_xlabel() == f"P = {answer['P']:.3f}"


def test_a_single_vote_is_not_called_votes(folder: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["query", f"{folder}/res/models/a-density.npz", "--d0", "1", "--d1", "2", "--votes", "1"])
    assert "Counts of 1 vote for x1" in capsys.readouterr().out
    results = Result.read(folder / "res")
    alone = results.rows.filter(M=1)["triplet"][0]
    main(["query", f"{folder}/res", "--triplet", alone, "--out", "card.svg"])
    assert "NLL of each count j of 1 vote for x1" in " ".join(capsys.readouterr().out.split())


def test_two_distances_share_a_card(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([*f"query {folder}/res --triplet cnn/3 --distance b --distance a --out both.pdf".split()])
    assert capsys.readouterr().out.splitlines()[-1] == "Card of b, a: both.pdf"
    assert Path("both.pdf").read_bytes()[:4] == b"%PDF"


def test_json_is_all_that_is_printed_and_draws_where_it_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["query", f"{folder}/res", "--triplet", "cnn/3", "--json"])
    assert os.listdir() == []
    told = json.loads(capsys.readouterr().out)
    assert told == json.loads(json.dumps(ask_triplet(Result.read(folder / "res"), "cnn/3")))
    main(["query", f"{folder}/res", "--triplet", "cnn/3", "--json", "--out", "c.svg"])
    assert json.loads(capsys.readouterr().out) == told
    assert os.listdir() == ["c.svg"]


def test_quiet_draws_and_says_nothing(folder: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["query", f"{folder}/res", "--triplet", "cnn/3", "--quiet", "--out", "card.svg"])
    main(["query", f"{folder}/res/models/a-density.npz", "--d0", "0.1", "--d1", "0.2", "--votes", "2", "--quiet"])
    assert capsys.readouterr() == ("", "")
    assert (here / "card.svg").stat().st_size > 1000


def test_images_are_looked_for_and_their_absence_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["query", f"{folder}/res", "--triplet", "cnn/3", "--images", "."])
    assert "note: 3 of 3 images are not in . (0-3)" in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("RES --triplet 9", "no triplet '9' in RES; it has 80, named cnn/0, cnn/1, cnn/2 and so on"),
        ("RES --triplet cnn/3 --distance c", "no distance 'c' in RES; it has a, b"),
        ("RES --triplet cnn/3 --estimator c", "no estimator 'c' in RES; it has density"),
        (
            "RES --triplet cnn/3 --out card.jpg",
            "figures are written as svg, pdf, png; found 'card.jpg'; change its suffix",
        ),
        ("RES --triplet cnn/3 --images none", "no such folder of images: none"),
        (
            "RES --triplet cnn/3 --votes 3",
            "--votes needs a model; a tested triplet has its own distances and votes",
        ),
        ("RES --votes 3", "RES is a folder; ask one of its models, or ask it about a triplet with --triplet"),
        (
            "RES/models/a-density.npz --d0 1 --d1 2 --observed 1",
            "--observed needs the number of votes; give --votes",
        ),
        (
            "RES/models/a-density.npz --d0 1 --d1 2 --votes 2 --out c.svg",
            "--out needs a folder of results and --triplet",
        ),
    ],
)
def test_mistakes_get_one_line(folder: Path, capsys: pytest.CaptureFixture[str], command: str, message: str) -> None:
    res = f"{folder}/res"
    assert refused(capsys, "query", *command.replace("RES", res).split()) == message.replace("RES", res)
    assert os.listdir() == []


def test_a_name_that_several_triplets_have_is_refused(folder: Path) -> None:
    results = Result.read(folder / "res")
    made = results.replace(triplets=results.rows.with_columns(triplet=pl.lit("t")))
    with pytest.raises(DataError) as caught:
        ask_triplet(made, "t")
    assert str(caught.value) == f"80 triplets of {folder}/res are named 't'; names must be unique"


def test_names_that_matplotlib_would_read_as_mathematics_are_drawn(folder: Path, here: Path) -> None:
    found, name = Result.read(folder / "res"), "$\\bad_{3$"
    named = pl.col("triplet").replace({"cnn/3": name}), pl.col("distance").replace({"a": "$x^$"})
    with plain_results():
        found.replace(triplets=found.rows.with_columns(*named)).write("res")
    main(["query", "res", "--triplet", name, "--out", "one.svg"])
    main(["query", "res", "--triplet", name, "--distance", "b", "--distance", "$x^$", "--out", "two.svg"])
    assert "bad_{3$ ($x^$, density)" in Path("one.svg").read_text(encoding="utf-8").replace("\\$", "$")
    assert "$x^$" in Path("two.svg").read_text(encoding="utf-8").replace("\\$", "$")
