"""`twoafc reproduce` from end to end, on small generated sets."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import trees
from twoafc.cli import main
from twoafc.errors import DataError
from twoafc.folder import Results
from twoafc.reproduce import Options, Reproduction, experiments, reproduce, run
from twoafc.triplets import Triplets

COMMAND = ["--limit", "40", "--seeds", "2", "--distance", "rmse"]
OPTIONS = Options(("rmse",), 40, 2)
TABLES = (
    "bapps",
    "distance-only",
    "clic",
    "appendix-density",
    "appendix-network",
    "by-distortion",
    "cost",
    "arithmetic",
)
FIGURES = (
    "worked-example",
    *(f"surfaces-{name}-{estimator}" for name in ("bapps", "clic") for estimator in ("density", "network")),
    "scatter-bapps",
    "scatter-clic",
    "votes-clic",
    "triplet-clear-near",
    "triplet-clear-far",
    "triplet-borderline",
    "robustness-sigma",
    "robustness-grid",
)


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one whole run, made by the command."""
    out = tmp_path_factory.mktemp("reproduced") / "paper"
    main(["reproduce", "--synthetic", "--out", str(out), *COMMAND, "--quiet"])
    return out


@pytest.fixture
def copy(paper: Path, tmp_path: Path) -> Path:
    """A run of one's own, to be spoiled."""
    return Path(shutil.copytree(paper, tmp_path / "paper"))


def stamps(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_everything_is_written_and_nothing_else(paper: Path) -> None:
    endings = {"tables": ("csv", "md", "tex"), "figures": ("svg", "pdf")}
    for folder, names in (("tables", TABLES), ("figures", FIGURES)):
        expected = {f"{name}.{ending}" for name in names for ending in endings[folder]}
        assert {path.name for path in (paper / folder).iterdir()} == expected
    assert {path.name for path in paper.iterdir()} == {
        *("run.json", "index.html", "data", "results", "experiments", "tables", "figures", "synthetic")
    }


def test_the_tables_hold_the_scores_of_the_results(paper: Path) -> None:
    for name in ("bapps", "clic"):
        results = Results.read(paper / "results" / name)
        scores = {
            (r["estimator"], r["distance"]): r
            for r in results.scores
            if (r["split"], r["group"]) == ("test", "all") and (r["estimator"] == "density" or r.get("runs"))
        }
        frame = pl.read_csv(paper / "tables" / f"{name}.csv").filter(pl.col("value") == "here")
        measures = {"AJ % ↑": "agreement", "NLL ↓": "nll", "2AFC % ↑": "score_2afc"}
        assert len(frame) == 6
        for row in frame.iter_rows(named=True):
            estimator = {"Density estimation": "density", "Neural network": "network"}[row["Method"]]
            expected = scores[estimator, "rmse"][measures[row["Measure"]]]
            assert row["Euclidean (rmse)"] == pytest.approx(expected, rel=1e-12)


def test_the_sets_have_no_anchors_and_swapped_repeats_are_merged(paper: Path) -> None:
    table = Triplets.read(paper / "data" / "clic-test.parquet")
    assert table.M.max() > 2
    assert min(table.distances["rmse"][0].min(), table.distances["rmse"][1].min()) > 0
    assert table.labels.select("ref", "x0", "x1").is_unique().all()


def test_the_page_warns_loudly_and_makes_no_claim(paper: Path) -> None:
    text = (paper / "index.html").read_text(encoding="utf-8")
    assert text.index("Not comparable.") < text.index("<h2")
    assert "Nothing here is evidence" in text
    assert '<tr class="difference' not in text.replace(text[text.index('id="table-arithmetic"') :], "")
    assert "How near the figures come" not in text
    assert text.count('<svg class="figure" role="img"') == len(FIGURES)
    assert "<script" not in text
    for slip in ("These four stand under the wrong names", "is the row of the network", "0.7305"):
        assert slip in text
    assert "http://" not in text.replace("http://www.w3.org", "")


def test_the_same_again_does_nothing(paper: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = stamps(paper)
    main(["reproduce", "--synthetic", "--out", str(paper), *COMMAND])
    said = capsys.readouterr().out
    assert said.startswith("warning: not comparable. These are generated sets")
    assert "Table 1. Evaluation metrics on the BAPPS validation set (M = 5)" in " ".join(said.split())
    assert said.endswith(f"  {paper / 'index.html'}\n")
    assert stamps(paper) == before


def test_a_run_that_was_stopped_goes_on(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands is not made again; what is missing is, to the same figures."""
    before = {path.name: path.read_bytes() for path in (copy / "tables").iterdir()}
    kept = {name: time for name, time in stamps(copy).items() if name.startswith(("data", "synthetic", "results"))}
    shutil.rmtree(copy / "experiments")
    (copy / "figures" / "worked-example.svg").unlink()
    (copy / ".tables.part").mkdir()
    # What is drawn is not what is tested here.
    monkeypatch.setattr(run.figures, "of_set", lambda *_: iter(()))
    monkeypatch.setattr(run.figures, "of_robustness", lambda *_: iter(()))
    reproduce(copy, synthetic=True, options=OPTIONS)
    after = stamps(copy)
    assert {name: after[name] for name in kept} == kept
    for name in ("bapps.csv", "clic.csv", "by-distortion.tex"):
        assert (copy / "tables" / name).read_bytes() == before[name]
    assert (copy / "figures" / "worked-example.svg").exists()
    assert not (copy / ".tables.part").exists()


def test_a_failure_leaves_the_earlier_page_and_tables(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {name: time for name, time in stamps(copy).items() if not name.startswith("experiments")}

    def full(*_: object, **__: object) -> None:
        raise OSError("the disk is full")

    (copy / "experiments" / "written.json").unlink()
    monkeypatch.setattr(run, "write_table", full)
    with pytest.raises(OSError, match="the disk is full"):
        reproduce(copy, synthetic=True, options=OPTIONS)
    left = {name for name in stamps(copy) if ".tables.part" not in name and not name.startswith("experiments")}
    assert left == set(before)


def test_other_seeds_are_scored_anew_and_other_limits_refused(
    copy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Any] = []

    def stop(*_: object, **more: Any) -> None:
        asked.append(more["settings"])
        raise KeyboardInterrupt

    monkeypatch.setattr(experiments, "evaluate", stop)
    with pytest.raises(SystemExit) as caught:
        main(["reproduce", "--synthetic", "--out", str(copy), *COMMAND[:2], *COMMAND[4:], "--seeds", "3"])
    assert caught.value.code == 130
    said = capsys.readouterr().err
    assert said == "twoafc: interrupted; what is finished is kept, and the same command goes on from there\n"
    assert asked[0].seeds == 3
    with pytest.raises(DataError, match=r"^a folder is for one limit; .* was made with 40, this run has 30: name"):
        reproduce(copy, synthetic=True, options=Options(("rmse",), 30, 2))


def test_one_data_set_alone_and_one_split_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """BAPPS's validation set alone: cross-validated, with differences from the paper, and no table of CLIC."""
    trees.write_bapps(tmp_path / "bapps", 30, subsets={"val": ("cnn", "color")}, size=16)
    monkeypatch.setattr(run.figures, "of_set", lambda *_: iter(()))
    monkeypatch.setattr(run.figures, "of_robustness", lambda *_: iter(()))
    monkeypatch.setattr(run.experiments, "robustness", lambda *_, **__: run.Sweep([], *2 * [experiments.Density()], {}))
    found: Reproduction = reproduce(tmp_path / "out", bapps=tmp_path / "bapps", options=Options(("rmse",), None, 1))
    assert found.warning == ""
    assert [table.name for table in found.tables] == [name for name in TABLES if name != "clic"]
    assert "bapps: no test table: 5-fold cross-validation, split by ref" in found.notes
    text = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "Not comparable." not in text
    assert "How near the figures come" in text
    assert '<tr class="difference' in text
    # Families that the data do not have stay empty.
    cells = pl.read_csv(tmp_path / "out" / "tables" / "by-distortion.csv").filter(pl.col("value") == "here")
    assert cells["Traditional"].null_count() == len(cells)
    assert cells["CNN"].null_count() == 0
    assert json.loads((tmp_path / "out" / "run.json").read_text())["settings"]["synthetic"] is False


def test_the_page_opens_alone_and_can_be_read_by_all(paper: Path, browser: Any) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = browser.new_page(viewport={"width": 375, "height": 800})
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((paper / "index.html").as_uri())
    assert asked == [(paper / "index.html").as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    found = Axe().run(page)
    serious = [each["id"] for each in found.response["violations"] if each["impact"] in ("serious", "critical")]
    assert serious == []
    page.close()
