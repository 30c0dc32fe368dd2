"""Drawn tables: whole clusters, seeds, and the same errors as by formula."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from conftest import random_table
from scoring import grouped, scored
from twoafc.inference import Dependence, Values, bootstrap_errors, bootstrap_means, clustering_of, drawn_rows, errors


@pytest.mark.parametrize("kind", ["alone", "ref", "images"])
def test_the_bootstrap_agrees_with_the_formula(kind: str) -> None:
    rng = np.random.default_rng(4)
    T = 600
    labels = {"alone": {}, "ref": {"ref": rng.integers(0, 60, T)}, "images": {}}[kind]
    if kind == "images":
        labels = dict(zip(("ref", "x0", "x1"), rng.integers(0, 50, (3, T)), strict=True))
    table, P = grouped(T, 5, **labels)
    values, link, _ = scored(table, P)
    analytic = errors(values, table.codes("group"), link)
    drawn = bootstrap_errors(values, table.codes("group"), link.rows, draws=1500, seed=0)
    assert set(drawn) == {"a", "b", "mean", "all"}
    # With images in several places the bootstrap is too cautious, by design.
    lowest, highest = (0.9, 1.1) if kind != "images" else (0.9, np.sqrt(3) * 1.1)
    for group in ("a", "b", "mean", "all"):
        ratio = drawn[group][[0, 1, 2, 3, -1]] / analytic[group].se[[0, 1, 2, 3, -1]]
        assert (ratio > lowest).all()
        assert (ratio < highest).all()


def test_drawn_tables_are_seeded_and_whole() -> None:
    together = Dependence(40, (np.arange(40) // 4,), "")
    rows = drawn_rows(together, np.random.default_rng(1))
    assert len(rows) == 40
    counts = np.bincount(rows, minlength=40).reshape(10, 4)
    assert (counts == counts[:, :1]).all()
    values = Values(("nll",), np.arange(40.0)[:, None], np.ones(40, dtype=np.int64))
    one, same, other = (bootstrap_means(values, together, draws=20, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


def test_draws_do_not_depend_on_names_that_were_seen_before() -> None:
    """Polars numbers categories for the whole process, in the order in which names are first seen."""
    drawn, seen = [], pl.Series([f"seen-{k}" for k in range(30)][::-1], dtype=pl.Categorical)
    for name in ("new", "seen"):
        rows = clustering_of(random_table(T=60, ref=[f"{name}-{k}" for k in range(30)] * 2)).rows
        drawn.append(drawn_rows(rows, np.random.default_rng(1)).tolist())
    assert drawn[0] == drawn[1]
    assert len(seen) == 30
