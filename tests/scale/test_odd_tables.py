"""Odd rows and odd files: every engine refuses what memory refuses, and takes what holds nothing wrong."""

from __future__ import annotations

import re
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from commands import refused
from conftest import random_table
from counting import ODD, plainly, refusal
from twoafc import Counts, count, evaluate
from twoafc.cli import main
from twoafc.errors import DataError
from twoafc.scale import Lattice, dense, find_parts
from twoafc.table import Triplets

# Dask, of pandas that is newer than it.
pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword")


@pytest.fixture(autouse=True)
def frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pl.DataFrame:
    monkeypatch.chdir(tmp_path)
    return random_table(80, group=["a", "b"] * 40).to_frame().drop("triplet")


def single_votes() -> pl.DataFrame:
    """Five votes on each of three triplets, every other one shown the other way round."""
    turned = np.arange(15) % 2 == 1
    triplet = np.arange(15) // 5
    d = np.array([[0.5, 0.2], [0.3, 0.4], [0.6, 0.1]])[triplet]
    shown = np.where(turned[:, None], d[:, ::-1], d)
    names = np.where(turned, "b", "a"), np.where(turned, "a", "b")
    labels = {"ref": [f"r{k}" for k in triplet], "x0": names[0], "x1": names[1]}
    return pl.DataFrame({"choice": [1, 0, 1] * 5, **labels, "d0": shown[:, 0], "d1": shown[:, 1]})


def spoiled(frame: pl.DataFrame, column: str, value: Any, row: int = 7) -> pl.DataFrame:
    values = [value if place == row else old for place, old in enumerate(frame[column].to_list())]
    return frame.with_columns(pl.Series(column, values, strict=False))


FAULTS = {
    "nan": ("d0", np.nan, "d0 must be finite; {} has d0=nan"),
    "no distance": ("d1", None, "d1 must not be missing; {} has no d1"),
    "infinite": ("d1", np.inf, "d1 must be finite; {} has d1=inf"),
    "negative": ("d0", -0.5, "d0 must be at least 0 to be counted; {} has d0=-0.5"),
    "no name": ("x0", None, "x0 must not be missing; {} has no x0"),
    "empty name": ("x1", "", "x1 must not be missing; {} has no x1"),
    "no ref": ("ref", None, "ref must not be missing; {} has no ref"),
    "choice": ("choice", 2, "choice must be 0 or 1; {} has choice=2"),
}


def each_engine(fault: str) -> Iterator[Any]:
    """Dask, which plans for two seconds, has one fault of each kind; the others are slow."""
    often = fault in ("nan", "no distance", "empty name", "choice")
    yield from ((name, fault) for name in ("polars", "duckdb"))
    yield pytest.param("dask", fault, marks=() if often else pytest.mark.slow)


@pytest.mark.parametrize(("name", "fault"), [case for fault in FAULTS for case in each_engine(fault)])
def test_a_single_vote_that_breaks_a_rule_is_named(name: str, fault: str) -> None:
    column, value, told = FAULTS[fault]
    votes = spoiled(single_votes(), column, value)
    votes.write_parquet("v.parquet")
    said = f"{told.format('row 7')} (1 of 15 rows)"
    assert refusal("v.parquet", engine=name) == f"v.parquet: {said}"
    if fault != "negative":  # of which there may be some in memory
        with pytest.raises(DataError, match=re.escape(said)):
            Triplets.from_frame(votes)
    if name == "polars":
        assert refusal(votes.lazy()) == told.format("a row")


def test_a_missing_value_among_single_votes_of_a_csv_is_named() -> None:
    for column in ("d0", "x1"):
        spoiled(single_votes(), column, None).write_csv("v.csv")
        told = f"v.csv: {column} must not be missing; row 7 has no {column} (1 of 15 rows)"
        assert refusal("v.csv") == told


def test_every_way_of_naming_triplets_needs_its_names() -> None:
    votes = single_votes()
    quadruples = votes.rename({"ref": "ref0"}).with_columns(ref1="ref0")
    numbered = votes.select("choice", "d0", "d1", triplet=pl.int_range(15).cast(pl.String))
    grouped = votes.with_columns(group=pl.lit("g"))
    for sound, column in ((quadruples, "ref1"), (quadruples, "ref0"), (numbered, "triplet"), (grouped, "group")):
        assert count(sound) == plainly(sound)
        for blank in (None, ""):
            told = f"{column} must not be missing; a row has no {column}"
            assert refusal(spoiled(sound, column, blank)) == told


def test_a_reference_may_have_any_name() -> None:
    votes = single_votes().with_columns(ref=pl.col("ref").replace({"r0": "all"}))
    assert count(votes) == plainly(votes)
    many = pl.concat([votes.with_columns(ref=pl.lit("all"), x1=pl.lit("z"), d0=0.1, d1=0.2)] * 100 + [votes])
    assert refusal(spoiled(many, "d1", None, row=len(many) - 1)).startswith("d1 must not be missing; a row has no d1")


@ODD
def test_what_others_lay_beside_a_table_is_no_part_of_it(name: str, frame: pl.DataFrame) -> None:
    for folder in ("day=1", "_temporary/0", ".staging", "_delta_log", "day=1/_tmp"):
        (Path("votes") / folder).mkdir(parents=True, exist_ok=True)
        frame.write_parquet(f"votes/{folder}/part.parquet")
    assert count("votes", engine=name) == plainly(frame)


def test_a_folder_of_a_table_may_be_a_column_that_begins_with_a_line(frame: pl.DataFrame) -> None:
    Path("_votes/_day=3").mkdir(parents=True)
    frame.write_parquet("_votes/_day=3/part.parquet")
    Path("_votes/_old").mkdir()
    shutil.copy("_votes/_day=3/part.parquet", "_votes/_old/part.parquet")
    assert find_parts("_votes") == ["_votes/_day=3/part.parquet"]
    assert find_parts("_votes/_old/*") == ["_votes/_old/part.parquet"]


@ODD
@pytest.mark.parametrize("empty", ["023", "0", "3", "013"])
def test_parts_without_rows(name: str, empty: str, frame: pl.DataFrame) -> None:
    full = [place for place in "0123" if place not in empty]
    for place in "0123":
        rows = frame[full.index(place) :: len(full)] if place in full else frame.clear()
        rows.write_parquet(f"{place}.parquet")
    assert count("*.parquet", engine=name) == plainly(frame)


def test_a_table_without_rows_in_several_parts(frame: pl.DataFrame) -> None:
    for name in "ab":
        frame.clear().write_parquet(f"{name}.parquet")
    assert refusal("*.parquet").endswith(".parquet and 1 other: the table has no rows")


def test_rows_are_counted_after_a_sample_without_any(frame: pl.DataFrame) -> None:
    sample, d, lattice = frame.clear(), ("d0", "d1"), Lattice()
    found = dense.count_densely(frame.lazy(), sample, {"distance": d}, lattice, len(frame))["distance"]
    assert found.lawful
    assert found.cells["count"].sum() == 80


@ODD
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_parts_may_have_columns_of_their_own(name: str, ending: str, frame: pl.DataFrame) -> None:
    if ending == "csv" and name != "polars":
        return
    more = frame[30:60].select(pl.lit("u").alias("note"), *frame.columns[::-1])
    for part, rows in {"a": frame[:30], "b": more, "c": frame[60:].with_columns(day=pl.lit(3))}.items():
        {"parquet": rows.write_parquet, "csv": rows.write_csv}[ending](f"{part}.{ending}")
    for order in ("abc", "bca", "cba") if name == "polars" else ("bca",):
        assert count([f"{part}.{ending}" for part in order], engine=name) == plainly(frame)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_sites_that_each_have_an_empty_part_merge(
    ending: str, frame: pl.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    for site, rows in {"a": frame[:40], "b": frame[40:]}.items():
        Path(site).mkdir()
        for name, some in {"votes": rows, "none": frame.clear()}.items():
            {"parquet": some.write_parquet, "csv": some.write_csv}[ending](f"{site}/{name}.{ending}")
        main(["count", f"{site}/*.{ending}", "--out", f"{site}-counts", "--quiet"])
        assert len(Counts.load(f"{site}-counts/distance.npz").files) == 1
    main(["merge", "a-counts/distance.npz", "b-counts/distance.npz", "--out", "ab.npz", "--quiet"])
    assert capsys.readouterr().out == ""
    assert Counts.load("ab.npz") == plainly(frame)["distance"]


@pytest.mark.parametrize("value", [np.nan, np.inf, None])
def test_no_warning_comes_before_an_error(value: float | None, frame: pl.DataFrame) -> None:
    spoiled(spoiled(frame, "d0", value), "d1", value).write_parquet("a.parquet")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert refusal("a.parquet").startswith("a.parquet: d0 must ")
    assert said == []


def test_counts_that_are_not_alike_are_refused_for_that(
    frame: pl.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    frame.with_columns(ssim_d0="d1", ssim_d1="d0").write_parquet("a.parquet")
    main(["count", "a.parquet", "--out", "a", "--quiet"])
    main(["count", "a.parquet", "--out", "fine", "--per-octave", "256", "--quiet"])
    one = "a/distance.npz"
    assert refused(capsys, "merge", one, "a/ssim.npz", "--out", "sum.npz") == (
        "only counts of one distance can be merged; a/distance.npz has distance, a/ssim.npz ssim"
    )
    assert refused(capsys, "merge", one, "fine/distance.npz", "--out", "sum.npz").startswith(
        "only counts on one lattice can be merged; a/distance.npz has 128 bins per octave, fine/distance.npz 256: "
    )
    shutil.copy(one, "copy.npz")
    assert refused(capsys, "merge", one, "copy.npz", "--out", "sum.npz") == (
        "votes must be merged only once; copy.npz has counts that are already in a/distance.npz"
    )
    assert not Path("sum.npz").exists()


def test_a_column_that_stands_twice_in_a_csv(frame: pl.DataFrame) -> None:
    frame.write_csv("a.csv")
    for column in ("d0", "note"):
        others = [each for each in ("n", "M", "group", "d0", "d1") if each != column]
        Path("b.csv").write_text(",".join([*others, column, column]) + "\n")
        told = f"b.csv: column names must differ; {column} is the name of 2 columns"
        assert refusal("*.csv") == told
        with pytest.raises(DataError, match=f"^{re.escape(told)}$"):
            Triplets.read("b.csv")


@ODD
def test_votes_on_one_triplet_have_one_reference(name: str) -> None:
    votes = {"choice": [0, 1, 1], "triplet": ["s", "t", "t"], "d0": [0.1, 0.2, 0.2], "d1": [0.3, 0.1, 0.1]}
    pl.DataFrame({**votes, "ref": ["a", "b", "b"]}).write_parquet("a.parquet")
    assert count("a.parquet", engine=name, keep_refs=True)["distance"].triplets == 2
    pl.DataFrame({**votes, "ref": ["a", "b", "c"]}).write_parquet("a.parquet")
    assert refusal("a.parquet", engine=name, keep_refs=True) == (
        "a.parquet: votes on one triplet must have the same ref; triplet='t' has 'b' and 'c'"
    )
    assert count("a.parquet", engine=name)["distance"].triplets == 2


def test_distances_beyond_the_lattice_are_warned_of() -> None:
    rng = np.random.default_rng(0)
    for scale in (1e14, 1e-14):
        d = scale * rng.lognormal(size=(2, 1000))
        n = rng.binomial(3, d[0] / d.sum(axis=0))
        counts = count(pl.DataFrame({"n": n, "M": 3, "d0": d[0], "d1": d[1]}))
        notes = evaluate(counts, counts).notes
        assert not any("nan" in note for note in notes)
        assert any("so multiply the distance by a constant" in note for note in notes)
