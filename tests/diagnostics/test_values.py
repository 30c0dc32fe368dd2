"""Constant, tied, negative and equal distances, and other units."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

from mistakes import Frames, changed, check_frames, check_planted, only
from twoafc import Triplets, check

# Values


@pytest.mark.parametrize("role", ["train", "test"])
@pytest.mark.parametrize(
    ("change", "what", "expected"),
    [
        (lambda d: d * 0 + 0.5, "constant", "every value is 0.5"),
        (lambda d: 0.5 + 1e-6 * d, "nearly constant", "98 % of all values lie in 0.5000000"),
        (lambda d: pl.when(d > 0.84).then(d).otherwise(0.5), "nearly constant", "% of all values are 0.5"),
    ],
)
def test_constant_distances(
    frames: Frames, role: str, change: Callable[[pl.Expr], pl.Expr], what: str, expected: str
) -> None:
    (finding,) = check_planted(frames, role, changed(frames[role], "ssim", change))
    assert (finding.code, finding.level, finding.table, finding.distance) == ("constant", "warning", role, "ssim")
    assert finding.message == f"a distance must vary; ssim is {what}"
    assert expected in finding.evidence
    assert finding.remedy == "measure it again and write all its digits, or leave it out"


def test_one_side_that_never_changes(frames: Frames) -> None:
    (finding,) = check_frames(frames["test"].with_columns(ssim_d0=pl.lit(0.0)))
    assert (finding.code, finding.level, finding.distance) == ("constant", "warning", "ssim")
    assert finding.message == "d0 of ssim is the same in every row"
    assert finding.evidence == "d0 = 0: x0 is the reference itself"
    rng = np.random.default_rng(0)
    d1 = rng.lognormal(size=500)
    table = {"n": rng.binomial(3, 1 / (1 + d1)), "M": [3] * 500, "d0": [1.0] * 500, "d1": d1}
    (finding,) = check(Triplets.from_frame(table))
    assert (finding.level, finding.evidence) == ("note", "d0 = 1")


@pytest.mark.parametrize("role", ["train", "test"])
@pytest.mark.parametrize(("share", "level"), [(0.15, "note"), (0.4, "warning")])
def test_many_ties(frames: Frames, role: str, share: float, level: str) -> None:
    tied = pl.Series(np.random.default_rng(0).random(len(frames[role])) < share)
    frame = frames[role].with_columns(rmse_d1=pl.when(tied).then("rmse_d0").otherwise("rmse_d1"))
    (finding,) = check_planted(frames, role, frame)
    assert (finding.code, finding.level, finding.table, finding.distance) == ("ties", level, role, "rmse")
    assert finding.message == "rmse does not distinguish x0 from x1 in many rows: d0 = d1"
    assert f"{int(tied.sum())} of {len(frame)}" in finding.evidence


def test_one_distance_under_two_names(frames: Frames) -> None:
    (finding,) = check_frames(frames["test"].with_columns(again_d0="gmsd_d0", again_d1="gmsd_d1"))
    assert (finding.code, finding.level, finding.distance) == ("twins", "note", "again")
    assert finding.message == "again and gmsd are the same distance under two names"


# Units


@pytest.mark.parametrize("role", ["train", "test"])
@pytest.mark.parametrize("factor", [2.0, 10.0, 255.0, 1 / 255, 1000.0])
@pytest.mark.parametrize("name", ["rmse", "gmsd", "lpips_alex"])
def test_other_units(frames: Frames, role: str, factor: float, name: str) -> None:
    frame = changed(frames[role], name, lambda d: factor * d)
    (finding,) = check_planted(frames, role, frame)
    assert (finding.code, finding.level, finding.table, finding.distance) == ("units", "warning", "both", name)
    assert finding.message == f"train and test must give {name} in the same units; they do not seem to"
    ratio = factor if role == "test" else 1 / factor
    words = f"times {ratio:g}" if ratio > 1 else f"divided by {1 / ratio:g}"
    assert f"test is train {words}: " in finding.evidence
    alone = [only(one, name) for one in (frames | {role: frame}).values()]
    assert [finding.code for finding in check_frames(*alone)] == ["units"]


def test_all_distances_in_other_units(frames: Frames) -> None:
    sides = [column for column in frames["test"].columns if column.endswith(("_d0", "_d1"))]
    findings = check_planted(frames, "test", frames["test"].with_columns(pl.col(sides) * 2))
    assert {finding.code for finding in findings} == {"units"}
    assert sum(finding.level == "warning" for finding in findings) >= 9


def test_other_formulas_and_ranges(frames: Frames) -> None:
    (finding,) = check_planted(frames, "test", changed(frames["test"], "rmse", lambda d: d * d))
    assert "test values are the square of the training values, up to a factor" in finding.evidence
    (finding,) = check_planted(frames, "test", changed(frames["test"], "lpips_alex", lambda d: d.sqrt()))
    assert "test values are the square root of the training values, up to a factor" in finding.evidence
    near = frames["train"].filter((pl.col("ssim_d0") < 0.5) & (pl.col("ssim_d1") < 0.5))
    (finding,) = check_frames(only(near, "ssim"), only(frames["test"], "ssim"))
    assert (finding.code, finding.level, finding.distance) == ("units", "warning", "ssim")
    assert finding.message == "many test values of ssim lie outside the training range, where the fit has no data"
    near = frames["train"].filter((pl.col("ssim_d0") < 0.75) & (pl.col("ssim_d1") < 0.75))
    (finding,) = check_frames(only(near, "ssim"), only(frames["test"], "ssim"))
    assert (finding.code, finding.level) == ("units", "note")


def test_ordinary_differences_between_tables_are_not_other_units() -> None:
    rng = np.random.default_rng(0)

    def table(T: int, scale: float, spread: float, votes: int) -> Triplets:
        d0, d1 = scale * rng.lognormal(sigma=spread, size=(2, T))
        return Triplets.from_frame({"n": rng.binomial(votes, d0 / (d0 + d1)), "M": [votes] * T, "d0": d0, "d1": d1})

    for scale in (0.6, 0.8, 1.2, 1.6):
        findings = check(table(3000, 1, 0.8, 2), table(1000, scale, 0.7, 5))
        assert [finding.code for finding in findings] == ["unlike_votes"]
