"""Counts on a lattice: the lattice's own laws, adding, coarsening, and files that are read with nothing trusted."""

from __future__ import annotations

import re
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
from counting import tally
from twoafc.errors import DataError
from twoafc.files import save_archive
from twoafc.scale import Counts, Lattice, merge
from twoafc.scale.lattice import KEY, summed
from twoafc.table import Triplets

distances = st.one_of(
    st.just(0.0),
    st.floats(0, 1e15, allow_subnormal=True),
    st.sampled_from([1e-12, 1e-13, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 1e12, 2e12, 1e300]),
)
powers = st.sampled_from([1, 2, 16, 128, 4096])


@st.composite
def tables(draw: st.DrawFn) -> Triplets:
    T = draw(st.integers(1, 30))
    some = st.lists(st.sampled_from([0.0, 0.1, 0.1003, 0.2, 0.5]) | distances, min_size=T, max_size=T)
    M = draw(st.lists(st.integers(1, 5), min_size=T, max_size=T))
    columns = {"n": [draw(st.integers(0, m)) for m in M], "M": M, "d0": draw(some), "d1": draw(some)}
    columns["ref"] = draw(st.lists(st.sampled_from("rstu"), min_size=T, max_size=T))
    columns["group"] = draw(st.lists(st.sampled_from("gh"), min_size=T, max_size=T))
    return Triplets.from_frame(columns)


@given(distances, powers)
def test_a_distance_lies_between_the_ends_of_its_bin(d: float, per_octave: int) -> None:
    lattice = Lattice(per_octave)
    place, edges = int(lattice.index(d)), lattice.edges
    assert len(edges) == lattice.bins + 1
    assert (place == 0) == (d == 0)
    assert edges[place] <= d <= edges[place + 1]
    assert d < edges[place + 1] or d == 0
    middle = float(lattice.middles(np.array([place]))[0])
    assert edges[place] <= middle <= edges[place + 1]
    assert lattice.index(middle) == place


@given(st.lists(distances, min_size=1), st.sampled_from([2, 8, 16]), st.sampled_from([16, 128, 4096]))
def test_bins_of_a_coarser_lattice_are_bins_taken_together(d: list[float], times: int, per_octave: int) -> None:
    lattice = Lattice(per_octave)
    coarse = Lattice(per_octave // times)
    np.testing.assert_array_equal(lattice.coarsened(lattice.index(d), coarse), coarse.index(d), err_msg=repr(d))


def test_what_is_no_distance_has_no_bin() -> None:
    found = Lattice(16).index([np.nan, np.inf, -np.inf, -1e-300, -0.0, 1.0])
    assert found.tolist() == [-1, -1, -1, -1, 0, 40 * 16 + 2]
    assert Lattice(16).coarsened(found, Lattice(2)).tolist() == [-1, -1, -1, -1, 0, 40 * 2 + 2]


@given(st.integers(-40, 39), st.integers(0, 4095), powers)
def test_edges_are_exact_to_the_last_bit(octave: int, step: int, per_octave: int) -> None:
    step = step * per_octave // 4096
    edge = 2.0**octave * (1 + step / per_octave)
    lattice = Lattice(per_octave)
    place = (octave + 40) * per_octave + step + 2
    assert (lattice.index(edge), lattice.index(np.nextafter(edge, 0))) == (place, place - 1)
    assert lattice.edges[place] == edge


@pytest.mark.parametrize("wrong", [0, 3, 8192, 2.0, True])
def test_a_lattice_has_a_power_of_two(wrong: Any) -> None:
    with pytest.raises(ValueError, match=rf"^per_octave must be a power of two from 1 to 4096; found {wrong}$"):
        Lattice(wrong)


@settings(max_examples=50, deadline=None)
@given(tables(), st.data())
def test_parts_add_up_to_the_whole_in_any_split_and_order(table: Triplets, data: st.DataObject) -> None:
    parts = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(table), max_size=len(table))))
    order = data.draw(st.permutations(sorted(set(parts))))
    counted = [tally(table.where(parts == part), keep_refs=True) for part in order]
    whole = tally(table, keep_refs=True)
    assert merge(counted) == whole
    assert merge([merge(counted[:1]), *counted[1:]]).parts == merge(counted).parts


@settings(max_examples=50, deadline=None)
@given(tables(), st.sampled_from([2, 16, 128]))
def test_coarser_counts_are_counts_on_the_coarser_lattice(table: Triplets, per_octave: int) -> None:
    counts = tally(table, per_octave=per_octave, keep_refs=True)
    assert counts.coarser() == tally(table, per_octave=per_octave // 2, keep_refs=True)


def test_refs_are_kept_only_where_all_keep_them() -> None:
    table = random_table(40, ref=["r", "s"] * 20)
    kept, plain = tally(table, keep_refs=True), tally(table)
    assert kept.refs_kept
    assert kept.cells["ref"].n_unique() == 2
    assert kept.triplets == 40
    assert merge([kept, kept]).refs_kept
    assert not merge([kept, plain]).refs_kept
    assert merge([kept, plain]) == merge([plain, plain])
    assert kept != plain
    assert kept.digest == plain.digest


def test_keys_too_many_for_one_number_are_gathered_all_the_same() -> None:
    rows = {"group": 0, "bin0": [300000, 1, 300000], "bin1": [5, 300000, 5], "sign": [1, -1, 1]}
    rows |= {"n": [10**9, 7, 10**9], "M": [10**9, 10**9, 10**9], "count": [1, 1, 4]}
    found = summed(KEY, pl.DataFrame(rows))
    assert found.rows() == [(0, 1, 300000, -1, 7, 10**9, 1), (0, 300000, 5, 1, 10**9, 10**9, 5)]
    assert found.schema == pl.Schema({**KEY, "count": pl.Int64})


@pytest.mark.parametrize("moved", [0, 3, 4000], ids=["in order", "a few moved", "in any order"])
@pytest.mark.parametrize("repeated", [0, 50], ids=["each key once", "keys repeated"])
def test_keys_in_any_order_are_put_in_order(moved: int, repeated: int) -> None:
    rng = np.random.default_rng([moved, repeated])
    place = np.arange(4000)
    some = rng.permutation(4000)[:moved]
    place = np.concatenate([np.delete(place, some), some, place[:repeated]])
    rows = pl.DataFrame({"group": 0, "bin0": place // 7, "bin1": place % 7, "sign": 1, "n": 1, "M": 2})
    rows = rows.with_columns(count=pl.Series(rng.integers(1, 9, len(place))))
    found = summed(KEY, rows[:2500], rows[2500:])
    assert found.rows() == rows.group_by(list(KEY)).agg(pl.col("count").sum()).sort(list(KEY)).rows()


def test_what_does_not_add_up_is_refused_with_the_reason() -> None:
    table = random_table(20)
    counts = tally(table)
    other = replace(counts, distance="ssim")
    grouped = tally(random_table(20, group=["g"] * 20))
    for pair, told in {
        (counts, other): "only counts of one distance can be merged; part 0 has distance, part 1 ssim",
        (counts, tally(table, per_octave=64)): (
            "only counts on one lattice can be merged; part 0 has 128 bins per octave, part 1 64: count one of them "
            "again, or make the finer ones coarser (Counts.coarser)"
        ),
        (
            counts,
            grouped,
        ): "counts can be merged only if all have groups or none do; part 1 has groups, part 0 has none",
    }.items():
        with pytest.raises(DataError, match=f"^{re.escape(told)}$"):
            merge(pair)
    with pytest.raises(ValueError, match=r"^there must be counts to merge; found none$"):
        merge([])


@pytest.fixture
def kept() -> Counts:
    return tally(random_table(60, group=["g", "h"] * 30, ref=list("rst") * 20), keep_refs=True)


def test_counts_come_back(kept: Counts, tmp_path: Path) -> None:
    both = merge([kept, tally(random_table(60, seed=5, group=["i"] * 60, ref=["r"] * 60), keep_refs=True)])
    for counts in (kept, both, tally(random_table(5))):
        counts.save(tmp_path / "c.npz")
        again = Counts.load(tmp_path / "c.npz")
        assert again == counts
        assert (again.parts, again.groups, again.lattice) == (counts.parts, counts.groups, counts.lattice)
        assert again.ends == counts.ends
        assert again.cells.schema == counts.cells.schema
    assert [path.name for path in tmp_path.iterdir()] == ["c.npz"]


def changed(counts: Counts, **new: Any) -> str:
    card, arrays = counts.stored()
    for name, value in new.items():
        if name in card:
            card[name] = value
        elif value is None:
            arrays.pop(name)
        else:
            arrays[name] = value(arrays[name]) if callable(value) else value
    with pytest.raises(DataError) as caught:
        Counts.restore(card, arrays)
    return str(caught.value)


def put(place: int, value: int) -> Any:
    def replaced(array: np.ndarray) -> np.ndarray:
        array = array.astype(np.int64)
        array[place] = value
        return array

    return replaced


def test_counts_that_no_counting_gave_are_refused(kept: Counts) -> None:
    old = {"format": 1}
    assert changed(kept, **old) == "the card of counts is of format 1, this version reads 2: count again"
    disagree = "the cells and the histogram do not agree"
    backwards = {
        name: lambda array: array[::-1] for name in ("ref", "group", "bin0", "bin1", "sign", "n", "M", "count")
    }
    cases: list[tuple[str, dict[str, Any]]] = [
        ("per_octave must be a power of two from 1 to 4096; found 3", {"per_octave": 3}),
        ("'sign'", {"sign": None}),
        ("conversion from `i64` to `i32` failed", {"bin0": put(0, 2**40)}),
        ("", {"n": lambda n: n[1:]}),
        ("", {"bin0": put(-1, 10**6)}),
        (disagree, {"count": put(0, 0)}),
        (disagree, {"M": put(0, 0)}),
        (disagree, {"n": put(0, 6)}),
        (disagree, {"group": put(-1, 2)}),
        (disagree, {"histogram_count": put(0, 99)}),
        (disagree, backwards),
    ]
    for told, new in cases:
        assert changed(kept, **new).startswith(f"the counts are damaged: {told}")


def test_rows_that_are_counts_are_not_taken_for_triplets(kept: Counts, tmp_path: Path) -> None:
    needs = "needs single triplets; these are counts of them: use the table that was counted"
    for what, use in {
        "check": twoafc.check,
        "a frame": lambda table: table.write(tmp_path / "t.csv"),
        "a frame ": twoafc.count,
    }.items():
        with pytest.raises(DataError, match=f"^{what.strip()} {needs}$"):
            use(kept.table())


def test_other_files_are_refused(kept: Counts, tmp_path: Path) -> None:
    save_archive(tmp_path / "m.npz", "density", {}, {})
    with pytest.raises(DataError, match=r"m\.npz has no counts; it is a model of kind 'density'$"):
        Counts.load(tmp_path / "m.npz")
    card, arrays = kept.stored()
    save_archive(tmp_path / "c.npz", "counts", card, {**arrays, "M": 0 * arrays["M"]})
    with pytest.raises(
        DataError,
        match=r"c\.npz: the counts are damaged: the cells and the histogram do not agree$",
    ):
        Counts.load(tmp_path / "c.npz")
