"""Every planted mistake is found; clean tables have no findings."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import twoafc
from conftest import random_table
from mistakes import LABELS, Frames, check_frames, flipped, simulated
from twoafc import Finding, Pairs, Triplets, check, worlds
from twoafc.cli import main

# Clean tables


def test_clean_tables_give_one_note(material: tuple[Triplets, Triplets]) -> None:
    (finding,) = check(*material)
    assert finding == Finding(
        "shared_references",
        "note",
        "both",
        None,
        "train and test share references: a narrow kernel can memorise stimuli",
        "100 of 100 references of test are in train (alum-bronze, alumina-oxide, aluminium and 97 more), "
        "in 3000 of 3000 (100.0 %) rows",
        "the scores are for new triplets of these references; for new references split by reference "
        "(one table: --folds does so)",
        "100 of 100 references of test are also in train: scores are for new triplets of these, not for new references",
    )
    assert [check(table) for table in material] == [[], []]


@pytest.mark.parametrize("rows", [20, 100, 400])
def test_small_parts_of_real_tables_give_no_finding(frames: Frames, rows: int) -> None:
    for seed in range(8):
        train, test = (frame.sample(rows, seed=seed) for frame in frames.values())
        assert check_frames(train, test) == []
        assert check_frames(train.drop(LABELS), test.drop(LABELS)) == []


@pytest.mark.parametrize("world", ["weber", "thurstone", "sqrt_noise", "saturating"])
@pytest.mark.parametrize("distances", ["lognormal", "uniform", "heavy", "discrete"])
def test_simulated_worlds_give_no_finding(world: str, distances: str) -> None:
    for seed in range(3):
        for T in (20, 100, 2000):
            for references in (None, T // 10):
                options = {"votes": [2, 3], "distances": distances, "references": references, "lapse": 0.1 * seed}
                tables = [simulated(world, triplets=T, seed=2 * seed + k, **options) for k in (0, 1)]
                findings = [finding for finding in check(*tables) if finding.code not in ("shared_references", "ties")]
                assert findings == []


def test_a_useless_distance_is_called_so_or_shuffled_never_flipped() -> None:
    for seed in range(20):
        for references in (None, 200):
            findings = check(simulated("useless", triplets=4000, votes=3, references=references, seed=seed))
            assert [finding.code for finding in findings] in ([], ["shuffled"])
            assert all("its rows are shuffled, or it is useless" in finding.message for finding in findings)
        assert check(simulated("useless", triplets=100, votes=3, seed=seed)) == []
    assert sum(len(check(simulated("useless", triplets=4000, votes=3, seed=seed))) for seed in range(20)) >= 18


def test_a_distance_that_turns_round_is_not_called_flipped() -> None:
    frame = worlds.simulate("turning", triplets=20_000, votes=3, distances="uniform", seed=1)
    (finding,) = check_frames(frame.filter(pl.col("d0") + pl.col("d1") > 1.2))
    assert (finding.code, finding.level) == ("turning", "note")
    assert finding.message == (
        "distance agrees with the votes in one part of its range and disagrees in another: no flip explains that"
    )


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 999))
def test_the_order_of_rows_is_irrelevant_and_nothing_is_changed(seed: int) -> None:
    table = random_table(300, seed=seed % 7, ref=[f"{k % 40}" for k in range(300)], group=list("abc") * 100)
    before = table.to_frame()
    again = table.where(np.random.default_rng(seed).permutation(300))
    assert [finding.code for finding in check(table)] == [finding.code for finding in check(again)]
    assert table.to_frame().equals(before)


numbers = st.one_of(
    st.sampled_from([0.0, -0.0, 0.5, 1.0, 1e-300, 1e308, -1e308, 5e-324]), st.floats(-1e308, 1e308), st.floats(0, 1)
)


@st.composite
def tables(draw: st.DrawFn, distances: int) -> Triplets:
    """Any valid table."""
    T = draw(st.sampled_from([1, 2, 7, 40, 120]))
    M = draw(st.lists(st.integers(1, 5), min_size=T, max_size=T))
    columns: dict[str, Any] = {"n": [draw(st.integers(0, m)) for m in M], "M": M}
    pool = draw(st.lists(numbers, min_size=1, max_size=12))
    rng = np.random.default_rng(draw(st.integers(0, 9)))
    for k in range(distances):
        columns |= {f"{k}_d0": rng.choice(pool, T), f"{k}_d1": rng.choice(pool, T)}
    for name in draw(st.sets(st.sampled_from(["group", "ref", "x0", "x1", "observer"]))):
        columns[name] = rng.choice(list("abc"), T)
    return Triplets.from_frame(columns)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 3))
def test_any_valid_table_can_be_checked(data: st.DataObject, distances: int) -> None:
    train, test = (data.draw(tables(distances)) for _ in range(2))
    for findings in (check(train), check(train, test)):
        assert all("\n" not in str(finding) and "nan" not in str(finding) for finding in findings)
        levels = [finding.level for finding in findings]
        assert levels == sorted(levels, reverse=True)


def test_extreme_numbers() -> None:
    rng = np.random.default_rng(0)
    for scale in (1e308, 1e-308, 5e-324):
        sides = {f"{name}_d{k}": scale * rng.uniform(-1, 1, 100) for name in "ab" for k in (0, 1)}
        table = Triplets.from_frame({"n": rng.integers(0, 2, 100), "M": [1] * 100, **sides})
        assert {finding.code for finding in check(table, table)} <= {"negative", "shared_triplets", "ties", "constant"}


def pairs(seed: int, **distances: Any) -> Pairs:
    n, d = np.random.default_rng(seed).random((2, 500))
    labels = pl.DataFrame({name: [f"{seed} {name} {row}" for row in range(500)] for name in ("pair", "ref", "x")})
    distances = {"d": (d,)} | {name: (change(d),) for name, change in distances.items()}
    return Pairs((3 * n).astype(int), np.full(500, 3), distances, labels)


def test_similarities_and_flipped_votes_of_pairs_are_found() -> None:
    d = pairs(0).distances["d"][0]
    n = np.random.default_rng(1).binomial(3, 1 / (1 + np.exp(6 * (d - 0.5))))
    assert check(replace(pairs(0), n=n)) == []
    (finding,) = check(replace(pairs(0, likeness=lambda d: 1 / (1 + d)), n=n))
    assert (finding.code, finding.level, finding.distance) == ("direction", "warning", "likeness")
    assert finding.message == "likeness is a similarity: more people see no difference at large values"
    table = pairs(0)
    (flipped,) = check(replace(table, n=table.M - n))
    assert flipped.message.startswith("the votes are flipped (n must count same), or ")
    (all_same,) = check(replace(table, n=table.M))
    assert all_same.message == "all votes are same: no distance can explain much"
    (none_same,) = check(replace(table, n=0 * table.n))
    assert none_same.message == "all votes are different: no distance can explain much"


def test_checks_that_do_not_need_two_distances_take_pairs() -> None:
    assert check(pairs(0), pairs(1)) == []
    train = pairs(0, half=lambda d: 0 * d + 0.5, root=lambda d: 255 * d**0.5, minus=lambda d: -d, again=lambda d: d)
    findings = check(train, pairs(1, root=lambda d: d**0.5))
    assert {(finding.code, finding.distance) for finding in findings} == {
        ("constant", "half"),
        ("negative", "minus"),
        ("twins", "again"),
        ("units", "root"),
    }
    finding, note = check(pairs(0), pairs(0))
    assert finding.message == "test pairs must be new; some are also in the training table"
    assert finding.evidence.startswith(
        "500 of 500 (100.0 %) test rows are in train by their names; first in test row 0 ("
    )
    assert note.code == "shared_references"
    unnamed = replace(pairs(0), labels=pairs(0).labels.select("pair"))
    (finding,) = check(unnamed, unnamed)
    assert "by all of their distances" in finding.evidence
    single = Pairs.from_frame({"n": [1], "M": [2], "d": [0.5]})
    (finding,) = check(single, single)
    assert finding.code == "shared_triplets"


def test_it_takes_less_than_a_second() -> None:
    rng = np.random.default_rng(0)

    def table(T: int, M: int, role: str) -> Triplets:
        d = np.exp(rng.normal(size=(2, T)))
        columns: dict[str, Any] = {"n": rng.binomial(M, d[0] / d.sum(axis=0)), "M": np.full(T, M)}
        for k in range(6):
            columns |= dict(zip((f"{k}_d0", f"{k}_d1"), d * np.exp(0.3 * rng.normal(size=(2, T))), strict=True))
        names = {name: [f"{role}/{name}/{t:06}" for t in range(T)] for name in ("ref", "x0", "x1")}
        return Triplets.from_frame(columns | names)

    tables = table(151_400, 2, "train"), table(36_344, 5, "val")
    start = time.process_time()
    assert [finding.code for finding in check(*tables)] == ["unlike_votes"]
    assert time.process_time() - start < 1


# The command


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    simulated("weber", triplets=400, votes=2, seed=1).write("train.csv")
    simulated("weber", triplets=200, votes=2, seed=2).write("test.csv")
    frame = pl.read_csv("test.csv")
    flipped(frame).write_csv("flipped.csv")
    pl.concat([frame, frame[:3]]).write_csv("twice.csv")
    return tmp_path


def test_the_command_prints_findings_and_exits_by_them(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", "train.csv", "--test", "test.csv", "--strict"])
    train, test, looked, note = capsys.readouterr().out.splitlines()
    assert train == "train: 400 triplets, 800 votes, M = 2, distances: distance"
    assert test == "test: 200 triplets, 400 votes, M = 2, distances: distance"
    assert looked.startswith("Nothing wrong was found; looked for flipped votes, similarities, shuffled rows, ")
    assert note.startswith("note: test: error bars take triplets as independent: the table has no column ref; ")
    main(["check", "flipped.csv"])
    said = capsys.readouterr().out
    assert said.count("\n") == 2  # the warning, and that no references are known
    assert said.startswith(
        "warning: train, distance: the votes are flipped (n must count x1), or distance is a similarity"
    )
    with pytest.raises(SystemExit) as caught:
        main(["check", "flipped.csv", "--strict"])
    assert caught.value.code == 1
    assert capsys.readouterr().out == said


def test_the_command_prints_json(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", "train.csv", "--test", "twice.csv", "--json"])
    (record,) = json.loads(capsys.readouterr().out)
    findings = check(Triplets.read("train.csv"), Triplets.read("twice.csv"))
    assert [Finding(**record)] == findings
    main(["check", "train.csv", "--json"])
    assert json.loads(capsys.readouterr().out) == []


def test_the_command_reports_a_missing_file_in_one_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["check", "nosuch.csv"])
    assert caught.value.code == 2
    assert capsys.readouterr().err == "twoafc: no such file: nosuch.csv\n"


def test_warnings_come_first() -> None:
    table = simulated("weber", triplets=1000, votes=2, seed=1)
    test = simulated("weber", triplets=1000, votes=5, seed=2).to_frame()
    findings = twoafc.check(table, Triplets.from_frame(changed_unnamed(test, 100.0)))
    assert [(finding.code, finding.level) for finding in findings] == [("units", "warning"), ("unlike_votes", "note")]


def changed_unnamed(frame: pl.DataFrame, factor: float) -> pl.DataFrame:
    return frame.with_columns(pl.col("d0", "d1") * factor)
