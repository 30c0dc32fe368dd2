"""A run that is killed, starved, torn or doubled ends in the same table as one that is not."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import commands
import trees
import twoafc
from measuring import SELF, TRIED, TWICE, Interrupt, dataset, some_rows
from twoafc.cli import main
from twoafc.errors import DataError
from twoafc.measurement import is_changed, journal, make_candidates, run
from twoafc.measurement.journal import (
    NOTHING,
    Earlier,
    Journal,
    complete_rows,
    digest_of_traces,
    left_over,
    read_table,
    table_of,
    traces_as_text,
    write_table,
)
from twoafc.measurement.plan import Plan, plan_items

OWN = """
import os, time
from pathlib import Path
import numpy as np

def slow(ref, x):
    time.sleep(float(os.environ.get("TWOAFC_TEST_PAUSE", "0")) * len(ref))
    return abs(ref - x).mean(axis=(1, 2, 3), dtype=np.float64)

def trapped(ref, x):
    trap = Path("trap")
    if trap.exists() and (abs(x.mean(axis=(1, 2, 3)) - float(trap.read_text())) < 1e-9).any():
        raise RuntimeError("a trap\\nwith a second line")
    print("what is printed does not matter")
    with open("log.txt", "a") as log:
        log.write(f"{len(ref)}\\n")
    return slow(ref, x)

def dying(ref, x):
    if len(ref) > 1:
        os.kill(os.getpid(), 9)
    return slow(ref, x)

slow.takes = trapped.takes = dying.takes = "numpy"
"""
COMMAND = [sys.executable, "-m", "twoafc", "measure", "table.csv", "--device", "cpu", "--batch-size", "4"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "slow_distances", raising=False)
    (tmp_path / "slow_distances.py").write_text(OWN)
    return tmp_path


def measure(distances: Any, out: str = "t.parquet", **options: Any) -> Any:
    return twoafc.measure("table.csv", distances, out, **({"device": "cpu", "workers": 1, "batch_size": 4} | options))


def started(*arguments: str, pause: float = 0.004) -> subprocess.Popen[str]:
    environment = os.environ | {"TWOAFC_TEST_PAUSE": str(pause)}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*COMMAND, *arguments], env=environment, **pipes)


def parts() -> int:
    return len(list(Path().glob("t.parquet.parts/*.parquet")))


def wait_for_parts(more_than: int = 0) -> None:
    until = time.monotonic() + 60
    while parts() <= more_than and not Path("t.parquet").exists():
        assert time.monotonic() < until, "no part was written"
        time.sleep(0.01)


@pytest.mark.slow
def test_killed_ten_times_and_resumed(here: Path) -> None:
    trees.write_table(here, 60, sizes=(24, 24, 32))
    names = ["slow_distances:slow", "euclidean", "ssim"]
    asked = [word for name in names for word in ("--distance", name)]
    measure(names, "whole.parquet")
    rng = random.Random(0)
    for turn in range(10):
        before = parts()
        process = started(*asked, "--out", "t.parquet", "--workers", str(1 + turn % 2), pause=0.01)
        if turn % 3:  # at a moment when something new is on disk; else at any, while it starts too
            wait_for_parts(before)
        time.sleep(rng.uniform(0, 0.15 if turn % 3 else 0.8))
        process.send_signal(signal.SIGKILL)
        process.communicate()
    subprocess.run([*COMMAND, *asked, "--out", "t.parquet"], check=True, capture_output=True)
    assert pl.read_parquet("t.parquet").equals(pl.read_parquet("whole.parquet"))
    assert Path("t.parquet").read_bytes() == Path("whole.parquet").read_bytes()
    assert not Path("t.parquet.parts").exists()


def test_what_is_finished_is_not_measured_again(here: Path) -> None:
    trees.write_table(here, 40)
    data = twoafc.datasets.open_dataset("table.csv")
    image = data.images([30])[1]
    Path("trap").write_text(repr(float(image.mean(axis=(1, 2, 3))[0])))
    said = "^trapped raised RuntimeError: a trap, on triplet t30; values finished before it are kept$"
    with pytest.raises(ValueError, match=said):
        measure(["slow_distances:trapped"])
    Path("trap").unlink()
    kept = sum(len(pl.read_parquet(part)) for part in here.glob("t.parquet.parts/*.parquet"))
    assert 0 < kept < 40
    Path("log.txt").write_text("")
    found = measure(["slow_distances:trapped"])
    assert found.items == 40 - kept
    assert sum(map(int, Path("log.txt").read_text().split())) == 2 * (40 - kept + TRIED + TWICE) + SELF
    assert len(found.table) == 40


def test_a_damaged_part_is_measured_again(here: Path) -> None:
    trees.write_table(here, 12)
    for shard in (1, 2, 3):
        measure(["rmse"], shard=(shard, 3))
    parts = sorted(here.glob("t.parquet.parts/*.parquet"))
    assert len(parts) == 3
    parts[0].write_bytes(parts[0].read_bytes()[:-40])
    parts[1].write_bytes(b"")
    found = measure(["rmse"])
    assert found.items == 8
    assert found.notes == [
        f"{part.name} in t.parquet.parts was damaged; its values are measured again" for part in parts[:2]
    ]
    assert found.table.equals(measure(["rmse"], "u.parquet").table)


def test_a_part_damaged_anywhere_is_noticed(here: Path) -> None:
    trees.write_table(here, 12)
    measure(["rmse", "ssim"], shard=(1, 1), batch_size=12)
    (part,) = here.glob("t.parquet.parts/*.parquet")
    whole, rng = part.read_bytes(), random.Random(0)
    plan = plan_items(twoafc.datasets.open_dataset("table.csv"))
    chosen = make_candidates(["rmse", "ssim"], "cpu", "fp32")
    for turn in range(200):
        damaged, place = bytearray(whole), rng.randrange(len(whole))
        if turn % 10:
            damaged[place] ^= 1 << rng.randrange(8)
        else:
            del damaged[place:]
        part.write_bytes(damaged)
        journal = Journal(Path("t.parquet"), plan, chosen, {"rmse": [], "ssim": []}, NOTHING)
        journal.read()
        assert journal.notes == [f"{part.name} in t.parquet.parts was damaged; its values are measured again"]
        assert (journal.values, part.exists()) == ({}, False)
    part.write_bytes(whole)
    journal.read()
    assert not np.isnan(journal.of("ssim")).any()


def test_what_lies_in_the_place_of_a_part(here: Path) -> None:
    trees.write_table(here, 6)
    measure(["rmse"], shard=(1, 2))
    part = here / "t.parquet.parts" / f"000000000-{'0' * 32}.parquet"
    part.mkdir()
    (part / "mine").write_text("mine")
    found = measure(["rmse"])
    assert found.items == 2
    assert found.notes == [
        f"{part.name} in t.parquet.parts could not be read (a folder, not a file); its values are measured again"
    ]
    assert [path.name for path in part.parent.iterdir()] == [part.name]
    assert (part / "mine").read_text() == "mine"


def test_parts_of_another_run_are_not_used(here: Path) -> None:
    trees.write_table(here, 12)
    measure(["slow_distances:slow"], shard=(1, 2))
    Path("slow_distances.py").write_text(OWN + "# changed\n")
    sys.modules.pop("slow_distances")
    with pytest.raises(DataError, match=r"^slow in t\.parquet\.parts was measured differently: source sha256 .*, now "):
        measure(["slow_distances:slow"])
    trees.write_table(here, 13)
    with pytest.raises(DataError, match=r"^t\.parquet\.parts has parts of other data than these; finish that run, or"):
        measure(["rmse"])


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_files_of_another_format_are_refused(
    here: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trees.write_table(here, 6)
    monkeypatch.setattr(journal, "FORMAT", 99)
    monkeypatch.setattr(run, "FORMAT", 99)
    assert measure(["rmse"], name).card["format"] == 99
    measure(["euclidean"], "u.csv", shard=(1, 2))
    monkeypatch.undo()
    monkeypatch.chdir(here)
    refused = f"{name} is of format 99, this version reads 1: measure again, into another file"
    with pytest.raises(DataError, match=f"^{refused}$"):
        measure(["rmse"], name)
    assert commands.refused(capsys, "evaluate", "--train", name, "--folds", "2") == refused
    (part,) = Path("u.csv.parts").glob("*.parquet")
    with pytest.raises(DataError) as error:
        measure(["euclidean"], "u.csv")
    assert str(error.value) == (
        f"{part} is of format 99, this version reads 1: finish that run with the version that began it, or remove "
        "the folder"
    )
    assert part.exists()


def test_parts_of_other_distances_are_kept(here: Path) -> None:
    trees.write_table(here, 12)
    measure(["slow_distances:slow"], shard=(1, 2))
    found = measure(["rmse"])
    assert "slow_d0" not in found.table.columns
    assert found.notes == ["t.parquet.parts keeps the known values of rows or distances that are not in the table"]
    assert measure(["slow_distances:slow"]).items == 4
    assert not Path("t.parquet.parts").exists()


def test_two_runs_at_once(here: Path) -> None:
    trees.write_table(here, 60)
    asked = ["--distance", "slow_distances:slow", "--out", "t.parquet", "--workers", "1"]
    first = started(*asked, pause=0.05)
    wait_for_parts()
    second = started(*asked)
    _, said = second.communicate(timeout=20)
    assert second.returncode == 2
    assert said == "twoafc: another run is using t.parquet.parts; wait for it, or name another table\n"
    with pytest.raises(OSError, match="another run is using"):
        measure(["slow_distances:slow"], shard=(1, 2))
    first.kill()
    first.communicate()
    assert len(measure(["slow_distances:slow"]).table) == 60


def test_shards_may_run_at_once_but_not_one_shard_twice(here: Path) -> None:
    from twoafc.measurement.journal import locked

    folder = here / "t.parquet.parts"
    with locked(folder, (1, 2)), locked(folder, (2, 2)):
        with pytest.raises(OSError, match="another run is using"), locked(folder, (2, 2)):
            pass
        with pytest.raises(OSError, match="another run is using"), locked(folder):
            pass
    with locked(folder):
        assert folder.exists()
    assert not folder.exists()


def test_interrupted_by_hand(here: Path) -> None:
    trees.write_table(here, 60)
    process = started("--distance", "slow_distances:slow", "--out", "t.parquet", "--workers", "2", pause=0.05)
    wait_for_parts()
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=20)
    assert (process.returncode, out) == (130, "")
    assert said == "twoafc: interrupted; finished values are kept, and the same command resumes the run\n"
    assert list(here.glob("t.parquet.parts/*.parquet"))


@pytest.mark.parametrize("own", [False, True])
def test_an_interruption_between_two_blocks(here: Path, own: bool) -> None:
    trees.write_table(here, 24)
    interrupt = Interrupt()
    distance = {"mine": lambda ref, x: abs(ref - x).mean(axis=(1, 2, 3))} if own else ["rmse"]
    with pytest.raises(KeyboardInterrupt):
        measure(distance, progress=interrupt)
    assert interrupt.done == [0, 4, 8]
    assert parts() > 0
    if not own:
        assert measure(distance).items == 16


def test_workers_end_with_their_parent(here: Path) -> None:
    trees.write_table(here, 60)
    process = started("--distance", "slow_distances:slow", "--out", "t.parquet", "--workers", "2", pause=0.3)
    until = time.monotonic() + 20
    while not (workers := children(process.pid)):
        assert time.monotonic() < until
        time.sleep(0.02)
    process.kill()
    process.communicate()
    while any(Path(f"/proc/{worker}/fd").exists() and alive(worker) for worker in workers):
        assert time.monotonic() < until, "a worker outlived its parent"
        time.sleep(0.02)


def children(pid: int) -> list[int]:
    if not Path(f"/proc/{pid}/task/{pid}/children").exists():
        pytest.skip("the system does not list a process's children")
    listed = Path(f"/proc/{pid}/task").glob("*/children")  # by the thread that started them
    return [int(child) for path in listed for child in path.read_text().split()]


def alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_a_worker_that_is_killed_is_told(here: Path) -> None:
    trees.write_table(here, 12)
    with pytest.raises(ChildProcessError) as caught:
        measure(["slow_distances:dying"])
    assert str(caught.value) == (
        "a worker process was killed (signal 9), perhaps for lack of memory (fewer workers need less), while it had "
        "triplets t0 to t11; finished values are kept, and the same command resumes the run"
    )


@pytest.mark.parametrize("limit", [100, 3000])
def test_a_full_disk_gets_one_line(here: Path, limit: int) -> None:
    trees.write_table(here, 40)
    code = f"""
import resource
from twoafc.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
main(["measure", "table.csv", "--distance", "rmse", "--out", "t.parquet", "--device", "cpu", "--batch-size", "4"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("twoafc: ")
    assert done.stderr.count("\n") == 1
    assert "too large" in done.stderr.lower()
    assert not Path("t.parquet").exists()
    assert not [path for path in here.rglob("*.part") if path.is_file()]
    # With room again, what was finished before the disk was full is used.
    assert len(measure(["rmse"]).table) == 40


def test_a_csv_stands_with_its_own_card_whenever_it_is_interrupted(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from twoafc.measurement import journal

    trees.write_table(here, 6)
    measure(["rmse"], "t.csv")
    before = Path("t.csv").read_bytes()

    write = journal.write_frame

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    def table_full(frame: pl.DataFrame, path: Path, **options: Any) -> None:
        (full if path.suffix == ".csv" else write)(frame, path, **options)

    with monkeypatch.context() as broken:
        broken.setattr(journal, "write_frame", table_full)
        with pytest.raises(OSError, match="No space left on device"):
            measure(["ssim"], "t.csv")
    assert Path("t.csv").read_bytes() == before
    found = measure(["ssim"], "t.csv")
    assert found.items == 0
    text = journal.write_text
    with monkeypatch.context() as broken:
        broken.setattr(journal, "write_text", lambda told, path: text(told, path) if '"before"' in told else full())
        with pytest.raises(OSError, match="No space left on device"):
            measure(["euclidean"], "t.csv")
    assert measure(["euclidean"], "t.csv").items == 0
    assert twoafc.Triplets.read("t.csv").distances.keys() == {"rmse", "ssim", "euclidean"}
    np.testing.assert_array_equal(twoafc.Triplets.read("t.csv")["ssim"].d0, found.table["ssim_d0"].to_numpy())


class Crash(BaseException):
    """What nothing catches, as nothing catches a kill."""


@pytest.mark.slow
@pytest.mark.parametrize("out", ["t.csv", "t.parquet"])
def test_a_crash_at_any_step_of_writing_loses_nothing(here: Path, monkeypatch: pytest.MonkeyPatch, out: str) -> None:
    from twoafc.measurement.journal import Journal

    trees.write_table(here, 6, sizes=(16,))
    first = measure(["rmse"], out, batch_size=6).table
    whole = measure(["rmse", "euclidean"], f"whole{Path(out).suffix}", batch_size=6).table
    before = {path: path.read_bytes() for path in here.glob(f"{out}*")}
    rename, finish = Path.replace, Journal.finish
    steps, crashed = iter(range(1000)), 0

    def step(act: Any) -> Any:
        def acted(*arguments: Any) -> Any:
            if next(steps) == crashed:
                raise Crash
            result = act(*arguments)
            if next(steps) == crashed:
                raise Crash
            return result

        return acted

    while True:
        steps = iter(range(1000))
        with monkeypatch.context() as broken:
            broken.setattr(Path, "replace", step(rename))
            broken.setattr(Journal, "finish", step(finish))
            try:
                measure(["euclidean"], out, batch_size=6)
                break
            except Crash:
                pass
        table = pl.read_parquet(out) if out == "t.parquet" else pl.read_csv(out)
        assert table.equals(first) or table.equals(whole)
        found = measure(["euclidean"], out, batch_size=6)
        # Even a part that could not be written is written on the way out.
        assert found.items == 0
        assert found.table.equals(whole)
        assert Path(out).read_bytes() == Path(f"whole{Path(out).suffix}").read_bytes()
        assert not list(here.glob(f"{out}.parts"))
        for path, content in before.items():
            path.write_bytes(content)
        crashed += 1
    assert crashed == (10 if out == "t.csv" else 6)


def test_files_of_others_in_the_folder_of_parts_are_left_alone(here: Path) -> None:
    trees.write_table(here, 6)
    measure(["rmse"], shard=(1, 2))
    folder = here / "t.parquet.parts"
    pl.DataFrame({"mine": [1]}).write_parquet(folder / "mine.parquet")
    found = measure(["rmse"])
    assert len(found.table) == 6
    assert [path.name for path in folder.iterdir()] == ["mine.parquet"]
    assert pl.read_parquet(folder / "mine.parquet")["mine"].to_list() == [1]
    assert measure(["ssim"]).notes == []
    assert [path.name for path in folder.iterdir()] == ["mine.parquet"]


def test_what_a_kill_has_left_half_written_is_cleared(here: Path) -> None:
    trees.write_table(here, 4)
    left = [".t.csv.123.part", ".t.csv.json.99999.part", ".t.csv.failures.csv.7.part"]
    others = [".t.csv2.123.part", ".t.csv.part", "t.csv.123.part"]
    for name in (*left, *others):
        Path(name).write_text("half")
    measure(["rmse"], "t.csv")
    assert not [name for name in left if Path(name).exists()]
    assert [name for name in others if Path(name).exists()] == others


def test_a_folder_of_parts_that_cannot_be_made(here: Path) -> None:
    trees.write_table(here, 2)
    Path("t.parquet.parts").write_text("a file")
    with pytest.raises(OSError, match="finished values") as caught:
        measure(["rmse"])
    assert str(caught.value) == (
        "finished values are kept in a folder beside the table; t.parquet.parts cannot be written (File exists); "
        "name another table"
    )


def made_up(plan: Plan) -> np.ndarray:
    """A distance that every pair of names has."""
    return np.array([[10 * ref + x for x in others] for ref, *others in plan.items.tolist()], dtype=np.float64)


@settings(deadline=None)
@given(some_rows(), st.randoms(use_true_random=False))
def test_a_table_and_what_is_left_over_hold_all_that_is_known(rows: list[tuple[str, ...]], random: Any) -> None:
    found = plan_items(dataset(rows))
    values = {name: made_up(found) for name in ("d", "e")}
    for known in values.values():
        known[[random.random() < 0.3 for _ in known]] = np.nan
    asked = {"d": values["d"]}
    whole = complete_rows(found, asked)
    made = table_of(found, asked, whole)
    assert made["triplet"].to_list() == [f"row {row}" for row in np.flatnonzero(whole)]
    card = {"distances": {"d": {"identity": {}, "made": []}}}
    back = Earlier(made, card, np.zeros(0, dtype=np.uint64)).values(found)
    items, kept = left_over(found, values, {"d"}, whole)
    for name, known in values.items():
        again = back.get(name, np.full(known.shape, np.nan)).copy()
        if name in kept:
            here = kept[name]
            again[items] = np.where(np.isnan(here), again[items], here)
        np.testing.assert_array_equal(again, known)


def test_cards_that_are_none_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    frame = pl.DataFrame({"triplet": ["0"], "rmse_d0": [0.5]})
    for card in ("", "{}", '{"data": {"fingerprint": 1}, "distances": {}}', '{"data": 1}'):
        frame.write_parquet(path, metadata={"twoafc": card})
        with pytest.raises(twoafc.DataError, match=r"t\.parquet has no card that describes it"):
            read_table(path, "f")
    traces = np.array([3, 0, 2**64 - 1], dtype=np.uint64)
    data = {"fingerprint": "f", "images": digest_of_traces(traces)}
    told = {"data": data, "distances": {"rmse": {"identity": {}, "made": []}}}
    write_table(frame, path, told, traces)
    earlier = read_table(path, "f")
    digest = hashlib.sha256(b"triplet,rmse_d0\n0,0.5\n").hexdigest()
    assert earlier.card == told | {"sha256": digest, "traces": traces_as_text(traces)}
    np.testing.assert_array_equal(earlier.traces, traces)
    write_table(frame, path, told, traces + np.uint64(1))
    with pytest.raises(twoafc.DataError, match=r"t\.parquet has no card that describes it"):
        read_table(path, "f")


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_a_table_that_was_changed_since(here: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    trees.write_table(here, 6)
    measure(["rmse"], name)
    assert not is_changed(name)
    main(["check", name])
    assert "changed" not in capsys.readouterr().out
    if name == "t.csv":
        Path(name).write_text(Path(name).read_text().replace("t3", "t33"))
    else:
        card = {key: text for key, text in pl.read_parquet_metadata(name).items() if key.startswith("twoafc")}
        frame = pl.read_parquet(name)
        frame.with_columns(rmse_d0=pl.col("rmse_d0") * 0.5).write_parquet(name, metadata=card)
    assert is_changed(name)
    why = "its checksum differs from the recorded one"
    change = f"{name} was changed since it was measured; {why}; measure again, unless it was"
    main(["evaluate", "--train", name, "--folds", "2"])
    assert f"\nwarning: train: {change} changed on purpose\n" in capsys.readouterr().out
    assert "changed" in [finding.code for finding in twoafc.Result.read("results").findings]
    main(["check", name])
    assert capsys.readouterr().out.startswith(f"warning: train: {change}")
    main(["evaluate", "--train", name, "--folds", "2", "--engine", "polars"])
    assert f"\nwarning: train: {change} changed on purpose\n" in capsys.readouterr().out
    assert "changed" in [finding.code for finding in twoafc.Result.read("results").findings]
    main(["count", name, "--out", "counts"])
    assert f"\nwarning: votes: {change} changed on purpose\n" in capsys.readouterr().out
    main(["sweep", "--train", name, "--folds", "2", "--sigma", "0.1"])
    assert f"\nwarning: train: {change} changed on purpose\n" in capsys.readouterr().out
    assert commands.refused(capsys, "evaluate", "--train", name, "--strict").startswith(f"--strict: train: {change}")
    with pytest.raises(DataError, match=f"^{name} was changed since it was measured; name another file, or remove it$"):
        measure(["ssim"], name)
