"""`twoafc reproduce` from end to end, on small generated sets."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import trees
from drawing import plain_results
from twoafc.cli import main
from twoafc.errors import DataError
from twoafc.reproduce import Options, experiments, reproduce, run, tables
from twoafc.reproduce.printed import DataMatch
from twoafc.reproduce.run import earlier_sets
from twoafc.results import Result
from twoafc.table import Triplets

pytestmark = pytest.mark.slow

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


@pytest.fixture(scope="module", autouse=True)
def quick_run() -> Iterator[None]:
    """Skip the reports of the results: only the page is tested here."""
    with plain_results(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiments, "MOST_FITS", 2)
        yield


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one whole run of the command."""
    out = tmp_path_factory.mktemp("reproduced") / "paper"
    main(["reproduce", "--synthetic", "--out", str(out), *COMMAND, "--quiet"])
    return out


@pytest.fixture
def copy(paper: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
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
        results = Result.read(paper / "results" / name)
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


def test_the_page_of_generated_sets_warns_and_compares_nothing(paper: Path) -> None:
    text = (paper / "index.html").read_text(encoding="utf-8")
    assert text.index("Not comparable.") < text.index("<h2")
    assert "Nothing here is evidence" in text
    assert '<tr class="difference' not in text.replace(text[text.index('id="table-arithmetic"') :], "")
    assert "How close our values are" not in text
    assert text.count('<img src="data:image/svg+xml;base64,') == len(FIGURES)
    assert "<script" not in text
    for slip in ("The counts of these four are permuted", "is the row of the network", "0.7305"):
        assert slip in text
    assert "http://" not in text.replace("http://www.w3.org", "")
    # Standard errors are shown, so intervals are not mentioned.
    assert "95 %" not in text[text.index('id="tables"') : text.index('id="figures"')]


def test_no_file_compares_generated_values_with_printed_ones(paper: Path) -> None:
    for name in TABLES:
        frame = pl.read_csv(paper / "tables" / f"{name}.csv")
        compared = name == "arithmetic"
        assert frame["comparable"].to_list() == [compared] * len(frame)
        assert ("difference" in frame["value"]) == compared
        for ending in ("md", "tex"):
            text = (paper / "tables" / f"{name}.{ending}").read_text(encoding="utf-8")
            assert ("Nothing here is evidence" in text) != compared


def test_the_same_again_computes_nothing(paper: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept, card = ("data", "synthetic", "results", "experiments"), (paper / "run.json").read_bytes()
    before = {name: time for name, time in stamps(paper).items() if name.startswith(kept)}
    main(["reproduce", "--synthetic", "--out", str(paper), *COMMAND])
    output = capsys.readouterr().out
    assert output.startswith("warning: not comparable. These are generated sets")
    assert "The paper's Table 1: Evaluation metrics on the BAPPS validation set (M = 5)" in " ".join(output.split())
    # The terminal, too, explains the signs in the tables.
    assert "\n±: standard deviation over runs of the network" in output
    assert "\n[4] Table 3: Euclidean distance, NLPD and SSIM score 43 to 44 % on CLIC" in output
    assert output.endswith(f"  {paper / 'index.html'}\n")
    assert {name: time for name, time in stamps(paper).items() if name.startswith(kept)} == before
    assert (paper / "run.json").read_bytes() == card  # written again, the same


def test_a_run_that_was_stopped_is_resumed(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finished parts are not repeated; missing ones are made, with the same values."""
    before = {path.name: path.read_bytes() for path in (copy / "tables").iterdir()}
    finished = {name: time for name, time in stamps(copy).items() if name.startswith(("data", "synthetic", "results"))}
    shutil.rmtree(copy / "experiments")
    (copy / "figures" / "worked-example.svg").unlink()
    (copy / ".tables.4194399.part").mkdir()
    # The figures are not tested here.
    monkeypatch.setattr(run.figures, "set_figures", lambda *_: iter(()))
    monkeypatch.setattr(run.figures, "robustness_figures", lambda *_: iter(()))
    reproduce(copy, synthetic=True, options=OPTIONS)
    after = stamps(copy)
    assert {name: after[name] for name in finished} == finished
    for name in ("bapps.csv", "clic.csv", "by-distortion.tex"):
        assert (copy / "tables" / name).read_bytes() == before[name]
    assert (copy / "figures" / "worked-example.svg").exists()
    assert not (copy / ".tables.4194399.part").exists()


def test_a_failure_leaves_the_earlier_page_and_tables(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    again = ("experiments", "run.json")
    before = {name: time for name, time in stamps(copy).items() if not name.startswith(again)}

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tables.PaperTable, "write", full)
    with pytest.raises(OSError, match=rf"^{copy / 'tables'} could not be written: No space left on device$"):
        reproduce(copy, synthetic=True, options=OPTIONS)
    left = {name: time for name, time in stamps(copy).items() if not name.startswith(again)}
    assert left == before


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
    output = capsys.readouterr().err
    assert output == "twoafc: interrupted; run the same command again to resume\n"
    assert asked[0].seeds == 3
    with pytest.raises(DataError, match=r"^all runs into a folder have the same limit; .* has 40, this run 30; name"):
        reproduce(copy, synthetic=True, options=Options(("rmse",), 30, 2))


def test_one_split_of_one_data_set_and_then_the_other_data_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """BAPPS's validation set alone is cross-validated and not compared with the paper's; a later run adds CLIC."""
    trees.write_bapps(tmp_path / "bapps", 12, subsets={"val": ("cnn", "color")}, size=16)
    trees.write_clic(tmp_path / "clic" / "clic2021_valid", originals=12, size=(16, 16))
    monkeypatch.setattr(run.figures, "set_figures", lambda *_: iter(()))
    monkeypatch.setattr(run.figures, "robustness_figures", lambda *_: iter(()))
    monkeypatch.setattr(
        experiments, "vary_settings", lambda *_, **__: experiments.Sweep([], *2 * [experiments.Density()], {})
    )
    out, options = tmp_path / "out", Options(("rmse",), None, 1)
    found = reproduce(out, bapps=tmp_path / "bapps", options=options)
    assert found.warning.startswith("BAPPS has no training set here: P is cross-validated on the test set, which also")
    assert "BAPPS, test set: traditional, deblur, frameinterp, superres are missing; 24 of the paper's" in found.warning
    assert [table.name for table in found.tables] == [name for name in TABLES if name != "clic"]
    assert "bapps: no test table: 5-fold cross-validation, split by ref" in found.notes
    text = (out / "index.html").read_text(encoding="utf-8")
    assert "Not comparable." in text
    assert "How close our values are" not in text
    assert '<tr class="difference' not in text[: text.index('id="table-arithmetic"')]
    # Its triplets are shown beside those of the paper's test set.
    assert '<th scope="row">BAPPS, test</th><td>24</td><td>36,344</td>' in text
    assert "BAPPS, train" not in text
    # Families that the data do not have are empty.
    cells = pl.read_csv(out / "tables" / "by-distortion.csv").filter(pl.col("value") == "here")
    assert cells["Traditional"].null_count() == len(cells)
    assert cells["CNN"].null_count() == 0
    before = {name: time for name, time in stamps(out).items() if name.startswith(("data/bapps", "results/bapps"))}
    main(f"reproduce --clic {tmp_path / 'clic'} --out {out} --seeds 1 --distance rmse".split())
    output = capsys.readouterr().out
    assert f"note: bapps: from an earlier run into this folder, {tmp_path / 'bapps'}" in output
    assert {path.stem for path in (out / "tables").iterdir()} == set(TABLES)
    assert {name: time for name, time in stamps(out).items() if name in before} == before
    settings = {"limit": None, "seed": 0, "synthetic": False}
    assert earlier_sets(out, settings) == {"bapps": tmp_path / "bapps", "clic": tmp_path / "clic"}
    text = (out / "index.html").read_text(encoding="utf-8")
    assert 'id="table-bapps"' in text
    assert 'id="table-clic"' in text
    # If the data were the paper's, there would be differences, and a summary of them.
    match = DataMatch(frozenset({"train", "test"}), frozenset({"cnn", "color"}))
    monkeypatch.setattr(run, "match_data", lambda *_, **__: match)
    assert reproduce(out, clic=tmp_path / "clic", options=options).warning == ""
    text = (out / "index.html").read_text(encoding="utf-8")
    assert "Not comparable." not in text
    assert "How close our values are" in text
    assert '<tr class="difference' in text[: text.index('id="table-arithmetic"')]
    assert pl.read_csv(out / "tables" / "bapps.csv")["comparable"].all()


def test_the_page_is_self_contained_and_accessible(paper: Path, browser: Any) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = browser.new_page(viewport={"width": 375, "height": 800})
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((paper / "index.html").as_uri())
    assert asked == [(paper / "index.html").as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    found = Axe().run(page)
    serious = [item["id"] for item in found.response["violations"] if item["impact"] in ("serious", "critical")]
    assert serious == []
    page.close()
