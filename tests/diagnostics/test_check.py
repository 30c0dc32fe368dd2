"""Every mistake, planted in real votes, is found and named; clean tables are left in peace."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import f as f_distribution
from scipy.stats import kstest, ttest_1samp

import twoafc
from conftest import random_table
from twoafc import Finding, Triplets, check, worlds
from twoafc.cli import main
from twoafc.diagnostics.profile import relate

Tables = tuple[Triplets, Triplets]
GENUINE = "if people really choose the farther image, as with Euclidean distance and SSIM on CLIC 2021, leave it"
LABELS = ("triplet", "group", "ref", "x0", "x1")


@pytest.fixture(scope="module")
def frames(material: Tables) -> dict[str, pl.DataFrame]:
    return dict(zip(("train", "test"), (table.to_frame() for table in material), strict=True))


def changed(frame: pl.DataFrame, distance: str, change: Callable[[pl.Expr], pl.Expr]) -> pl.DataFrame:
    return frame.with_columns(**{f"{distance}_{side}": change(pl.col(f"{distance}_{side}")) for side in ("d0", "d1")})


def gathered(frame: pl.DataFrame, columns: list[str], rows: NDArray[np.int64]) -> pl.DataFrame:
    return frame.with_columns(frame[column].gather(rows) for column in columns)


def shuffled(frame: pl.DataFrame, *columns: str) -> pl.DataFrame:
    return gathered(frame, list(columns), np.random.default_rng(0).permutation(len(frame)))


def flipped(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(n=pl.col("M") - pl.col("n"))


def only(frame: pl.DataFrame, *distances: str) -> pl.DataFrame:
    others = [c for c in frame.columns if c.endswith(("_d0", "_d1")) and c[:-3] not in distances]
    return frame.drop(others)


def looked(train: pl.DataFrame, test: pl.DataFrame | None = None) -> list[Finding]:
    found = check(Triplets.from_frame(train), None if test is None else Triplets.from_frame(test))
    return [each for each in found if each.code != "shared_references"]


def planted(frames: dict[str, pl.DataFrame], role: str, frame: pl.DataFrame) -> list[Finding]:
    return looked(*(frames | {role: frame}).values())


def simulated(world: str, **options: Any) -> Triplets:
    return Triplets.from_frame(worlds.simulate(world, **options))


# Clean tables


def test_of_the_clean_tables_only_what_is_true_is_said(material: Tables) -> None:
    (found,) = check(*material)
    assert found == Finding(
        "shared_references",
        "note",
        "both",
        None,
        "train and test share references: a narrow kernel can memorise stimuli",
        "100 of 100 references of test are in train (alum-bronze, alumina-oxide, aluminium and 97 more), "
        "in 3000 of 3000 (100.0 %) rows",
        "the scores are for new triplets of these references; for new references split by reference "
        "(one table: --folds does so)",
    )
    assert [check(table) for table in material] == [[], []]


@pytest.mark.parametrize("rows", [20, 100, 400])
def test_small_parts_of_real_tables_are_left_in_peace(frames: dict[str, pl.DataFrame], rows: int) -> None:
    for seed in range(8):
        train, test = (frame.sample(rows, seed=seed) for frame in frames.values())
        assert looked(train, test) == []
        assert looked(train.drop(LABELS), test.drop(LABELS)) == []


@pytest.mark.parametrize("world", ["weber", "thurstone", "sqrt_noise", "saturating"])
@pytest.mark.parametrize("distances", ["lognormal", "uniform", "heavy", "discrete"])
def test_simulated_worlds_are_left_in_peace(world: str, distances: str) -> None:
    for seed in range(3):
        for T in (20, 100, 2000):
            for references in (None, T // 10):
                options = {"votes": [2, 3], "distances": distances, "references": references, "lapse": 0.1 * seed}
                tables = [simulated(world, triplets=T, seed=2 * seed + k, **options) for k in (0, 1)]
                found = [each for each in check(*tables) if each.code not in ("shared_references", "ties")]
                assert found == []


def test_a_useless_distance_is_called_so_or_shuffled_never_flipped() -> None:
    for seed in range(20):
        for references in (None, 200):
            found = check(simulated("useless", triplets=4000, votes=3, references=references, seed=seed))
            assert [each.code for each in found] in ([], ["shuffled"])
            assert all("its rows are shuffled, or it is useless" in each.message for each in found)
        assert check(simulated("useless", triplets=100, votes=3, seed=seed)) == []
    assert sum(len(check(simulated("useless", triplets=4000, votes=3, seed=seed))) for seed in range(20)) >= 18


def test_a_distance_that_turns_round_is_not_called_flipped() -> None:
    frame = worlds.simulate("turning", triplets=20_000, votes=3, distances="uniform", seed=1)
    (found,) = looked(frame.filter(pl.col("d0") + pl.col("d1") > 1.2))
    assert (found.code, found.level) == ("turning", "note")
    assert found.message == (
        "distance agrees with the votes in one part of its range and disagrees in another: no flip explains that"
    )


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 999))
def test_the_order_of_rows_is_irrelevant_and_nothing_is_changed(seed: int) -> None:
    table = random_table(300, seed=seed % 7, ref=[f"{k % 40}" for k in range(300)], group=list("abc") * 100)
    before = table.to_frame()
    again = table.where(np.random.default_rng(seed).permutation(300))
    assert [each.code for each in check(table)] == [each.code for each in check(again)]
    assert table.to_frame().equals(before)


numbers = st.one_of(
    st.sampled_from([0.0, -0.0, 0.5, 1.0, 1e-300, 1e308, -1e308, 5e-324]), st.floats(-1e308, 1e308), st.floats(0, 1)
)


@st.composite
def tables(draw: st.DrawFn, distances: int) -> Triplets:
    """Whatever a table may hold."""
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
def test_no_table_is_too_odd(data: st.DataObject, distances: int) -> None:
    train, test = (data.draw(tables(distances)) for _ in range(2))
    for found in (check(train), check(train, test)):
        assert all("\n" not in str(each) and "nan" not in str(each) for each in found)
        levels = [each.level for each in found]
        assert levels == sorted(levels, reverse=True)


def test_the_largest_numbers_are_no_trouble() -> None:
    rng = np.random.default_rng(0)
    for scale in (1e308, 1e-308, 5e-324):
        sides = {f"{name}_d{k}": scale * rng.uniform(-1, 1, 100) for name in "ab" for k in (0, 1)}
        table = Triplets.from_frame({"n": rng.integers(0, 2, 100), "M": [1] * 100, **sides})
        assert {each.code for each in check(table, table)} <= {"negative", "shared_triplets", "ties", "constant"}


def test_it_is_quick_enough_for_every_evaluation() -> None:
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
    assert [each.code for each in check(*tables)] == ["unlike_votes"]
    assert time.process_time() - start < 1


# Direction


@pytest.mark.parametrize(("role", "other"), [("train", "test"), ("test", "train")])
def test_flipped_votes_are_told_from_similarities_by_the_other_table(
    frames: dict[str, pl.DataFrame], role: str, other: str
) -> None:
    (found,) = planted(frames, role, flipped(frames[role]))
    assert (found.code, found.level, found.table, found.distance) == ("direction", "warning", role, None)
    assert found.message == f"the votes of {role} are flipped: n must count the votes for x1"
    assert found.remedy == "replace n by M - n, or swap x0 and x1 in every distance, in this table"
    assert f"in {other} (10 of 10 distances have the same values in both tables, 0 have them reversed)" in str(found)
    names = ("ssim", "rmse", "lpips_alex")
    turned = frames[role]
    for name in names:
        turned = changed(turned, name, lambda d: 1 - d)
    found, *units = looked(*(only(frame, *names) for frame in (frames | {role: turned}).values()))
    assert found.message == f"the distances of {role} are similarities: smaller must mean closer"
    assert found.remedy == f"use 1 - similarity, as in {other}"
    assert {each.code for each in units} == {"units"}


@pytest.mark.parametrize("role", ["train", "test"])
def test_one_table_alone_does_not_tell_flipped_votes_from_similarities(
    frames: dict[str, pl.DataFrame], role: str
) -> None:
    (found,) = looked(flipped(frames[role]))
    assert found.message == (
        "the votes are flipped (n must count x1), or the distances are similarities: they disagree with the votes, and "
        "no distance agrees"
    )
    assert (found.level, found.distance) == ("warning", None)
    assert found.remedy == (
        f"replace n by M - n, or use 1 - similarity; the table alone does not decide which; {GENUINE}"
    )
    (found,) = looked(only(changed(frames[role], "ssim", lambda d: 1 - d), "ssim"))
    assert found.distance == "ssim"
    assert found.message == (
        "the votes are flipped (n must count x1), or ssim is a similarity: it disagrees with the votes, and no distance "
        "agrees"
    )
    found, note = looked(only(changed(frames[role], "ssim", lambda d: -d), "ssim"))
    assert found.message == "ssim disagrees with the votes and is negative: a similarity, or negated"
    assert found.remedy == "use the distance itself, at least 0"
    assert (note.code, note.level) == ("negative", "note")
    assert note.message == "a distance is at least 0; ssim has negative values"


@pytest.mark.parametrize("role", ["train", "test"])
@pytest.mark.parametrize("name", ["rmse", "lab_hist_hellinger", "ssim", "gmsd", "lpips_alex"])
def test_a_similarity_among_distances_is_named(frames: dict[str, pl.DataFrame], role: str, name: str) -> None:
    (found,) = looked(changed(frames[role], name, lambda d: 1 - d))
    assert (found.code, found.level, found.distance) == ("direction", "warning", name)
    assert (
        found.message
        == f"{name} disagrees with the votes and the other distances: probably a similarity, not a distance"
    )
    assert found.remedy == f"smaller must mean closer: use 1 - {name} or similar; {GENUINE}"
    found, *units = planted(frames, role, changed(frames[role], name, lambda d: 1 - d))
    other = {"train": "test", "test": "train"}[role]
    assert (found.code, found.table, found.distance) == ("direction", role, name)
    assert found.remedy == f"smaller must mean closer: use 1 - {name} or similar, as in {other}"
    assert [each.code for each in units] == ["units"]
    assert "test values are 1 - x of the training values" in units[0].evidence


@pytest.mark.parametrize("name", ["rmse", "lab_hist_hellinger", "ms_ssim"])
def test_sides_changed_over_are_told_from_a_similarity(frames: dict[str, pl.DataFrame], name: str) -> None:
    frame = frames["test"].rename({f"{name}_d0": f"{name}_d1", f"{name}_d1": f"{name}_d0"})
    (found,) = looked(frame)
    assert (found.code, found.level, found.distance) == ("direction", "warning", name)
    assert found.message == (
        f"{name} disagrees with the votes, and with the other distances in d0 - d1 but not in d0 + d1: probably d0 and "
        "d1 are swapped"
    )
    assert found.remedy == f"d0 belongs to x0 and d1 to x1; {GENUINE}"


def correlated(votes: float, strangers: float, *, kin: int = 2, T: int = 4000) -> pl.DataFrame:
    """Distances a, b, ... that go with the votes, and one, z, that goes with them but against the votes."""
    rng = np.random.default_rng(3)
    common, seen = rng.normal(size=(2, 2, T))
    columns = {}
    for k in range(kin):
        columns[f"{'abcdefg'[k]}"] = common + votes * seen + 0.3 * rng.normal(size=(2, T))
    columns["z"] = strangers * common - votes * seen + 0.3 * rng.normal(size=(2, T))
    n = rng.binomial(3, 1 / (1 + np.exp(-2 * (seen[0] - seen[1]))))
    sides = {f"{name}_d{side}": np.exp(d[side]) for name, d in columns.items() for side in (0, 1)}
    return pl.DataFrame({"n": n, "M": 3, **sides})


def test_a_distance_that_truly_runs_against_the_votes_is_only_noted() -> None:
    frame = correlated(0.5, 1.0)
    (found,) = looked(frame)
    assert (found.code, found.level, found.distance) == ("direction", "note", "z")
    assert found.message == "z disagrees with the votes but not with the other distances: it is no similarity"
    assert found.remedy == f"check its d0 and d1; {GENUINE}"
    (found,) = looked(flipped(frame))
    assert (found.level, found.distance) == ("warning", None)
    assert found.message == (
        "the votes are flipped (n must count x1), or the distances are similarities: they disagree with the votes, "
        "unlike z"
    )


def test_where_the_others_do_not_tell_all_causes_are_named() -> None:
    (found,) = looked(correlated(0.5, 0.25))
    assert (found.level, found.distance) == ("warning", "z")
    assert found.message == (
        "z disagrees with the votes: a similarity, or d0 and d1 are swapped, or the distance is wrong"
    )
    assert found.remedy == f"smaller must mean closer, and d0 must belong to x0; {GENUINE}"


def test_flipped_votes_without_a_word_from_the_values_name_both() -> None:
    def table(seed: int) -> pl.DataFrame:
        # A distance whose distribution is the same turned round.
        rng = np.random.default_rng(seed)
        d0, d1 = rng.random((2, 3000))
        return pl.DataFrame({"n": rng.binomial(2, d0 / (d0 + d1)), "M": 2, "d0": d0, "d1": d1})

    (found,) = looked(table(1), flipped(table(2)))
    assert (found.table, found.distance) == ("test", "distance")
    assert found.message == "the votes of test are flipped (n must count x1), or all its distances are similarities"
    assert found.remedy == "replace n by M - n, or use 1 - similarity; the data do not decide which"


@pytest.mark.parametrize("names", ["ab", "abcd"])
def test_votes_flipped_or_shuffled_in_one_group(frames: dict[str, pl.DataFrame], names: str) -> None:
    group = pl.Series("group", np.random.default_rng(0).choice(list(names), len(frames["train"])))
    frame = frames["train"].with_columns(group)
    assert looked(frame) == []
    inside = pl.col("group") == "b"
    (found,) = looked(frame.with_columns(n=pl.when(inside).then(pl.col("M") - pl.col("n")).otherwise("n")))
    assert (found.code, found.level, found.distance) == ("direction", "warning", None)
    assert found.message == (
        "the votes of group b are probably flipped: distances that agree with them elsewhere disagree there"
    )
    rows = np.arange(len(frame))
    part = np.flatnonzero(group.to_numpy() == "b")
    rows[part] = np.roll(part, 1)
    (found,) = looked(gathered(frame, ["n", "M"], rows))
    assert (found.code, found.level, found.distance) == ("shuffled", "warning", None)
    assert found.message == (
        "no distance explains the votes of group b: its rows are shuffled, or no distance measures what people saw there"
    )


# Shuffled


@pytest.mark.parametrize("role", ["train", "test"])
def test_votes_out_of_order(frames: dict[str, pl.DataFrame], role: str) -> None:
    (found,) = planted(frames, role, shuffled(frames[role], "n", "M"))
    assert (found.code, found.level, found.table, found.distance) == ("shuffled", "warning", role, None)
    assert found.message == f"the rows of {role} are shuffled: its votes do not belong to its distances"
    assert found.remedy == "match the rows again by the names of their images, not by their order"
    (found,) = looked(shuffled(frames[role], "n", "M"))
    assert found.message == (
        "no distance explains the votes although the distances are correlated: the votes are shuffled, or all "
        "distances are useless"
    )
    assert "images that occur in several rows have the same distance there, as they should" in found.evidence
    (found,) = looked(gathered(frames[role], ["n", "M"], np.roll(np.arange(len(frames[role])), 1)))
    assert found.code == "shuffled"


@pytest.mark.parametrize("role", ["train", "test"])
@pytest.mark.parametrize("name", ["rmse", "lab_hist_hellinger", "ssim", "lpips_alex"])
def test_one_distance_out_of_order(frames: dict[str, pl.DataFrame], role: str, name: str) -> None:
    frame = shuffled(frames[role], f"{name}_d0", f"{name}_d1")
    (found,) = looked(frame)
    assert (found.code, found.level, found.distance) == ("shuffled", "warning", name)
    assert found.message == (
        f"{name} explains none of the votes and correlates with no other distance: its rows are shuffled, or it is "
        "noise"
    )
    assert "% have different distances there" in found.evidence
    (found,) = planted(frames, role, frame)
    assert (found.code, found.table, found.distance) == ("shuffled", role, name)
    assert found.message == f"the rows of {name} are shuffled: its values do not belong to these votes"
    (found,) = looked(*(only(each, name) for each in (frames | {role: frame}).values()))
    assert found.message == f"the rows of {role} are shuffled, or {name} is useless there"
    (found,) = looked(only(shuffled(frames["train"], f"{name}_d0", f"{name}_d1"), name))
    assert found.message == f"{name} explains none of the votes: its rows are shuffled, or it is useless"


def test_a_useless_distance_among_others_is_noted_as_such(frames: dict[str, pl.DataFrame]) -> None:
    frame, rng = frames["train"], np.random.default_rng(3)
    places = {name: place for place, name in enumerate(sorted({*frame["ref"], *frame["x0"], *frame["x1"]}))}
    scattered = rng.normal(size=(len(places), 5))
    ref, x0, x1 = (scattered[[places[name] for name in frame[column]]] for column in ("ref", "x0", "x1"))
    sides = {f"random_d{k}": np.linalg.norm(ref - x, axis=1) for k, x in enumerate((x0, x1))}
    (found,) = looked(frame.with_columns(**{name: pl.Series(d) for name, d in sides.items()}))
    assert (found.code, found.level, found.distance) == ("useless", "note", "random")
    assert found.message == "random explains none of the votes although its rows are in order: it is useless here"


def test_sides_mixed_up_at_random(frames: dict[str, pl.DataFrame]) -> None:
    frame = frames["train"]
    mixed = pl.Series(np.random.default_rng(0).random(len(frame)) < 0.5)
    frame = frame.with_columns(
        lpips_alex_d0=pl.when(mixed).then("lpips_alex_d1").otherwise("lpips_alex_d0"),
        lpips_alex_d1=pl.when(mixed).then("lpips_alex_d0").otherwise("lpips_alex_d1"),
    )
    (found,) = looked(frame)
    assert found.message == (
        "lpips_alex explains none of the votes and correlates with other distances in d0 + d1, not in d0 - d1: its d0 "
        "and d1 are mixed up, or it is useless"
    )


def test_unrelated_distances_that_explain_nothing() -> None:
    rng = np.random.default_rng(0)
    sides = {f"{name}_d{k}": rng.random(5000) for name in "ab" for k in (0, 1)}
    (found,) = looked(pl.DataFrame({"n": rng.binomial(2, 0.5, 5000), "M": 2, **sides}))
    assert found.message == "no distance explains the votes: the rows are shuffled, or all distances are useless"


# Values


@pytest.mark.parametrize("role", ["train", "test"])
@pytest.mark.parametrize(
    ("change", "what", "told"),
    [
        (lambda d: d * 0 + 0.5, "constant", "every value is 0.5"),
        (lambda d: 0.5 + 1e-6 * d, "nearly constant", "98 % of all values lie in 0.5000000"),
        (lambda d: pl.when(d > 0.84).then(d).otherwise(0.5), "nearly constant", "% of all values are 0.5"),
    ],
)
def test_constant_distances(
    frames: dict[str, pl.DataFrame], role: str, change: Callable[[pl.Expr], pl.Expr], what: str, told: str
) -> None:
    (found,) = planted(frames, role, changed(frames[role], "ssim", change))
    assert (found.code, found.level, found.table, found.distance) == ("constant", "warning", role, "ssim")
    assert found.message == f"a distance must vary; ssim is {what}"
    assert told in found.evidence
    assert found.remedy == "measure it again and write all its digits, or leave it out"


def test_one_side_that_never_changes(frames: dict[str, pl.DataFrame]) -> None:
    (found,) = looked(frames["test"].with_columns(ssim_d0=pl.lit(0.0)))
    assert (found.code, found.level, found.distance) == ("constant", "warning", "ssim")
    assert found.message == "d0 of ssim is the same in every row"
    assert found.evidence == "d0 = 0: x0 is the reference itself"
    rng = np.random.default_rng(0)
    d1 = rng.lognormal(size=500)
    table = {"n": rng.binomial(3, 1 / (1 + d1)), "M": [3] * 500, "d0": [1.0] * 500, "d1": d1}
    (found,) = check(Triplets.from_frame(table))
    assert (found.level, found.evidence) == ("note", "d0 = 1")


@pytest.mark.parametrize("role", ["train", "test"])
@pytest.mark.parametrize(("share", "level"), [(0.15, "note"), (0.4, "warning")])
def test_masses_of_ties(frames: dict[str, pl.DataFrame], role: str, share: float, level: str) -> None:
    tied = pl.Series(np.random.default_rng(0).random(len(frames[role])) < share)
    frame = frames[role].with_columns(rmse_d1=pl.when(tied).then("rmse_d0").otherwise("rmse_d1"))
    (found,) = planted(frames, role, frame)
    assert (found.code, found.level, found.table, found.distance) == ("ties", level, role, "rmse")
    assert found.message == "rmse does not distinguish x0 from x1 in many rows: d0 = d1"
    assert f"{int(tied.sum())} of {len(frame)}" in found.evidence


def test_one_distance_under_two_names(frames: dict[str, pl.DataFrame]) -> None:
    (found,) = looked(frames["test"].with_columns(again_d0="gmsd_d0", again_d1="gmsd_d1"))
    assert (found.code, found.level, found.distance) == ("twins", "note", "again")
    assert found.message == "again and gmsd are the same distance under two names"


# Units


@pytest.mark.parametrize("role", ["train", "test"])
@pytest.mark.parametrize("factor", [2.0, 10.0, 255.0, 1 / 255, 1000.0])
@pytest.mark.parametrize("name", ["rmse", "gmsd", "lpips_alex"])
def test_other_units(frames: dict[str, pl.DataFrame], role: str, factor: float, name: str) -> None:
    frame = changed(frames[role], name, lambda d: factor * d)
    (found,) = planted(frames, role, frame)
    assert (found.code, found.level, found.table, found.distance) == ("units", "warning", "both", name)
    assert found.message == f"train and test must give {name} in the same units; they do not seem to"
    ratio = factor if role == "test" else 1 / factor
    words = f"times {ratio:g}" if ratio > 1 else f"divided by {1 / ratio:g}"
    assert f"test is train {words}: " in found.evidence
    alone = [only(each, name) for each in (frames | {role: frame}).values()]
    assert [each.code for each in looked(*alone)] == ["units"]


def test_all_distances_in_other_units(frames: dict[str, pl.DataFrame]) -> None:
    sides = [column for column in frames["test"].columns if column.endswith(("_d0", "_d1"))]
    found = planted(frames, "test", frames["test"].with_columns(pl.col(sides) * 2))
    assert {each.code for each in found} == {"units"}
    assert sum(each.level == "warning" for each in found) >= 9


def test_other_formulas_and_ranges(frames: dict[str, pl.DataFrame]) -> None:
    (found,) = planted(frames, "test", changed(frames["test"], "rmse", lambda d: d * d))
    assert "test values are the square of the training values, up to a factor" in found.evidence
    (found,) = planted(frames, "test", changed(frames["test"], "lpips_alex", lambda d: d.sqrt()))
    assert "test values are the square root of the training values, up to a factor" in found.evidence
    near = frames["train"].filter((pl.col("ssim_d0") < 0.5) & (pl.col("ssim_d1") < 0.5))
    (found,) = looked(only(near, "ssim"), only(frames["test"], "ssim"))
    assert (found.code, found.level, found.distance) == ("units", "warning", "ssim")
    assert found.message == "many test values of ssim lie outside the training range, where the fit has no data"
    near = frames["train"].filter((pl.col("ssim_d0") < 0.75) & (pl.col("ssim_d1") < 0.75))
    (found,) = looked(only(near, "ssim"), only(frames["test"], "ssim"))
    assert (found.code, found.level) == ("units", "note")


def test_ordinary_differences_between_tables_are_no_jump() -> None:
    rng = np.random.default_rng(0)

    def table(T: int, scale: float, spread: float, votes: int) -> Triplets:
        d0, d1 = scale * rng.lognormal(sigma=spread, size=(2, T))
        return Triplets.from_frame({"n": rng.binomial(votes, d0 / (d0 + d1)), "M": [votes] * T, "d0": d0, "d1": d1})

    for scale in (0.6, 0.8, 1.2, 1.6):
        found = check(table(3000, 1, 0.8, 2), table(1000, scale, 0.7, 5))
        assert [each.code for each in found] == ["unlike_votes"]


# Rows that occur twice


@pytest.mark.parametrize("role", ["train", "test"])
def test_rows_that_occur_twice(frames: dict[str, pl.DataFrame], role: str) -> None:
    frame = frames[role]
    twice = pl.concat([frame, frame[:7]])
    (found,) = planted(frames, role, twice)
    assert (found.code, found.level, found.table, found.distance) == ("duplicates", "warning", role, None)
    assert found.message == "each triplet must have one row; some have several"
    first = ", ".join(frame[name][0] for name in ("ref", "x0", "x1"))
    assert found.evidence == (
        f"7 of {len(twice)} ({700 / len(twice):.1f} %) rows repeat an earlier one by their names, 7 of them with the "
        f"same n and M; first in row {len(frame)} ({first})"
    )
    mirrored = Triplets.from_frame(frame[:7]).mirrored().to_frame().with_columns(M=pl.col("M") + 1)
    (found,) = planted(frames, role, pl.concat([frame, mirrored]))
    assert "7 of " in found.evidence
    assert "names, 0 of them with the same n and M" in found.evidence
    (found,) = looked(twice.drop(LABELS))
    assert "rows repeat an earlier one by all of their distances, 7 of them" in found.evidence


def test_equal_numbers_are_no_equal_rows() -> None:
    coarse = simulated("weber", triplets=3000, votes=2, distances="discrete", seed=1)
    assert {each.code for each in check(coarse, coarse.where(range(500)))} <= {"ties"}
    for digits in (1, 2, 3):
        rng = np.random.default_rng(digits)
        base = rng.lognormal(size=(2, 3000))
        noisy = base * rng.lognormal(sigma=0.3, size=(2, 3000))
        sides = {f"{name}_d{k}": np.round(d[k], digits) for name, d in (("a", base), ("b", noisy)) for k in (0, 1)}
        frame = pl.DataFrame({"n": rng.binomial(2, base[0] / base.sum(axis=0)), "M": 2, **sides})
        assert [each.code for each in looked(frame[:2000], frame[2000:]) if each.code != "ties"] == []
        assert [
            each.code for each in looked(only(frame[:2000], "a"), only(frame[2000:], "a")) if each.code != "ties"
        ] == []


def test_observers_may_judge_the_same_triplets() -> None:
    names = {"ref": ["r"] * 40, "x0": ["a"] * 40, "x1": ["b"] * 40, "observer": [f"{k}" for k in range(40)]}
    table = {"n": [0, 1] * 20, "M": [1] * 40, "d0": [0.4] * 40, "d1": [0.2] * 40, **names}
    assert "duplicates" not in {each.code for each in check(Triplets.from_frame(table))}


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
    told = [each.evidence for each in check(table) if each.code == "duplicates"]
    assert [text.split(" ")[0] for text in told] == ([str(repeats)] if repeats else [])
    half = len(rows) // 2
    shared = sum(key in set(unordered[:half]) for key in unordered[half:])
    found = check(table.where(range(half)), table.where(range(half, len(rows))))
    told = [each.evidence for each in found if each.code == "shared_triplets"]
    assert [text.split(" ")[0] for text in told] == ([str(shared)] if shared else [])


def test_shared_triplets(frames: dict[str, pl.DataFrame]) -> None:
    train, test = frames.values()
    (found,) = looked(pl.concat([train, test[:10]]), test)
    assert (found.code, found.level, found.table, found.distance) == ("shared_triplets", "warning", "both", None)
    assert found.message == "test triplets must be new; some are also in the training table"
    assert found.evidence == (
        "10 of 3000 (0.3 %) test rows are in train by their names; first in test row 0 (teflon, blue-metallic-paint, "
        "white-marble)"
    )
    (found,) = looked(pl.concat([train, test[:10]]).drop(LABELS), test.drop(LABELS))
    assert "10 of 3000 (0.3 %) test rows are in train by all of their distances" in found.evidence
    mirrored = Triplets.from_frame(test).mirrored().to_frame()
    (found,) = looked(mirrored, test)
    assert "3000 of 3000 (100.0 %)" in found.evidence


def test_names_that_do_not_name(frames: dict[str, pl.DataFrame]) -> None:
    def numbered(frame: pl.DataFrame) -> pl.DataFrame:
        number = pl.Series(np.arange(len(frame)) % 1000).cast(pl.String)
        return frame.with_columns(ref=number, x0=number + "a", x1=number + "b")

    for found in (looked(*(numbered(frame[-1000:]) for frame in frames.values())), looked(numbered(frames["test"]))):
        told = [each for each in found if each.code != "unlike_votes"]
        assert [(each.code, each.level) for each in told] == [("names", "note")]
        assert told[0].message == (
            "names of images must identify rows; rows with the same names have different distances"
        )


def test_no_shared_distance_and_no_names_say_nothing() -> None:
    a, b = random_table(50), random_table(50)
    other = Triplets.from_frame(b.to_frame().rename({"d0": "x_d0", "d1": "x_d1"}))
    assert check(a, other) == []


# Groups, counts, names


def test_groups_of_one(frames: dict[str, pl.DataFrame]) -> None:
    frame = frames["test"]
    group = pl.Series("group", ["many"] * (len(frame) - 2) + ["one", "two"])
    (found,) = planted(frames, "test", frame.with_columns(group))
    assert (found.code, found.level, found.table) == ("lonely_groups", "warning", "test")
    assert found.message == "a group needs several triplets; some have only one"
    assert found.evidence == "2 of 3 groups have one triplet: one, two"
    (found,) = looked(frame.with_columns(group="triplet"))
    assert found.evidence.startswith("3000 of 3000 groups have one triplet: ")


def test_names_that_differ_by_spelling(frames: dict[str, pl.DataFrame]) -> None:
    group = pl.Series("group", (["Wood", "metal", "wood "] * 1000)[: len(frames["test"])])
    (found,) = looked(frames["test"].with_columns(group))
    assert (found.code, found.level) == ("spelling", "warning")
    assert found.message == "one group must have one name; some differ only in capitals or spaces"
    assert found.evidence == "'Wood' and 'wood '"


@pytest.mark.parametrize(
    ("train", "test", "told"),
    [
        (2, 5, "M = 2 in train, 5 in test"),
        ([2, 3], 5, "M = 2..3 (mean 2.43) in train, 5 in test"),
        (4, 5, "M = 4 in train, 5 in test"),
        ([3, 5], 4, None),
    ],
)
def test_unlike_votes(train: Any, test: Any, told: str | None) -> None:
    tables = [simulated("weber", triplets=500, votes=votes, seed=seed) for seed, votes in enumerate((train, test))]
    found = check(*tables)
    assert [each.evidence for each in found] == ([told] if told else [])
    for each in found:
        assert (each.code, each.level) == ("unlike_votes", "note")
        assert each.message == "M differs between train and test: their NLLs per triplet are not comparable, P is"


def test_per_cent_instead_of_counts() -> None:
    table = simulated("weber", triplets=200, votes=3, seed=1)
    frame = table.to_frame().with_columns(n=(100 * pl.col("n") / 3).round().cast(pl.Int64), M=pl.lit(100))
    (found,) = looked(frame)
    assert (found.code, found.level) == ("percent", "warning")
    assert found.message == "n and M are numbers of votes; these look like percentages of fewer people"
    assert found.evidence == "M = 100 in every row, and every n is a multiple of 1/3 of it"
    assert check(simulated("weber", triplets=200, votes=100, seed=1)) == []


def test_all_votes_for_one_side() -> None:
    frame = simulated("weber", triplets=200, votes=3, seed=1).to_frame()
    for n, side, told in ((0, "x0", "0"), (3, "x1", "M")):
        (found,) = looked(frame.with_columns(n=pl.lit(n)))
        assert (found.code, found.level, found.message) == ("one_sided", "note", f"all votes are for {side}")
        assert found.evidence == f"n is {told} in all 200 rows"


def test_one_image_named_twice() -> None:
    names = {"ref": ["r", "s", "t", "u"], "x0": ["a", "b", "t", "d"], "x1": ["a", "c", "e", "f"]}
    (found,) = check(random_table(4, **names))
    assert (found.code, found.level) == ("one_image", "note")
    assert found.evidence == "x0 is x1 in 1 of 4 (25.0 %) rows, x0 or x1 is the reference in 1 of 4 (25.0 %)"


# Observers


def voted(observers: int, each: int, seed: int = 0) -> pl.DataFrame:
    """Single votes, shown either way round, of observers who judge as they should."""
    rng = np.random.default_rng(seed)
    T = observers * each
    d0, d1 = rng.lognormal(size=(2, T))
    images = {name: [f"{name}{t}" for t in range(T)] for name in ("ref", "x0", "x1")}
    who = pl.Series("observer", [f"o{t % observers}" for t in range(T)])
    return pl.DataFrame(
        {"choice": rng.binomial(1, d0**2 / (d0**2 + d1**2)), "d0": d0, "d1": d1, **images, "observer": who}
    )


@pytest.mark.parametrize("key", [0, 1])
def test_an_observer_who_always_presses_one_key(key: int) -> None:
    votes = voted(12, 60)
    assert looked(votes) == []
    pressed = votes.with_columns(choice=pl.when(pl.col("observer") == "o7").then(key).otherwise("choice"))
    (found,) = looked(pressed)
    assert (found.code, found.level, found.table) == ("one_key", "warning", "train")
    assert found.message == f"observer o7 presses one key whatever is shown: choice {key}"
    assert found.evidence.startswith(f"60 of 60 votes are {key}; ")
    counted = pressed.rename({"choice": "n"}).with_columns(M=pl.lit(1))
    assert [each.message for each in looked(counted)] == [found.message]


def test_keys_count_as_shown_not_as_merged() -> None:
    # Every triplet twice, the second time the other way round: who presses 1 both times looks undecided when merged.
    votes = voted(10, 40)
    swap = {"x0": "x1", "x1": "x0", "d0": "d1", "d1": "d0"}
    again = votes.rename(swap).select(votes.columns).with_columns(choice=1 - pl.col("choice"))
    both = pl.concat([votes, again])
    assert looked(both) == []
    (found,) = looked(both.with_columns(choice=pl.when(pl.col("observer") == "o3").then(1).otherwise("choice")))
    assert found.evidence == "80 of 80 votes are 1; 50 % for the other observers"


def test_a_lone_observer_is_held_against_the_distances() -> None:
    votes = voted(1, 200)
    (found,) = [each for each in looked(votes.with_columns(choice=pl.lit(1))) if each.code == "one_key"]
    assert found.evidence.endswith("% are expected from the distances")
    assert looked(votes) == []
    # x1 is always better here, and whoever says so is right.
    sided = votes.with_columns(d0=pl.max_horizontal("d0", "d1") + 1, d1=pl.min_horizontal("d0", "d1"), choice=pl.lit(1))
    assert [each.code for each in looked(sided)] == ["one_sided"]


def test_honest_observers_are_left_in_peace() -> None:
    assert [each for seed in range(40) for each in looked(voted(30, 20, seed)) if each.code == "one_key"] == []


# The statistics underneath


def test_the_score_and_its_error_are_those_of_the_books() -> None:
    rng = np.random.default_rng(0)
    u0, u1 = rng.random((2, 400))
    share = rng.binomial(3, 0.4 + 0.2 * (u1 > u0)) / 3
    unit = rng.integers(0, 30, 400)
    right = np.where(u0 > u1, share, 1 - share)
    told = relate(share, u0, u1, None)
    assert told.score == pytest.approx(100 * right.mean())
    assert told.se == pytest.approx(100 * right.std(ddof=1) / 20)
    assert told.low == pytest.approx(ttest_1samp(right, 0.5, alternative="less").pvalue)
    sums = [sum(right[t] - right.mean() for t in range(400) if unit[t] == k) for k in range(30)]
    assert relate(share, u0, u1, unit).se == pytest.approx(100 * np.sqrt(30 / 29 * sum(s**2 for s in sums)) / 400)


def test_the_joint_test_is_hotellings() -> None:
    rng = np.random.default_rng(1)
    u0, u1 = rng.random((2, 300))
    share = rng.binomial(2, 0.45 + 0.1 * u0) / 2
    d, s = u0 - u1, u0 + u1 - 1
    terms = np.stack([np.sign(d), d, d * s, d**3, d * s**2])
    x = (terms - terms.mean(axis=1, keepdims=True)) * (share - share.mean())
    mean, covariance = x.mean(axis=1), np.cov(x)
    statistic = 300 * mean @ np.linalg.solve(covariance, mean) * (300 - 5) / (5 * 299)
    assert relate(share, u0, u1, None).p == pytest.approx(f_distribution.sf(statistic, 5, 295), rel=1e-6)


@pytest.mark.parametrize("units", [None, 40])
def test_chances_are_even_where_a_distance_says_nothing(units: int | None) -> None:
    rng = np.random.default_rng(2)
    told = []
    for _ in range(400):
        u0, u1 = rng.random((2, 600))
        told.append(
            relate(rng.binomial(2, 0.5, 600) / 2, u0, u1, None if units is None else rng.integers(0, units, 600))
        )
    assert kstest([each.low for each in told], "uniform").pvalue > 1e-3
    # With few units the joint test is a little cautious or bold; what matters are its tails.
    assert np.mean([each.p < 0.01 for each in told]) < 0.04


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
    assert capsys.readouterr().out == "nothing found\n"
    main(["check", "flipped.csv"])
    said = capsys.readouterr().out
    assert said.count("\n") == 1
    assert said.startswith(
        "warning: train, distance: the votes are flipped (n must count x1), or distance is a similarity"
    )
    with pytest.raises(SystemExit) as caught:
        main(["check", "flipped.csv", "--strict"])
    assert caught.value.code == 1
    assert capsys.readouterr().out == said


def test_the_command_prints_json(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", "train.csv", "--test", "twice.csv", "--json"])
    (told,) = json.loads(capsys.readouterr().out)
    found = check(Triplets.read("train.csv"), Triplets.read("twice.csv"))
    assert [Finding(**told)] == found
    main(["check", "train.csv", "--json"])
    assert json.loads(capsys.readouterr().out) == []


def test_the_command_tells_a_mistake_in_one_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["check", "nosuch.csv"])
    assert caught.value.code == 2
    assert capsys.readouterr().err == "twoafc: no such file: nosuch.csv\n"


def test_warnings_come_first() -> None:
    table = simulated("weber", triplets=1000, votes=2, seed=1)
    test = simulated("weber", triplets=1000, votes=5, seed=2).to_frame()
    found = twoafc.check(table, Triplets.from_frame(changed_unnamed(test, 100.0)))
    assert [(each.code, each.level) for each in found] == [("units", "warning"), ("unlike_votes", "note")]


def changed_unnamed(frame: pl.DataFrame, factor: float) -> pl.DataFrame:
    return frame.with_columns(pl.col("d0", "d1") * factor)
