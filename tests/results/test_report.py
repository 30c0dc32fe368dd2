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

from conftest import random_table
from twoafc import plots
from twoafc.cli import main
from twoafc.diagnostics import Finding
from twoafc.errors import DataError
from twoafc.estimators import Network
from twoafc.evaluation import Settings, evaluate
from twoafc.files import legible
from twoafc.inference import NOT_KEPT, Clustering, Dependence
from twoafc.results import (
    Pictures,
    Result,
    bibtex,
    check_folder,
    fill_template,
    ranking,
    report_page,
    summary_table,
    surprising,
)
from twoafc.results.figures import chart
from twoafc.results.report import page, svg
from twoafc.results.report.page import card_lines, heading
from twoafc.results.verdict import verdict, with_error
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
    said = body((finished / "report.html").read_text(encoding="utf-8"))
    assert "6 distances on 400 triplets and 2,000 votes fitted to 300 triplets" in said
    ranked = ranking(result)
    table = summary_table(result.scores, short=True)
    for row in table.rows:
        for name, value in zip(table.header[2:], row[2:], strict=True):
            assert f"{name} {value}" in said
    best = ranked[0]["distance"]
    for title in (f"A success of {best}", f"A failure of {best}", f"{best} and {ranked[1]['distance']} disagree"):
        assert title in said
    assert said.count("worst") >= len(ranked)
    assert result.ceiling is not None
    assert f"{result.ceiling.nll_lowest:.4f} and {result.ceiling.nll_highest:.4f}" in said
    for part in (result.error_bars, "a tie counts one half", "2 groups, ranked", "All pairs"):
        assert part in said
    assert result.card["data"]["train"]["contents_sha256"] in said
    assert "@article{hepburn2024evaluating," in said
    assert f"version = {{{result.card['versions']['twoafc']}}}" in said


def test_the_card_shows_what_is_there_and_nothing_empty(result: Result) -> None:
    card = result.card | {"caveats": [], "training": {"splits": 10}, "paper_density_nll": {"good": 1.0}}
    named = dict(card_lines(card))
    assert {"versions", "table, train", "table, test", "estimator, density", "settings"} <= set(named)
    assert not {"caveats", "training", "paper density nll"} & set(named)
    assert all(named.values())


def test_the_heading_names_the_data(result: Result) -> None:
    ranked = ranking(result)
    for table, name in (
        ({"file": "votes.csv"}, "votes.csv: "),
        ({"files_sha256": {"a/1.csv": "x", "a/2.csv": "y", "a/3.csv": "z"}}, "1.csv and 2 more: "),
        ({}, ""),
    ):
        assert heading(ranked, {"data": {"train": table}}) == f"{name}6 distances on 400 triplets and 2,000 votes"
    one = [record | {"triplets": 1, "votes": 1} for record in ranked[:1]]
    assert heading(one, {}).endswith(" on 1 triplet and 1 vote")
    assert heading([], {}) == "No scores"


def test_figures_fit_print(finished: Path) -> None:
    widths = {"differences": 3.35, "reliability-density": 7.0, "residuals-density": 7.0, "surfaces-density": 7.0}
    assert {path.stem for path in (finished / "figures").iterdir()} == set(widths)
    for name, width in widths.items():
        text = (finished / "figures" / f"{name}.svg").read_text(encoding="utf-8")
        assert float(ElementTree.fromstring(text).attrib["width"].removesuffix("pt")) == pytest.approx(72 * width)
        sizes = [float(size) for size in re.findall(r"font(?:-size)?: ?([\d.]+)px", text)]
        assert sizes
        assert min(sizes) >= 7


def test_text_is_escaped_wherever_it_stands(finished: Path) -> None:
    text = (finished / "report.html").read_text(encoding="utf-8")
    assert "<script" not in text
    assert html.escape(SCRIPT) in text
    assert not set(text) & set("\x00\x1b")
    assert "default-src 'none'" in text
    elements = re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL)
    assert len(elements) == 6 + 6 + 2 * 2 + 6 * 3 + 2 + 1  # both columns, their heads and scales; panels; groups
    for element in elements:
        root = ElementTree.fromstring(element)
        assert (root.attrib.get("role") == "img" and root.attrib["aria-label"]) or root.attrib["aria-hidden"] == "true"
    outside = [each for each in re.findall(r'(?:href|src)="([^"]*)"', text) if not each.startswith(("#", "data:"))]
    assert outside == ["http://127.0.0.1:8050/"]  # the explorer, on this machine
    rest = re.sub(r"base64,[^\"]*", "", text).replace(outside[0], "")
    assert re.search(r"https?://|@import|//[a-z]", rest) is None


def test_a_figure_of_a_name_that_steers_is_a_drawing_all_the_same(tmp_path: Path) -> None:
    figure = _empty()
    figure.text(0, 0, "name\x1b[31m\x07\x00\x9b\uffff")
    plots.save(figure, tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert "name\ufffd[31m\ufffd\ufffd\ufffd\ufffd" in text
    ElementTree.fromstring(text)


@settings(max_examples=15, deadline=None)
@given(st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=12))
def test_any_name_shows_as_it_is(name: str) -> None:
    nothing: dict[str, Any] = dict.fromkeys(("row", "brief", "examples", "fusion", "profiles", "dots", "explained"))
    lists: dict[str, Any] = {"reading": [], "goodness": [], "matrices": [], "groups": None, "remarks": []}
    texts = {"heading": name, "verdict": [name], "caveats": [name], "card": [], "meta": name, "version": name}
    text = fill_template(page.TEMPLATE, page.STYLE, **nothing, **lists, **texts, bibtex=bibtex(name))
    shown = html.escape(legible(name), quote=True).replace("&#x27;", "&#39;").replace("&quot;", "&#34;")
    assert text.count(f">{shown}<") >= 3
    drawn = ElementTree.fromstring(svg.interval(svg.Axis(0, 1), (0.5, 0.4, 0.6), name))
    assert drawn.attrib["aria-label"] == legible(name)


def _empty() -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(1, 1))


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
        f"Two of six distances share the lead: {best} is nominally first, and {second} cannot be told apart from it. "
        f"{best} is ahead of {second} by {figures}."
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
    first = (
        f"All six distances share the lead: {order[0]} is nominally first, and {', '.join(order[1:])} cannot be told "
    )
    assert verdict(alike)[0].startswith(f"{first}apart from it.")
    untested = verdict(result.replace(comparisons=[]))
    assert untested[0] == (f"{order[0]} has the lowest NLL of six distances; differences between them were not tested.")
    alone = [record for record in result.scores if record["distance"] == "good"]
    said = verdict(result.replace(comparisons=[], scores=alone))
    assert said[0] == "good is the only distance, so nothing is compared."
    assert [line.split()[0] for line in said] == ["good", "good", "Without", "Two", "P"]


def test_a_bare_distance_that_agrees_more_is_told(result: Result) -> None:
    best = ranking(result)[0]["distance"]
    scores = [r if r["distance"] == best else r | {"score_2afc_distance": 99.0} for r in result.scores]
    (line,) = [
        line for line in verdict(result.replace(scores=scores)) if line.startswith("Without a fit, the 2AFC score of ")
    ]
    assert "; the highest is 99.0 % (" in line


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
    assert "good spline" in said
    assert "good network" in said
    assert re.search(r"difference of NLL from good, by (spline|network), nats per triplet", said)


def slow_difference(result: Result, a: str, b: str) -> tuple[float, float, float]:
    """NLL of a minus that of b, and its interval: from the score records, and whichever comparison names both."""
    nll = {record["distance"]: record["nll"] for record in ranking(result)}
    for record in result.comparisons:
        ends = record.get("low_holm", record["low"]), record.get("high_holm", record["high"])
        if (record["measure"], record["a"], record["b"]) == ("nll", a, b):
            return nll[a] - nll[b], *ends
        if (record["measure"], record["b"], record["a"]) == ("nll", a, b):
            return nll[a] - nll[b], -ends[1], -ends[0]
    raise AssertionError


def test_the_chart_has_all_distances_against_the_leader(result: Result) -> None:
    ranked = ranking(result)
    order = [record["distance"] for record in ranked]
    shown = chart(result, ranked)
    assert shown.to == order[0]
    assert [row.name for row in shown.rows] == order
    assert shown.rows[0].value == 0
    for row in shown.rows[1:]:
        assert row[1:4] == pytest.approx(slow_difference(result, row.name, order[0]))
    ceiling = result.ceiling
    assert ceiling is not None
    first = ranked[0]["nll"]
    assert shown.reference["P = 1/2"] == pytest.approx(ceiling.floor_nll - first)
    assert shown.reference["ceiling"] == pytest.approx((ceiling.nll_lowest - first, ceiling.nll_highest - first))
    assert [line["name"] for line in page.brief(result, ranked)["lines"]] == order


def test_intervals_are_those_that_belong_to_the_corrected_p(result: Result) -> None:
    wide = chart(result, ranking(result))
    records = {frozenset((r["a"], r["b"])): r for r in result.comparisons if r["measure"] == "nll"}
    for row in wide.rows[1:]:
        record = records[frozenset((row.name, wide.to))]
        assert sorted((abs(row.low), abs(row.high))) == pytest.approx(
            sorted((abs(record["low_holm"]), abs(record["high_holm"])))
        )
        assert (row.low > 0 or row.high < 0) == record["different"]
    assert "a distance whose bar crosses 0 cannot be told apart from" in body(report_page(result))


def test_planned_comparisons_are_drawn_and_nothing_else(result: Result) -> None:
    ranked = ranking(result)
    order = [record["distance"] for record in ranked]

    def planned(pairs: list[set[str]], baseline: str | None = None) -> Result:
        kept = [r | {"tests": len(pairs)} for r in result.comparisons if {r["a"], r["b"]} in pairs]
        card = result.card | {"baseline": baseline, "planned": [sorted(pair) for pair in pairs]}
        return result.replace(comparisons=kept, card=card)

    against = planned([{"worse", other} for other in order if other != "worse"], "worse")
    shown = chart(against, ranked)
    assert (shown.to, [row.name for row in shown.rows]) == ("worse", order)
    assert shown.rows[0][1:4] == pytest.approx(slow_difference(result, order[0], "worse"))
    pairs = [{"good", "alike"}, {"worse", order[2]}]
    shown = chart(planned(pairs), ranked)
    assert shown.to is None
    assert [set(row.name.split(" – ")) for row in shown.rows] == pairs
    assert not shown.reference
    single = chart(planned(pairs[1:]), ranked)
    assert [set(row.name.split(" – ")) for row in single.rows] == pairs[1:]
    assert [["(Holm)" in p for p in each.p.values()] for each in (shown, single)] == [[True, True], [False]]
    for each in (against, planned(pairs), planned(pairs[1:])):
        assert page.matrices(each, ranked) == []
        assert "All pairs" not in body(report_page(each))
    scores = chart(result.replace(comparisons=[]), ranked)
    assert [row[:4] for row in scores.rows] == [(r["distance"], r["nll"], r["nll_low"], r["nll_high"]) for r in ranked]


def test_the_matrix_says_how_far_the_better_placed_is_ahead(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    ranked = ranking(result)
    (shown,) = page.matrices(result, ranked)
    order = [record["distance"] for record in ranked]
    assert [name for name, _ in shown["rows"]] == order
    scores = {record["distance"]: record for record in ranked}
    for i, (_, cells) in enumerate(shown["rows"]):
        assert cells[i] is None
        for j, cell in enumerate(cells):
            if i == j:
                continue
            measure, sign = ("nll", -1) if i < j else ("score_2afc_distance", 1)
            better, other = order[min(i, j)], order[max(i, j)]
            ahead = sign * (scores[better][measure] - scores[other][measure])
            assert float(cell["text"].replace("\N{MINUS SIGN}", "-")) == pytest.approx(
                ahead, abs=0.051 if i > j else 6e-4
            )
            pair = {better, other}
            (record,) = [r for r in result.comparisons if r["measure"] == measure and {r["a"], r["b"]} == pair]
            assert cell["differ"] == record["different"]
    assert page.matrices(result.replace(comparisons=result.comparisons[1:]), ranked) == []
    monkeypatch.setattr(page, "NAMED_CELLS", 5)
    (marked,) = page.matrices(result, ranked)
    for (_, cells), (_, marks) in zip(shown["rows"], marked["rows"], strict=True):
        assert [each and "●○"[not each["differ"]] for each in cells] == [each and each["text"] for each in marks]


def test_marks_beyond_an_axis_are_named_with_an_arrow() -> None:
    near = svg.Axis.over([0.0, 1.0], [("floor", 1.5), ("ceiling", (-0.5, -0.2))])
    assert near.low < -0.5
    assert near.high > 1.5
    far = svg.Axis.over([0.0, 1.0], [("floor", 9.0), ("ceiling", (-9.0, -8.0))])
    assert (far.low, far.high) == pytest.approx((-0.04, 1.04))
    assert "floor →" in svg.names(far)
    assert "← ceiling" in svg.names(far)
    assert "floor" not in svg.interval(far, (0.5, np.nan, np.nan), "x")


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_an_axis_has_a_few_round_ticks(low: float, width: float) -> None:
    axis = svg.Axis(low, low + width)
    ticks = axis.ticks()
    assert 2 <= len(ticks) <= 8
    rounding = 1e-9 * (abs(low) + width)
    assert all(axis.low - rounding <= tick <= axis.high + rounding for tick in ticks)


def test_no_row_is_said_to_explain_less_than_nothing_or_more_than_all(result: Result) -> None:
    past = [record | {"explained_low": -20.0, "explained_high": 130.0} for record in result.scores]
    shown = summary_table(past, short=True)
    assert {row[shown.header.index("explained %")] for row in shown.rows} == {"0 to 100"}


def test_groups_are_ranked_whatever_their_number(result: Result) -> None:
    ranked = ranking(result)
    shown = page.groups(result, ranked)
    assert shown is not None
    best = ranked[0]["distance"]
    of = [
        r for r in result.scores if (r["split"], r["distance"]) == ("test", best) and r["group"] not in ("all", "mean")
    ]
    assert [line[0] for line in shown["lines"]] == [r["group"] for r in sorted(of, key=lambda r: r["nll"])]
    assert shown["between"] == 0
    assert shown["lines"][0][3].count('class="other"') == 5
    one = [record for record in result.scores if record["group"] != SCRIPT]
    assert page.groups(result.replace(scores=one), ranked) is None
    many = [r | {"group": f"g{k}", "nll": r["nll"] + k} for k in range(300) for r in of]
    shown = page.groups(result.replace(scores=[*result.scores, *many]), ranked)
    assert shown is not None
    assert (shown["count"], len(shown["lines"]), shown["between"]) == (302, 16, 286)


def test_caveats_and_warnings_stand_before_the_chart(result: Result) -> None:
    finding = Finding("ties", "warning", "test", "good", f"half are {SCRIPT}", "50 of 100", "give more digits")
    few = result.card | {"caveats": ["there are 7 references only"]}
    said = body(report_page(result.replace(findings=[finding], card=few)))
    line = f"test, good: half are {SCRIPT}; 50 of 100; give more digits"
    assert said.index("share the lead") < said.index(line) < said.index("difference of NLL from")
    assert said.count("there are 7 references only") == 1
    quiet = report_page(result.replace(findings=[finding.__class__(**{**finding.__dict__, "level": "note"})]))
    assert 'id="caveats"' not in quiet
    assert line in body(quiet)


def test_three_triplets_are_a_success_a_failure_and_a_disagreement(result: Result) -> None:
    ranked = ranking(result)
    success, failure, apart = (
        each | {"triplet": each["name"].removeprefix("triplet ")} for each in page.examples(result, ranked, None)
    )
    rows = {name: result.outcomes(name, "density") for name in (r["distance"] for r in ranked[:2])}
    first, second = rows.values()
    n, M, P = (first[name].to_numpy() for name in ("n", "M", "P"))
    gain = [
        k * np.log(2 * p) + (m - k) * np.log(2 - 2 * p)
        for k, m, p in zip(n, M, np.clip(P, 1e-9, 1 - 1e-9), strict=True)
    ]
    assert success["triplet"] == first["triplet"][int(np.argmax(gain))]
    assert failure["triplet"] == surprising(result, ranked[0]["distance"], top=1)["triplet"][0]
    order = np.argsort(-abs(P - second["P"].to_numpy()), kind="stable")
    listed = [first["triplet"][int(k)] for k in order]
    assert apart["triplet"] == next(each for each in listed if each not in (success["triplet"], failure["triplet"]))
    for example, names in ((success, 2), (failure, 2), (apart, 3)):
        chosen = {who: column["part"] for column in example["columns"] for who, _ in column["by"]}
        assert len(chosen) == names
        row = first.row(by_predicate=pl.col("triplet") == example["triplet"], named=True)
        assert chosen["people"] == ("x1" if 2 * row["n"] > row["M"] else "x0" if 2 * row["n"] < row["M"] else "ref")
        assert chosen[ranked[0]["distance"]] == ("x1" if row["P"] > 0.5 else "x0")


def test_results_of_counts_tell_nothing_of_single_triplets(finished: Path) -> None:
    said = body(report_page(Result.read(finished).replace(triplets=None, goodness={}, ceiling=None)))
    assert "A failure of" not in said
    assert "surface P 0." in said
    assert "dots are" not in said
    assert "The band is where" not in said
    assert "reliability slope" not in said
    assert "6 distances on 400 triplets" in said


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
    text = report_page(Result.read(finished), images)
    shown = re.findall(r'<img src="data:image/jpeg;base64,[^"]*" alt="(x0|ref|x1)">', text)
    assert len(shown) == 3 * 3 + 3 * 6
    assert len(text) < 600_000
    assert "--images" not in body(text)
    without = report_page(Result.read(finished), finished)
    assert "<img" not in without
    assert "twoafc report RESULTS --images FOLDER" in body(without)


def test_an_image_that_cannot_be_read_leaves_its_name(finished: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no image")
    fill(tmp_path, tmp_path / "text")
    text = report_page(Result.read(finished), tmp_path)
    assert "<img" not in text
    assert re.search(r"reference ref/\d{3}", body(text))


def test_the_command_writes_the_page(finished: Path, images: Path, tmp_path: Path, capsys: Any) -> None:
    folder = tmp_path / "r"
    subprocess.run(["cp", "-r", str(finished), str(folder)], check=True)
    (folder / "report.html").unlink()
    main(["report", str(folder)])
    assert re.fullmatch(rf"Report: {folder}/report\.html \(\d+ kB\)\n", capsys.readouterr().out)
    assert (folder / "report.html").read_text() == (finished / "report.html").read_text()
    check_folder(folder)
    main(["report", str(folder), "--images", str(images), "--quiet", "--json"])
    written = folder / "report.html"
    assert json.loads(capsys.readouterr().out) == {"report": str(written), "bytes": written.stat().st_size}
    assert "data:image/jpeg" in (folder / "report.html").read_text()
    assert sorted(os.listdir(folder)) == sorted(os.listdir(finished))
    (tmp_path / "empty").mkdir()
    main(["report", str(folder), "--images", str(tmp_path / "empty")])
    assert re.match(rf"note: (\d+) of \1 images are not in {tmp_path}/empty \(", capsys.readouterr().out)


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
    assert "<script" not in text
    said = body(text)
    assert said.index("pairs.csv: 2 distances on 300 pairs and 900 votes") < said.index(
        "a explains these votes best of"
    )
    assert "difference of NLL from a, nats per pair" in said
    assert text.count("<svg") == 4 + 4 + 4 + 3  # both columns, their heads and scales; curves, reliability; groups
    Path("r", "report.html").write_text("earlier")
    main(["report", "r"])
    assert capsys.readouterr().out.startswith("Report: r/report.html (")
    assert Path("r", "report.html").read_text(encoding="utf-8") == text
    check_folder("r")


def test_three_pairs_are_a_success_a_failure_and_a_disagreement(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    d = rng.random((2, 120))
    names = {"pair": [f"p{i}" for i in range(120)], "ref": ["r.png"] * 120, "x": [f"x{i}.png" for i in range(120)]}
    votes = {"n": rng.binomial(4, 1 - d[0]), "M": [4] * 120, "a_d": d[0], "b_d": d[1]}
    Image.new("RGB", (40, 30), "red").save(tmp_path / "r.png")
    result = evaluate(pl.DataFrame(names | votes), folds=2)
    success, failure, apart = page.examples(result, ranking(result), Pictures(tmp_path))
    rows = {name: result.outcomes(name).with_row_index() for name in ("a", "b")}
    n, P = rows["a"]["n"].to_numpy(), rows["a"]["P"].to_numpy()
    floor = n.sum() / 480
    gain = n * np.log(P / floor) + (4 - n) * np.log((1 - P) / (1 - floor))
    assert success["name"] == f"pair {rows['a']['pair'][int(np.argmax(gain))]}"
    assert failure["name"] == f"pair {surprising(result, 'a', top=1)['pair'][0]}"
    gap = np.abs(P - rows["b"]["P"].to_numpy())
    order = [f"pair {rows['a']['pair'][int(k)]}" for k in np.argsort(-gap, kind="stable")]
    assert apart["name"] == next(each for each in order if each not in (success["name"], failure["name"]))
    row = rows["a"].row(by_predicate=pl.col("pair") == failure["name"].removeprefix("pair "), named=True)
    assert failure["lines"] == [
        f"people: {row['n']} of 4 said same",
        f"a: d = {row['d']:.4g}, P(same) = {row['P']:.2f}",
    ]
    assert [(each["part"], each["address"] is None) for each in apart["columns"]] == [("ref", False), ("x", True)]


def test_a_user_s_own_estimator_has_no_surface_and_still_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    lines = ["class Mine:", "    def fit(self, table):", "        return self"]
    lines += ["    def probability(self, d0, d1):", "        return d0 / (d0 + d1)"]
    Path("mine_for_report.py").write_text("\n".join(lines))
    random_table(100).write("t.csv")
    command = "evaluate --train t.csv --test t.csv --estimator mine_for_report:Mine --out r --quiet"
    main(command.split())
    said = body(Path("r", "report.html").read_text(encoding="utf-8"))
    assert "distance is the only distance, so nothing is compared. distance has NLL" in said
    assert "surface the estimator saves no model" in said


def test_a_fit_without_a_map_is_drawn_over_the_tested_distances(tmp_path: Path) -> None:
    table = random_table(100)
    evaluate(table, table, estimators={"raw": Network(inputs="raw", epochs=5)}).write(tmp_path / "r")
    text = (tmp_path / "r" / "report.html").read_text(encoding="utf-8")
    assert "surface P 0." in body(text)
    assert (tmp_path / "r" / "figures" / "surfaces-raw.svg").is_file()
    assert report_page(Result.read(tmp_path / "r")) == text


def test_a_result_draws_itself(finished: Path, result: Result) -> None:
    assert set(result.plot.files()) == {path.stem for path in (finished / "figures").glob("*.svg")}
    assert len(result.plot.surfaces("good").axes) == 2  # the surface and its colour bar
    axes = result.plot.reliability(distances=["worse", "good"]).axes
    assert [ax.get_title() for ax in axes if ax.get_title()] == ["good", "worse"]
    named = result.rows["triplet"][0]
    assert result.plot.triplet(named, "good").axes
    for draw, message in (
        (lambda: result.plot.surfaces(estimator="spline"), "no estimator 'spline' in "),
        (lambda: result.plot.residuals(distances="none"), "no distance 'none' in "),
        (lambda: result.plot.curves(), "curves are drawn of pairs; this result has triplets: "),
    ):
        with pytest.raises(DataError) as caught:
            draw()
        assert str(caught.value).startswith(message)
