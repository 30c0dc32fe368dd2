"""The page that tells a result: what it says, that it says it safely, and that it is written whole or not at all."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from commands import refused
from conftest import random_table
from twoafc import plots
from twoafc.cli import main
from twoafc.diagnostics import Finding
from twoafc.estimators import Network
from twoafc.evaluation import Settings, evaluate
from twoafc.inference import NOT_KEPT, Clustering, Dependence
from twoafc.results import Pictures, Result, Table, check_folder, inline, report_page, short, summary_table
from twoafc.results.report import grids
from twoafc.results.report.page import heading, render, too_many_groups
from twoafc.results.report.verdict import ranking, verdict, with_error
from twoafc.table import Triplets

SCRIPT = "<script>alert(1)</script>"


def votes(T: int, seed: int, noise: dict[str, float]) -> Triplets:
    """Votes by one distance, and that distance with more or less noise under several names."""
    rng = np.random.default_rng(seed)
    d = rng.lognormal(size=(2, T))
    columns: dict[str, Any] = {"n": rng.binomial(5, d[0] ** 2 / (d**2).sum(axis=0)), "M": [5] * T}
    for name, spread in noise.items():
        seen = d * np.exp(spread * rng.normal(size=(2, T)))
        columns |= {f"{name}_d0": seen[0], f"{name}_d1": seen[1]}
    columns["group"] = [SCRIPT if row % 2 else "traditional" for row in range(T)]
    columns |= {part: [f"{part}/{row:03}" for row in range(T)] for part in ("ref", "x0", "x1")}
    return Triplets.from_frame(columns)


def evaluated(folder: Path, train: Triplets, test: Triplets | None, **options: Any) -> Path:
    how = Settings(**{key: value for key, value in options.items() if key != "estimators"})
    names = options.get("estimators", ("density",))
    evaluate(train, test, estimators=names, settings=how).write(folder)
    return folder


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    noise = {"good": 0.1, "alike": 0.1, f"bad{SCRIPT}": 1.5, r"$\frac{$": 3.0, "worse": 4.0, "worst\x1b[2J\x00": 5.0}
    return evaluated(tmp_path_factory.mktemp("report") / "results", votes(300, 1, noise), votes(400, 2, noise))


@pytest.fixture(scope="module")
def result(finished: Path) -> Result:
    return Result.read(finished)


def body(text: str) -> str:
    """What a reader sees, without marks and figures."""
    text = re.sub(r"<style>.*?</style>|<svg.*?</svg>", " ", text, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split())


def test_evaluating_leaves_a_page_that_reading_the_folder_again_would_write(finished: Path) -> None:
    text = (finished / "report.html").read_text(encoding="utf-8")
    assert report_page(Result.read(finished)) == text
    assert "report.html" in json.loads((finished / "scores.json").read_text())["card"]["files"]


def test_the_page_holds_what_the_result_holds(finished: Path, result: Result) -> None:
    text = (finished / "report.html").read_text(encoding="utf-8")
    said = body(text)
    assert "6 distances on 400 triplets and 2,000 votes" in said
    for row in summary_table(result.scores, columns=short(result.scores)).rows:
        assert " ".join(row) in said
    assert result.ceiling is not None
    assert f"floor P = 1/2 {result.ceiling.floor_nll:.4f}" in said
    assert "explained: how far the NLL comes on the way from the floor to the ceiling" in said
    assert f"{result.ceiling.nll_lowest:.4f} to {result.ceiling.nll_highest:.4f}" in said
    for part in ("mean of groups", "all pooled", result.error_bars, "a tie counts one half"):
        assert part in said
    assert result.card["data"]["train"]["contents_sha256"] in said
    assert "@article{hepburn2024evaluating," in said
    assert "arXiv:2403.10390" in said
    assert f"version = {{{result.card['versions']['twoafc']}}}" in said
    triplets = pl.read_parquet(finished / "triplets.parquet")
    assert triplets["nll"].max() is not None
    first = re.search(r"What surprised (\S+) most .*? (\d+) (?:traditional|<script>)", said)
    assert first is not None
    assert first[1] in ("good", "alike")


def test_text_is_escaped_wherever_it_stands(finished: Path) -> None:
    text = (finished / "report.html").read_text(encoding="utf-8")
    assert "<script" not in text
    assert html.escape(SCRIPT) in text
    assert "default-src 'none'" in text
    elements = re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL)
    assert len(elements) == 2 + 6 + 6
    identities = []
    for element in elements:
        root = ElementTree.fromstring(element)
        assert root.attrib["role"] == "img"
        assert root[0].tag == "title"
        identities += [each.attrib["id"] for each in root.iter() if "id" in each.attrib]
        held = {each.attrib["id"] for each in root.iter() if "id" in each.attrib}
        assert set(root.attrib["aria-labelledby"].split()) <= held
        pointed = [each.attrib["href"] for each in root.iter() if each.attrib.get("href", "").startswith("#")]
        assert {each[1:] for each in pointed} <= held
        assert set(re.findall(r"url\(#([^)]*)\)", element)) <= held
    assert len(identities) == len(set(identities))
    outside = [each for each in re.findall(r'(?:href|src)="([^"]*)"', text) if not each.startswith(("#", "data:"))]
    assert outside == []
    assert re.search(r"https?://|@import|//[a-z]", re.sub(r"base64,[^\"]*", "", text)) is None


def test_a_figure_of_a_name_that_steers_is_a_drawing_all_the_same(tmp_path: Path) -> None:
    figure = _empty()
    figure.text(0, 0, "name\x1b[31m\x07\x00\x9b\uffff")
    text = plots.svg(figure)
    assert "name\ufffd[31m\ufffd\ufffd\ufffd\ufffd" in text
    ElementTree.fromstring(text)
    plots.save(figure, tmp_path / "a.svg")
    ElementTree.parse(tmp_path / "a.svg")
    drawn = inline(figure, name="x", title="a\x07", description="b\x1b")
    assert [each.text for each in ElementTree.fromstring(drawn)[:2]] == ["a\ufffd", "b\ufffd"]


@settings(max_examples=15, deadline=None)
@given(st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=12))
def test_any_name_shows_as_it_is(name: str) -> None:
    drawn = inline(_empty(), name="x", title=name)
    assert ElementTree.fromstring(drawn)[0].text == name
    table = Table(name, (name, name), ((name, name),))
    text = render({"versions": {"twoafc": name}}, **_nothing(), scores=table)
    assert text.count(f">{html.escape(name, quote=True).replace('&#x27;', '&#39;').replace('&quot;', '&#34;')}<") >= 3


def _empty() -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(1, 1))


def _nothing() -> dict[str, Any]:
    parts = [
        "verdict",
        "warnings",
        "notes",
        "remarks",
        "reading",
        "forests",
        "differences",
        "surfaces",
        "unsaved",
        "curves",
        "goodness",
        "groups",
    ]
    lists: dict[str, Any] = {name: [] for name in parts}
    return lists | {"row": "pair", "heading": "", "many_groups": 0, "surprises": None}


def test_the_verdict_in_words(result: Result) -> None:
    said = verdict(result)
    ranked = ranking(result)
    best, second = ranked[0]["distance"], ranked[1]["distance"]
    assert {best, second} == {"good", "alike"}
    value, error = ranked[0]["nll"], ranked[0]["nll_se"]
    pair = next(r for r in result.comparisons if r["measure"] == "nll" and {r["a"], r["b"]} == {"good", "alike"})
    assert not pair["different"]
    figures = pair["sentence"].partition(" is ahead by ")[2]
    assert said[0] == (
        f"Two of six distances share the lead: {best}, {second} cannot be told apart. {best} is nominally first, "
        f"ahead of {second} by {figures}."
    )
    assert said[1].startswith(f"{best} has NLL {with_error(value, error)} nats per triplet, fitted by density; ")
    assert any(line.startswith("P is ") for line in said)
    assert result.verdict() == said


def test_the_verdict_of_a_clear_first_of_several_alike_and_of_one_alone(result: Result) -> None:
    order = [record["distance"] for record in ranking(result)]
    clear = result.replace(comparisons=[record | {"different": True} for record in result.comparisons])
    first = f"{order[0]} explains these votes best of six distances: {order[1]}, the next, is behind by "
    assert verdict(clear)[0].startswith(first)
    alike = result.replace(comparisons=[record | {"different": False} for record in result.comparisons])
    assert verdict(alike)[0].startswith(f"All six distances share the lead: {', '.join(order)} cannot be told apart.")
    untested = verdict(result.replace(comparisons=[]))
    assert untested[0] == (f"{order[0]} has the lowest NLL of six distances; differences between them were not tested.")
    alone = [record for record in result.scores if record["distance"] == "good"]
    said = verdict(result.replace(comparisons=[], scores=alone))
    assert said[0] == "good is the one distance here."
    assert [line.split()[0] for line in said] == ["good", "good", "As", "A", "P"]


def test_a_bare_distance_that_agrees_more_is_told(result: Result) -> None:
    best = ranking(result)[0]["distance"]
    scores = [r if r["distance"] == best else r | {"score_2afc_distance": 99.0} for r in result.scores]
    (line,) = [line for line in verdict(result.replace(scores=scores)) if line.startswith("As a bare distance")]
    assert ", the first by that score, with 99.0 %" in line


def test_what_diverged_or_was_not_fitted_is_no_candidate(result: Result) -> None:
    best = ranking(result)[0]
    truth = {**best, "distance": "(truth)", "estimator": "none", "nll": 0.1}
    scores = [*result.scores, truth]
    assert ranking(result.replace(scores=scores))[0]["distance"] == best["distance"]
    diverged = result.replace(scores=[record | {"diverged": 1} for record in scores])
    assert verdict(diverged) == ["No distance has a score: every run diverged."]
    for nll in (None, np.inf):
        infinite = result.replace(scores=[*(record | {"nll": nll} for record in result.scores), truth])
        assert ranking(infinite) == []
        assert verdict(infinite) == ["No distance has a finite NLL: P is 0 or 1 where a vote says otherwise."]
    beside = result.replace(scores=[*(record | {"diverged": 1} for record in result.scores), truth])
    assert verdict(beside) == ["No distance has a score: every run diverged."]


def test_the_truth_of_a_simulation_is_no_other_estimator(result: Result) -> None:
    truth = [
        record | {"distance": "(truth)", "estimator": "none", "nll": 0.1}
        for record in result.scores
        if record["distance"] == "good" and record["group"] == "all"
    ]
    said = body(report_page(result.replace(scores=[*result.scores, *truth])))
    assert "good, density" not in said


def test_the_verdict_names_a_large_preference_for_one_side(result: Result) -> None:
    best = ranking(result)[0]
    key = (best["distance"], best["estimator"])
    assert not any("prefer the" in line for line in verdict(result))
    for value, p, named in ((9.0, 1e-9, True), (2.0, 1e-9, False), (9.0, 0.01, False), (None, None, False)):
        sentence = "people prefer the second image as shown: 9.0 % of votes beyond P, 95 % interval +7.0 to +11.0"
        preference = {"shown": True, "value": value, "se": 1.0, "low": 7.0, "high": 11.0, "p": p, "sentence": sentence}
        changed = result.replace(goodness={key: replace(result.goodness[key], asymmetry=preference)})
        assert (f"P{sentence[1:]}." in verdict(changed)) == named


def test_the_verdict_of_counts_without_references_calls_its_error_bars_too_small(result: Result) -> None:
    line = (
        "Caution: error bars take triplets as independent: the counts keep no references; they are too small where "
        "references recur, so count with --keep-refs."
    )
    assert line not in verdict(result)
    counted = Clustering(Dependence(40, (), "", np.ones(40, dtype=np.int64), unknown=NOT_KEPT))
    changed = result.replace(card=result.card | {"caveats": counted.caveats()})
    assert verdict(changed)[-1] == line


def test_several_estimators_and_seeds(tmp_path: Path) -> None:
    noise = {"good": 0.1, "bad": 1.0}
    table = votes(100, 3, noise)
    folder = evaluated(tmp_path / "r", table, table, estimators=("spline", "network"), seeds=2)
    said = body((folder / "report.html").read_text(encoding="utf-8"))
    assert re.search(r"Under (spline|network) the best is good, with NLL", said)
    assert "good, spline" in said
    assert "Differences, the first minus the second, by spline" in said


def test_differences_have_the_better_first_and_signs_that_agree(result: Result) -> None:
    ranked = ranking(result)
    (grid,) = grids.differences(result.comparisons, ranked)
    order = [record["distance"] for record in ranked]
    assert [row[0] for row in grid.rows] == [f"{a} – {b}" for k, a in enumerate(order) for b in order[k + 1 :]]
    score = {record["distance"]: record for record in ranked}
    for row in grid.rows:
        a, b = row[0].split(" – ")
        for place, measure in ((1, "nll"), (4, "score_2afc_distance")):
            assert float(row[place]) == pytest.approx(score[a][measure] - score[b][measure], abs=6e-3)
            low, high = map(float, row[place + 1].split(" to "))
            assert low <= float(row[place]) <= high
    unknown = [record | {"se": None} for record in result.comparisons]
    assert grids.differences(unknown, ranked)[0].rows[0][1:] == ("–",) * 6


def test_no_row_is_said_to_explain_less_than_nothing_or_more_than_all(result: Result) -> None:
    past = [record | {"explained_low": -20.0, "explained_high": 130.0} for record in result.scores]
    shown = summary_table(past, columns=short(past))
    assert {row[shown.header.index("explained %")] for row in shown.rows} == {"0 to 100"}


def test_one_is_not_called_many(result: Result) -> None:
    one = [record | {"triplets": 1, "votes": 1} for record in ranking(result)[:1]]
    assert heading(one).endswith(" on 1 triplet and 1 vote")


def test_groups_go_down_unless_distances_are_more(result: Result) -> None:
    def shapes(records: list[dict[str, Any]]) -> list[tuple[str, int, int, int]]:
        found = grids.groups(records)
        return [(grid.header[0], len(grid.header), len(grid.rows), len(grid.foot)) for grid in found]

    assert shapes(result.scores) == [("distance", 5, 6, 0)] * 2
    few = [record for record in result.scores if record["distance"] in ("good", "alike")]
    assert shapes(few) == [("group", 3, 2, 2)] * 2
    crowd = [{"split": "test", "group": str(k)} for k in range(50)]
    assert too_many_groups(crowd) == 50
    assert too_many_groups(crowd[:10]) == 0


def test_warnings_stand_before_everything_but_the_verdict(result: Result) -> None:
    finding = Finding("ties", "warning", "test", "good", f"half are {SCRIPT}", "50 of 100", "give more digits")
    said = body(report_page(result.replace(findings=[finding])))
    line = f"test, good: half are {SCRIPT}; 50 of 100. give more digits."
    assert said.index("share the lead") < said.index(line) < said.index("Scores on test")
    quiet = body(report_page(result.replace(findings=[])))
    assert "The data check warns" not in quiet
    assert "Nothing was found that is wrong" in quiet


def test_what_older_results_do_not_tell_is_left_out(finished: Path, tmp_path: Path) -> None:
    folder = tmp_path / "older"
    folder.mkdir()
    content = json.loads((finished / "scores.json").read_text())
    kept = {name: content[name] for name in ("card", "scores", "comparisons")}
    (folder / "scores.json").write_text(json.dumps(kept))
    said = body(report_page(Result.read(folder)))
    assert "ceiling best function" not in said
    assert "Reliability:" not in said
    assert "Scores on test: 400 triplets" in said


def test_results_of_counts_tell_nothing_of_single_triplets(finished: Path, tmp_path: Path) -> None:
    folder = tmp_path / "r"
    subprocess.run(["cp", "-r", str(finished), str(folder)], check=True)
    (folder / "triplets.parquet").unlink()
    said = body(report_page(Result.read(folder)))
    assert "What surprised" not in said
    assert "Surfaces:" in said
    assert "hatching" not in said


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("images")
    file = tmp_path_factory.mktemp("image") / "noise.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(file)
    return fill(folder, file)


def fill(folder: Path, file: Path) -> Path:
    """Give every image of the tested table the content of one file."""
    for part in ("ref", "x0", "x1"):
        (folder / part).mkdir()
        for row in range(400):
            os.link(file, folder / part / f"{row:03}.png")
    return folder


def test_images_are_shown_small_and_few(finished: Path, images: Path) -> None:
    text = report_page(Result.read(finished), Pictures(images))
    shown = re.findall(r'<img src="data:image/jpeg;base64,[^"]*" alt="(x0|ref|x1)">', text)
    assert len(shown) == 36
    assert len(text) < 600_000
    assert "--images" not in body(text)
    without = report_page(Result.read(finished), Pictures(finished))
    assert "<img" not in without
    assert "twoafc report RESULTS --images FOLDER" in body(without)


def test_an_image_that_cannot_be_read_leaves_its_name(finished: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no image")
    fill(tmp_path, tmp_path / "text")
    text = report_page(Result.read(finished), Pictures(tmp_path))
    assert "<img" not in text
    assert re.search(r"ref: ref/\d{3}", body(text))


def test_the_command_writes_the_page_and_lists_it(finished: Path, images: Path, tmp_path: Path, capsys: Any) -> None:
    folder = tmp_path / "r"
    subprocess.run(["cp", "-r", str(finished), str(folder)], check=True)
    (folder / "report.html").unlink()
    older = json.loads((folder / "scores.json").read_text())
    older["card"]["files"].remove("report.html")
    (folder / "scores.json").write_text(json.dumps(older))
    main(["report", str(folder)])
    assert re.fullmatch(rf"Report: {folder}/report\.html \(\d+ kB\)\n", capsys.readouterr().out)
    assert (folder / "report.html").read_text() == (finished / "report.html").read_text()
    assert json.loads((folder / "scores.json").read_text()) == json.loads((finished / "scores.json").read_text())
    check_folder(folder)
    main(["report", str(folder), "--images", str(images), "--quiet", "--json"])
    written = folder / "report.html"
    assert json.loads(capsys.readouterr().out) == {"report": str(written), "bytes": written.stat().st_size}
    assert "data:image/jpeg" in (folder / "report.html").read_text()
    assert sorted(os.listdir(folder)) == sorted(os.listdir(finished))


def test_mistakes_get_one_line(finished: Path, tmp_path: Path, capsys: Any) -> None:
    def failure(*arguments: str) -> str:
        return refused(capsys, "report", *arguments)

    assert failure(str(tmp_path)) == f"{tmp_path} is not a folder of results; it has no scores.json"
    (tmp_path / "scores.json").write_text('{"scores": []}')
    other = f"{tmp_path / 'scores.json'} is not that of a result; it has no card; run twoafc evaluate again"
    assert failure(str(tmp_path)) == other
    missing = tmp_path / "nowhere"
    assert failure(str(finished), "--images", str(missing)) == f"no such folder of images: {missing}"


def test_a_full_disk_leaves_the_earlier_page(finished: Path, tmp_path: Path) -> None:
    folder = tmp_path / "r"
    subprocess.run(["cp", "-r", str(finished), str(folder)], check=True)
    (folder / "report.html").write_text("earlier")
    before = sorted(os.listdir(folder))
    code = f"""
import resource
from twoafc.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
main(["report", {str(folder)!r}])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("twoafc: ")
    assert done.stderr.count("\n") == 1
    assert (folder / "report.html").read_text() == "earlier"
    assert sorted(os.listdir(folder)) == before


def test_the_page_of_six_distances_is_small(finished: Path) -> None:
    assert (finished / "report.html").stat().st_size < 600_000


def test_pairs_have_a_page_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    d = rng.random((2, 300))
    columns = {"n": rng.binomial(3, 1 - d[0]), "M": [3] * 300, "a_d": d[0], f"{SCRIPT}_d": d[1]}
    pl.DataFrame(columns | {"group": ["g", SCRIPT] * 150}).write_csv("pairs.csv")
    main(["evaluate", "--train", "pairs.csv", "--folds", "2", "--out", "r", "--quiet"])
    text = Path("r", "report.html").read_text(encoding="utf-8")
    assert report_page(Result.read("r")) == text
    assert refused(capsys, "report", "r", "--images", ".") == "--images shows triplets; these are results of pairs"
    assert "<script" not in text
    said = body(text)
    assert said.index("a explains these votes best of") < said.index("Scores on test: 300 pairs, 900 votes")
    assert "nats per pair" in said
    assert text.count("<svg") == 2 + 2 + 2  # scores, curves, reliability
    Path("r", "report.html").write_text("earlier")
    main(["report", "r"])
    assert capsys.readouterr().out.startswith("Report: r/report.html (")
    assert Path("r", "report.html").read_text(encoding="utf-8") == text
    check_folder("r")


def test_a_user_s_own_estimator_has_no_surface_and_still_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    lines = ["class Mine:", "    def fit(self, table):", "        return self"]
    lines += ["    def probability(self, d0, d1):", "        return d0 / (d0 + d1)"]
    Path("mine_for_report.py").write_text("\n".join(lines))
    random_table(100).write("t.csv")
    main(
        [
            "evaluate",
            "--train",
            "t.csv",
            "--test",
            "t.csv",
            "--estimator",
            "mine_for_report:Mine",
            "--out",
            "r",
            "--quiet",
        ]
    )
    said = body(Path("r", "report.html").read_text(encoding="utf-8"))
    assert "distance is the one distance here. distance has NLL" in said
    assert "Surfaces:" not in said
    assert "No surface of distance: surfaces are those of saved models, and the estimator saves none." in said


def test_a_fit_without_a_map_is_drawn_over_the_tested_distances(tmp_path: Path) -> None:
    table = random_table(100)
    evaluate(table, table, estimators={"raw": Network(inputs="raw", epochs=5)}).write(tmp_path / "r")
    text = (tmp_path / "r" / "report.html").read_text(encoding="utf-8")
    assert "Surfaces: the chance P of choosing x1" in body(text)
    assert (tmp_path / "r" / "figures" / "surfaces-raw.svg").is_file()
    assert report_page(Result.read(tmp_path / "r")) == text
