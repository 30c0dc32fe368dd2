"""The plan: every row finds its images, and blocks have what is wanted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from measuring import dataset, some_rows
from twoafc.measurement.plan import block_size, in_shard, plan_items


@settings(deadline=None)
@given(some_rows())
def test_every_row_finds_its_own_images_in_the_plan(rows: list[tuple[str, ...]]) -> None:
    data = dataset(rows)
    found = plan_items(data)
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
    found = plan_items(dataset(rows))
    wanted = {name: np.array([random.random() < 0.4 for _ in range(len(found))]) for name in ("a", "b")}
    seen = {name: np.zeros(len(found), dtype=int) for name in wanted}
    for block in found.blocks(size, wanted):
        assert len(set(block.items // size)) == 1
        for name, chosen in block.wanted.items():
            seen[name][block.items[chosen]] += 1
        for item, places in zip(block.items, block.places, strict=True):
            assert [block.images[place] for place in places] == [found.path(image) for image in found.items[item]]
    for name, mask in wanted.items():
        np.testing.assert_array_equal(seen[name], mask)


def test_repeated_pairs_are_planned_as_pairs() -> None:
    assert plan_items(dataset([("a", "b", "c"), ("d", "e", "f")])).kind == "triplets"
    rows = [("a", x, y) for x in "bcdef" for y in "bcdef" if x != y]
    assert plan_items(dataset(rows)).kind == "pairs"
    assert len(plan_items(dataset(rows))) == 5


def test_blocks_by_the_size_of_images() -> None:
    assert [block_size("cpu", (side, side)) for side in (8, 64, 128, 256, 768, 4000)] == [128, 128, 32, 8, 4, 4]
    assert [block_size("cuda", (side, side)) for side in (64, 256, 768)] == [2048, 128, 64]
    assert block_size("cpu", None) == 128


@pytest.mark.parametrize("n", [1, 2, 3])
def test_every_item_is_in_one_shard(n: int) -> None:
    shares = [in_shard(20, 3, (i, n)) for i in range(1, n + 1)]
    np.testing.assert_array_equal(np.sum(shares, axis=0), 1)
    assert in_shard(20, 3, None).all()
