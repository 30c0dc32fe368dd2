"""The folder of results: what is in it, and that it is written whole or not at all."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import twoafc
from conftest import random_table
from drawing import plain_results
from twoafc.cli import main
from twoafc.errors import DataError
from twoafc.estimators import Density
from twoafc.evaluation import evaluate
from twoafc.results import (
    Result,
    check_folder,
    describe_table,
    group_table,
    latex,
    markdown,
    model_files,
    note_lines,
    paper_table,
    summary_table,
)

FILES = [
    "figures",
    "models",
    "report.html",
    "scores.csv",
    "scores.json",
    "tables.md",
    "tables.tex",
    "triplets.parquet",
]


@pytest.fixture(scope="module")
def found() -> Result:
    train = random_table(300, seed=1, group=["g_1", "h"] * 150)
    test = random_table(100, seed=2, group=["g_1", "h"] * 50)
    return evaluate(train, test, estimators=["density"])


def test_the_folder_holds_what_it_should(found: Result, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "results"
    found.write(out)
    assert sorted(os.listdir(out)) == FILES
    assert sorted(os.listdir(out.parent)) == ["results"]
    scores = pl.read_csv(out / "scores.csv")
    told = json.loads((out / "scores.json").read_text())
    assert list(told) == ["format", "card", "scores", "comparisons", "ceiling", "findings", "goodness", "sha256"]
    assert len(told["scores"]) == len(scores) == 2 * 4
    needed = {"distance", "estimator", "split", "group", "triplets", "votes", "nll", "agreement", "score_2afc"}
    needed |= {"score_2afc_distance", "nll_per_vote", "nll_simulated", "agreement_simulated", "ties", "seed"}
    for record in told["scores"]:
        assert needed <= set(record)
    assert needed <= set(scores.columns)
    for row, record in zip(scores.iter_rows(named=True), told["scores"], strict=True):
        assert row["nll"] == pytest.approx(record["nll"], rel=1e-12)
        assert row["group"] == record["group"]
    triplets = pl.read_parquet(out / "triplets.parquet")
    assert len(triplets) == 100
    assert {"triplet", "group", "n", "M", "distance", "estimator", "P", "nll"} <= set(triplets.columns)
    fit = twoafc.load(out / "models" / "distance-density.npz")
    np.testing.assert_array_equal(fit.probability(triplets["d0"], triplets["d1"]), triplets["P"].to_numpy())
    kinds = ("reliability", "residuals", "surfaces")
    assert sorted(os.listdir(out / "figures")) == [f"{kind}-density.{end}" for kind in kinds for end in ("pdf", "svg")]


def test_the_card_says_what_made_it(found: Result, tmp_path: Path) -> None:
    found.write(tmp_path / "r")
    told = json.loads((tmp_path / "r" / "scores.json").read_text())["card"]
    assert told["versions"]["twoafc"] == twoafc.__version__
    assert told["estimators"] == {"density": dataclasses.asdict(Density())}
    assert told["tie_rule"] == "a tie counts one half"
    assert told["simulated"] == "exact expectation"
    assert told["settings"]["seed"] == 0
    assert told["data"]["train"]["triplets"] == 300
    (fit,) = told["fits"]
    assert fit["plane_log_likelihood"] == found.runs[0].fit.plane_log_likelihood[0]  # type: ignore[attr-defined]


def test_the_hash_of_a_table_depends_on_its_contents_alone(tmp_path: Path) -> None:
    table = random_table(30)
    table.write(tmp_path / "t.csv")
    table.write(tmp_path / "t.parquet")
    told = [describe_table(twoafc.Triplets.read(tmp_path / name), tmp_path / name) for name in ("t.csv", "t.parquet")]
    assert told[0]["contents_sha256"] == told[1]["contents_sha256"] == describe_table(table)["contents_sha256"]
    assert told[0]["file_sha256"] != told[1]["file_sha256"]
    assert told[0]["contents_sha256"] != describe_table(random_table(30, seed=1))["contents_sha256"]


def test_an_earlier_result_is_replaced_as_a_whole(found: Result, tmp_path: Path) -> None:
    out = tmp_path / "r"
    found.write(out)
    other = found.replace(runs=[dataclasses.replace(found.runs[0], distance="other")])
    other.write(out)
    assert os.listdir(out / "models") == ["other-density.npz"]
    assert os.listdir(tmp_path) == ["r"]
    (out / "models" / "mine.npz").write_text("not of this result")
    with pytest.raises(DataError, match=r"r contains other files \(models/mine.npz\); choose a new folder"):
        found.write(out)


def test_a_folder_with_other_files_is_left_alone(found: Result, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("ten years")
    with pytest.raises(DataError) as caught:
        found.write(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path} contains other files (thesis.tex); choose a new folder, or one with results alone"
    )
    assert os.listdir(tmp_path) == ["thesis.tex"]
    with pytest.raises(DataError, match="is a file; results are written to a folder"):
        check_folder(tmp_path / "thesis.tex")


def test_a_failure_leaves_the_earlier_result(found: Result, tmp_path: Path) -> None:
    out = tmp_path / "r"
    found.write(out)
    before = (out / "scores.json").read_bytes()

    class Unwritable:
        def save(self, path: Path) -> None:
            path.write_text("half")
            raise RuntimeError("no more")

    broken = found.replace(runs=[dataclasses.replace(found.runs[0], fit=Unwritable())])
    with pytest.raises(RuntimeError, match="no more"):
        broken.write(out)
    assert (out / "scores.json").read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["r"]


@pytest.mark.parametrize("limit", [1000, 20_000])
def test_a_full_disk_gets_one_line_and_leaves_nothing(tmp_path: Path, limit: int) -> None:
    random_table(400).write(tmp_path / "t.csv")
    code = f"""
import resource
from twoafc.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
main(["evaluate", "--train", "t.csv", "--test", "t.csv", "--out", "r"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("twoafc: ")
    assert done.stderr.count("\n") == 1
    assert "too large" in done.stderr.lower()
    assert os.listdir(tmp_path) == ["t.csv"]


def test_a_killed_run_leaves_the_earlier_result(tmp_path: Path) -> None:
    random_table(3000).write(tmp_path / "t.csv")
    with plain_results():
        main(["evaluate", "--train", str(tmp_path / "t.csv"), "--out", str(tmp_path / "r"), "--quiet"])
    before = (tmp_path / "r" / "scores.json").read_bytes()
    command = [sys.executable, "-m", "twoafc", "evaluate", "--train", "t.csv", "--out", "r", "--estimator", "network"]
    process = subprocess.Popen([*command, "--seeds", "200"], cwd=tmp_path)
    time.sleep(1.5)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert (tmp_path / "r" / "scores.json").read_bytes() == before
    with plain_results():
        main(["evaluate", "--train", str(tmp_path / "t.csv"), "--out", str(tmp_path / "r"), "--quiet"])


def test_odd_names_make_plain_files() -> None:
    assert model_files((name, "density", None) for name in ("a/b", "a b", "../c", "é")) == [
        "a_b-density.npz",
        "a_b-density~1.npz",
        ".._c-density.npz",
        "é-density.npz",
    ]
    assert model_files([("d", "network", 0), ("d", "network", 1)]) == ["d-network-seed0.npz", "d-network-seed1.npz"]
    assert model_files([("d", "network", 0)]) == ["d-network.npz"]


def test_tables_read_well(found: Result) -> None:
    table = summary_table(found.scores)
    assert table.caption == f"Scores on test: 100 triplets, {found.rows['M'].sum()} votes"
    record = next(r for r in found.scores if r["split"] == "test" and r["group"] == "all")
    assert table.rows[0][:3] == ("distance", "density", f"{record['nll']:.4f} ± {record['nll_se']:.4f}")
    groups = group_table(found.scores)
    assert groups is not None
    assert groups.header == ("distance", "estimator", "g_1", "h", "mean", "all")
    assert r"g\_1 & h & mean & all \\" in latex(groups)
    assert markdown(groups).count("\n|") == 3


def paper_records(pairs: bool, estimators: tuple[str, ...]) -> list[dict[str, Any]]:
    """Scores of ten distances, some with names that mean something to LaTeX, or are long."""
    names = [
        *(f"lpips_alex_{k}" for k in range(7)),
        r"a&b%c#d_e{f}$\g^h~",
        "worst\x1b",
        "a_name_that_is_far_too_long_to_print",
    ]
    rows, second = ("pairs", "average_precision") if pairs else ("triplets", "score_2afc_distance")
    return [
        {
            "distance": name,
            "estimator": estimator,
            "split": split,
            "group": "all",
            rows: 3000,
            "votes": 11800,
            "seed": None,
        }
        | {"nll": 1.3 + 0.1 * k, "nll_se": 0.0519, "nll_letters": "abcd", "explained_low": 35.0, "explained_high": 99.6}
        | {second: 73.55 - k, f"{second}_se": 1.63, f"{second}_letters": "abc", "nll_simulated": 9.876}
        for estimator in estimators
        for split in ("train", "test")
        for k, name in enumerate(names)
    ]


@pytest.mark.parametrize(("pairs", "estimators"), [(False, ("auto",)), (True, ("density", "spline"))])
def test_the_table_for_a_paper_is_slim_and_says_what_its_signs_mean(pairs: bool, estimators: tuple[str, ...]) -> None:
    text = paper_table(paper_records(pairs, estimators), error_bars="clustered by ref")
    assert text.count(r"\begin{table}") == text.count(r"\label{tab:twoafc}") == 1
    assert r"lpips\_\allowbreak{}alex\_\allowbreak{}0 & 1.300 $\pm$ 0.052 & abcd & " in text
    assert len(re.findall(r"73\.5 \$\\pm\$ 1\.6", text)) == len(estimators)
    assert "share a letter cannot be told apart (paired tests, Holm-corrected, 5 \\%)" in text
    two = [
        record for record in paper_records(pairs, estimators) if record["distance"] in ("lpips_alex_0", "lpips_alex_1")
    ]
    assert "share a letter cannot be told apart (paired test, 5 \\%)" in paper_table(two)
    assert "$\\pm$ standard error (clustered by ref)" in text
    assert "9.876" not in text
    assert [f"emph{{{name}}}" in text for name in estimators] == [len(estimators) > 1] * len(estimators)
    plain = [{k: v for k, v in r.items() if "letters" not in k} for r in paper_records(pairs, estimators)]
    assert "letter" not in paper_table(plain)


@pytest.mark.parametrize("pairs", [False, True])
def test_the_table_for_a_paper_fits_a_column_of_print(pairs: bool, tmp_path: Path) -> None:
    program = shutil.which("pdflatex")
    style = program and subprocess.run(["kpsewhich", "booktabs.sty"], capture_output=True, text=True).stdout
    if not program or not style:
        pytest.skip("pdflatex with booktabs is not installed")
    (tmp_path / "tables.tex").write_text(paper_table(paper_records(pairs, ("auto",)), error_bars="clustered by ref"))
    page = [r"\documentclass[twocolumn]{article}", r"\usepackage[utf8]{inputenc}", r"\usepackage{booktabs}"]
    page += [r"\setlength{\textwidth}{7.0in}\setlength{\columnsep}{0.3in}", r"\begin{document}", r"\input{tables.tex}"]
    page += [r"Table~\ref{tab:twoafc}.", r"\end{document}"]
    (tmp_path / "paper.tex").write_text("\n".join(page))
    run = [program, "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout


def test_tables_show_spread_and_failure() -> None:
    base = {"distance": "d", "estimator": "network", "split": "test", "group": "all", "triplets": 1, "votes": 2}
    runs = [
        base | {"seed": 0, "nll": 1.0, "diverged": 0},
        base | {"seed": None, "nll": 1.25, "nll_sd": 0.5, "runs": 2, "diverged": 1},
    ]
    (row,) = summary_table(runs).rows
    assert row[:3] == ("d", "network (1 of 2 diverged)", "1.2500 ± 0.5000")
    (row,) = summary_table([base | {"seed": 0, "nll": None, "diverged": 1}]).rows
    assert row[1:3] == ("network (diverged)", "–")
    (row,) = summary_table([base | {"seed": 0, "nll": 8.4, "diverged": 1}]).rows
    assert row[1:3] == ("network (diverged)", "8.4000")
    assert note_lines(["one", "two"], "md") == "- one\n- two\n"
    assert note_lines(["one"], "tex") == "% one\n"


def test_a_result_that_a_killed_run_was_replacing_is_read(found: Result, tmp_path: Path) -> None:
    out = tmp_path / "results"
    found.write(out)
    hidden = tmp_path / ".results.0123456789ab.part"
    (hidden / "new").mkdir(parents=True)
    (hidden / "lock").touch()
    out.rename(hidden / "old")
    main(["report", str(out), "--quiet"])
    assert sorted(os.listdir(tmp_path)) == ["results"]
    assert Result.read(out).scores == found.scores


def test_a_damaged_model_stops_what_needs_it_alone(tmp_path: Path) -> None:
    table = random_table(60).to_frame().rename({"d0": "a_d0", "d1": "a_d1"}).with_columns(b_d0="a_d1", b_d1="a_d0")
    twoafc.evaluate(table, table, estimators="density").write(tmp_path / "r")
    (tmp_path / "r" / "models" / "b-density.npz").write_bytes(b"damaged")
    read = Result.read(tmp_path / "r")
    assert read.model("a", "density") is not None
    for call in (lambda: read.model("b", "density"), read.plot.files):
        with pytest.raises(DataError, match=r"b-density\.npz is not a readable twoafc model"):
            call()
