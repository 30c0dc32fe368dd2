"""Mistakes planted in tables, and what the checks find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

from twoafc import Finding, Triplets, check, worlds
from twoafc.arrays import IntArray

Frames = dict[str, pl.DataFrame]
LABELS = ("triplet", "group", "ref", "x0", "x1")


def changed(frame: pl.DataFrame, distance: str, change: Callable[[pl.Expr], pl.Expr]) -> pl.DataFrame:
    return frame.with_columns(**{f"{distance}_{side}": change(pl.col(f"{distance}_{side}")) for side in ("d0", "d1")})


def gathered(frame: pl.DataFrame, columns: list[str], rows: IntArray) -> pl.DataFrame:
    return frame.with_columns(frame[column].gather(rows) for column in columns)


def shuffled(frame: pl.DataFrame, *columns: str) -> pl.DataFrame:
    return gathered(frame, list(columns), np.random.default_rng(0).permutation(len(frame)))


def flipped(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(n=pl.col("M") - pl.col("n"))


def only(frame: pl.DataFrame, *distances: str) -> pl.DataFrame:
    others = [c for c in frame.columns if c.endswith(("_d0", "_d1")) and c[:-3] not in distances]
    return frame.drop(others)


def simulated(world: str, **options: Any) -> Triplets:
    return Triplets.from_frame(worlds.simulate(world, **options))


def check_frames(train: pl.DataFrame, test: pl.DataFrame | None = None) -> list[Finding]:
    """Findings of one or two frames, without the note of shared references."""
    findings = check(Triplets.from_frame(train), None if test is None else Triplets.from_frame(test))
    return [finding for finding in findings if finding.code != "shared_references"]


def check_planted(frames: Frames, role: str, frame: pl.DataFrame) -> list[Finding]:
    """Findings of train and test with one of them replaced."""
    return check_frames(*(frames | {role: frame}).values())
