"""The paper's figures, their layout, the data they are compared on; the whole way is in test_reproduce_whole.py."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import trees
from twoafc.datasets import open_bapps, open_clic, without_anchors
from twoafc.errors import DataError
from twoafc.files import replaced
from twoafc.reproduce import Options, aggregates, reproduce, slips, synthetic
from twoafc.reproduce.basis import Basis, basis
from twoafc.reproduce.chosen import OURS, choose
from twoafc.reproduce.closeness import closeness
from twoafc.reproduce.experiments import Measured
from twoafc.reproduce.layout import Cell, Layout, Line, arithmetic, by_distance, by_family, of_cost
from twoafc.reproduce.printed import distances, document, printed_tables, slip_number
from twoafc.reproduce.resume import claim, earlier, finish, is_finished, remembered
from twoafc.reproduce.run import worth_of
from twoafc.reproduce.sources import Source, drawn, find_bapps, find_clic, shares, wanted
from twoafc.reproduce.written import as_frame, as_table, below, rows_of, write_table
from twoafc.inference import Record
from twoafc.table import Triplets

BOTH = {"train": ("cnn", "mix"), "val": ("cnn", "color")}
FAMILIES = ("traditional", "cnn", "color", "deblur", "frameinterp", "superres")
WHOLE = Basis(frozenset({"train", "test"}), frozenset(FAMILIES))
"""Data that are the paper's."""


def score(distance: str, estimator: str, split: str, group: str = "all", value: float = 70.0, **more: object) -> Record:
    measures = ("nll", "agreement", "score_2afc", "score_2afc_distance", "nll_simulated", "agreement_simulated")
    bars = {f"{name}_se": 0.25 for name in measures}
    head = {"distance": distance, "estimator": estimator, "split": split, "group": group}
    return {**head, **dict.fromkeys(measures, value), **bars, **more}


def test_the_papers_figures_by_distortion_give_its_table_1() -> None:
    found = aggregates()
    assert len(found) == 18
    for each in found:
        # Each of the six figures is rounded to two decimals, and so is Table 1.
        assert each.by_true == pytest.approx(each.table_1, abs=0.01)
        if each.measure == "score_2afc":
            assert round(each.by_true, 2) == each.table_1
            assert abs(each.by_printed - each.table_1) > 0.7
    assert (
        sum(document()["by_distortion"]["triplets"]) == sum(document()["by_distortion"]["triplets_as_printed"]) == 36344
    )


def test_what_is_printed_is_what_the_paper_prints(shared: Path) -> None:
    paper = json.loads((shared / "paper-tables.json").read_text())
    for name, key in (("bapps", "bapps_test"), ("clic", "clic_test")):
        for row in printed_tables()[name].rows:
            assert dict(zip(distances(), row.values, strict=True)) == paper[key][row.estimator][row.measure]
    for estimator in ("density", "network"):
        for row in printed_tables()[f"appendix-{estimator}"].rows:
            there = paper["bapps_appendix"][estimator][row.measure]
            values = there.get(row.split, there.get("test_as_printed_wrong"))
            assert dict(zip(distances(), row.values, strict=True)) == values
    for told in document()["by_distortion"]["rows"]:
        assert told["values"] == paper["bapps_by_distortion"][told["distance"]][told["measure"]]
    for estimator in ("density", "network"):
        assert document()["cost"][estimator] == paper["method_comparison"][estimator]


def test_slips_are_marked_where_they_are() -> None:
    known = {slip.id for slip in slips()}
    marked = {id for table in printed_tables().values() for row in table.rows for _, id in row.slips}
    assert marked < known
    wrong = printed_tables()["appendix-density"].rows[-1]
    right = {row.estimator: row.values for row in printed_tables()["bapps"].rows if row.measure == "score_2afc"}
    assert wrong.values == right["network"]
    assert wrong.instead == right["density"]


def test_a_table_has_the_papers_rows_and_our_figures() -> None:
    chosen, _ = choose(["ssim", "ms_ssim"])
    scores = [score("ssim", e, "test", value=v) for e, v in (("density", 64.0), ("network", 60.0))]
    scores += [score("ssim", "network", "test", value=65.0, runs=10, score_2afc_sd=1.5)]
    layout = by_distance(printed_tables()["distance-only"], scores, chosen, WHOLE)
    # The paper's six stand in its order, measured or not, and others after them.
    assert layout.columns == ("Euclidean", "NLPD", "SSIM", "PIM", "LPIPS", "DISTS", "ms_ssim")
    assert [line.labels[0] for line in layout.lines] == ["Distance only", "Density estimation", "Neural network"]
    assert [line.cells[2].printed for line in layout.lines] == [63.11, 63.65, 64.19]
    assert [cell.printed for cell in layout.lines[1].cells] == [63.46, 63.31, 63.65, 70.09, 68.94, 69.12, None]
    # Of several seeds their summary is shown; a distance that the paper has not, and that has no scores, is empty.
    assert [line.cells[2].ours for line in layout.lines] == [64.0, 64.0, 65.0]
    assert layout.lines[2].cells[2].sd == 1.5
    for line in layout.lines:
        assert [cell.ours is None for cell in line.cells] == [True, True, False, True, True, True, True]
    here = dict(rows_of(layout)[2][1])["here"]
    assert here == ("–", "–", "65.00 ± 1.50 (SE 0.25)", "–", "–", "–", "–")
    assert "±: standard deviation over runs of the network" in below(layout)[0]


def test_a_difference_is_taken_from_the_right_figure() -> None:
    chosen, _ = choose(["ssim"])
    scores = [score("ssim", "density", split, value=63.70) for split in ("train", "test")]
    line = by_distance(printed_tables()["appendix-density"], scores, chosen, WHOLE).lines[-1]
    cell = line.cells[2]
    assert (cell.printed, cell.instead, cell.slip) == (64.19, 63.65, slip_number("appendix-row"))
    assert rows_of(Layout("t", "T", "c", ("a", "b"), ("SSIM",), (Line(line.labels, (cell,)),)))[0][1] == [
        ("paper", ("64.19 [2]",)),
        ("here", ("63.70 (SE 0.25)",)),
        ("difference", ("+0.05",)),
    ]


def measured(source: Source, train: Triplets, test: Triplets | None = None) -> Measured:
    return Measured(source, train, test, [])


def votes(M: int, **groups: int) -> Triplets:
    """So many triplets of each group."""
    T = sum(groups.values())
    group = [name for name, count in groups.items() for _ in range(count)]
    return Triplets.from_frame({"n": [1] * T, "M": [M] * T, "d0": [1.0] * T, "d1": [2.0] * T, "group": group})


VAL = dict(zip(document()["by_distortion"]["columns"], document()["by_distortion"]["triplets"], strict=True))
TRAIN = {"traditional": 56_600, "cnn": 38_100, "mix": 56_700}


def bapps(alone: str = "") -> Source:
    return Source("bapps", None, None, alone=alone)  # type: ignore[arg-type]


def test_the_papers_data_compare_and_a_few_lost_triplets_do_no_harm() -> None:
    assert basis(measured(bapps(), votes(2, **TRAIN), votes(5, **VAL))) == WHOLE
    assert basis(measured(bapps(), votes(2, **TRAIN), votes(5, **{**VAL, "cnn": 4690}))) == WHOLE
    printed = document()["data"]["bapps"]["test"]
    assert printed["families"] == VAL
    assert printed["count"] == sum(VAL.values())


def test_one_split_alone_is_compared_in_nothing_that_needs_the_other() -> None:
    """NLLs of M = 2 must not be held against those of M = 5."""
    train = basis(measured(bapps("train"), votes(2, **TRAIN)))
    assert train.splits == {"train"}
    assert [train.compares("density", split) for split in ("train", "test")] == [True, False]
    assert not train.compares("distance", "test")
    assert train.warnings == (
        "BAPPS has no test set here: what stands in its place is cross-validated on the training set (M = 2, not 5), "
        "and is not compared with the paper's.",
    )
    test = basis(measured(bapps("test"), votes(5, **VAL)))
    assert test.splits == {"test"}
    assert not any(test.compares("density", split) for split in ("train", "test"))
    assert test.compares("distance", "test")
    assert test.warnings == (
        "BAPPS has no training set here: P is cross-validated on the test set, which also stands in the place of the "
        "training set (M = 5, not 2); only the distance alone is compared with the paper's.",
    )
    scores = [score("ssim", each, split) for each in ("density", "network") for split in ("train", "test")]
    chosen, _ = choose(["ssim"])
    for alone, splits in ((train, {"train"}), (test, set())):
        for table in (each for each in printed_tables().values() if each.set == "bapps"):
            layout = by_distance(table, scores, chosen, alone)
            for row, line in zip(table.rows, layout.lines, strict=True):
                compared = row.split in splits or (row.estimator == "distance" and alone is test)
                assert (line.cells[2].difference is not None) == compared, (table.name, row)
            assert set(alone.warnings) <= set(below(layout))
        assert all(cell.difference is None for line in by_family(scores, chosen, alone).lines for cell in line.cells)


def test_missing_families_and_fewer_triplets_are_told_and_not_compared() -> None:
    some = {name: count for name, count in VAL.items() if name != "deblur"}
    found = basis(measured(bapps(), votes(2, **TRAIN), votes(5, **some)))
    assert found.warnings == (
        "BAPPS, test set: deblur is missing; 26,904 of the paper's 36,344 triplets; figures that depend on it are not "
        "compared with the paper's.",
    )
    assert found.compares("density", "train")
    assert [name for name in (*FAMILIES, "mean", "all") if found.compares("density", "test", name)] == list(some)
    chosen, _ = choose(["ssim"])
    groups = [score("ssim", "density", "test", group) for group in (*some, "mean", "all")]
    line = next(each for each in by_family(groups, chosen, found).lines if each.labels[0] == "SSIM")
    assert [cell.difference is not None for cell in line.cells] == [name in some for name in (*FAMILIES, "mean", "all")]
    fewer = basis(measured(bapps(), votes(2, traditional=600, cnn=400), votes(5, **VAL)))
    assert fewer.warnings == (
        "BAPPS, training set: mix is missing; 1,000 of the paper's 151.4k triplets; figures that depend on it are not "
        "compared with the paper's.",
    )
    assert not any(fewer.compares("density", split, group) for split in ("train", "test") for group in ("all", "cnn"))
    clic = Source("clic", None, None)  # type: ignore[arg-type]
    small = basis(measured(clic, votes(1, a=119_901), votes(1, a=480)))
    assert small.warnings == (
        "CLIC 2021, test set: 480 of the paper's 4,807 triplets; figures that depend on it are not compared with the "
        "paper's.",
    )
    # A limit is told once, in words of its own, and only where it took something away.
    assert basis(measured(clic, votes(1, a=119_901), votes(1, a=480)), counted=False).warnings == ()
    assert worth_of(Options(limit=10**6), False, {"bapps": WHOLE}) == []
    assert worth_of(Options(limit=500), False, {"bapps": WHOLE, "clic": small})[0].startswith(
        "A quick look: at most 500"
    )


def test_families_come_with_their_mean_and_all_triplets() -> None:
    chosen, _ = choose(["ssim"])
    groups = (*document()["by_distortion"]["columns"], "mean", "all")
    scores = [score("ssim", "density", "test", group, 60.0 + place) for place, group in enumerate(groups)]
    layout = by_family(scores, chosen, WHOLE)
    assert [line.labels[0] for line in layout.lines[::3]] == ["Euclidean", "NLPD", "SSIM", "PIM", "LPIPS", "DISTS"]
    agreement = layout.lines[6].cells
    assert [cell.ours for cell in agreement] == [60.0 + place for place in range(8)]
    assert agreement[-1].printed == 76.17  # Table 1
    assert agreement[-2].printed == pytest.approx(np.mean([67.86, 78.85, 76.05, 78.43, 77.38, 76.48]))
    # 63.095, which no binary number is: rounded as people do.
    assert dict(rows_of(layout)[2][1])["paper"][-2] == "63.10"


@pytest.mark.parametrize(
    ("cell", "written"),
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
def test_cells_are_written_with_their_errors_and_differences(cell: Cell, written: list[str]) -> None:
    layout = Layout("t", "T", "c", ("a", "b"), ("SSIM",), (Line(("x", "y"), (cell,)),))
    ((_, rows),) = rows_of(layout)
    assert dict(rows) == {
        which: (text,) for which, text in zip(("paper", "here", "difference"), written, strict=True) if text != "–"
    }
    frame = as_frame(layout)
    assert frame.columns[0] == "comparable"
    assert frame["comparable"].to_list() == [cell.compared] * len(frame)
    assert ("difference" in frame["value"]) == (written[2] != "–")


def test_tables_are_written_as_csv_markdown_and_latex(tmp_path: Path) -> None:
    layout = arithmetic()
    remarks = ["a remark, 5 %"]
    files = write_table(layout, tmp_path, remarks)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(files)
    frame = pl.read_csv(tmp_path / "arithmetic.csv")
    assert frame.equals(as_frame(layout))
    here = frame.filter(pl.col("value") == "here").row(0, named=True)
    assert round(here["LPIPS"], 2) == 68.94
    text = (tmp_path / "arithmetic.md").read_text()
    assert "| weighted by the true numbers of triplets | 2AFC % ↑, paper | 63.46 |" in text
    # It needs no data, so that no word about the data stands below it.
    assert "\n- [1] Appendix E" in text
    assert "a remark" not in text
    assert "[2]" not in text
    latex = (tmp_path / "arithmetic.tex").read_text()
    assert latex.count(r" \\") == len(as_table(layout).rows) + 1
    assert r"2AFC \% $\uparrow$, difference & 0.00" in latex
    # Notes are printed, in the float; nothing is left to a comment, and LaTeX numbers tables itself.
    write_table(by_distance(printed_tables()["clic"], [], choose(["ssim"])[0], WHOLE), tmp_path, remarks)
    latex = (tmp_path / "clic.tex").read_text()
    notes = latex[latex.index(r"\end{tabular}") : latex.index(r"\end{table}")]
    for told in (r"a remark, 5 \%", r"$\pm$: standard deviation", "[4] Table 3: Euclidean", "[5] Section 5.1"):
        assert rf"{{\footnotesize\raggedright {told}" in notes
    assert not any(line.startswith("%") for line in latex.splitlines())
    assert r"\caption{The paper's Table 3: Results on the CLIC test set" in latex
    assert latex.isascii()


def test_costs_are_told_without_differences() -> None:
    made = {"train_s": 0.031, "parameters": 400, "infer_1_s": 5e-5, "infer_128_s": 6e-5, "fits": 10}
    made |= {"set": "bapps", "distance": "ssim", "triplets": 900, "machine": "a box, 2 cores"}
    found = dict.fromkeys(("density", "network"), made)
    layout = of_cost(found)
    assert dict(rows_of(layout)[0][1]) == {
        "paper": ("4.5", "400", "9.9e-08", "3.7e-07"),
        "here": ("0.031", "400", "5e-05", "6e-05"),
    }
    assert layout.notes[0].startswith("Machines differ")
    assert "900 triplets of BAPPS, ssim; the paper's training set of BAPPS has 151.4k" in layout.notes[1]
    assert layout.notes[2].endswith("how the paper timed either is not stated.")
    assert as_frame(layout)["comparable"].to_list() == [False] * 4
    assert closeness([layout, arithmetic()]) == []


def test_closeness_names_the_largest_difference() -> None:
    chosen, _ = choose(["euclidean", "ssim"])
    scores = [score("euclidean", "density", "test", value=63.47), score("ssim", "density", "test", value=63.25)]
    found = closeness([by_distance(printed_tables()["distance-only"], scores, chosen, WHOLE)])
    (each,) = found
    assert (each.figures, each.where) == (4, "Density estimation, SSIM")
    assert each.largest == pytest.approx(0.40)


def test_closeness_counts_each_figure_once_and_no_slips() -> None:
    chosen, _ = choose(["ssim"])
    groups = (*FAMILIES, "mean", "all")
    scores = [
        score("ssim", e, split, group)
        for e in ("density", "network")
        for split in ("train", "test")
        for group in groups
    ]
    tables = [by_distance(each, scores, chosen, WHOLE) for each in printed_tables().values() if each.set == "bapps"]
    found = closeness([*tables, by_family(scores, chosen, WHOLE), arithmetic()])
    counted = {(each.table, each.measure): each.figures for each in found}
    assert counted["Table 1", "NLL ↓"] == 2
    # Of Table 2 the distance alone is new; of Table 5 the training set, and what is simulated on both.
    assert counted["Table 2", "2AFC % ↑"] == 1
    appendix = {measure: n for (table, measure), n in counted.items() if table.startswith("Table 5")}
    assert appendix == {"AJ % ↑": 1, "AJ % ↑, simulated": 2, "NLL ↓": 1, "NLL ↓, simulated": 2, "2AFC % ↑": 1}
    assert {n for (table, _), n in counted.items() if table.startswith("Table 7")} == {6}
    clic = by_distance(printed_tables()["clic"], scores, chosen, WHOLE)
    assert [(each.measure, each.figures) for each in closeness([clic])] == [("NLL ↓", 2)]


def test_distances_whose_weights_are_absent_are_left_out_unless_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("TWOAFC_WEIGHTS", str(tmp_path))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    chosen, notes = choose(None)
    assert [each.name for each in chosen][:3] == ["euclidean", "nlpd", "ssim"]
    assert "PIM (pim_1) is left out: its weights are not at hand; run: twoafc fetch pim_1" in notes
    assert len(chosen) + len(notes) == 6
    with pytest.raises(DataError, match=r"^the weights pim_1 are needed and not at hand; tried: .*twoafc fetch pim_1$"):
        choose(["ssim", "pim"])


def test_short_names_and_variants_find_their_columns_in_the_paper() -> None:
    chosen, _ = choose(["ssim_luma", "rmse", "nlpd_rgb"])
    assert [(each.heading, each.paper) for each in chosen] == [
        ("SSIM (ssim_luma)", "ssim"),
        ("Euclidean (rmse)", "euclidean"),
        ("NLPD (nlpd_rgb)", "nlpd"),
    ]
    assert all(each.variant for each in chosen)
    assert tuple(OURS) == distances()


@given(st.lists(st.integers(1, 60), min_size=1, max_size=8), st.data())
def test_a_limit_is_shared_out_by_size(sizes: list[int], data: st.DataObject) -> None:
    limit = data.draw(st.integers(1, sum(sizes)))
    found = shares(np.array(sizes), limit)
    assert found.sum() == limit
    assert (found <= sizes).all()
    if limit >= len(sizes):
        assert (found >= 1).all()
    # As near to the exact share as whole numbers allow, but for those lifted to one.
    assert (found <= np.maximum(np.ceil(np.array(sizes) * limit / sum(sizes)), 1)).all()


def test_a_draw_is_the_same_for_the_same_seed(tmp_path: Path) -> None:
    trees.write_bapps(tmp_path, 12, subsets=BOTH, size=16)
    data = open_bapps(tmp_path, split="val")
    few = drawn(data, 10, seed=3)
    assert few.table.equals(drawn(data, 10, seed=3).table)
    assert not few.table.equals(drawn(data, 10, seed=4).table)
    assert few.table["group"].value_counts().sort("group").rows() == [("cnn", 5), ("color", 5)]
    assert few.table["triplet"].is_sorted()
    assert drawn(data, None, seed=0) is data
    assert drawn(data, 24, seed=0) is data


def test_bapps_is_found_with_both_splits_or_with_one(tmp_path: Path) -> None:
    trees.write_bapps(tmp_path, 2, subsets=BOTH, size=16)
    for folder in (tmp_path, tmp_path / "2afc"):
        source = find_bapps(folder)
        assert source.test is not None
        assert (set(source.train.M), set(source.test.M)) == ({2}, {5})
    alone = find_bapps(tmp_path / "2afc" / "val")
    assert alone.test is None
    assert alone.notes == (
        f"bapps: {tmp_path / '2afc' / 'val'} has no training set; what is there is cross-validated, "
        "which the paper does not do",
    )


def test_clic_is_found_by_the_names_of_its_folders(tmp_path: Path) -> None:
    for name in ("clic2021_test", "clic2021_valid"):
        trees.write_clic(tmp_path / "a" / name, size=(16, 16))
    for name in ("train", "val"):
        trees.write_clic(tmp_path / "b" / name, size=(16, 16)).rename(tmp_path / "b" / name / "answers.csv")
    for folder in ("a", "b"):
        assert set(find_clic(tmp_path / folder).splits) == {"train", "test"}
    alone = find_clic(tmp_path / "a" / "clic2021_valid")
    assert alone.test is None
    assert alone.notes[-1].endswith(
        "has no training set; what is there is cross-validated, which the paper does not do"
    )


def test_images_of_clic_may_lie_in_folders_below(tmp_path: Path) -> None:
    answers = trees.write_clic(tmp_path / "val", size=(16, 16))
    for image in sorted(answers.parent.glob("*.png")):
        (answers.parent / image.name[0]).mkdir(exist_ok=True)
        image.rename(answers.parent / image.name[0] / image.name)
    data = find_clic(tmp_path).train
    assert data.missing().is_empty()
    assert data.images([0])[0].shape == (1, 3, 16, 16)


def test_data_that_are_not_there_are_told_with_address_size_and_layout(tmp_path: Path) -> None:
    for name, find in (("BAPPS", find_bapps), ("CLIC 2021", find_clic)):
        for folder in (tmp_path, tmp_path / "none"):
            with pytest.raises(DataError) as caught:
                find(folder)
            expected = wanted("bapps" if name == "BAPPS" else "clic")
            assert str(caught.value) == f"no {name} in {folder}; {expected}"
            assert "\n" not in expected
    assert "5.3 GB" in wanted("bapps")
    assert wanted("bapps").endswith("; 6.4 GB in all)")
    assert "clic_2021_perceptual_oracle.zip and 0.tar to f.tar, 17 archives, size not published, from" in wanted("clic")
    assert "2afc/train/{traditional,cnn,mix}/{ref,p0,p1,judge}" in wanted("bapps")
    assert "twoafc fetch clic2021_test clic2021_valid" in wanted("clic")
    answers = trees.write_clic(tmp_path / "val", size=(16, 16))
    for image in answers.parent.glob("*.png"):
        image.unlink()
    with pytest.raises(DataError) as caught:
        find_clic(tmp_path)
    assert (
        str(caught.value) == f"the answers {answers} name images, and none of them is there; {wanted('clic', 'test')}"
    )
    assert "clic2021_test" not in wanted("clic", "test").partition("get it by")[2]
    (answers.parent / "more.csv").write_text(answers.read_text())
    with pytest.raises(DataError, match=r"^one file of answers is expected in .*val; found more.csv and oracle.csv$"):
        find_clic(tmp_path)


def test_generated_sets_have_the_true_layouts(tmp_path: Path) -> None:
    one, two = (synthetic.write_bapps(tmp_path / name, limit=12, seed=5) for name in "ab")
    train, val = (open_bapps(one, split=split) for split in ("train", "val"))
    assert (len(train), set(train.M), set(train.table["group"])) == (12, {2}, {"traditional", "cnn", "mix"})
    assert (len(val), set(val.M), val.table["group"].n_unique()) == (12, {5}, 6)
    assert (val.images([0])[0].shape, _bytes(one)) == ((1, 3, 64, 64), _bytes(two))
    answers = synthetic.write_clic(tmp_path / "a", limit=24, seed=5) / "clic2021_valid"
    data = open_clic(answers)
    assert data.M.max() > 1
    assert "were shown the other way round" in " ".join(data.notes)
    rest = without_anchors(data)
    assert 0 < len(data) - len(rest) < len(data) / 3
    # One that stands is kept; half of one is made anew.
    before = _bytes(tmp_path / "a")
    (answers / "oracle.csv").touch()
    synthetic.write_clic(tmp_path / "a", limit=24, seed=6)
    assert _bytes(tmp_path / "a") == before
    (tmp_path / "a" / "clic").rename(tmp_path / "a" / ".clic.part")
    synthetic.write_clic(tmp_path / "a", limit=24, seed=5)
    assert _bytes(tmp_path / "a") == before


def _bytes(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_simulated_people_see_what_is_on_disk(tmp_path: Path) -> None:
    folder = synthetic.write_bapps(tmp_path, limit=72, seed=1)
    data = open_bapps(folder, split="val")
    from twoafc.photographs import hidden_distance

    ref, x0, x1 = (np.asarray(each) for each in data.images(np.arange(len(data))))
    difference: NDArray[np.float64] = hidden_distance(ref, x0) - hidden_distance(ref, x1)
    assert np.corrcoef(difference, data.n / data.M)[0, 1] > 0.5


def test_what_is_remembered_is_made_once(tmp_path: Path) -> None:
    calls: list[int] = []

    def make() -> dict[str, float]:
        calls.append(1)
        return {"nll": float("inf"), "calls": len(calls)}

    path = tmp_path / "experiments" / "it.json"
    assert remembered(path, "k", make) == {"nll": None, "calls": 1}
    assert remembered(path, "k", make) == {"nll": None, "calls": 1}
    assert remembered(path, "another", make)["calls"] == 2
    path.write_text(path.read_text()[:-9])
    assert remembered(path, "another", make)["calls"] == 3
    assert [file.name for file in path.parent.iterdir()] == ["it.json"]


def test_a_folder_takes_the_place_of_another_only_when_it_is_whole(tmp_path: Path) -> None:
    for text in ("old", "new"):
        with replaced(tmp_path / "tables") as folder:
            (folder / "t.csv").write_text(text)
    with pytest.raises(OSError, match=rf"^{tmp_path / 'tables'} could not be written: No space left on device$"):
        _fail_within(tmp_path / "tables")
    assert (tmp_path / "tables" / "t.csv").read_text() == "new"
    with replaced(tmp_path / "tables") as folder:
        assert list(folder.iterdir()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["tables"]


def test_a_folder_that_cannot_be_put_in_place_leaves_the_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "t.csv").write_text("old")
    rename = Path.rename

    def refuse(path: Path, target: Path) -> Path:
        if path.suffix == ".part":
            raise PermissionError(13, "Permission denied")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with (
        pytest.raises(OSError, match=r"tables could not be written: Permission denied$"),
        replaced(tmp_path / "tables"),
    ):
        pass
    assert (tmp_path / "tables" / "t.csv").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["tables"]


def _fail_within(path: Path) -> None:
    with replaced(path) as folder:
        (folder / "t.csv").write_text("half")
        raise OSError(28, "No space left on device")


def test_a_run_is_finished_while_its_files_stand(tmp_path: Path) -> None:
    for name in ("tables", "figures", "experiments"):
        (tmp_path / name).mkdir()
    (tmp_path / "tables" / "t.csv").touch()
    (tmp_path / "index.html").touch()
    assert not is_finished(tmp_path, "k")
    finish(tmp_path, "k")
    assert is_finished(tmp_path, "k")
    assert not is_finished(tmp_path, "other")
    (tmp_path / "tables" / "t.csv").unlink()
    assert not is_finished(tmp_path, "k")


def test_folders_of_others_are_refused(tmp_path: Path) -> None:
    settings = {"limit": None, "seed": 0, "synthetic": False}
    out = tmp_path / "paper"
    claim(out, settings)
    claim(out, settings)
    with pytest.raises(DataError) as caught:
        claim(out, {**settings, "limit": 100})
    assert str(caught.value) == (
        f"a folder is for one limit; {out} was made with none, this run has 100: name another folder, or remove it"
    )
    (out / "mine.txt").touch()
    with pytest.raises(DataError) as caught:
        claim(out, settings)
    assert str(caught.value) == f"{out} holds other files (mine.txt); choose a new folder, or take them out"
    (out / "run.json").unlink()
    with pytest.raises(DataError) as caught:
        claim(out, settings)
    assert str(caught.value) == f"{out} holds other files (mine.txt); choose a new folder, or one of an earlier run"
    with pytest.raises(DataError, match=r"mine.txt is a file; the tables and figures are written to a folder$"):
        claim(out / "mine.txt", settings)
    with pytest.raises(DataError) as caught:
        claim(tmp_path, settings, {"bapps": out})
    assert str(caught.value) == f"{out} lies in {tmp_path}, which is for what is made of it; name another folder"
    (out / "mine.txt").unlink()
    (out / "run.json").write_text("{}")
    with pytest.raises(DataError, match=r"run.json is not that of an earlier run; choose a new folder$"):
        claim(out, settings)


def test_what_a_killed_run_left_half_filled_is_removed(tmp_path: Path) -> None:
    settings = {"limit": None, "seed": 0, "synthetic": False}
    claim(tmp_path / "paper", settings)
    left = [tmp_path / "paper" / name for name in ("results/.bapps.4194399.part", ".tables.4194399.old")]
    for each in left:
        each.mkdir(parents=True)
    claim(tmp_path / "paper", settings)
    assert not any(each.exists() for each in left)


def test_a_folder_knows_its_data_sets(tmp_path: Path) -> None:
    settings = {"limit": None, "seed": 0, "synthetic": False}
    assert earlier(tmp_path / "paper") == {}
    claim(tmp_path / "paper", settings, {"bapps": tmp_path / "b"})
    assert earlier(tmp_path / "paper") == {"bapps": tmp_path / "b"}
    claim(tmp_path / "paper", settings, {"bapps": tmp_path / "b", "clic": tmp_path / "c"})
    assert earlier(tmp_path / "paper") == {"bapps": tmp_path / "b", "clic": tmp_path / "c"}
    with pytest.raises(DataError) as caught:
        reproduce(tmp_path / "paper", bapps=_bapps(tmp_path), options=Options(("rmse",)))
    assert str(caught.value) == (
        f"{tmp_path / 'paper'} has CLIC 2021 of an earlier run, which is not in {tmp_path / 'c'} any more; say where "
        "it is with --clic, or name another folder to write"
    )


def _bapps(folder: Path) -> Path:
    trees.write_bapps(folder / "bapps", 1, size=16)
    return folder / "bapps"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": 19}, "limit must be at least 20, or there is nothing to fit; found 19"),
        ({"seeds": 0}, "seeds must be at least 1; found 0"),
        ({"seed": -1}, "seed must be at least 0; found -1"),
    ],
)
def test_options_without_sense_are_refused(options: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        Options(**options)  # type: ignore[arg-type]


def test_a_data_set_is_needed_and_only_one_kind(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        reproduce(tmp_path / "paper")
    assert str(caught.value) == (
        "a data set is needed; name a folder of BAPPS (--bapps) or of CLIC 2021 (--clic), or --synthetic: "
        "twoafc fetch bapps_train bapps_val gets the first, 6.4 GB; twoafc fetch clic2021_valid clic2021_test the "
        "second, whose size is not published"
    )
    with pytest.raises(ValueError, match=r"^synthetic sets take the place of the true ones; found clic too: choose$"):
        reproduce(tmp_path / "paper", clic=tmp_path, synthetic=True)
    assert list(tmp_path.iterdir()) == []
