"""Votes on batches: what is refused, and weights that make scores those of the pool."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import twoafc
from studying import judge, pool
from twoafc import planning
from twoafc.planning import batch_weights, systematic


@pytest.mark.parametrize("lost", [False, True])
def test_weights_are_unbiased_while_some_of_a_batch_is_not_judged(lost: bool) -> None:
    """Six of about twelve and of ten have votes; what has none is in the pool of the second batch again."""
    rng = np.random.default_rng(6)
    x = rng.gamma(1, size=80)
    means = []
    for _ in range(2500):
        chance = np.minimum(12 * (x + 0.2) / (x + 0.2).sum(), 1)
        first = systematic(chance, rng)
        judged = rng.permutation(first)[:6]
        again = 0.3 + np.sqrt(x)
        again[judged] = 0
        again = np.minimum(10 * again / again.sum(), 1)
        second = systematic(again, rng)
        seen = rng.permutation(second)[:6]
        drawn, before = np.array([len(first), len(second)]), np.array([0, 6])
        # Of two of the first six the votes are dropped later.
        kept = judged[:4] if lost else judged
        inclusion = np.concatenate([chance[kept], again[seen]])
        weight = batch_weights(np.repeat([1, 2], [len(kept), 6]), inclusion, drawn, before)
        means.append(weight @ x[np.concatenate([kept, seen])] / 80)
    assert np.mean(means) == pytest.approx(x.mean(), abs=4 * np.std(means) / len(means) ** 0.5)


def test_batches_that_are_judged_in_part_are_named() -> None:
    table = pool()
    first = planning.choose(table, votes=100, repeats=0.0)
    assert first.frame["batch_size"].unique().to_list() == [100]
    votes = judge(first.frame)
    assert planning.status(votes, pair=("a", "b"), error_bars="fixed").notes == []
    some = planning.status(votes[:60], pair=("a", "b"), error_bars="fixed")
    assert some.notes == ["batch 1: 60 of 100 triplets have votes; the others are taken to be missing at random"]
    assert some.table["weight"].to_list() == pytest.approx((100 / 60 / votes["inclusion"][:60]).to_list())
    second = planning.choose(table, votes=100, judged=votes, repeats=0.0)
    third = planning.choose(table, votes=50, judged=[votes, judge(second.frame)], repeats=0.0)
    lacking = "votes of all batches are needed, and those of batch 2 are missing"
    cases = {
        lacking: [votes, judge(third.frame)],
        "the same table of votes is given twice": [votes, votes],
        "votes with the column batch need triplet and inclusion too, as the choice gave them": votes.drop("inclusion"),
    }
    for text, judged in cases.items():
        with pytest.raises(twoafc.DataError, match=f"^{text}$"):
            planning.status(judged, pair=("a", "b"))
        with pytest.raises(twoafc.DataError, match=f"^{text}$"):
            planning.choose(table, votes=9, judged=judged)


def test_votes_that_came_after_the_next_batch_are_refused_and_lost_ones_are_not() -> None:
    """A triplet without votes is in the next pool again, so that its later votes would count twice."""
    table = pool()
    first = planning.choose(table, votes=100, repeats=0.0)
    votes = judge(first.frame)
    second = planning.choose(table, votes=100, judged=votes[:60], repeats=0.0)
    assert second.frame.select("pool_size", "judged_before").unique().rows() == [(len(table), 60)]
    again = judge(second.frame)
    late = votes.filter(
        ~pl.col("triplet").is_in(again["triplet"].implode()) | pl.col("triplet").is_in(votes["triplet"][:60].implode())
    )
    known = len(late)
    text = (
        f"batch 2 was chosen when 60 triplets of earlier batches had votes, and now {known} have: leave out the votes "
        "that came later"
    )
    with pytest.raises(twoafc.DataError, match=f"^{text}$"):
        planning.status([late, again], pair=("a", "b"))
    fewer = planning.status([votes[:50], again], pair=("a", "b"), error_bars="fixed")
    weight = (100 / votes["inclusion"][:50] + 100 * 60 / 50) / 150
    assert fewer.table["weight"][:50].to_list() == pytest.approx(weight.to_list())
    grown = again.with_columns(pool_size=pl.lit(len(table) + 1))
    other = f"batches of a study must be drawn from one pool; these are from {len(table)} and {len(table) + 1} triplets"
    with pytest.raises(twoafc.DataError, match=f"^{other}$"):
        planning.status([votes[:60], grown], pair=("a", "b"))


def test_weights_of_batches_by_hand() -> None:
    """Each batch: those before count once, its own by their inverse probabilities; averaged by numbers of triplets."""
    batch, inclusion = np.array([1, 1, 1, 2, 2, 3]), np.array([0.5, 0.2, 0.4, 0.1, 0.3, 0.6])
    expected = []
    for b, pi in zip(batch, inclusion, strict=True):
        estimates = {1: 1 / pi if b == 1 else 0, 2: 1 if b < 2 else 1 / pi if b == 2 else 0, 3: 1 if b < 3 else 1 / pi}
        expected.append((3 * estimates[1] + 2 * estimates[2] + 1 * estimates[3]) / 6)
    assert batch_weights(batch, inclusion) == pytest.approx(expected)
