from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import random_table
from twoafc.errors import DataError
from twoafc.folds import assign, split_key


@given(st.lists(st.sampled_from("abcdefgh"), min_size=2, max_size=60), st.integers(2, 5), st.integers(0, 99))
def test_a_reference_lies_in_one_fold_and_no_fold_is_empty(refs: list[str], folds: int, seed: int) -> None:
    table = random_table(len(refs), ref=refs)
    if len(set(refs)) < folds:
        with pytest.raises(DataError) as caught:
            assign(table, folds, seed=seed)
        assert str(caught.value) == (
            f"folds must lie between 2 and the number of references (ref), {len(set(refs))}; found {folds}"
        )
        return
    fold = assign(table, folds, seed=seed)
    assert set(fold.tolist()) == set(range(folds))
    for ref in set(refs):
        assert len(set(fold[np.array(refs) == ref].tolist())) == 1


def test_folds_are_alike_in_size_and_depend_on_the_seed_alone() -> None:
    table = random_table(103)
    fold = assign(table, 5, seed=1)
    assert np.ptp(np.bincount(fold)) <= 1
    np.testing.assert_array_equal(fold, assign(table, 5, seed=1))
    assert (fold != assign(table, 5, seed=2)).any()


def test_quadruples_are_split_by_their_first_reference() -> None:
    names = {name: ["a", "b"] for name in ("ref0", "x0", "ref1", "x1")}
    assert split_key(random_table(2, **names)) == "ref0"
    assert split_key(random_table(2)) == "triplet"


def test_too_many_or_too_few_folds_are_refused() -> None:
    with pytest.raises(DataError, match="folds must lie between 2 and the number of triplets, 3; found 4"):
        assign(random_table(3), 4, seed=0)
    with pytest.raises(DataError, match="folds must lie between 2 and the number of triplets, 3; found 1"):
        assign(random_table(3), 1, seed=0)
