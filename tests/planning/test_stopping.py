"""`twoafc plan status`: an interval that holds however often one looks, and the commands."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

import twoafc
from commands import code_of, refused
from studying import judge, pool
from twoafc import planning
from twoafc.planning import always_valid


def test_the_interval_by_hand() -> None:
    """The boundary of Robbins: the mixture of likelihood ratios over N(0, tau^2) is 1 / 0.05 at its ends."""
    for se, scale in ((1.0, 0.5), (0.1, 1.0), (2.0, 20.0)):
        end = always_valid(0.0, se, 1e9, scale=scale).high
        mixture = stats.norm.pdf(end, 0, (se**2 + scale**2) ** 0.5) / stats.norm.pdf(end, 0, se)
        assert mixture == pytest.approx(20, rel=1e-6)


def test_few_units_widen_the_interval() -> None:
    ends = [always_valid(0.0, 1.0, units, scale=3.0).high for units in (5.0, 20.0, 1e6)]
    assert ends == sorted(ends, reverse=True)
    tail = stats.norm.sf(ends[2])
    assert ends[1] == pytest.approx(stats.t.isf(tail, 19), rel=1e-4)
    assert np.isnan(always_valid(0.0, 0.0, 10.0, scale=1.0).high)


def test_it_holds_at_all_looks_together() -> None:
    rng = np.random.default_rng(0)
    means = np.cumsum(rng.normal(size=(1000, 400)), axis=1) / np.arange(1, 401)
    looks = np.arange(9, 400, 10)
    out = np.zeros(1000, dtype=bool)
    for look in looks:
        reach = always_valid(0.0, 1 / (look + 1) ** 0.5, 1e9, scale=0.3).high
        out |= np.abs(means[:, look]) > reach
    assert out.mean() <= 0.05


@pytest.fixture(scope="module")
def batches() -> list[pl.DataFrame]:
    """Two batches of a study in which a is far better than b."""
    table = pool(1500, references=100)
    first = judge(planning.choose(table, votes=120, seed=1).frame, 1)
    return [first, judge(planning.choose(table, votes=250, judged=first, seed=2).frame, 2)]


def test_a_study_is_followed(batches: list[pl.DataFrame]) -> None:
    found = planning.status(batches, difference=0.1, error_bars="fixed", folds=2)
    assert [look["batch"] for look in found.looks] == [1, 2]
    assert [look["votes"] for look in found.looks] == [120, 370]
    whole = planning.read_judged(batches)
    result = twoafc.evaluate(whole, error_bars="fixed", folds=2)
    a, b = (result.frame().filter(split="test", group="all", distance=name)["nll_per_vote"].item() for name in "ab")
    assert found.looks[-1]["difference"] == pytest.approx(a - b)
    loss = twoafc.gate(result, result, max_loss=0, distance=("b", "a"))
    assert found.looks[-1]["se"] == pytest.approx(loss.se)
    assert found.table["weight"].to_list() == whole["weight"].to_list()
    by_choice = planning.status(batches, measure="score_2afc_distance", error_bars="fixed", folds=2)
    scores = result.frame().filter(split="test", group="all")
    a, b = (scores.filter(distance=name)["score_2afc_distance_votes"].item() for name in "ab")
    assert by_choice.looks[-1]["difference"] == pytest.approx(a - b)


def standing(low: float, high: float, difference: float | None = None, **changes: Any) -> planning.Standing:
    """A standing with one look."""
    from twoafc.planning.stopping import _decided, _remaining

    look = {"batch": 1, "triplets": 90, "votes": 100, "units": 50.0, "difference": (low + high) / 2, "se": 0.02}
    look |= {"low": low, "high": high}
    decided = _decided(look, ("a", "b"), -1, difference)
    left = None if decided else _remaining(look, difference or 0.05, difference)
    return planning.Standing([look], ("a", "b"), "nll", difference, decided, left, pl.DataFrame(), [])


def test_what_is_said() -> None:
    assert standing(-0.3, -0.1).sentence == (
        "Stop: after 100 votes on 90 triplets, a is better than b by 0.10 to 0.30 nats per vote (95 %, however often "
        "one looks)"
    )
    assert "b is better than a by 0.10 to 0.30" in standing(0.1, 0.3).sentence
    small = standing(-0.01, 0.012, 0.02)
    assert small.decided == "neither"
    assert small.sentence.startswith(
        "Stop: after 100 votes on 90 triplets, a and b differ by less than 0.02: b is ahead"
    )
    open_ = standing(-0.05, 0.03, 0.04)
    assert open_.decided == ""
    assert open_.sentence.startswith("Go on: after 100 votes on 90 triplets, a is ahead of b by -0.030 to 0.050 ")
    assert open_.remaining is not None
    half = always_valid(0, 0.02 / (1 + open_.remaining / 100) ** 0.5, 50 * (1 + open_.remaining / 100), scale=0.04).high
    assert half == pytest.approx(max(0.01, 0.04 - 0.01), rel=0.01)


def test_few_references_and_votes_are_noted() -> None:
    table = judge(planning.choose(pool(400, references=2), votes=40, repeats=0.0).frame)
    found = planning.status(table, error_bars="fixed")
    assert found.notes[0] == (
        "the first batch has 40 votes; with fewer than 50 the true difference may lie outside the interval more often"
    )
    assert found.notes[1].startswith("only 2 references: ")
    assert len(found.notes) == 2
    open_ = dataclasses.replace(standing(-0.05, 0.03, 0.04), table=table)
    assert open_.sentence.endswith(" more votes are needed if it stays so and references increase in proportion")
    barely = always_valid(0.1, 0.02, 1.05, scale=0.04)
    assert not np.isfinite([barely.low, barely.high]).any()


def test_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    pool(500, references=50).write_csv("pool.csv")
    assert code_of("plan", "choose", "--pool", "pool.csv", "--votes", 88, "--out", "one.csv", "--look-at", "l.csv") == 0
    printed = capsys.readouterr().out
    assert printed.startswith("batch 1: 80 of 500 triplets, 88 votes; chosen uniformly, ")
    judge(pl.read_csv("one.csv")).write_csv("votes.csv")
    size = ("plan", "size", "votes.csv", "--difference", 0.05)
    assert code_of(*size, "--cost-per-vote", 0.1, "--figure", "size.svg") == 0
    assert "To tell a and b apart by 0.05 nats per vote" in capsys.readouterr().out
    assert code_of(*size, "--json") == 0
    assert json.loads(capsys.readouterr().out)["best"]["votes_per_triplet"] == 1
    assert code_of("plan", "status", "votes.csv", "--out", "all.csv", "--figure", "status.svg") == 0
    assert "after 88 votes on 80 triplets" in capsys.readouterr().out
    more = ("plan", "choose", "--pool", "pool.csv", "--votes", 60, "--judged", "votes.csv", "--out", "two.csv")
    assert code_of(*more, "--figure", "plane.svg", "--json") == 0
    assert json.loads(capsys.readouterr().out)["batch"] == 2
    assert pl.read_csv("all.csv")["weight"].sum() == pytest.approx(500, rel=0.15)
    assert all(Path(name).stat().st_size > 1000 for name in ("size.svg", "status.svg", "plane.svg"))


def test_mistakes(batches: list[pl.DataFrame], capsys: pytest.CaptureFixture[str]) -> None:
    for options, text in (
        ({"measure": "aj"}, "measure must be one of nll, score_2afc, score_2afc_distance; got aj"),
        ({"difference": 0.0}, "difference must be a positive number; got 0"),
        ({"pair": ("a", "x")}, "there is no distance x; there are a, b"),
    ):
        with pytest.raises(ValueError, match=f"^{text}$"):
            planning.status(batches, **options)  # type: ignore[arg-type]
    assert refused(capsys, "plan", "status") == "name the tables of votes so far"
    text = "name a pilot (a table of votes, or a folder of results) or a world: one of them"
    assert refused(capsys, "plan", "size", "--difference", "1") == text


def test_distances_that_always_agree_have_no_interval() -> None:
    rng = np.random.default_rng(0)
    d0, d1 = rng.random((2, 40))
    votes = {"n": (rng.random(40) < 0.5).astype(int), "M": [1] * 40}
    table = {"a_d0": d0, "a_d1": d1, "b_d0": d0**2, "b_d1": d1**2, **votes}
    standing = planning.status(table, measure="score_2afc_distance")
    assert str(standing) == (
        "Go on: after 40 votes on 40 triplets, a and b have not differed yet; if they never do, no decision is possible"
    )
    assert standing.remaining is None
