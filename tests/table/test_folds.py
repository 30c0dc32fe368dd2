from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import random_table
from twoafc.errors import DataError
from twoafc.table import assign_folds, split_key


@given(st.lists(st.sampled_from("abcdefgh"), min_size=2, max_size=60), st.integers(2, 5), st.integers(0, 99))
def test_a_reference_lies_in_one_fold_and_no_fold_is_empty(refs: list[str], folds: int, seed: int) -> None:
    table = random_table(len(refs), ref=refs)
    if len(set(refs)) < folds:
        with pytest.raises(DataError) as caught:
            assign_folds(table, folds, seed=seed)
        assert str(caught.value) == (
            f"folds must lie between 2 and the number of references, {len(set(refs))}; found {folds}"
        )
        return
    fold = assign_folds(table, folds, seed=seed)
    assert set(fold.tolist()) == set(range(folds))
    for ref in set(refs):
        assert len(set(fold[np.array(refs) == ref].tolist())) == 1


def test_folds_are_alike_in_size_and_depend_on_the_seed_alone() -> None:
    table = random_table(103)
    fold = assign_folds(table, 5, seed=1)
    assert np.ptp(np.bincount(fold)) <= 1
    np.testing.assert_array_equal(fold, assign_folds(table, 5, seed=1))
    assert (fold != assign_folds(table, 5, seed=2)).any()


def test_quadruples_that_share_a_reference_stay_together() -> None:
    names = {"ref0": list("abcd"), "x0": list("wxyz"), "ref1": list("bcef"), "x1": list("wxyz")}
    table = random_table(4, **names)
    assert split_key(table) == "ref0 and ref1"
    # a-b and b-c hang together; c-e too; d-f alone.
    fold = assign_folds(table, 2, seed=0)
    assert fold[0] == fold[1] == fold[2] != fold[3]
    with pytest.raises(DataError, match="between 2 and the number of sets of linked references, 2; found 3"):
        assign_folds(table, 3, seed=0)


def test_rows_of_one_triplet_stay_together() -> None:
    fold = assign_folds(random_table(8, triplet=list("aabbccdd")), 2, seed=3)
    np.testing.assert_array_equal(fold[::2], fold[1::2])


def test_too_many_or_too_few_folds_are_refused() -> None:
    with pytest.raises(DataError, match="folds must lie between 2 and the number of triplets, 3; found 4"):
        assign_folds(random_table(3), 4, seed=0)
    with pytest.raises(DataError, match="folds must lie between 2 and the number of triplets, 3; found 1"):
        assign_folds(random_table(3), 1, seed=0)
