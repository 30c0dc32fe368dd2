"""Engines: every one counts as the plain version does, and each fault is named with its part."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import random_table
from counting import LOCAL, plainly, refusal
from serving import Answer, serving
from twoafc import Counts, count
from twoafc.errors import DataError
from twoafc.scale import dense, engines, find_parts, rows_in
from twoafc.scale.lattice import KEY, summed
from twoafc.table import Triplets, join_columns

# Dask, of pandas that is newer than it.
pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword")


def votes_of(T: int, seed: int = 0) -> pl.DataFrame:
    """A table with two distances, ties, zeros, values up to 5.3, mixed M and groups; one has single precision."""
    rng = np.random.default_rng(seed)
    d0, d1 = np.minimum(rng.lognormal(size=(2, T)), 5.3)
    d0[: T // 20] = d1[: T // 20]
    d0[T // 30 : T // 15] = 0
    d1[T // 25 : T // 20] = 0
    M = rng.integers(1, 6, T)
    columns = {"n": rng.binomial(M, 0.5), "M": M, "lpips_d0": d0, "lpips_d1": d1}
    columns |= {"ssim_d0": np.round(d0 / 9, 3).astype(np.float32), "ssim_d1": np.round(d1 / 9, 3).astype(np.float32)}
    labels = {"group": rng.choice(["b", "a", "ç"], T), "ref": rng.choice([f"r{k}" for k in range(300)], T)}
    return pl.DataFrame({**columns, **labels})


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1e5 rows in four files."""
    folder = tmp_path_factory.mktemp("votes")
    frame = votes_of(100_000)
    for part in range(4):
        frame[part * 25_000 : (part + 1) * 25_000].write_parquet(folder / f"day-{part}.parquet")
    return folder


@pytest.fixture(scope="module")
def expected(parts: Path) -> dict[str, Counts]:
    return plainly(pl.read_parquet(parts / "*.parquet"), keep_refs=True)


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    if not shutil.which("java"):
        pytest.skip("Java is not installed: Spark cannot start")
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of libraries that are newer than Spark
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
        quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # half the time, of a process that lives for seconds
        for name, value in {
            "spark.driver.extraJavaOptions": quick,
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "1",
        }.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        yield session
        session.stop()


@LOCAL
def test_engines_give_the_counts_of_the_plain_version(name: str, parts: Path, expected: dict[str, Counts]) -> None:
    # Dask takes ten times as long as the others: one of the distances will do.
    some = ["ssim"] if name == "dask" else list(expected)
    found = count(f"{parts}/*.parquet", engine=name, distances=some, keep_refs=True)
    assert found == {distance: expected[distance] for distance in some}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_spark_gives_the_counts_of_the_plain_version(spark: Any, parts: Path, expected: dict[str, Counts]) -> None:
    found = count(f"{parts}/*.parquet", engine="spark", distances=["lpips"])["lpips"]
    plain = summed(KEY, expected["lpips"].cells)
    assert found.cells.equals(plain)
    assert found.groups == ("a", "b", "ç")
    assert found.histogram.equals(expected["lpips"].histogram)
    assert found.ends == (0.0, 5.3)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_spark_reads_odd_parts_as_the_others_do(spark: Any, tmp_path: Path) -> None:
    frame = votes_of(60).rename({"ssim_d0": "v0.1_d0", "ssim_d1": "v0.1_d1"}).drop("ref", "lpips_d0", "lpips_d1")
    frame = frame.with_columns(pl.col("v0.1_d0", "v0.1_d1").cast(pl.Float64), group=pl.Series(["NA", 'a "b", c'] * 30))
    narrow = frame[30:].with_columns(pl.col("n", "M").cast(pl.Int8))
    frame[:30].write_parquet(tmp_path / "wide[1].parquet")
    narrow.write_parquet(tmp_path / "narrow{2}.parquet")
    assert count(f"{tmp_path}/*.parquet", engine="spark") == plainly(frame)
    spoiled = spark.createDataFrame(frame.with_columns(n=pl.lit(9)).to_pandas())
    assert refusal(spoiled).startswith("n must lie in [0, M]; a row has n=9, M=")


def test_files_elsewhere_are_counted_and_named() -> None:
    frame = votes_of(3000).drop("ref")
    contents = {}
    for name, some in {"a": frame[:1000], "b": frame[1000:]}.items():
        some.write_parquet(buffer := io.BytesIO())
        contents[f"{name}.parquet"] = buffer.getvalue()
    bad = frame.with_columns(n=pl.lit(9))
    bad.write_parquet(buffer := io.BytesIO())
    contents |= {"bad.parquet": buffer.getvalue(), "cut.parquet": contents["a.parquet"][:-100]}
    with serving() as server:
        server.answers |= {name: Answer(content) for name, content in contents.items()}
        server.answers["none.parquet"] = Answer(b"", status=404)
        a, b, bad_url, cut, none = (server.url(f"{name}.parquet") for name in ("a", "b", "bad", "cut", "none"))
        found = count([a, b])
        assert found == plainly(frame)
        assert found["lpips"].files == ()
        assert refusal([a, cut]).startswith(f"{cut}: polars cannot read it: parquet: File out of specification: ")
        assert refusal(none).startswith(f"{none}: polars cannot read it: object-store error: ")
        assert refusal(bad_url).startswith("n must lie in [0, M]; a row has n=9, M=")


def test_frames_are_counted_by_their_own_engine(parts: Path) -> None:
    import dask.dataframe
    import duckdb

    frame = pl.read_parquet(parts / "day-0.parquet").drop("ssim_d0", "ssim_d1")
    plain = plainly(frame)
    for source in (
        frame,
        frame.lazy(),
        frame.to_pandas(),
        frame.to_arrow(),
        duckdb.read_parquet(f"{parts}/day-0.parquet"),
        dask.dataframe.read_parquet(f"{parts}/day-0.parquet"),
    ):
        assert count(source, distances=["lpips"]) == plain
    assert count(Triplets.from_frame(frame)) == plain


@pytest.mark.parametrize(("room", "aside", "full"), [(5_000, 500, 10**9), (10**7, 10**9, 1000), (10, 10**9, 10**9)])
def test_rows_without_a_place_are_counted_too(
    monkeypatch: pytest.MonkeyPatch, room: int, aside: int, full: int
) -> None:
    monkeypatch.setattr(dense, "ROOM", room)
    monkeypatch.setattr(dense, "ASIDE", aside)
    monkeypatch.setattr(dense, "FULL", full)
    monkeypatch.setattr(dense, "LISTED", full)
    frame = votes_of(4000)
    # As files of days: what the sample shows is not what most rows are.
    sorted_rows = frame.sort("lpips_d0", descending=True)
    for keep_refs in (False, True):
        assert count(sorted_rows, keep_refs=keep_refs) == plainly(frame, keep_refs=keep_refs)


def test_a_cell_may_get_far_more_rows_than_in_the_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used, array = [], dense._Array
    monkeypatch.setattr(dense, "_Array", lambda window, integer: used.append(integer) or array(window, integer))
    monkeypatch.setattr(engines, "SAMPLE", 1000)
    d0, d1 = np.random.default_rng(0).uniform(0.5, 1, (2, 1000))
    spread = pl.DataFrame({"n": 1, "M": 2, "d0": d0, "d1": d1})
    for alike in (1000, 2**16 + 5):
        frame = pl.concat([spread, *[spread[:1]] * alike], rechunk=True)
        frame.write_parquet(tmp_path / "votes.parquet")
        assert count(tmp_path / "votes.parquet") == count(tmp_path / "votes.parquet", engine="duckdb")
        assert used == ([np.uint16] if alike == 1000 else [np.uint16, np.int32])
        used.clear()


@st.composite
def at_edges(draw: st.DrawFn) -> float:
    """A distance on an edge of the finest lattice, or next to one."""
    edge = 2.0 ** draw(st.integers(-42, 42)) * (1 + draw(st.sampled_from([0, 1, 2047, 2048, 4095])) / 4096)
    return float(np.nextafter(edge, edge * draw(st.sampled_from([0, 1, 2]))))


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_any_rows_are_counted_alike_by_array_program_and_loop(data: st.DataObject) -> None:
    T = data.draw(st.integers(1, 12))
    some = st.lists(st.just(0.0) | st.floats(0, 1e15) | at_edges(), min_size=T, max_size=T)
    M = data.draw(st.lists(st.sampled_from([1, 2, 3, 40, 5000]), min_size=T, max_size=T))
    frame = pl.DataFrame({"n": [data.draw(st.integers(0, m)) for m in M], "M": M}).with_columns(
        d0=pl.Series(data.draw(some)), d1=pl.Series(data.draw(some))
    )
    per_octave = data.draw(st.sampled_from([1, 128, 4096]))
    expected = plainly(frame, per_octave=per_octave)
    assert count(frame, per_octave=per_octave) == expected
    assert count(frame.to_arrow(), per_octave=per_octave) == expected


def test_votes_on_more_people_than_a_packed_key_takes(tmp_path: Path) -> None:
    frame = pl.DataFrame({"n": [700, 2], "M": [1500, 3], "d0": [0.1, 0.2], "d1": [0.3, 0.2], "ref": ["r", "s"]})
    frame.write_parquet(tmp_path / "a.parquet")
    for name in ("polars", "duckdb"):
        found = count(tmp_path / "a.parquet", engine=name, keep_refs=True)
        assert found == plainly(frame, keep_refs=True)


def test_more_votes_than_people(tmp_path: Path) -> None:
    frame = pl.DataFrame({"n": [7, 2], "M": [2**40, 2**40], "d0": [0.1, 0.2], "d1": [0.3, 0.2]})
    frame.write_parquet(tmp_path / "a.parquet")
    for name in ("polars", "duckdb"):
        told = "M must be a number of votes; row 0 has M=1.09951e+12 (2 of 2 rows)"
        assert refusal(tmp_path / "a.parquet", engine=name) == f"{tmp_path}/a.parquet: {told}"
    assert refusal(frame).startswith("M must be a number of votes; a row has M=1.09951e+12")
    many = frame.with_columns(M=pl.Series([5000, 10**9]))
    assert count(many) == count(many.to_arrow()) == plainly(many)


def test_parts_may_differ_in_the_width_of_their_numbers(tmp_path: Path) -> None:
    frame = random_table(100).to_frame()
    frame[:50].write_parquet(tmp_path / "a.parquet")
    frame[50:].with_columns(pl.col("n", "M").cast(pl.Int8), pl.col("d0").cast(pl.Float32)).write_parquet(
        tmp_path / "b.parquet"
    )
    rounded = pl.concat([frame[:50], frame[50:].with_columns(pl.col("d0").cast(pl.Float32).cast(pl.Float64))])
    for name in ("polars", "duckdb", "dask"):
        assert count(f"{tmp_path}/*.parquet", engine=name) == plainly(rounded)


@pytest.mark.parametrize("mark", [",", ";"])
def test_csv(mark: str, tmp_path: Path) -> None:
    frame = random_table(100, group=["1", "x"] * 50).to_frame()
    frame[:50].write_csv(tmp_path / "a.csv", separator=mark)
    frame[50:].write_csv(tmp_path / "b.csv", separator=mark)
    assert count([tmp_path / "a.csv", tmp_path / "b.csv"]) == plainly(frame)
    for name in ("duckdb", "dask", "spark"):
        told = f"{name} reads Parquet; found {tmp_path}/a.csv: CSV is read by polars, so leave the engine out"
        assert refusal(tmp_path / "a.csv", engine=name) == told


def test_votes_of_triplets_that_a_column_names() -> None:
    votes = {"choice": [1, 0, 1, 1], "triplet": list("stst"), "d0": [0.1, 0.2, 0.1, 0.2], "d1": [0.2, 0.2, 0.2, 0.2]}
    frame = pl.DataFrame(votes)
    assert count(frame) == plainly(frame)
    assert [note[:30] for note in count(frame)["distance"].vote_notes] == ["single votes were merged into "]


def test_votes_that_nothing_identifies_are_triplets_with_one_vote() -> None:
    frame = pl.DataFrame({"choice": [1, 0, 1], "d0": [0.1, 0.1, 0.1], "d1": [0.2, 0.2, 0.2]})
    assert count(frame) == plainly(frame)
    told = "votes that nothing identifies (ref, x0, x1 or triplet) were counted as triplets with M = 1"
    assert count(frame)["distance"].vote_notes == [told]


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two sound parts, to be spoiled."""
    monkeypatch.chdir(tmp_path)
    for name, seed in {"a": 1, "b": 2}.items():
        random_table(50, seed=seed, group=["g"] * 50, ref=["r"] * 50).write(tmp_path / f"{name}.parquet")
    return tmp_path


def test_a_part_that_is_cut_short_is_named(two: Path) -> None:
    whole = (two / "b.parquet").read_bytes()
    for length in (0, 3, len(whole) // 2, len(whole) - 1):
        (two / "b.parquet").write_bytes(whole[:length])
        assert refusal("*.parquet").startswith("b.parquet: not a readable Parquet file: ")
        with pytest.raises(DataError, match=r"^b\.parquet: not a readable Parquet file: "):
            rows_in(find_parts("*.parquet"))


@LOCAL
def test_a_part_whose_pages_are_spoiled_is_named(two: Path, name: str) -> None:
    whole = bytearray((two / "b.parquet").read_bytes())
    whole[4 : len(whole) // 2] = b"\xff" * (len(whole) // 2 - 4)
    (two / "b.parquet").write_bytes(whole)
    assert refusal("*.parquet", engine=name).startswith("b.parquet: not a readable Parquet file: ")


def test_a_part_without_a_column_is_named(two: Path) -> None:
    pl.read_parquet(two / "a.parquet").drop("d1").write_parquet(two / "b.parquet")
    assert refusal("*.parquet") == "b.parquet has no column d1, which the others have"
    pl.read_parquet(two / "a.parquet").with_columns(pl.col("n").cast(pl.String)).write_parquet(two / "b.parquet")
    assert refusal("*.parquet") == "b.parquet: n must be a number; the column has type String"


@pytest.mark.parametrize("name", ["polars", "duckdb"])
@pytest.mark.parametrize(
    ("column", "value", "told"),
    [
        ("n", 9, r"n must lie in \[0, M\]; row 7 has n=9, M=\d \(1 of 50 rows\)"),
        ("n", 0.5, r"n must be a whole number; row 7 has n=0\.5 \(1 of 50 rows\)"),
        ("M", 0, r"M must be at least 1; row 7 has M=0 \(1 of 50 rows\)"),
        ("M", None, r"M must not be missing; row 7 has no M \(1 of 50 rows\)"),
        ("d0", -0.5, r"d0 must be at least 0 to be counted; row 7 has d0=-0\.5 \(1 of 50 rows\)"),
        ("d1", np.nan, r"d1 must be finite; row 7 has d1=nan \(1 of 50 rows\)"),
        ("d1", np.inf, r"d1 must be finite; row 7 has d1=inf \(1 of 50 rows\)"),
        ("d1", None, r"d1 must not be missing; row 7 has no d1 \(1 of 50 rows\)"),
        ("group", None, r"group must not be missing; row 7 has no group \(1 of 50 rows\)"),
        ("group", "all", r"a group must not be named all or mean \(names of summary rows\); row 7 has group='all' .*"),
        ("ref", None, r"ref must not be missing; row 7 has no ref \(1 of 50 rows\)"),
    ],
)
def test_a_row_that_breaks_a_rule_is_named_with_its_part(
    two: Path, name: str, column: str, value: Any, told: str
) -> None:
    frame = pl.read_parquet(two / "b.parquet")
    values = [value if row == 7 else old for row, old in enumerate(frame[column].to_list())]
    spoiled = frame.with_columns(pl.Series(column, values, strict=False))
    spoiled.write_parquet(two / "b.parquet")
    assert re.fullmatch(f"b\\.parquet: {told}", refusal("*.parquet", engine=name, keep_refs=column == "ref"))
    if name == "polars" and column != "ref":
        said = re.sub(r" (\.\*|\\\(1 of 50 rows\\\))$", "", told.replace("row 7", "a row"))
        assert re.fullmatch(said, refusal(spoiled.lazy()))


def test_dask_names_the_row_too(two: Path) -> None:
    frame = pl.read_parquet(two / "b.parquet")
    frame.with_columns(d1=pl.when(pl.int_range(50) == 7).then(np.nan).otherwise("d1")).write_parquet(two / "b.parquet")
    told = "b.parquet: d1 must be finite; row 7 has d1=nan (1 of 50 rows)"
    assert refusal("*.parquet", engine="dask") == told


@pytest.mark.parametrize(("apart", "alike"), [((0, 0.45, -0.45), True), ((0, 0.9, -0.9), False)])
def test_one_rule_says_what_rounding_is_whatever_the_order_of_votes(
    apart: tuple[float, ...], alike: bool, tmp_path: Path
) -> None:
    names = {"ref": ["r"] * 3, "x0": ["a", "b", "a"], "x1": ["b", "a", "b"]}
    small, large = [1e-12, 2e-12, 1e-12], [2 * (1 + 1e-9 * e) for e in apart]
    d0, d1 = ([a, b, c] for (a, _, c), (_, b, _) in ((small, large), (large, small)))
    for order in map(list, permutations(range(3))):
        votes = pl.DataFrame({"choice": [0, 1, 0], **names, "d0": d0, "d1": d1})[order]
        votes.write_parquet(tmp_path / "votes.parquet")
        weighted = votes.with_columns(weight=pl.Series(large)[order], d0=0.1, d1=0.1)
        measured = votes.drop("choice").rename({"d0": "my_d0", "d1": "my_d1"})
        shown = pl.DataFrame({"ref": ["r"] * 3, "x": ["a"] * 3, "my_d": large})[order]
        for read, *tables in (
            (Triplets.from_frame, votes),
            (Triplets.from_frame, weighted),
            (count, votes),
            (partial(count, engine="duckdb"), tmp_path / "votes.parquet"),
            (join_columns, names, measured),
            (join_columns, {"ref": ["r"], "x": ["a"]}, shown),
        ):
            with nullcontext() if alike else pytest.raises(DataError, match=r"must have the same|must agree"):
                read(*tables)


@pytest.mark.slow
def test_votes_on_one_triplet_have_the_same_distances(two: Path) -> None:
    votes = {
        "choice": [0, 1],
        "ref": ["r", "r"],
        "x0": ["a", "a"],
        "x1": ["b", "b"],
        "d0": [0.1, 0.2],
        "d1": [0.3, 0.3],
    }
    told = "votes on one triplet must have the same distances (distance); ref='r', x0='a', x1='b' has 0.1 and 0.2"
    assert refusal(pl.DataFrame(votes)) == told
    other = {**votes, "x0": ["a", "b"], "x1": ["b", "a"], "d0": [0.1, 0.3], "d1": [0.3, 0.2]}  # turned
    pl.DataFrame(other).write_parquet(two / "votes.parquet")
    for name in ("polars", "duckdb", "dask"):
        assert refusal("votes.parquet", engine=name) == f"votes.parquet: {told}"
    pl.DataFrame(votes).rename({"d0": "b_d0", "d1": "b_d1"}).with_columns(
        a_d0=pl.Series([1e9, 1e9 + 0.9]), a_d1=0.4
    ).write_parquet("v.parquet")  # those of a are alike but for rounding
    assert refusal("v.parquet") == f"v.parquet: {told.replace('(distance)', '(b)')}"
    assert refusal(pl.DataFrame({**votes, "d0": [0.1, 0.1], "choice": [0, 2]})) == (
        "choice must be 0 or 1; a row has choice=2"
    )


def test_a_cell_of_a_csv_that_is_no_number_is_named(two: Path) -> None:
    frame = pl.read_parquet(two / "a.parquet").with_columns(pl.col("d1").cast(pl.String))
    frame.with_columns(d1=pl.when(pl.int_range(pl.len()) == 4).then(pl.lit("far")).otherwise("d1")).write_csv("c.csv")
    assert refusal("c.csv") == "c.csv: d1 must be a number; row 4 has d1='far' (1 of 50 rows)"


def test_what_is_no_table_is_refused(two: Path) -> None:
    numbered = pd.DataFrame({0: [1], "n": [1], "M": [2], "d0": [0.1], "d1": [0.2]})
    assert refusal(numbered) == "names of columns must be text; found 0"
    Path("c.csv").write_text("n,M,d0,d1\n1,2,0.1,0.2\n")
    Path("d.txt").write_text("")
    for source, told in {
        "c/*.parquet": "no file matches c/*.parquet",
        "c.parquet": "no such file: c.parquet",
        "d.txt": "a table must be one of .csv, .csv.gz, .tsv, .parquet, .pq; found d.txt",
        ("a.parquet", "c.csv"): "parts must be all Parquet or all CSV; found a.parquet and others",
        ("a.parquet", "a.parquet"): "a part must be named once; a.parquet and a.parquet are one file",
    }.items():
        assert refusal(source) == told
    assert refusal([], ValueError) == "name at least one file of votes"
    assert refusal("a.parquet", ValueError, engine="sql") == "no engine 'sql'; there are polars, duckdb, dask, spark"
    frame = pl.read_parquet("a.parquet")
    assert (
        refusal(frame, ValueError, engine="duckdb")
        == "the engine is chosen for files only; a frame is counted by its own"
    )
    assert refusal(3, TypeError) == "a table must be a path, a pattern, a list of paths or a frame; found int"
    assert refusal(frame, distances=["ssim"]) == "no distance 'ssim' in the table; it has distance"
    told = refusal(frame, ValueError, distances="distance")
    assert told == "distances must be a list of names; found the text 'distance'"
    assert refusal("a.parquet", distances=["ssim"]) == "a.parquet: no distance 'ssim' in the table; it has distance"
    assert refusal(frame.drop("d0", "d1")).startswith(
        "no distance in the table; expected columns d0 and d1, or NAME_d0 and NAME_d1; found triplet, group, ref"
    )
    assert refusal(frame.drop("ref"), keep_refs=True).startswith("keeping refs requires a column ref; found ")
    assert refusal(frame.clear()) == "the table has no rows"
    unready = pl.LazyFrame({"n": [1], "M": [2], "d0": [0.1], "d1": [0.2]}).with_columns(
        pl.col("d0").map_batches(_spoil, return_dtype=pl.Float64)
    )
    assert refusal(unready).startswith("polars could not count the table: ")


def _spoil(_: pl.Series) -> pl.Series:
    raise OSError("the line is down")


def test_an_engine_that_is_not_installed(two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, module, extra in (
        ("duckdb", "duckdb", "cluster"),
        ("dask", "dask.dataframe", "cluster"),
        ("spark", "pyspark.sql", "spark"),
    ):
        monkeypatch.setitem(sys.modules, module, None)
        told = f"{module} is not installed; run: pip install 'twoafc[{extra}]'"
        assert refusal("a.parquet", ImportError, engine=name) == told


def test_the_number_of_rows_is_known_without_reading_them(two: Path) -> None:
    assert rows_in(["a.parquet", "b.parquet"]) == 100
    Path("c.csv").write_text("n,M\n")
    assert rows_in(["c.csv"]) is None
    assert rows_in(["s3://votes/a.parquet"]) is None


def test_progress_counts_rows(two: Path) -> None:
    told: list[tuple[int, int, str]] = []
    count("*.parquet", progress=lambda *said: told.append(said))
    assert told[-1] == (100, 100, "rows")
