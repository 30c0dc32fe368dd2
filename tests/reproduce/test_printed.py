"""The printed values, the paper's arithmetic, and which data are comparable with the paper's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from twoafc.reproduce import aggregates, slips
from twoafc.reproduce.printed import HEADINGS, DataMatch, document, match_data, printed_tables
from twoafc.table import Triplets

FAMILIES = ("traditional", "cnn", "color", "deblur", "frameinterp", "superres")
COMPLETE = DataMatch(frozenset({"train", "test"}), frozenset(FAMILIES))
VAL = dict(zip(document()["by_distortion"]["columns"], document()["by_distortion"]["triplets"], strict=True))
TRAIN = {"traditional": 56_600, "cnn": 38_100, "mix": 56_700}


def votes(M: int, **groups: int) -> Triplets:
    """A table with a number of triplets of each group."""
    T = sum(groups.values())
    group = [name for name, count in groups.items() for _ in range(count)]
    return Triplets.from_frame({"n": [1] * T, "M": [M] * T, "d0": [1.0] * T, "d1": [2.0] * T, "group": group})


def test_the_papers_values_by_distortion_give_its_table_1() -> None:
    rows = aggregates()
    assert len(rows) == 18
    for row in rows:
        # Each of the six values is rounded to two decimals, and so is Table 1.
        assert row.by_true == pytest.approx(row.table_1, abs=0.01)
        if row.measure == "score_2afc":
            assert round(row.by_true, 2) == row.table_1
            assert abs(row.by_printed - row.table_1) > 0.7
    table = document()["by_distortion"]
    assert sum(table["triplets"]) == sum(table["triplets_as_printed"]) == 36344


def test_the_printed_values_are_the_papers(shared: Path) -> None:
    paper = json.loads((shared / "paper-tables.json").read_text())
    for name, key in (("bapps", "bapps_test"), ("clic", "clic_test")):
        for row in printed_tables()[name].rows:
            assert dict(zip(HEADINGS, row.values, strict=True)) == paper[key][row.estimator][row.measure]
    for estimator in ("density", "network"):
        for row in printed_tables()[f"appendix-{estimator}"].rows:
            splits = paper["bapps_appendix"][estimator][row.measure]
            values = splits.get(row.split, splits.get("test_as_printed_wrong"))
            assert dict(zip(HEADINGS, row.values, strict=True)) == values
        assert document()["cost"][estimator] == paper["method_comparison"][estimator]
    for line in document()["by_distortion"]["rows"]:
        assert line["values"] == paper["bapps_by_distortion"][line["distance"]][line["measure"]]


def test_slips_are_marked_where_they_are() -> None:
    marked = {id for table in printed_tables().values() for row in table.rows for id in row.slips.values()}
    assert marked < {slip.id for slip in slips()}
    wrong = printed_tables()["appendix-density"].rows[-1]
    right = {row.estimator: row.values for row in printed_tables()["bapps"].rows if row.measure == "score_2afc"}
    assert wrong.values == right["network"]
    assert wrong.instead == right["density"]


def test_the_papers_data_are_compared_even_if_a_few_triplets_are_lost() -> None:
    train = votes(2, **TRAIN)
    assert match_data("bapps", {"train": train, "test": votes(5, **VAL)}) == COMPLETE
    assert match_data("bapps", {"train": train, "test": votes(5, **{**VAL, "cnn": 4690})}) == COMPLETE
    printed = document()["data"]["bapps"]["test"]
    assert printed["families"] == VAL
    assert printed["count"] == sum(VAL.values())


def test_a_single_split_is_not_compared_where_the_other_is_needed() -> None:
    """NLLs of M = 2 must not be compared with those of M = 5."""
    train = match_data("bapps", {"train": votes(2, **TRAIN)})
    assert train.splits == {"train"}
    assert [train.compares("density", split) for split in ("train", "test")] == [True, False]
    assert not train.compares("distance", "test")
    assert train.warnings == (
        "BAPPS has no test set here: test scores are cross-validated on the training set (M = 2, not 5) and not "
        "compared with the paper's.",
    )
    test = match_data("bapps", {"test": votes(5, **VAL)})
    assert test.splits == {"test"}
    assert not any(test.compares("density", split) for split in ("train", "test"))
    assert test.compares("distance", "test")
    assert test.warnings == (
        "BAPPS has no training set here: P is cross-validated on the test set, which also replaces the training set "
        "(M = 5, not 2); only the distance alone is compared with the paper's.",
    )


def test_missing_families_and_triplets_are_reported_and_not_compared() -> None:
    some = {name: count for name, count in VAL.items() if name != "deblur"}
    match = match_data("bapps", {"train": votes(2, **TRAIN), "test": votes(5, **some)})
    assert match.warnings == (
        "BAPPS, test set: deblur is missing; 26,904 of the paper's 36,344 triplets; values that depend on it are not "
        "compared with the paper's.",
    )
    assert match.compares("density", "train")
    assert [name for name in (*FAMILIES, "mean", "all") if match.compares("density", "test", name)] == list(some)
    fewer = match_data("bapps", {"train": votes(2, traditional=600, cnn=400), "test": votes(5, **VAL)})
    assert fewer.warnings == (
        "BAPPS, training set: mix is missing; 1,000 of the paper's 151.4k triplets; values that depend on it are not "
        "compared with the paper's.",
    )
    assert not any(fewer.compares("density", split, group) for split in ("train", "test") for group in ("all", "cnn"))
    clic = {"train": votes(1, a=119_901), "test": votes(1, a=480)}
    assert match_data("clic", clic).warnings == (
        "CLIC 2021, test set: 480 of the paper's 4,807 triplets; values that depend on it are not compared with the "
        "paper's.",
    )
    # A limit has its own warning.
    assert match_data("clic", clic, limited=True).warnings == ()
