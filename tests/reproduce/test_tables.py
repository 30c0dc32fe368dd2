"""The paper's tables: their layout, our values, differences, files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from twoafc.inference import Record
from twoafc.reproduce.experiments import choose_distances
from twoafc.reproduce.printed import DataMatch, document, printed_tables, slip_number
from twoafc.reproduce.tables import (
    Cell,
    PaperTable,
    Row,
    arithmetic_table,
    closeness,
    cost_table,
    distance_table,
    family_table,
)

FAMILIES = ("traditional", "cnn", "color", "deblur", "frameinterp", "superres")
COMPLETE = DataMatch(frozenset({"train", "test"}), frozenset(FAMILIES))
BAPPS = [table for table in printed_tables().values() if table.set == "bapps"]


def score(distance: str, estimator: str, split: str, group: str = "all", value: float = 70.0, **more: object) -> Record:
    measures = ("nll", "agreement", "score_2afc", "score_2afc_distance", "nll_simulated", "agreement_simulated")
    errors = {f"{name}_se": 0.25 for name in measures}
    head = {"distance": distance, "estimator": estimator, "split": split, "group": group}
    return {**head, **dict.fromkeys(measures, value), **errors, **more}


def test_a_table_has_the_papers_rows_and_our_values() -> None:
    chosen, _ = choose_distances(["ssim", "ms_ssim"])
    scores = [score("ssim", e, "test", value=v) for e, v in (("density", 64.0), ("network", 60.0))]
    scores += [score("ssim", "network", "test", value=65.0, runs=10, score_2afc_sd=1.5)]
    table = distance_table(printed_tables()["distance-only"], scores, chosen, COMPLETE)
    # The paper's six are in its order, measured or not, and others after them.
    assert table.columns == ("Euclidean", "NLPD", "SSIM", "PIM", "LPIPS", "DISTS", "ms_ssim")
    assert [row.labels[0] for row in table.rows] == ["Distance only", "Density estimation", "Neural network"]
    assert [row.cells[2].printed for row in table.rows] == [63.11, 63.65, 64.19]
    assert [cell.printed for cell in table.rows[1].cells] == [63.46, 63.31, 63.65, 70.09, 68.94, 69.12, None]
    # Of several seeds the summary is shown; a distance without printed values and scores is empty.
    assert [row.cells[2].ours for row in table.rows] == [64.0, 64.0, 65.0]
    assert table.rows[2].cells[2].sd == 1.5
    for row in table.rows:
        assert [cell.ours is None for cell in row.cells] == [True, True, False, True, True, True, True]
    here = dict(table.rows[2].lines())["here"]
    assert here == ("–", "–", "65.00 ± 1.50 (SE 0.25)", "–", "–", "–", "–")
    assert "±: standard deviation over runs of the network" in table.footnotes()[0]


def test_a_difference_is_taken_from_the_right_value() -> None:
    chosen, _ = choose_distances(["ssim"])
    scores = [score("ssim", "density", split, value=63.70) for split in ("train", "test")]
    row = distance_table(printed_tables()["appendix-density"], scores, chosen, COMPLETE).rows[-1]
    cell = row.cells[2]
    assert (cell.printed, cell.corrected, cell.slip) == (64.19, 63.65, slip_number("appendix-row"))
    assert Row(row.labels, (cell,)).lines() == [
        ("paper", ("64.19 [2]",)),
        ("here", ("63.70 (SE 0.25)",)),
        ("difference", ("+0.05",)),
    ]


@pytest.mark.parametrize(
    ("split", "compared_splits"), [("train", {"train"}), ("test", set())], ids=["train alone", "test alone"]
)
def test_only_comparable_values_have_a_difference(split: str, compared_splits: set[str]) -> None:
    chosen, _ = choose_distances(["ssim"])
    scores = [score("ssim", name, part) for name in ("density", "network") for part in ("train", "test")]
    match = DataMatch(frozenset({split}), frozenset(FAMILIES if split == "test" else ()), ("a warning",))
    for printed in BAPPS:
        table = distance_table(printed, scores, chosen, match)
        for expected, row in zip(printed.rows, table.rows, strict=True):
            compared = expected.split in compared_splits or (expected.estimator == "distance" and split == "test")
            assert (row.cells[2].difference is not None) == compared, (table.name, expected)
        assert "a warning" in table.footnotes()
    assert all(cell.difference is None for row in family_table(scores, chosen, match).rows for cell in row.cells)


def test_incomplete_families_have_no_difference() -> None:
    chosen, _ = choose_distances(["ssim"])
    some = [name for name in FAMILIES if name != "deblur"]
    scores = [score("ssim", "density", "test", group) for group in (*some, "mean", "all")]
    match = DataMatch(frozenset({"train"}), frozenset(some))
    row = next(row for row in family_table(scores, chosen, match).rows if row.labels[0] == "SSIM")
    assert [cell.difference is not None for cell in row.cells] == [name in some for name in (*FAMILIES, "mean", "all")]


def test_families_come_with_their_mean_and_all_triplets() -> None:
    chosen, _ = choose_distances(["ssim"])
    groups = (*document()["by_distortion"]["columns"], "mean", "all")
    scores = [score("ssim", "density", "test", group, 60.0 + place) for place, group in enumerate(groups)]
    table = family_table(scores, chosen, COMPLETE)
    assert [row.labels[0] for row in table.rows[::3]] == ["Euclidean", "NLPD", "SSIM", "PIM", "LPIPS", "DISTS"]
    agreement = table.rows[6].cells
    assert [cell.ours for cell in agreement] == [60.0 + place for place in range(8)]
    assert agreement[-1].printed == 76.17  # Table 1
    assert agreement[-2].printed == pytest.approx(np.mean([67.86, 78.85, 76.05, 78.43, 77.38, 76.48]))
    # 63.095 is not a binary number; it is rounded as in decimal arithmetic.
    assert dict(table.rows[2].lines())["paper"][-2] == "63.10"


@pytest.mark.parametrize(
    ("cell", "texts"),
    [
        (Cell(1.5, 0.25, 1.504, 0.1), ["1.50 ± 0.25", "1.50 (SE 0.10)", "0.00"]),
        (Cell(1.5, 0.25, 1.504, 0.1, 0.3), ["1.50 ± 0.25", "1.50 ± 0.30 (SE 0.10)", "0.00"]),
        (Cell(1.5, 0.0, 1.504, compared=False), ["1.50 ± 0.00", "1.50", "–"]),
        (Cell(1.5, None, 1.496), ["1.50", "1.50", "0.00"]),
        (Cell(1.5, None, 1.4), ["1.50", "1.40", "-0.10"]),
        (Cell(None, None, 1.4), ["–", "1.40", "–"]),
        (Cell(1.5, slip=3), ["1.50 [3]", "–", "–"]),
    ],
)
def test_cells_are_written_with_their_errors_and_differences(cell: Cell, texts: list[str]) -> None:
    table = PaperTable("t", "T", "c", ("a", "b"), ("SSIM",), (Row(("x", "y"), (cell,)),))
    expected = dict(zip(("paper", "here", "difference"), texts, strict=True))
    assert dict(table.rows[0].lines()) == {name: (text,) for name, text in expected.items() if text != "–"}
    frame = table.frame()
    assert frame.columns[0] == "comparable"
    assert frame["comparable"].to_list() == [cell.compared] * len(frame)
    assert ("difference" in frame["value"]) == (texts[2] != "–")


def test_tables_are_written_as_csv_markdown_and_latex(tmp_path: Path) -> None:
    table = arithmetic_table()
    remarks = ["a remark, 5 %"]
    table.write(tmp_path, remarks)
    assert {path.name for path in tmp_path.iterdir()} == {f"arithmetic.{ending}" for ending in ("csv", "md", "tex")}
    frame = pl.read_csv(tmp_path / "arithmetic.csv")
    assert frame.equals(table.frame())
    here = frame.filter(pl.col("value") == "here").row(0, named=True)
    assert round(here["LPIPS"], 2) == 68.94
    text = (tmp_path / "arithmetic.md").read_text()
    assert "| weighted by the true numbers of triplets | 2AFC % ↑, paper | 63.46 |" in text
    # It needs no data, so it has no remark on the data.
    assert "\n- [1] Appendix E" in text
    assert "a remark" not in text
    assert "[2]" not in text
    latex = (tmp_path / "arithmetic.tex").read_text()
    assert latex.count(r" \\") == len(table.text().rows) + 1
    assert r"2AFC \% $\uparrow$, difference & 0.00" in latex
    # Notes are printed in the float, not left to a comment, and LaTeX numbers tables itself.
    distance_table(printed_tables()["clic"], [], choose_distances(["ssim"])[0], COMPLETE).write(tmp_path, remarks)
    latex = (tmp_path / "clic.tex").read_text()
    notes = latex[latex.index(r"\end{tabular}") : latex.index(r"\end{table}")]
    for note in (r"a remark, 5 \%", r"$\pm$: standard deviation", "[4] Table 3: Euclidean", "[5] Section 5.1"):
        assert rf"{{\footnotesize\raggedright {note}" in notes
    assert not any(line.startswith("%") for line in latex.splitlines())
    assert r"\caption{The paper's Table 3: Results on the CLIC test set" in latex
    assert latex.isascii()


def test_costs_have_no_differences() -> None:
    record = {"train_s": 0.031, "parameters": 400, "infer_1_s": 5e-5, "infer_128_s": 6e-5, "fits": 10}
    record |= {"set": "bapps", "distance": "ssim", "triplets": 900, "machine": "a box, 2 cores"}
    table = cost_table(dict.fromkeys(("density", "network"), record))
    assert dict(table.rows[0].lines()) == {
        "paper": ("4.5", "400", "9.9e-08", "3.7e-07"),
        "here": ("0.031", "400", "5e-05", "6e-05"),
    }
    assert table.notes[0].startswith("Machines and programs differ")
    assert "900 triplets of BAPPS, ssim; the paper's training set of BAPPS has 151.4k" in table.notes[1]
    assert table.notes[2].endswith("how the paper timed either is not stated.")
    assert table.frame()["comparable"].to_list() == [False] * 4
    assert closeness([table, arithmetic_table()]) == []


def test_closeness_names_the_largest_difference() -> None:
    chosen, _ = choose_distances(["euclidean", "ssim"])
    scores = [score("euclidean", "density", "test", value=63.47), score("ssim", "density", "test", value=63.25)]
    (row,) = closeness([distance_table(printed_tables()["distance-only"], scores, chosen, COMPLETE)])
    assert (row.count, row.where) == (4, "Density estimation, SSIM")
    assert row.largest == pytest.approx(0.40)


def test_closeness_counts_each_value_once_and_no_slips() -> None:
    chosen, _ = choose_distances(["ssim"])
    scores = [
        score("ssim", estimator, split, group)
        for estimator in ("density", "network")
        for split in ("train", "test")
        for group in (*FAMILIES, "mean", "all")
    ]
    tables = [distance_table(printed, scores, chosen, COMPLETE) for printed in BAPPS]
    rows = closeness([*tables, family_table(scores, chosen, COMPLETE), arithmetic_table()])
    counts = {(row.table, row.measure): row.count for row in rows}
    assert counts["Table 1", "NLL ↓"] == 2
    # In Table 2 only the distance alone is new; in Table 5 the training set and the simulated scores.
    assert counts["Table 2", "2AFC % ↑"] == 1
    appendix = {measure: n for (table, measure), n in counts.items() if table.startswith("Table 5")}
    assert appendix == {"AJ % ↑": 1, "AJ % ↑, simulated": 2, "NLL ↓": 1, "NLL ↓, simulated": 2, "2AFC % ↑": 1}
    assert {n for (table, _), n in counts.items() if table.startswith("Table 7")} == {6}
    clic = distance_table(printed_tables()["clic"], scores, chosen, COMPLETE)
    assert [(row.measure, row.count) for row in closeness([clic])] == [("NLL ↓", 2)]
