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

from conftest import random_table
from twoafc.counted import CountedTriplets
from twoafc.counts import Counts, Lattice, merge, tally
from twoafc.counts.cells import KEY, gathered
from twoafc.errors import DataError
from twoafc.files import save_archive
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
    assert edges[place] <= lattice.centres[place] <= edges[place + 1]
    assert lattice.index(lattice.centres[place]) == place


@given(st.lists(distances, min_size=1), st.sampled_from([2, 8, 16]), st.sampled_from([16, 128, 4096]))
def test_bins_of_a_coarser_lattice_are_bins_taken_together(d: list[float], times: int, per_octave: int) -> None:
    lattice = Lattice(per_octave)
    np.testing.assert_array_equal(
        lattice.merged(lattice.index(d), times), lattice.coarser(times).index(d), err_msg=repr(d)
    )


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


def test_cells_by_the_obvious_loop() -> None:
    table = random_table(300, seed=3, group=["b", "a", "c"] * 100)
    lattice = Lattice(16)
    slow: dict[tuple[int, ...], int] = {}
    groups = table.labels["group"].to_list()
    for t in range(len(table)):
        d0, d1 = float(table.d0[t]), float(table.d1[t])
        sign = (d0 > d1) - (d0 < d1)
        key = ("abc".index(groups[t]), int(lattice.index(d0)), int(lattice.index(d1)), sign, table.n[t], table.M[t])
        slow[key] = slow.get(key, 0) + 1
    counts = tally(table, lattice)
    assert {row[:-1]: row[-1] for row in counts.cells.rows()} == slow
    assert counts.cells.rows() == sorted(counts.cells.rows())
    assert counts.groups == ("a", "b", "c")
    assert (counts.triplets, counts.votes, len(counts)) == (300, table.M.sum(), 300)


@settings(max_examples=50, deadline=None)
@given(tables(), st.data())
def test_parts_add_up_to_the_whole_in_any_split_and_order(table: Triplets, data: st.DataObject) -> None:
    parts = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(table), max_size=len(table))))
    order = data.draw(st.permutations(sorted(set(parts))))
    counted = [tally(table.where(parts == part), keep_refs=True) for part in order]
    whole = tally(table, keep_refs=True)
    assert merge(counted) == whole
    assert sum(counted[1:], start=counted[0]) == whole
    assert merge([merge(counted[:1]), *counted[1:]]).parts == merge(counted).parts


@settings(max_examples=50, deadline=None)
@given(tables(), st.sampled_from([2, 16, 128]))
def test_coarser_counts_are_counts_on_the_coarser_lattice(table: Triplets, per_octave: int) -> None:
    lattice = Lattice(per_octave)
    counts = tally(table, lattice, keep_refs=True)
    assert counts.coarser() == tally(table, lattice.coarser(), keep_refs=True)


@given(tables(), st.integers(2, 4), st.integers(0, 9))
def test_folds_add_up_to_the_whole(table: Triplets, folds: int, seed: int) -> None:
    many = tally(table, keep_refs=True)
    counts = replace(many, cells=many.cells.with_columns(pl.col("count") * 100))
    parts = counts.split(folds, seed=seed)
    assert len(parts) == folds
    assert merge(parts).cells.equals(counts.cells)
    assert all(part.clusters is None and part.cells["count"].min() > 0 for part in parts)
    assert [part.digest for part in counts.split(folds, seed=seed)] == [part.digest for part in parts]


@pytest.mark.parametrize("seed", range(8))
def test_no_fold_is_empty(seed: int) -> None:
    table = Triplets.from_frame({"n": [1, 1], "M": [1, 1], "d0": [1.0, 2.0], "d1": [2.0, 2.0]})
    both_in_one = len(set(np.random.default_rng(seed).binomial([1, 1], 0.5))) == 1
    if both_in_one:
        with pytest.raises(DataError) as caught:
            tally(table).split(2, seed=seed)
        assert str(caught.value) == "each fold must have triplets; of 2 one of 2 folds got none: take fewer folds"
    else:
        assert [len(part) for part in tally(table).split(2, seed=seed)] == [1, 1]


def test_each_triplet_has_the_same_chance_of_each_fold() -> None:
    table = Triplets.from_frame({"n": [1] * 900, "M": [1] * 900, "d0": [1.0, 2.0, 3.0] * 300, "d1": [2.0] * 900})
    counts = tally(table)
    drawn = np.array([list(counts.drawn(3, seed=seed)) for seed in range(300)])
    # Binomial, 300 triplets and a third: the mean of 300 draws has an error of 0.47.
    assert np.abs(drawn.mean(axis=0) - 100).max() < 2.5
    np.testing.assert_allclose(drawn.var(axis=0), 200 / 3, rtol=0.35)


@pytest.mark.parametrize("folds", [1, 0, 4])
def test_folds_must_be_possible(folds: int) -> None:
    table = Triplets.from_frame({"n": [1] * 3, "M": [1] * 3, "d0": [1.0, 2.0, 3.0], "d1": [2.0] * 3})
    with pytest.raises(DataError) as caught:
        tally(table).split(folds, seed=0)
    assert str(caught.value) == f"folds must lie between 2 and the number of triplets, 3; found {folds}"


def test_refs_are_kept_only_where_all_keep_them() -> None:
    table = random_table(40, ref=["r", "s"] * 20)
    kept, plain = tally(table, keep_refs=True), tally(table)
    assert kept.clusters is not None
    assert kept.clusters["ref"].n_unique() == 2
    assert kept.clusters["count"].sum() == 40
    assert merge([kept, kept]).clusters is not None
    assert merge([kept, plain]).clusters is None
    assert kept != plain
    assert kept.digest == plain.digest


def test_keys_too_many_for_one_number_are_gathered_all_the_same() -> None:
    rows = {"group": 0, "bin0": [300000, 1, 300000], "bin1": [5, 300000, 5], "sign": [1, -1, 1]}
    rows |= {"n": [10**9, 7, 10**9], "M": [10**9, 10**9, 10**9], "count": [1, 1, 4]}
    found = gathered(KEY, pl.DataFrame(rows))
    assert found.rows() == [(0, 1, 300000, -1, 7, 10**9, 1), (0, 300000, 5, 1, 10**9, 10**9, 5)]
    assert found.schema == pl.Schema({**KEY, "count": pl.Int64})


def test_what_does_not_add_up_is_refused_with_the_reason() -> None:
    table = random_table(20)
    counts = tally(table)
    other = Counts("ssim", counts.lattice, counts.cells)
    grouped = tally(random_table(20, group=["g"] * 20))
    for pair, told in {
        (counts, other): "counts of one distance add; part 0 counts distance, part 1 ssim",
        (counts, tally(table, Lattice(64))): (
            "counts on one lattice add; part 0 has 128 bins per octave, part 1 64: count one of them again, "
            "or take the finer ones on wider bins (Counts.coarser)"
        ),
        (counts, grouped): "counts add where all have groups or none has; part 1 has them, part 0 has not",
    }.items():
        with pytest.raises(DataError, match=f"^{re.escape(told)}$"):
            merge(pair)
    with pytest.raises(ValueError, match=r"^there must be counts to merge; found none$"):
        merge([])


def test_counting_a_table_needs_one_distance_that_is_not_negative() -> None:
    two = Triplets.from_frame({"n": [1], "M": [2], "a_d0": [1.0], "a_d1": [2.0], "b_d0": [1.0], "b_d1": [2.0]})
    with pytest.raises(ValueError, match=r"^counts are of one distance; choose one, table\[NAME\], of a, b$"):
        tally(two)
    negative = Triplets.from_frame({"n": [1], "M": [2], "d0": [1.0], "d1": [-2.0]})
    with pytest.raises(DataError, match=r"^a distance must be at least 0 to be counted; distance has -2\.0$"):
        tally(negative)


def held_to(most: float, seed: int = 0) -> Triplets:
    """Distances that are held to at most some value, which many of them therefore have."""
    d = np.minimum(np.exp(np.random.default_rng(seed).normal(-0.5, 0.8, (2, 5000))), most)
    return Triplets.from_frame({"n": [1, 0] * 2500, "M": [1] * 5000, "d0": d[0], "d1": d[1]})


def test_a_value_that_many_distances_share_is_known() -> None:
    one, other = tally(held_to(0.8987)), tally(held_to(0.9001, seed=1))
    times = int((held_to(0.8987).d0 == 0.8987).sum() + (held_to(0.8987).d1 == 0.8987).sum())
    assert one.atoms == {0.8987: times}
    assert list(other.atoms) == [0.9001]
    assert one.coarser().atoms == tally(held_to(0.8987), Lattice(64)).atoms
    assert merge([one, other]).atoms == {**one.atoms, **other.atoms}
    assert one.split(2, seed=0)[0].atoms == one.atoms
    assert tally(held_to(np.inf)).atoms == {}


def test_values_that_many_share_add_up_in_any_order() -> None:
    parts = [tally(held_to(0.8987).where(np.arange(5000) // 50 == part)) for part in range(100)]
    whole = tally(held_to(0.8987))
    # A part that has it in few rows may not know of it.
    assert merge(parts).atoms[0.8987] > 0.95 * whole.atoms[0.8987]
    backwards = merge([merge(parts[50:]), merge(parts[:50])])
    assert backwards.atoms == merge(parts).atoms
    kept, found = (CountedTriplets.of(counts).places.axis for counts in (whole, merge(parts)))
    assert kept is not None
    assert found is not None
    np.testing.assert_array_equal(found.d, kept.d)


def test_values_of_few_kinds_are_where_they_are() -> None:
    d = np.random.default_rng(0).integers(1, 6, (2, 400)) / 3
    table = Triplets.from_frame({"n": [1, 0] * 200, "M": [1] * 400, "d0": d[0], "d1": d[1]})
    rows = CountedTriplets.of(tally(table))
    np.testing.assert_array_equal(rows.uniform.values, np.arange(1, 6) / 3)
    np.testing.assert_array_equal(rows.uniform.at_most, table.uniformised()[0].at_most)


@pytest.fixture
def kept() -> Counts:
    return tally(random_table(60, group=["g", "h"] * 30, ref=list("rst") * 20), keep_refs=True)


def test_counts_come_back(kept: Counts, tmp_path: Path) -> None:
    both = merge([kept, tally(random_table(60, seed=5, group=["i"] * 60, ref=["r"] * 60), keep_refs=True)])
    for counts in (kept, both, tally(random_table(5)), tally(held_to(0.8987))):
        counts.save(tmp_path / "c.npz")
        again = Counts.load(tmp_path / "c.npz")
        assert again == counts
        assert (again.parts, again.groups, again.lattice) == (counts.parts, counts.groups, counts.lattice)
        assert again.atoms == counts.atoms
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
    for told, new in {
        "counts need the name of their distance; that of the file is not text": {"distance": 3},
        "groups must be names in order, each once; those of the file are not": {"groups": ["h", "g"]},
        "parts must be digests; those of the file are not": {"parts": [1]},
        "per_octave must be a power of two from 1 to 4096; found 3": {"per_octave": 3},
        "the file has no array sign": {"sign": None},
        "the file has no array clusters_ref": {"clusters_ref": None},
        "n must be a row of whole numbers; that of the file is not": {"n": lambda n: n.astype(float)},
        "the arrays of counts must have one length, at least 1; those of the file have not": {"n": lambda n: n[1:]},
        "the numbers of counts must be of their size; some of the file are too large": {"bin0": put(0, 2**40)},
        "count must be at least 1; in the file some are not": {"count": put(0, 0)},
        "M must be at least 1; in the file some are not": {"M": put(0, 0)},
        "n must lie in [0, M]; in the file some are not": {"n": put(0, 6)},
        "group must be one of the groups; in the file some are not": {"group": put(-1, 2)},
        "bins must lie on the lattice; in the file some are not": {"bin0": put(-1, 10**6)},
        "sign must be that of d0 - d1; in the file some are not": {"sign": lambda sign: -sign.astype(np.int8)},
        "each key must stand once, in order; in the file they do not": {
            name: lambda array: array[::-1] for name in ("group", "bin0", "bin1", "sign", "n", "M", "count")
        },
        "counts by reference must add up to those of all triplets; those of the file do not": {
            "clusters_count": put(0, 9)
        },
        "the file holds more, which no counts have": {"more": np.zeros(1, dtype=np.int64)},
    }.items():
        assert changed(kept, **new) == told
    for wrong in (
        3,
        [[1]],
        [["a", 1]],
        [[1.0, None]],
        [[0.4, 7], [1, 2.0]],
        [[0.0, 3]],
        [[float("nan"), 1]],
        [[1.0, 0]],
    ):
        assert changed(kept, atoms=wrong) == (
            "atoms must be values above 0, each with a number of distances; those of the file are not"
        )
    card, arrays = kept.stored()
    del card["groups"]
    with pytest.raises(DataError, match=r"^the card of counts has no groups$"):
        Counts.restore(card, arrays)
    zeros = tally(Triplets.from_frame({"n": [1], "M": [2], "d0": [0.0], "d1": [0.0]}))
    assert changed(zeros, sign=put(0, 1)) == "d0 = d1 = 0 must have sign 0; in the file some are not"


def test_other_files_are_refused(kept: Counts, tmp_path: Path) -> None:
    save_archive(tmp_path / "m.npz", "density", {}, {})
    with pytest.raises(DataError, match=r"m\.npz holds no counts; it holds a model of kind 'density'$"):
        Counts.load(tmp_path / "m.npz")
    card, arrays = kept.stored()
    save_archive(tmp_path / "c.npz", "counts", card, {**arrays, "M": 0 * arrays["M"]})
    with pytest.raises(
        DataError, match=r"c\.npz holds no usable counts; M must be at least 1; in the file some are not$"
    ):
        Counts.load(tmp_path / "c.npz")
