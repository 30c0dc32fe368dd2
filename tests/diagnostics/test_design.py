"""Groups, numbers of votes, names and observers."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import polars as pl
import pytest

from conftest import random_table
from mistakes import Frames, check_frames, check_planted, simulated
from twoafc import Triplets, check, evaluate

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


@pytest.mark.parametrize("side", ["x0", "x1"])
def test_votes_for_one_side_that_no_distance_explains(side: str) -> None:
    frame = simulated("weber", triplets=200, votes=3, seed=1).to_frame()
    for others, amount, evidence in ((0, "all", "600 of 600 (100.0 %)"), (20, "nearly all", "580 of 600 (96.7 %)")):
        few = (pl.int_range(200) < others).cast(pl.Int64)
        (finding,) = check_frames(frame.with_columns(n=few if side == "x0" else 3 - few))
        assert (finding.code, finding.level, finding.distance) == ("one_sided", "warning", None)
        assert finding.message == (
            f"{amount} votes are for {side}, and no distance explains why: n may be wrong, or one side was always the "
            "better one"
        )
        assert finding.evidence.startswith(f"{evidence} votes; 2AFC ")
        assert finding.remedy == f"check that n counts the votes for x1; scores only say how often {side} is nearer"


def test_chosen_images_that_are_always_x0_leave_the_scores_as_they_are() -> None:
    votes = simulated("weber", triplets=400, votes=1, seed=1)
    written = votes.to_frame().with_columns(
        n=pl.lit(0),
        d0=pl.when(pl.col("n") == 0).then("d0").otherwise("d1"),
        d1=pl.when(pl.col("n") == 0).then("d1").otherwise("d0"),
    )
    (finding,) = check_frames(written)
    assert (finding.code, finding.level) == ("one_sided", "note")
    assert finding.message == "all votes are for x0: probably the image that was chosen is always x0"
    scores = [
        evaluate(table).frame().filter(split="train")["nll"].item() for table in (votes, Triplets.from_frame(written))
    ]
    assert scores[0] == pytest.approx(scores[1], abs=1e-12)
    assert finding.remedy == (
        "scores do not depend on which image is x0, and remain valid; no preference for one side can be seen"
    )


# A preference for one side


def preferring(points: float, T: int = 500, seed: int = 0, **columns: Any) -> Triplets:
    """Votes for x1 more often by some per cent of all votes than the distances say."""
    rng = np.random.default_rng(seed)
    d0, d1 = rng.lognormal(size=(2, T))
    P = np.clip(d0**2 / (d0**2 + d1**2), 0.2, 0.8) + points / 100
    return Triplets.from_frame({"n": rng.binomial(4, P), "M": [4] * T, "d0": d0, "d1": d1, **columns})


@pytest.mark.parametrize(("points", "side"), [(10.0, "second"), (-10.0, "first")])
def test_a_preference_for_one_side(points: float, side: str) -> None:
    table = preferring(points)
    (finding,) = check(table)
    assert (finding.code, finding.level, finding.distance) == ("side", "note", None)
    assert finding.message == (f"people prefer the {side} image of the table, or x0 and x1 were not assigned at random")
    figures = re.fullmatch(
        r"([0-9.]+) % of votes beyond what distance explains, 95 % interval (\S+) to (\S+)", finding.evidence
    )
    assert figures is not None
    value, low, high = map(float, figures.groups())
    assert abs(value - abs(points)) < 3
    assert low < points < high
    assert finding.remedy == (
        "P treats both sides alike: no distance explains it, and all scores are worse; show each pair in both orders"
    )
    assert check(table.mirrored())[0].message.startswith(f"people prefer the {'first' if points > 0 else 'second'}")


def test_a_preference_is_that_of_the_side_shown() -> None:
    rng = np.random.default_rng(0)
    T = 600
    d0, d1 = rng.lognormal(size=(2, T))
    P = np.clip(d0**2 / (d0**2 + d1**2), 0.2, 0.8) + 0.12
    shown = {name: [f"{name}{t}" for t in range(T)] for name in ("ref", "x0", "x1")}
    once = pl.DataFrame({"choice": rng.binomial(1, P), "d0": d0, "d1": d1, **shown})
    again = once.select("ref", x0="x1", x1="x0", d0="d1", d1="d0", choice=pl.Series(rng.binomial(1, 1.24 - P)))
    (finding,) = check_frames(pl.concat([once, again.select(once.columns)]))
    assert (finding.code, finding.message) == ("side", "people prefer the second image as shown")


def test_a_side_on_which_the_nearer_image_lies_is_no_preference() -> None:
    d0, d1 = np.sort(np.random.default_rng(0).lognormal(size=(2, 500)), axis=0)
    n = np.random.default_rng(1).binomial(4, d0**2 / (d0**2 + d1**2))
    assert n.mean() < 1.2
    assert check(Triplets.from_frame({"n": n, "M": [4] * 500, "d0": d0, "d1": d1})) == []


def test_small_and_doubtful_preferences_are_not_reported() -> None:
    assert check(preferring(2.0, T=5000)) == []
    assert sum(bool(check(preferring(0.0, T=100, seed=seed))) for seed in range(100)) == 0
    assert sum(bool(check(preferring(10.0, T=500, seed=seed))) for seed in range(20)) == 20
    clustered = [check(simulated("weber", triplets=200, votes=3, references=20, seed=seed)) for seed in range(100)]
    assert not any(finding.code == "side" for findings in clustered for finding in findings)


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
    assert finding.message == f"observer o7 always presses the same key: choice {key}"
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
