"""Rows and references that occur twice."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import random_table
from mistakes import LABELS, Frames, check_frames, check_planted, only, simulated
from twoafc import Triplets, check


@pytest.mark.parametrize("role", ["train", "test"])
def test_rows_that_occur_twice(frames: Frames, role: str) -> None:
    frame = frames[role]
    twice = pl.concat([frame, frame[:7]])
    (finding,) = check_planted(frames, role, twice)
    assert (finding.code, finding.level, finding.table, finding.distance) == ("duplicates", "warning", role, None)
    assert finding.message == "each triplet must have one row; some have several"
    first = ", ".join(frame[name][0] for name in ("ref", "x0", "x1"))
    assert finding.evidence == (
        f"7 of {len(twice)} ({700 / len(twice):.1f} %) rows repeat an earlier one by their names, 7 of them with the "
        f"same n and M; first in row {len(frame)} ({first})"
    )
    mirrored = Triplets.from_frame(frame[:7]).mirrored().to_frame().with_columns(M=pl.col("M") + 1)
    (finding,) = check_planted(frames, role, pl.concat([frame, mirrored]))
    assert "7 of " in finding.evidence
    assert "names, 0 of them with the same n and M" in finding.evidence
    (finding,) = check_frames(twice.drop(LABELS))
    assert "rows repeat an earlier one by all of their distances, 7 of them" in finding.evidence


def test_coincidences_are_not_equal_rows() -> None:
    coarse = simulated("weber", triplets=3000, votes=2, distances="discrete", seed=1)
    assert {finding.code for finding in check(coarse, coarse.where(range(500)))} <= {"ties"}
    for digits in (1, 2, 3):
        rng = np.random.default_rng(digits)
        base = rng.lognormal(size=(2, 3000))
        noisy = base * rng.lognormal(sigma=0.3, size=(2, 3000))
        sides = {f"{name}_d{k}": np.round(d[k], digits) for name, d in (("a", base), ("b", noisy)) for k in (0, 1)}
        frame = pl.DataFrame({"n": rng.binomial(2, base[0] / base.sum(axis=0)), "M": 2, **sides})
        assert [finding.code for finding in check_frames(frame[:2000], frame[2000:]) if finding.code != "ties"] == []
        assert [
            finding.code
            for finding in check_frames(only(frame[:2000], "a"), only(frame[2000:], "a"))
            if finding.code != "ties"
        ] == []


def test_observers_may_judge_the_same_triplets() -> None:
    names = {"ref": ["r"] * 40, "x0": ["a"] * 40, "x1": ["b"] * 40, "observer": [f"{k}" for k in range(40)]}
    table = {"n": [0, 1] * 20, "M": [1] * 40, "d0": [0.4] * 40, "d1": [0.2] * 40, **names}
    assert "duplicates" not in {finding.code for finding in check(Triplets.from_frame(table))}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(*[st.sampled_from("abc")] * 3), min_size=6, max_size=40), st.booleans())
def test_repeats_and_shared_triplets_are_counted_as_by_hand(rows: list[tuple[str, str, str]], quadruples: bool) -> None:
    ref, x0, x1 = zip(*rows, strict=True)
    names = {"ref": ref, "x0": x0, "x1": x1} if not quadruples else {"ref0": ref, "x0": x0, "ref1": x1, "x1": ref}
    pairs = [((r, a), (r, b)) if not quadruples else ((r, a), (b, r)) for r, a, b in rows]
    # Distances that follow from the names, as they should.
    value = {letter: 1.0 + 0.37 * k for k, letter in enumerate("abc")}
    d = [[value[a] * 10 + value[b] for a, b in side] for side in zip(*pairs, strict=True)]
    frame = {"n": [0, 1] * len(rows), "M": [1] * 2 * len(rows)}
    frame = {name: column[: len(rows)] for name, column in frame.items()}
    table = Triplets.from_frame({**frame, "d0": d[0], "d1": d[1], **{k: list(v) for k, v in names.items()}})
    unordered = [frozenset(pair) for pair in pairs]
    repeats = len(unordered) - len(set(unordered))
    evidence = [finding.evidence for finding in check(table) if finding.code == "duplicates"]
    assert [text.split(" ")[0] for text in evidence] == ([str(repeats)] if repeats else [])
    half = len(rows) // 2
    shared = sum(key in set(unordered[:half]) for key in unordered[half:])
    findings = check(table.where(range(half)), table.where(range(half, len(rows))))
    evidence = [finding.evidence for finding in findings if finding.code == "shared_triplets"]
    assert [text.split(" ")[0] for text in evidence] == ([str(shared)] if shared else [])


def test_shared_triplets(frames: Frames) -> None:
    train, test = frames.values()
    (finding,) = check_frames(pl.concat([train, test[:10]]), test)
    assert (finding.code, finding.level, finding.table, finding.distance) == (
        "shared_triplets",
        "warning",
        "both",
        None,
    )
    assert finding.message == "test triplets must be new; some are also in the training table"
    assert finding.evidence == (
        "10 of 3000 (0.3 %) test rows are in train by their names; first in test row 0 (teflon, blue-metallic-paint, "
        "white-marble)"
    )
    (finding,) = check_frames(pl.concat([train, test[:10]]).drop(LABELS), test.drop(LABELS))
    assert "10 of 3000 (0.3 %) test rows are in train by all of their distances" in finding.evidence
    mirrored = Triplets.from_frame(test).mirrored().to_frame()
    (finding,) = check_frames(mirrored, test)
    assert "3000 of 3000 (100.0 %)" in finding.evidence


def test_names_that_do_not_identify_rows(frames: Frames) -> None:
    def numbered(frame: pl.DataFrame) -> pl.DataFrame:
        number = pl.Series(np.arange(len(frame)) % 1000).cast(pl.String)
        return frame.with_columns(ref=number, x0=number + "a", x1=number + "b")

    for findings in (
        check_frames(*(numbered(frame[-1000:]) for frame in frames.values())),
        check_frames(numbered(frames["test"])),
    ):
        (finding,) = [finding for finding in findings if finding.code != "unlike_votes"]
        assert (finding.code, finding.level) == ("names", "note")
        assert finding.message == (
            "names of images must identify rows; rows with the same names have different distances"
        )


def test_no_shared_distance_and_no_names_give_no_finding() -> None:
    a, b = random_table(50), random_table(50)
    other = Triplets.from_frame(b.to_frame().rename({"d0": "x_d0", "d1": "x_d1"}))
    assert check(a, other) == []


def test_rounded_distances_of_a_small_training_table_are_no_leak() -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        train, test = (
            Triplets.from_frame(
                {"n": rng.binomial(4, 0.5, T), "M": [4] * T, "d0": rng.random(T).round(3), "d1": rng.random(T).round(3)}
            )
            for T in (20, 50_000)
        )
        assert "shared_triplets" not in [finding.code for finding in check(train, test)]
