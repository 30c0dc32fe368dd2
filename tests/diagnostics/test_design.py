"""Groups, numbers of votes, names and observers."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from conftest import random_table
from mistakes import Frames, check_frames, check_planted, simulated
from twoafc import check

# Groups, counts, names


def test_groups_of_one(frames: Frames) -> None:
    frame = frames["test"]
    group = pl.Series("group", ["many"] * (len(frame) - 2) + ["one", "two"])
    (finding,) = check_planted(frames, "test", frame.with_columns(group))
    assert (finding.code, finding.level, finding.table) == ("lonely_groups", "warning", "test")
    assert finding.message == "a group needs several triplets; some have only one"
    assert finding.evidence == "2 of 3 groups have one triplet: one, two"
    (finding,) = check_frames(frame.with_columns(group="triplet"))
    assert finding.evidence.startswith("3000 of 3000 groups have one triplet: ")


def test_names_that_differ_by_spelling(frames: Frames) -> None:
    group = pl.Series("group", (["Wood", "metal", "wood "] * 1000)[: len(frames["test"])])
    (finding,) = check_frames(frames["test"].with_columns(group))
    assert (finding.code, finding.level) == ("spelling", "warning")
    assert finding.message == "one group must have one name; some differ only in capitals or spaces"
    assert finding.evidence == "'Wood' and 'wood '"


@pytest.mark.parametrize(
    ("train", "test", "evidence"),
    [
        (2, 5, "M = 2 in train, 5 in test"),
        ([2, 3], 5, "M = 2..3 (mean 2.43) in train, 5 in test"),
        (4, 5, "M = 4 in train, 5 in test"),
        ([3, 5], 4, None),
    ],
)
def test_unlike_votes(train: Any, test: Any, evidence: str | None) -> None:
    tables = [simulated("weber", triplets=500, votes=votes, seed=seed) for seed, votes in enumerate((train, test))]
    findings = check(*tables)
    assert [finding.evidence for finding in findings] == ([evidence] if evidence else [])
    for finding in findings:
        assert (finding.code, finding.level) == ("unlike_votes", "note")
        assert finding.message == "M differs between train and test: their NLLs per triplet are not comparable, P is"


def test_per_cent_instead_of_counts() -> None:
    table = simulated("weber", triplets=200, votes=3, seed=1)
    frame = table.to_frame().with_columns(n=(100 * pl.col("n") / 3).round().cast(pl.Int64), M=pl.lit(100))
    (finding,) = check_frames(frame)
    assert (finding.code, finding.level) == ("percent", "warning")
    assert finding.message == "n and M are numbers of votes; these look like percentages of fewer people"
    assert finding.evidence == "M = 100 in every row, and every n is a multiple of 1/3 of it"
    assert check(simulated("weber", triplets=200, votes=100, seed=1)) == []


def test_all_votes_for_one_side() -> None:
    frame = simulated("weber", triplets=200, votes=3, seed=1).to_frame()
    for n, side, value in ((0, "x0", "0"), (3, "x1", "M")):
        (finding,) = check_frames(frame.with_columns(n=pl.lit(n)))
        assert (finding.code, finding.level, finding.message) == ("one_sided", "note", f"all votes are for {side}")
        assert finding.evidence == f"n is {value} in all 200 rows"


def test_one_image_named_twice() -> None:
    names = {"ref": ["r", "s", "t", "u"], "x0": ["a", "b", "t", "d"], "x1": ["a", "c", "e", "f"]}
    (finding,) = check(random_table(4, **names))
    assert (finding.code, finding.level) == ("one_image", "note")
    assert finding.evidence == "x0 is x1 in 1 of 4 (25.0 %) rows, x0 or x1 is the reference in 1 of 4 (25.0 %)"


# Observers


def voted(observers: int, votes: int, seed: int = 0) -> pl.DataFrame:
    """Single votes, shown either way round, of observers who judge as they should."""
    rng = np.random.default_rng(seed)
    T = observers * votes
    d0, d1 = rng.lognormal(size=(2, T))
    images = {name: [f"{name}{t}" for t in range(T)] for name in ("ref", "x0", "x1")}
    who = pl.Series("observer", [f"o{t % observers}" for t in range(T)])
    return pl.DataFrame(
        {"choice": rng.binomial(1, d0**2 / (d0**2 + d1**2)), "d0": d0, "d1": d1, **images, "observer": who}
    )


@pytest.mark.parametrize("key", [0, 1])
def test_an_observer_who_always_presses_one_key(key: int) -> None:
    votes = voted(12, 60)
    assert check_frames(votes) == []
    pressed = votes.with_columns(choice=pl.when(pl.col("observer") == "o7").then(key).otherwise("choice"))
    (finding,) = check_frames(pressed)
    assert (finding.code, finding.level, finding.table) == ("one_key", "warning", "train")
    assert finding.message == f"observer o7 presses one key whatever is shown: choice {key}"
    assert finding.evidence.startswith(f"60 of 60 votes are {key}; ")
    counted = pressed.rename({"choice": "n"}).with_columns(M=pl.lit(1))
    assert [finding.message for finding in check_frames(counted)] == [finding.message]


def test_keys_count_as_shown_not_as_merged() -> None:
    # Every triplet twice, the second time the other way round: who presses 1 both times looks undecided when merged.
    votes = voted(10, 40)
    swap = {"x0": "x1", "x1": "x0", "d0": "d1", "d1": "d0"}
    again = votes.rename(swap).select(votes.columns).with_columns(choice=1 - pl.col("choice"))
    both = pl.concat([votes, again])
    assert check_frames(both) == []
    (finding,) = check_frames(both.with_columns(choice=pl.when(pl.col("observer") == "o3").then(1).otherwise("choice")))
    assert finding.evidence == "80 of 80 votes are 1; 50 % for the other observers"


def test_a_lone_observer_is_compared_with_the_distances() -> None:
    votes = voted(1, 200)
    (finding,) = [
        finding for finding in check_frames(votes.with_columns(choice=pl.lit(1))) if finding.code == "one_key"
    ]
    assert finding.evidence.endswith("% are expected from the distances")
    assert check_frames(votes) == []
    # x1 is always better here, and whoever says so is right.
    sided = votes.with_columns(d0=pl.max_horizontal("d0", "d1") + 1, d1=pl.min_horizontal("d0", "d1"), choice=pl.lit(1))
    assert [finding.code for finding in check_frames(sided)] == ["one_sided"]


def test_honest_observers_give_no_finding() -> None:
    findings = [finding for seed in range(40) for finding in check_frames(voted(30, 20, seed))]
    assert "one_key" not in {finding.code for finding in findings}
