"""`twoafc count` and `twoafc merge`: only counts travel, and what must not be added is refused."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import twoafc
from commands import refused
from conftest import random_table
from counting import tally
from twoafc.cli import main
from twoafc.scale import Counts, carried_by, fit_counts
from twoafc.table import Triplets


@pytest.fixture(autouse=True)
def sites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two sites' votes, each counted where it lies, and all votes in one table."""
    monkeypatch.chdir(tmp_path)
    tables = [random_table(300, seed=seed, ref=[f"r{t % 7}" for t in range(300)]) for seed in (1, 2)]
    for name, table in zip("ab", tables, strict=True):
        table.write(f"{name}.parquet")
        main(["count", f"{name}.parquet", "--out", name, "--keep-refs", "--quiet"])
    pl.concat(table.to_frame() for table in tables).write_parquet("all.parquet")
    return tmp_path


def test_counts_of_sites_are_the_counts_of_all_votes(capsys: pytest.CaptureFixture[str]) -> None:
    main(["merge", "a/distance.npz", "b/distance.npz", "--out", "ab.npz"])
    table = Triplets.read("all.parquet")
    assert Counts.load("ab.npz") == tally(table, keep_refs=True)
    assert capsys.readouterr().out == f"ab.npz: 600 triplets, {table.M.sum():,} votes of 2 files (distance)\n"
    assert sorted(path.name for path in Path().iterdir()) == [
        "a",
        "a.parquet",
        "ab.npz",
        "all.parquet",
        "b",
        "b.parquet",
    ]


def test_count_tells_what_it_wrote(capsys: pytest.CaptureFixture[str]) -> None:
    main(["count", "[ab].parquet", "--out", "new/counts", "--per-octave", "64", "--json"])
    told = json.loads(capsys.readouterr().out)
    counts = Counts.load("new/counts/distance.npz")
    assert counts == tally(Triplets.read("all.parquet"), per_octave=64)
    assert told == [
        {
            "file": "new/counts/distance.npz",
            "distance": "distance",
            "triplets": 600,
            "votes": counts.votes,
            "cells": len(counts.cells),
        }
    ]
    pl.DataFrame({"choice": [1, 0], "d0": [0.1, 0.1], "d1": [0.2, 0.2]}).write_csv("v.csv")
    main(["count", "v.csv", "--out", "v"])
    assert capsys.readouterr().out.endswith(
        "note: votes that nothing identifies (ref, x0, x1 or triplet) were counted as triplets with M = 1\nCounts: v\n"
    )


def test_merge_says_where_refs_are_lost_and_speaks_json(capsys: pytest.CaptureFixture[str]) -> None:
    main(["count", "b.parquet", "--out", "plain", "--quiet"])
    capsys.readouterr()
    main(["merge", "a/distance.npz", "plain/distance.npz", "--out", "ab.npz"])
    note = "note: not all files kept their refs; error bars of the sum are not clustered"
    assert capsys.readouterr().out.splitlines()[0] == note
    main(["count", "a.parquet", "--out", "a plain", "--quiet"])
    capsys.readouterr()
    main(["merge", "a plain/distance.npz", "plain/distance.npz", "--out", "ab.npz"])
    assert capsys.readouterr().out.startswith("ab.npz: 600 triplets")  # nothing was lost that none had
    main(["merge", "a/distance.npz", "plain/distance.npz", "--out", "ab.npz", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert (told["file"], told["kind"], told["triplets"], len(told["parts"])) == ("ab.npz", "counts", 600, 2)
    main(["merge", "a/distance.npz", "plain/distance.npz", "--out", "ab.npz", "--quiet"])
    assert capsys.readouterr().out == ""


def test_votes_are_merged_once(capsys: pytest.CaptureFixture[str]) -> None:
    twice = ["merge", "a/distance.npz", "a/distance.npz", "--out", "aa.npz"]
    assert refused(capsys, *twice) == (
        "votes must be merged only once; a/distance.npz has counts that are already in a/distance.npz"
    )
    main(["merge", "a/distance.npz", "b/distance.npz", "--out", "a/distance.npz"])
    before = Path("a/distance.npz").read_bytes()
    assert refused(capsys, "merge", "a/distance.npz", "b/distance.npz", "--out", "a/distance.npz") == (
        "votes must be merged only once; b/distance.npz has counts that are already in a/distance.npz"
    )
    assert Path("a/distance.npz").read_bytes() == before
    assert not Path("aa.npz").exists()


def test_models_that_carry_counts_are_fitted_anew_to_the_sum(capsys: pytest.CaptureFixture[str]) -> None:
    d0, d1 = np.random.default_rng(0).uniform(0, 3, (2, 50))
    for name in "ab":
        fit_counts(twoafc.Density(sigma=0.1), Counts.load(f"{name}/distance.npz")).save(f"{name}.npz")
    main(["merge", "a.npz", "b.npz", "--out", "ab.npz", "--json"])
    assert json.loads(capsys.readouterr().out)["kind"] == "density"
    whole = fit_counts(twoafc.Density(sigma=0.1), tally(Triplets.read("all.parquet"), keep_refs=True))
    np.testing.assert_array_equal(twoafc.load("ab.npz").probability(d0, d1), whole.probability(d0, d1))
    assert refused(capsys, "merge", "ab.npz", "b.npz", "--out", "abb.npz") == (
        "votes must be merged only once; b.npz has counts that are already in ab.npz"
    )


def test_counts_of_new_votes_update_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    fit_counts(twoafc.Density(sigma=0.1), Counts.load("a/distance.npz")).save("model.npz")
    for files in (["model.npz", "b/distance.npz"], ["b/distance.npz", "model.npz"]):
        main(["merge", *files, "--out", "new.npz", "--json"])
        assert json.loads(capsys.readouterr().out)["kind"] == "density"
        whole = fit_counts(twoafc.Density(sigma=0.1), tally(Triplets.read("all.parquet"), keep_refs=True))
        new = twoafc.load("new.npz")
        d0, d1 = np.random.default_rng(0).uniform(0, 3, (2, 50))
        np.testing.assert_array_equal(new.probability(d0, d1), whole.probability(d0, d1))
        assert carried_by(new) == carried_by(whole)
    assert refused(capsys, "merge", "new.npz", "b/distance.npz", "--out", "new.npz") == (
        "votes must be merged only once; b/distance.npz has counts that are already in new.npz"
    )
    fit_counts(twoafc.Density(sigma=0.2), Counts.load("b/distance.npz")).save("other.npz")
    assert refused(capsys, "merge", "model.npz", "other.npz", "--out", "new.npz").startswith(
        "only models with equal settings can be merged; model.npz is Density(sigma=0.1, "
    )


def counted(out: str, votes: Any, name: str = "votes.parquet") -> str:
    """Count some votes that come in a file of their own."""
    pl.DataFrame(votes).write_parquet(name)
    main(["count", name, "--out", out, "--quiet"])
    return f"{out}/distance.npz"


def test_different_votes_of_small_sites_may_fall_into_the_same_cells(capsys: pytest.CaptureFixture[str]) -> None:
    one = counted("one", {"n": [1], "M": [1], "d0": [0.5], "d1": [0.25]})
    two = counted("two", {"n": [1], "M": [1], "d0": [0.5], "d1": [0.25], "day": [2]})
    copy = counted("copy", {"n": [1], "M": [1], "d0": [0.5], "d1": [0.25], "day": [2]}, "renamed.parquet")
    main(["merge", one, two, "--out", "sum.npz"])
    assert capsys.readouterr().out == (
        f"note: {one} and {two} have the same cells, from different files; the same votes would be counted twice\n"
        "sum.npz: 2 triplets, 2 votes of 2 files (distance)\n"
    )
    twice = "votes must be merged only once; {} has counts that are already in {}"
    assert refused(capsys, "merge", two, copy, "--out", "sum.npz") == twice.format(copy, two)
    assert refused(capsys, "merge", "sum.npz", copy, "--out", "sum.npz") == twice.format(copy, "sum.npz")
    # Counted from a frame, they could be any votes; as many cells are the same by no chance.
    tally(Triplets.read("votes.parquet")).save("frame.npz")
    assert refused(capsys, "merge", one, "frame.npz", "--out", "sum.npz") == twice.format("frame.npz", one)
    pl.read_parquet("a.parquet").write_csv("a.csv")
    main(["count", "a.csv", "--out", "csv", "--quiet"])
    again = ("a/distance.npz", "csv/distance.npz")
    assert refused(capsys, "merge", *again, "--out", "sum.npz") == twice.format(*again[::-1])


def test_files_that_share_a_part_hold_the_same_votes(capsys: pytest.CaptureFixture[str]) -> None:
    main(["count", "a.parquet", "b.parquet", "--out", "both", "--quiet"])
    assert refused(capsys, "merge", "both/distance.npz", "b/distance.npz", "--out", "sum.npz") == (
        "votes must be merged only once; b/distance.npz has counts that are already in both/distance.npz"
    )


def test_evaluate_counts_no_votes_twice(capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy("a/distance.npz", "a/again.npz")
    assert refused(capsys, "evaluate", "--train", "a/*.npz", "--test", "b/distance.npz", "--out", "out") == (
        "votes must be merged only once; a/distance.npz has counts that are already in a/again.npz"
    )


def test_single_votes_are_told_of_wherever_their_counts_go(capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    votes = pl.DataFrame({"ref": [f"r{t // 3}" for t in range(90)], "x0": "a", "x1": "b"}).with_columns(
        choice=rng.integers(0, 2, 90), d0=np.repeat(rng.lognormal(size=30), 3), d1=np.repeat(rng.lognormal(size=30), 3)
    )
    split = votes.sample(fraction=1, shuffle=True, seed=0)
    split[:45].write_parquet("one.parquet")
    split[45:].drop("ref").write_parquet("two.parquet")
    merged = (
        "note: single votes were merged into triplets before they were counted: votes on one triplet must be counted "
        "together, because merging counts treats them as separate triplets"
    )
    alone = "note: votes that nothing identifies (ref, x0, x1 or triplet) were counted as triplets with M = 1"
    for name, note in {"one": merged, "two": alone}.items():
        main(["count", f"{name}.parquet", "--out", name])
        assert capsys.readouterr().out.splitlines()[-2:] == [note, f"Counts: {name}"]
    main(["merge", "one/distance.npz", "two/distance.npz", "--out", "sum.npz"])
    assert capsys.readouterr().out.splitlines()[:2] == [alone, merged]
    main(["evaluate", "--train", "sum.npz", "--test", "two/distance.npz", "--out", "out", "--estimator", "density"])
    assert {merged, alone} <= {*capsys.readouterr().out.splitlines()}
    data = json.loads(Path("out/scores.json").read_text())["card"]["data"]
    assert (data["train"]["rows"], data["test"]["rows"]) == ("unidentified votes and votes", "unidentified votes")
    assert carried_by(twoafc.load("out/models/distance-density.npz"))[1].rows == ("unidentified votes", "votes")
    assert Counts.load("sum.npz").coarser().rows == ("unidentified votes", "votes")


def test_what_cannot_be_merged_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, "merge", "votes.csv", "votes.npz", "--out", "both.npz") == (
        "votes.csv is a table; count it first (twoafc count)"
    )
    main(["count", "b.parquet", "--out", "fine", "--per-octave", "256", "--quiet"])
    twoafc.Density().fit(Triplets.read("a.parquet")).save("plain.npz")
    fit_counts(twoafc.Density(), Counts.load("a/distance.npz")).save("model.npz")
    Path("other.npz").write_bytes(b"PK")
    a = "a/distance.npz"
    for files, told in {
        (a, "fine/distance.npz"): (
            "only counts on one lattice can be merged; a/distance.npz has 128 bins per octave, fine/distance.npz 256: "
            "count one of them again, or make the finer ones coarser (Counts.coarser)"
        ),
        (a, "model.npz"): "votes must be merged only once; a/distance.npz has counts that are already in model.npz",
        ("b/distance.npz", "plain.npz"): "only models fitted to counts can be merged; plain.npz carries none: .*",
        ("model.npz", "plain.npz"): ("only models fitted to counts can be merged; plain.npz carries none: .*"),
        (a, "other.npz"): "other.npz is not a readable twoafc model: .*",
        (a, "none.npz"): "no such file: none.npz",
        (a,): "name two files to merge, or more; found 1",
    }.items():
        said = refused(capsys, "merge", *files, "--out", "out.npz")
        assert re.fullmatch(told if told.endswith(".*") else re.escape(told), said)
    assert refused(capsys, "merge", a, a, "--out", "out.csv") == (
        "merged counts and models are written as .npz; found out.csv"
    )
    assert refused(capsys, "merge", a, a, "--out", "none/out.npz") == "no such folder: none"
    assert refused(capsys, "count", "--out", "c") == "name at least one table of votes, or a pattern"
    assert refused(capsys, "count", "a.parquet", "--out", "c.npz") == (
        "counts are written to a folder, one file for each distance; c.npz is the name of a file"
    )
    assert refused(capsys, "count", "a.parquet", "--out", "a.parquet") == (
        "a.parquet is a file; counts are written to a folder"
    )
    assert not Path("out.npz").exists()


@pytest.mark.slow
def test_a_full_disk_leaves_the_old_file(sites: Path) -> None:
    main(["merge", "a/distance.npz", "b/distance.npz", "--out", "ab.npz", "--quiet"])
    before = Path("ab.npz").read_bytes()
    main(["count", "all.parquet", "--out", "all", "--per-octave", "256", "--quiet"])
    # No file may grow beyond 1 kB: what a full disk does, for one process alone.
    limit = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    limit += "resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024)); from twoafc.cli import main; "
    for command in (
        "['merge', 'a/distance.npz', 'b/distance.npz', '--out', 'ab.npz']",
        "['count', 'b.parquet', '--out', 'b']",
        "['count', 'b.parquet', '--out', 'new']",
        "['evaluate', '--train', 'a/distance.npz', '--test', 'b/distance.npz', '--out', 'results']",
    ):
        done = subprocess.run([sys.executable, "-c", f"{limit}main({command})"], capture_output=True, text=True)
        assert done.returncode == 2
        # The verdict is known before the files are written; where they are is said after.
        assert "Results:" not in done.stdout if "evaluate" in command else done.stdout == ""
        out = command.split("'")[-2]
        file = out if out.endswith(".npz") else f"{out}/scores.csv" if out == "results" else f"{out}/distance.npz"
        assert done.stderr.startswith(f"twoafc: {file} could not be written: File too large")
        assert done.stderr.count("\n") == 1
    assert Path("ab.npz").read_bytes() == before
    assert [path.name for path in Path("b").iterdir()] == ["distance.npz"]
    assert not list(sites.rglob("*.part"))
    assert not Path("new").exists()
    assert not Path("results").exists()


def test_votes_of_the_test_that_were_fitted_are_named() -> None:
    main(["merge", "a/distance.npz", "b/distance.npz", "--out", "ab.npz"])
    a, b, both = (Counts.load(f"{name}.npz") for name in ("a/distance", "b/distance", "ab"))
    seen = "votes of test are in train too: the scores are for votes that were fitted, not for new ones"
    for train, test, expected in ((both, b, True), (a, a, True), (a, b, False)):
        result = twoafc.evaluate({"distance": train}, {"distance": test}, estimators="density")
        assert (seen in result.caveats) == expected


def test_bins_that_are_too_wide_get_a_caution() -> None:
    rng = np.random.default_rng(0)
    d = 1000 + rng.random((2, 400))
    counts = twoafc.count({"n": rng.binomial(5, d[0] - 1000), "M": [5] * 400, "d0": d[0], "d1": d[1]})
    result = twoafc.evaluate(counts, folds=2, estimators="density")
    assert any("one bin contains" in caveat for caveat in result.caveats)
