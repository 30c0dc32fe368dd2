"""The parts that measuring is made of: the plan, blocks, the way of pixels between processes, names and cards."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import twoafc
from twoafc.datasets import Dataset
from twoafc.images import as_float, trace
from twoafc.measurement import outfile
from twoafc.measurement.assemble import complete_rows, from_earlier, left_over, table
from twoafc.measurement.block import Block, Decoder, by_size
from twoafc.measurement.candidates import candidates, differences, identity
from twoafc.measurement.first import First
from twoafc.measurement.outfile import Earlier
from twoafc.measurement.plan import Plan, plan
from twoafc.measurement.transport import Shelf, Tensors, copies, pack
from twoafc.measurement.way import Way

ROLES = {3: ("ref", "x0", "x1"), 4: ("ref0", "x0", "ref1", "x1"), 2: ("ref", "x")}


def dataset(rows: list[tuple[str, ...]]) -> Dataset:
    roles = ROLES[len(rows[0])]
    files = {role: pl.Series(role, [row[place] for row in rows]) for place, role in enumerate(roles)}
    names = pl.Series("triplet", [f"row {number}" for number in range(len(rows))])
    votes = {"n": pl.Series([1] * len(rows)), "M": pl.Series([2] * len(rows))}
    return Dataset("table", Path("folder"), roles, files, pl.DataFrame({"triplet": names, **files, **votes}))


def some_rows() -> st.SearchStrategy[list[tuple[str, ...]]]:
    return st.sampled_from([2, 3, 4]).flatmap(
        lambda width: st.lists(st.tuples(*[st.sampled_from("abcdef")] * width), min_size=1, max_size=30)
    )


def pretended(found: Plan, name: str = "d") -> dict[str, np.ndarray]:
    """A distance that every pair of names has."""
    each = [[10 * ref + x for x in others] for ref, *others in found.items.tolist()]
    return {name: np.array(each, dtype=np.float64)}


@settings(deadline=None)
@given(some_rows())
def test_every_row_finds_its_own_images_in_the_plan(rows: list[tuple[str, ...]]) -> None:
    data = dataset(rows)
    found = plan(data)
    assert found.files == sorted(set("".join("".join(row) for row in rows)))
    assert len(np.unique(found.items, axis=0)) == len(found)
    for ref, x, name in data.pairs:
        where, slot = found.places[name]
        for row in range(len(data)):
            images = found.items[where[row]]
            assert found.files[images[0]] == data.files[ref][row]
            assert found.files[images[1 + slot]] == data.files[x][row]
            assert row in found.rows_of(int(where[row])).tolist()
    pairs = {(data.files[ref][row], data.files[x][row]) for ref, x, _ in data.pairs for row in range(len(data))}
    triplets = 3 * len(set(rows)) if len(rows[0]) == 3 else np.inf
    assert found.items.size == min(2 * len(pairs), triplets)


@settings(deadline=None)
@given(some_rows(), st.integers(1, 7), st.randoms(use_true_random=False))
def test_blocks_have_what_is_wanted_and_nothing_else(rows: list[tuple[str, ...]], size: int, random: Any) -> None:
    found = plan(dataset(rows))
    wanted = {name: np.array([random.random() < 0.4 for _ in range(len(found))]) for name in ("a", "b")}
    seen = {name: np.zeros(len(found), dtype=int) for name in wanted}
    for block in found.blocks(size, wanted):
        assert set(block.items // size) == {block.number}
        for name, chosen in block.wanted.items():
            seen[name][block.items[chosen]] += 1
        for item, places in zip(block.items, block.places, strict=True):
            assert [block.images[place] for place in places] == [found.path(image) for image in found.items[item]]
    for name, mask in wanted.items():
        np.testing.assert_array_equal(seen[name], mask)


@settings(deadline=None)
@given(some_rows(), st.randoms(use_true_random=False))
def test_a_table_and_what_is_left_over_hold_all_that_is_known(rows: list[tuple[str, ...]], random: Any) -> None:
    found = plan(dataset(rows))
    values = pretended(found, "d") | pretended(found, "e")
    for known in values.values():
        known[[random.random() < 0.3 for _ in known]] = np.nan
    asked = {"d": values["d"]}
    whole = complete_rows(found, asked)
    made = table(found, asked, whole)
    assert made["triplet"].to_list() == [f"row {row}" for row in np.flatnonzero(whole)]
    card = {"distances": {"d": {"identity": {}, "made": []}}}
    back = from_earlier(found, Earlier(made, card, np.zeros(0, dtype=np.uint64)))
    items, kept = left_over(found, values, {"d"}, whole)
    for name, known in values.items():
        again = back.get(name, np.full(known.shape, np.nan)).copy()
        if name in kept:
            here = kept[name]
            again[items] = np.where(np.isnan(here), again[items], here)
        np.testing.assert_array_equal(again, known)


def test_repeated_pairs_are_planned_as_pairs() -> None:
    assert plan(dataset([("a", "b", "c"), ("d", "e", "f")])).kind == "triplets"
    rows = [("a", x, y) for x in "bcdef" for y in "bcdef" if x != y]
    assert plan(dataset(rows)).kind == "pairs"
    assert len(plan(dataset(rows))) == 5


def images_of(rng: np.random.Generator) -> list[Any]:
    shapes = [(8, 8), (8, 8), (5, 9), (8, 8)]
    kinds: list[Any] = [np.uint8, np.uint16, np.uint8, np.uint8]
    found: list[Any] = [
        rng.integers(0, np.iinfo(kind).max, (3, *shape), dtype=kind, endpoint=True)
        for kind, shape in zip(kinds, shapes, strict=True)
    ]
    return [*found, "no such file"]


@pytest.mark.parametrize("room", [0, 200, 600, 10_000])
def test_pixels_come_through_as_they_are(room: int) -> None:
    pytest.importorskip("torch")
    pixels = images_of(np.random.default_rng(0))
    shelf = Shelf.make(room) if room else None
    decoded = pack(pixels, [1, 2, 3, 4, 0], shelf)
    assert decoded.traces == [1, 2, 3, 4, 0]
    assert decoded.found == [(8, 8), (8, 8), (5, 9), (8, 8), "no such file"]
    there = copies(decoded, shelf)
    assert there[4] == "no such file"
    tensors = Tensors(decoded, shelf, "cpu")
    for image in range(4):
        np.testing.assert_array_equal(there[image], pixels[image])
        np.testing.assert_array_equal(tensors.batch(np.array([image]))[0].numpy(), as_float(pixels[image]))
    np.testing.assert_array_equal(tensors.batch(np.array([3, 1, 3]))[1].numpy(), as_float(pixels[1]))
    if shelf is not None:
        shelf.close()


def test_all_levels_become_the_same_numbers_on_a_device() -> None:
    pytest.importorskip("torch")
    levels = np.arange(256, dtype=np.uint8).repeat(3).reshape(3, 16, 16)
    tensors = Tensors(pack([levels], [1], None), None, "cpu")
    np.testing.assert_array_equal(tensors.batch(np.array([0]))[0].numpy(), as_float(levels))


def test_a_decoder_keeps_what_fits(tmp_path: Path) -> None:
    for number in range(4):
        Image.fromarray(np.full((4, 4, 3), number, dtype=np.uint8)).save(tmp_path / f"{number}.png")
    decoder = Decoder(most=2 * 48)
    for number in (0, 1, 2, 3, 3, 0):
        path = tmp_path / f"{number}.png"
        pixels, found = decoder.read(str(path))
        assert not isinstance(pixels, str)
        assert pixels.max() == number
        assert found == trace(path.read_bytes())
        assert decoder.bytes == sum(each.nbytes for each, _ in decoder.kept.values()) <= 2 * 48
    assert [Path(path).stem for path in decoder.kept] == ["3", "0"]
    assert decoder.read(str(tmp_path / "4.png")) == ("no such file", 0)


def test_items_are_sorted_by_size() -> None:
    places = np.array([[0, 1, 2], [0, 1, 3], [4, 4, 4], [3, 3, 5], [1, 2, 0]])
    block = Block(0, np.arange(5), ["a", "b", "c", "d", "e", "f"], places, {})
    groups, failures = by_size(block, [(8, 8), (8, 8), (8, 8), (9, 8), (5, 5), "no such file"])
    assert {size: items.tolist() for size, items in groups.items()} == {(8, 8): [0, 4], (5, 5): [2]}
    assert [tuple(failure) for failure in failures] == [
        (1, 3, "the image has 9 x 8 pixels, its reference 8 x 8"),
        (3, 5, "no such file"),
    ]


def test_blocks_by_the_size_of_images() -> None:
    def block(side: int, device: str = "cpu") -> int:
        return Way(device, 1, None, None).block(First((side, side), frozenset()))

    assert [block(side) for side in (8, 64, 128, 256, 768, 4000)] == [128, 128, 32, 8, 4, 4]
    assert [block(side, "cuda") for side in (64, 256, 768)] == [2048, 128, 64]
    assert Way("cpu", 1, None, None).block(None) == 128
    assert Way("cpu", 1, 7, None).block(None) == 7


def test_identities_tell_what_values_depend_on() -> None:
    (found,) = candidates(["rmse"], "cpu", "fp32")
    assert (found.name, found.text) == ("rmse", "rmse")
    assert found.identity == identity("rmse", twoafc.distance("rmse"), "cpu")
    assert identity("rmse", twoafc.distance("rmse"), "cuda:1")["precision"] == "fp32"
    assert identity("rmse", twoafc.distance("rmse"), "cuda:1")["device"] == "cuda"
    assert differences(found.identity, found.identity) == ""
    assert differences({"weights": {"a": "sha256 12"}}, {}) == "weights none, now a sha256 12"
    partial = functools.partial(twoafc.distances.rmse)
    (own,) = candidates({"part": partial}, "cpu", "fp32")
    assert own.text is None
    assert own.identity["source"].startswith("sha256 ")


def test_a_network_is_known_by_its_weights_and_settings() -> None:
    pytest.importorskip("torch")
    from twoafc.distances import pim

    shape = pim.Architecture(mixtures=5, levels=1, filters=(4, 4, 4, 3), latent=2)
    variables = {name: np.ones(size, dtype=np.float32) for name, size in shape.shapes().items()}
    made = pim.of_variables(variables, shape, draws=4, seed=2)
    (found,) = candidates([made], "cpu", "fp32")
    assert found.name == "pim_5 of given variables"
    assert found.identity["weights"]["given variables"].startswith("sha256 ")
    assert found.identity["settings"] == {"bands": 4, "mixtures": 5, "draws": 4, "seed": 2}


def test_cards_that_are_none_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    frame = pl.DataFrame({"triplet": ["0"], "rmse_d0": [0.5]})
    for card in ("", "{}", '{"data": {"fingerprint": 1}, "distances": {}}', '{"data": 1}'):
        frame.write_parquet(path, metadata={"twoafc": card})
        with pytest.raises(twoafc.DataError, match=r"t\.parquet has no card that says what it holds"):
            outfile.read_earlier(path, "f")
    told = {"data": {"fingerprint": "f"}, "distances": {"rmse": {"identity": {}, "made": []}}}
    traces = np.array([3, 0, 2**64 - 1], dtype=np.uint64)
    outfile.write(frame, path, told, traces)
    earlier = outfile.read_earlier(path, "f")
    assert earlier is not None
    assert earlier.card == told
    np.testing.assert_array_equal(earlier.traces, traces)
    data = dataset([("a", "b", "c")])
    with pytest.raises(twoafc.DataError, match="the earlier table has a triplet '0', which the data set has not"):
        from_earlier(plan(data), earlier)
    renamed = Earlier(frame.with_columns(triplet=pl.lit("row 0")), told, traces)
    with pytest.raises(twoafc.DataError, match="the earlier table has no column rmse_d1, of which its card tells"):
        from_earlier(plan(data), renamed)
