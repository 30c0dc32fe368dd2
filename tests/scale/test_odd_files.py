"""What engines make of odd files: the same as each other, or one line that names the part."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from conftest import random_table
from counting import ODD, plainly, refusal, tally
from twoafc import Settings, count, evaluate
from twoafc.scale import ENGINES, fingerprints, program
from twoafc.table import Triplets

# Dask, of pandas that is newer than it.
pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword")


@pytest.fixture(autouse=True)
def frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pl.DataFrame:
    monkeypatch.chdir(tmp_path)
    table = random_table(80, group=["a", "b"] * 40, ref=[f"r{t % 5}" for t in range(80)])
    return table.to_frame().drop("triplet")


def test_csv_parts_may_order_and_separate_columns_in_their_own_way(frame: pl.DataFrame) -> None:
    turned = [*(each for each in frame.columns if each not in ("d0", "d1")), "d1", "d0"]
    frame[:20].write_csv("a.csv")
    frame[20:40].select(turned).write_csv("b.csv")
    frame[40:60].select(turned).write_csv("c.csv", separator=";")
    frame[60:].write_csv("d.csv")
    assert count("*.csv") == plainly(frame)


@ODD
def test_names_of_groups_are_the_same_in_every_engine(name: str, frame: pl.DataFrame) -> None:
    frame.with_columns(group=pl.Series(["NA", 'say "hi", you', "null", "1.0"] * 20)).write_parquet("a.parquet")
    assert count("a.parquet", engine=name)["distance"].groups == ("1.0", "NA", "null", 'say "hi", you')


@ODD
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_signs_of_patterns_in_the_name_of_a_file(name: str, ending: str, frame: pl.DataFrame) -> None:
    if ending == "csv" and name != "polars":
        return
    for odd in ("b[1]", "b*?", "b{2}", "b 'ü"):
        write = {"parquet": frame.write_parquet, "csv": frame.write_csv}[ending]
        write(f"{odd}.{ending}")
        write(f"b1.{ending}")  # what the pattern would find
        assert count(f"{odd}.{ending}", engine=name) == plainly(frame)


@ODD
def test_a_folder_of_parquet_is_a_table(name: str, frame: pl.DataFrame) -> None:
    for group in "ab":
        folder = Path("votes.parquet") / f"group={group}"
        folder.mkdir(parents=True)
        frame.filter(group=group).write_parquet(folder / "part.0.parquet")
    Path("votes.parquet/_metadata").write_text("")
    Path("votes.parquet/.crc.parquet").write_text("")
    assert count("votes.parquet", engine=name) == plainly(frame)
    frame.drop("group").write_parquet("votes.parquet/group=b/part.0.parquet")
    frame.drop("group").write_parquet("votes.parquet/group=a/part.0.parquet")
    assert refusal("votes.parquet", engine=name) == (
        "votes.parquet/group=a/part.0.parquet has no column group, only a folder group=a; "
        "write the column into the files"
    )
    Path("empty").mkdir()
    assert refusal("empty") == "empty is a folder without Parquet files; name the files of the table"
    Path("empty/ssim.npz").touch()
    assert refusal("empty") == (
        "empty is a folder without Parquet files; name one of its files of counts, such as empty/ssim.npz"
    )


@pytest.mark.parametrize("name", ["duckdb", "spark"])
def test_columns_that_an_engine_cannot_tell_apart(name: str, frame: pl.DataFrame) -> None:
    both = frame.rename({"d0": "SS_d0", "d1": "SS_d1"}).with_columns(ss_d0="SS_d1", ss_d1="SS_d0")
    both.write_parquet("a.parquet")
    assert refusal("a.parquet", engine=name) == (
        f"a.parquet: {name} cannot tell the columns SS_d0 and ss_d0 apart; rename one, or count with polars or dask"
    )
    assert count("a.parquet", engine="polars") == count("a.parquet", engine="dask") == plainly(both)


def test_files_that_spark_passes_over_are_refused(frame: pl.DataFrame) -> None:
    for name in ("_a.parquet", ".a.parquet"):
        frame.write_parquet(name)
        told = f"{name}: spark passes over files whose names begin with _ or .; rename it"
        assert refusal(name, engine="spark") == told
    frame.write_parquet("a:b.parquet")
    told = "a:b.parquet: spark cannot read a file with a colon in its path; rename it"
    assert refusal("a:b.parquet", engine="spark") == told


def test_rows_that_an_engine_loses_are_missed(frame: pl.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    frame.write_parquet("a.parquet")
    frame.write_parquet("b.parquet", statistics=False)
    whole = ENGINES["duckdb"]
    monkeypatch.setitem(ENGINES, "duckdb", lambda found, *rest: whole(found[:1], *rest))
    told = "duckdb counted 80 of the 160 rows of a.parquet and 1 other; count with another engine"
    assert refusal("*.parquet", engine="duckdb") == told


@pytest.mark.parametrize(
    ("values", "kind"),
    [(pl.col("n") > 1, "Boolean"), (pl.col("n") * 1.0, "Float64"), (pl.lit("2020-01-01").str.to_date(), "Date")],
)
def test_groups_are_text_or_whole_numbers(values: pl.Expr, kind: str, frame: pl.DataFrame) -> None:
    frame.with_columns(group=values).write_parquet("a.parquet")
    rule = f"group must be text or whole numbers to be counted; the column has type {kind}"
    assert refusal("a.parquet", engine="dask") == f"a.parquet: {rule}"
    assert refusal(pl.scan_parquet("a.parquet")) == rule
    numbered = frame.with_columns(group=pl.col("n").cast(pl.Int16))
    assert count(numbered) == plainly(numbered)


def test_a_file_named_by_two_paths_is_named_twice(frame: pl.DataFrame) -> None:
    frame.write_parquet("a.parquet")
    Path("b.parquet").symlink_to("a.parquet")
    assert refusal(["a.parquet", "./a.parquet"]) == "a part must be named once; a.parquet and ./a.parquet are one file"
    assert refusal("*.parquet") == "a part must be named once; a.parquet and b.parquet are one file"


def test_an_empty_choice_of_distances(frame: pl.DataFrame) -> None:
    assert refusal(frame, ValueError, distances=[]) == (
        "name a distance to count, or leave the choice open; the table has distance"
    )


@ODD
def test_a_file_that_lies_elsewhere_is_named(name: str) -> None:
    source = "nowhere://votes/a.parquet"
    assert refusal(source, engine=name).startswith(f"{source}: {name} cannot read it: ")


def test_parts_that_do_not_go_together_are_named(frame: pl.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    frame.write_parquet("a.parquet")
    frame[1:].write_parquet("b.parquet")

    def read(found: Any, *rest: Any) -> Any:
        if len(found) > 1 or ("b" in found[0] and bad):
            raise RuntimeError("no\nmore")
        return whole(found, *rest)

    whole = ENGINES["duckdb"]
    monkeypatch.setitem(ENGINES, "duckdb", read)
    bad = True
    assert refusal("*.parquet", engine="duckdb") == "b.parquet: duckdb cannot read it: no"
    bad = False
    assert refusal("*.parquet", engine="duckdb") == "duckdb cannot read a.parquet and 1 other together: no"


def test_counting_that_fails_names_the_files(frame: pl.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    frame.write_parquet("a.parquet")

    def fail(*_: Any) -> None:
        raise RuntimeError("the line is down")

    monkeypatch.setattr(program, "summed", fail)
    assert refusal("a.parquet") == "polars could not count a.parquet: the line is down"


def test_spark_says_why_it_does_not_start(frame: pl.DataFrame) -> None:
    frame.write_parquet("a.parquet")
    told = "import os; os.environ.update(JAVA_HOME='', PATH='', SPARK_HOME='/none'); from twoafc.cli import main; "
    told += "main(['count', 'a.parquet', '--engine', 'spark', '--out', 'c'])"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", told], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("twoafc: spark did not start; is Java installed? ")
    assert done.stderr.count("\n") == 1
    assert not Path("c").exists()


def single_votes(T: int = 90, seed: int = 0) -> pl.DataFrame:
    """Votes on triplets with ties, shown either way round, of people who like the second image."""
    rng = np.random.default_rng(seed)
    d = np.round(np.exp(rng.normal(0, 0.5, (T, 2))) * 3) / 3
    k = rng.integers(0, T, 4 * T)
    swapped = rng.random(len(k)) < 0.5
    shown = np.where(swapped[:, None], d[k, ::-1], d[k])
    items = np.where(swapped, "a", "z"), np.where(swapped, "z", "a")
    choice = (rng.random(len(k)) < np.where(shown[:, 0] == shown[:, 1], 0.7, shown[:, 0] / shown.sum(axis=1))) + 0
    return pl.DataFrame({"choice": choice, "ref": k.astype(str), "x0": items[0], "x1": items[1]}).with_columns(
        d0=shown[:, 0], d1=shown[:, 1]
    )


@ODD
def test_single_votes_are_counted_as_they_are_merged_in_memory(name: str) -> None:
    votes = single_votes()
    votes.write_parquet("v.parquet")
    found = count("v.parquet", engine=name)
    table = Triplets.from_frame(votes)
    assert found == {"distance": tally(table)}
    assert found == {"distance": tally(Triplets.from_frame(votes[::-1]))}
    assert count("v.parquet", engine=name, keep_refs=True) == plainly(table, keep_refs=True)
    quadruples = votes.rename({"ref": "ref0"}).with_columns(ref1="ref0")
    assert count(quadruples)["distance"].cells.equals(found["distance"].cells)
    if name == "polars":
        for ties in ("half", "x0"):
            settings = Settings(ties=ties)
            exact = evaluate(table, table, settings=settings).frame().filter(split="test", group="all")
            counted = evaluate(found, found, settings=settings).frame().filter(split="test", group="all")
            for measure in ("agreement", "score_2afc", "score_2afc_distance"):
                assert counted[measure].item() == pytest.approx(exact[measure].item(), abs=0.02)


def test_files_are_told_by_what_they_hold(frame: pl.DataFrame) -> None:
    frame.write_parquet("a.parquet")
    Path("copy.parquet").write_bytes(Path("a.parquet").read_bytes())
    frame.with_columns(pl.col("d0") * (1 + 1e-9)).write_parquet("b.parquet")
    a, copy, b = (fingerprints([f"{name}.parquet"]) for name in ("a", "copy", "b"))
    assert a == copy != b
    Path("empty.csv").write_text("")
    assert len(fingerprints(["empty.csv"])) == 1
