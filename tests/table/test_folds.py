from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import random_table
from twoafc import Density, Settings, Triplets, evaluate
from twoafc.arrays import IntArray
from twoafc.errors import DataError
from twoafc.table import assign_folds, most_folds, repeated_units, split_note, unseen_rows

NOTE = "5-fold cross-validation, split by "


@given(st.lists(st.sampled_from("abcdefgh"), min_size=2, max_size=60), st.integers(2, 5), st.integers(0, 99))
def test_a_reference_lies_in_one_fold_and_no_fold_is_empty(refs: list[str], folds: int, seed: int) -> None:
    table = random_table(len(refs), ref=refs)
    if 1 < len(set(refs)) < folds:
        with pytest.raises(DataError) as caught:
            assign_folds(table, folds, seed=seed)
        assert str(caught.value) == (
            f"folds must lie between 2 and the number of references, {len(set(refs))}; found {folds}"
        )
        return
    fold = assign_folds(table, min(folds, len(refs)), seed=seed)
    assert set(fold.tolist()) == set(range(min(folds, len(refs))))
    for ref in set(refs) if len(set(refs)) > 1 else ():
        assert len(set(fold[np.array(refs) == ref].tolist())) == 1


def test_folds_are_alike_in_size_and_depend_on_the_seed_alone() -> None:
    table = random_table(103)
    fold = assign_folds(table, 5, seed=1)
    assert np.ptp(np.bincount(fold)) <= 1
    np.testing.assert_array_equal(fold, assign_folds(table, 5, seed=1))
    assert (fold != assign_folds(table, 5, seed=2)).any()


def test_rows_of_one_triplet_stay_together() -> None:
    fold = assign_folds(random_table(8, triplet=list("aabbccdd")), 2, seed=3)
    np.testing.assert_array_equal(fold[::2], fold[1::2])


def test_too_many_or_too_few_folds_are_refused() -> None:
    with pytest.raises(DataError, match="folds must lie between 2 and the number of triplets, 3; found 4"):
        assign_folds(random_table(3), 4, seed=0)
    with pytest.raises(DataError, match="folds must lie between 2 and the number of triplets, 3; found 1"):
        assign_folds(random_table(3), 1, seed=0)


def test_triplets_of_a_single_reference_are_split_by_triplet() -> None:
    table = random_table(50, ref=["a"] * 50)
    fold = assign_folds(table, 5, seed=0)
    assert np.bincount(fold).tolist() == [10] * 5
    assert split_note(table, fold) == (
        f"{NOTE}triplet; images recur: 50 of 50 left-out triplets (100 %) share an image with triplets that were fitted"
    )
    assert repeated_units(table) is None
    (record,) = evaluate(table, settings=Settings(error_bars="refit", draws=3)).frame().filter(split="test").to_dicts()
    assert record["nll_se"] > 0


# Quadruples: two references in each row, which link rows


def quadruples(ref0: list[int], ref1: list[int], **columns: object) -> Triplets:
    return random_table(len(ref0), ref0=[f"i{k}" for k in ref0], ref1=[f"i{k}" for k in ref1], **columns)


def sets_of(ref0: list[int], ref1: list[int]) -> list[set[int]]:
    """Rows by the references that link them, one merge after the other."""
    sets = [({a, b}, {row}) for row, (a, b) in enumerate(zip(ref0, ref1, strict=True))]
    merged = True
    while merged:
        merged = False
        for i in range(len(sets)):
            for j in range(i):
                if sets[i][0] & sets[j][0]:
                    sets[j] = (sets[i][0] | sets[j][0], sets[i][1] | sets[j][1])
                    del sets[i]
                    merged = True
                    break
            if merged:
                break
    return [rows for _, rows in sets]


def shared_by_hand(names: list[tuple[str, ...]], fold: IntArray) -> int:
    """Rows that have a name in common with a row of another fold."""
    return sum(
        any(set(mine) & set(theirs) and fold[i] != fold[j] for j, theirs in enumerate(names))
        for i, mine in enumerate(names)
    )


images = st.integers(2, 30).flatmap(lambda most: st.lists(st.integers(0, most), min_size=10, max_size=60))


@given(images, st.integers(2, 5), st.integers(0, 99), st.randoms(use_true_random=False))
def test_quadruples_are_split_cleanly_where_they_can_be(
    ref0: list[int], folds: int, seed: int, random: np.random.Generator
) -> None:
    ref1 = random.sample(ref0, len(ref0)) if seed % 2 else [k + 1 for k in ref0]  # type: ignore[attr-defined]
    table = quadruples(ref0, ref1)
    assert most_folds(table) == len(ref0)
    fold = assign_folds(table, folds, seed=seed)
    np.testing.assert_array_equal(fold, assign_folds(table, folds, seed=seed))
    sizes, share = np.bincount(fold, minlength=folds), len(ref0) / folds
    assert len(sizes) == folds
    assert sizes.min() > 0
    linked = sets_of(ref0, ref1)
    clean = len(linked) >= folds and max(map(len, linked)) <= len(ref0) / 2
    for rows in linked:
        if clean or len(rows) <= share:
            assert len(set(fold[list(rows)].tolist())) == 1 or len(set(zip(ref0, ref1, strict=True))) < folds
    pairs = {frozenset(pair) for pair in zip(ref0, ref1, strict=True)}
    largest = max(sum(frozenset(pair) == one for pair in zip(ref0, ref1, strict=True)) for one in pairs)
    if not clean and len(pairs) >= folds:
        kept = max([largest, *(len(rows) for rows in linked if len(rows) <= share)])
        assert sizes.max() <= share + kept
    names = [(f"i{a}", f"i{b}") for a, b in zip(ref0, ref1, strict=True)]
    shared = shared_by_hand(names, fold)
    words = f"; references are linked: {shared} of {len(ref0)} left-out triplets ({100 * shared / len(ref0):.0f} %) "
    words += "share an image with triplets that were fitted"
    assert split_note(table, fold) == f"{folds}-fold cross-validation, split by ref0 and ref1{words if shared else ''}"
    assert not (clean and shared)


def test_a_chain_of_quadruples_is_cut_where_few_rows_share_a_reference() -> None:
    table = quadruples(list(range(500)), list(range(1, 501)))
    fold = assign_folds(table, 5, seed=0)
    assert np.bincount(fold).tolist() == [100] * 5
    # Walking both ways from the first, nine cuts with a row on each side, or fewer.
    shared = int(split_note(table, fold).partition("linked: ")[2].partition(" of")[0])
    assert 8 <= shared <= 18
    assert (fold != assign_folds(table, 5, seed=1)).any()


def test_groups_of_references_with_a_few_links_between_them_mostly_stay_together() -> None:
    rng = np.random.default_rng(0)
    group = rng.integers(0, 30, 1000)
    ref0, ref1 = 15 * group + rng.integers(0, 15, (2, 1000))
    ref1 = np.where(rng.random(1000) < 0.03, rng.integers(0, 450, 1000), ref1)
    table = quadruples(ref0.tolist(), ref1.tolist())
    shares = []
    for seed in range(5):
        fold = assign_folds(table, 5, seed=seed)
        assert np.ptp(np.bincount(fold)) <= 30  # a group without links is a set of some 30 rows
        shares.append(float(split_note(table, fold).partition("(")[2].partition(" %")[0]))
    assert np.mean(shares) < 25  # measured: 18; where rows are split at random, 100


def test_the_order_of_rows_does_not_matter() -> None:
    rng = np.random.default_rng(1)
    ref0, ref1 = rng.integers(0, 40, (2, 200))
    table, order = quadruples(ref0.tolist(), ref1.tolist()), rng.permutation(200)
    np.testing.assert_array_equal(assign_folds(table.where(order), 5, seed=3), assign_folds(table, 5, seed=3)[order])


def test_the_side_of_a_reference_does_not_matter() -> None:
    rng = np.random.default_rng(0)
    references = np.concatenate([rng.integers(0, 60, (2, 200)), 100 + rng.integers(0, 20, (2, 40))], axis=1)
    swapped = np.where(rng.random(240) < 0.5, references, references[::-1])
    first, second = (assign_folds(quadruples(*table.tolist()), 5, seed=3) for table in (references, swapped))
    assert np.array_equal(first, second)


def test_eleven_images_in_all_places_are_cross_validated() -> None:
    rng = np.random.default_rng(0)
    shown = {name: [f"i{k}" for k in rng.integers(0, 11, 300)] for name in ("ref0", "x0", "ref1", "x1")}
    table = random_table(300, **shown)
    result = evaluate(table, estimators=["density"])
    assert result.notes[0] == (
        f"no test table: {NOTE}ref0 and ref1; references are linked: 300 of 300 left-out triplets (100 %) share an "
        "image with triplets that were fitted"
    )
    sizes = result.frame().filter(group="all").filter(split="fold-0")["triplets"].to_list()
    assert all(45 <= size <= 75 for size in sizes)
    three = random_table(300, ref=shown["ref0"], x0=shown["x0"], x1=shown["x1"])
    note = split_note(three, assign_folds(three, 5, seed=0))
    assert note == (
        f"{NOTE}ref; images recur: 300 of 300 left-out triplets (100 %) share an image with triplets that were fitted"
    )


def test_images_of_their_own_reference_and_names_of_codecs_do_not_count_as_shared() -> None:
    refs = [f"r{k // 4}" for k in range(40)]
    own = random_table(
        40, ref=refs, x0=[f"{ref}a" for ref in refs], x1=[f"{ref}b{k % 4}" for k, ref in enumerate(refs)]
    )
    codecs = random_table(40, ref=refs, x0=["jpeg"] * 40, x1=["webp", "avif"] * 20)
    for table in (own, codecs):
        assert split_note(table, assign_folds(table, 5, seed=0)) == f"{NOTE}ref"
    unnamed = random_table(40)
    assert split_note(unnamed, assign_folds(unnamed, 5, seed=0)) == f"{NOTE}triplet"


def test_quadruples_of_few_references_are_split_by_triplet() -> None:
    table = quadruples([0] * 20, [1] * 20)
    assert np.bincount(assign_folds(table, 5, seed=0)).tolist() == [4] * 5


def test_linked_references_do_not_widen_the_kernel() -> None:
    """Rows that are all linked were one cluster, and nothing was left to choose the width by."""
    rng = np.random.default_rng(0)
    ref0, ref1 = rng.integers(0, 40, (2, 600))
    table = quadruples(ref0.tolist(), ref1.tolist())
    unit = repeated_units(table)
    assert unit is not None
    assert len(np.unique(unit)) == unit.max() + 1 <= 40
    for one in range(unit.max() + 1):
        mine = unit == one
        assert set.intersection(*({a, b} for a, b in zip(ref0[mine], ref1[mine], strict=True)))
    alone = replace(table, labels=table.labels.select("triplet"))
    widths = [float(Density(sigma="auto").fit(each["distance"]).settings.sigma) for each in (table, alone)]
    assert widths[0] < 2 * widths[1]
    np.testing.assert_array_equal(repeated_units(table.mirrored()), unit)


def test_unseen_rows_share_no_image_with_the_rows_fitted() -> None:
    """Where images recur, images are halved; otherwise, and where that leaves too few rows, references are left out."""
    rng = np.random.default_rng(0)

    def table(rows: int, names: np.ndarray) -> Triplets:
        columns = {"n": [1] * rows, "M": [1] * rows, "d0": range(rows), "d1": range(rows)}
        return Triplets.from_frame(columns | dict(zip(("ref", "x0", "x1"), names.T, strict=True)))

    names = np.array([rng.choice(12, 3, replace=False) for _ in range(500)]).astype(str)
    splits = unseen_rows(table(500, names), 5, 300, seed=1)
    assert len(splits) % 2 == 0
    for fitted, predicted in splits:
        assert fitted.any()
        assert not set(names[fitted].ravel()) & set(names[predicted].ravel())
    assert sum(predicted.sum() for _, predicted in splits) >= 300
    few = unseen_rows(table(40, names[:40]), 5, 300, seed=1)
    assert len(few) == 5
    own = np.array([[f"r{row // 4}", f"a{row}", f"b{row}"] for row in range(40)])
    folds = unseen_rows(table(40, own), 5, 10, seed=1)
    assert len(folds) == 2  # as many as give ten rows
    for fitted, predicted in folds:
        assert (fitted ^ predicted).all()
        assert not set(own[fitted, 0]) & set(own[predicted, 0])
