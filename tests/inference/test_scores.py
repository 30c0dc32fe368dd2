from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import random_table
from twoafc import metrics
from twoafc.estimators import Density
from twoafc.inference import MEASURES, by_group, mean_of_groups, over_seeds, values_per_row


def test_groups_pooled_and_mean_are_the_plain_scores() -> None:
    groups = np.array(["a", "b", "b", "c"] * 50)
    table = random_table(200, group=groups)
    P = Density(sigma=0.1).fit(table).probability(table.d0, table.d1)
    records = {record["group"]: record for record in by_group(table, values_per_row(table, P))}
    assert list(records) == ["a", "b", "c", "mean", "all"]
    for name, rows in {"a": groups == "a", "b": groups == "b", "all": np.full(200, True)}.items():
        n, M, p, d0, d1 = table.n[rows], table.M[rows], P[rows], table.d0[rows], table.d1[rows]
        expected = {
            "triplets": rows.sum(),
            "votes": M.sum(),
            "nll": metrics.nll(n, M, p),
            "nll_per_vote": metrics.nll_per_vote(n, M, p),
            "agreement": metrics.agreement(n, M, p),
            "score_2afc": metrics.score_2afc(n, M, p),
            "score_2afc_votes": metrics.score_2afc_votes(n, M, p),
            "score_2afc_distance": metrics.score_2afc_distance(n, M, d0, d1),
            "nll_simulated": metrics.expected_nll(M, p),
            "agreement_simulated": metrics.expected_agreement(M, p),
            "score_2afc_simulated": metrics.expected_score_2afc(p, metrics.choice(p - 0.5)),
            "score_2afc_distance_simulated": metrics.expected_score_2afc(p, metrics.choice(d0 - d1)),
            "ties": (d0 == d1).sum(),
            "ties_model": (p == 0.5).sum(),
        }
        for measure, value in expected.items():
            assert records[name][measure] == pytest.approx(value, rel=1e-12), measure
    for measure in MEASURES[2]:
        three = [records[name][measure] for name in "abc"]
        assert records["mean"][measure] == pytest.approx(np.mean(three), rel=1e-12)
    assert records["mean"]["triplets"] == 200


def test_without_groups_there_is_one_record() -> None:
    table = random_table(20)
    (record,) = by_group(table, values_per_row(table, np.full(20, 0.5)))
    assert record["group"] == "all"
    assert record["triplets"] == 20
    assert record["ties_model"] == 20


def test_one_group_has_no_mean_of_groups() -> None:
    table = random_table(20, group=["g"] * 20)
    assert [record["group"] for record in by_group(table, values_per_row(table, np.full(20, 0.5)))] == ["g", "all"]


def test_simulated_scores_are_what_drawn_votes_have_on_average() -> None:
    table = random_table(3000)
    P = np.random.default_rng(0).random(3000)
    exact = values_per_row(table, P)
    n = metrics.simulate(table.M, P, seed=3)
    drawn = {
        "nll_simulated": -metrics.log_likelihood(n, table.M, P),
        "agreement_simulated": metrics.agreement_per_triplet(n, table.M, P),
        "score_2afc_simulated": metrics.score_2afc_per_triplet(n, table.M, metrics.choice(P - 0.5)),
    }
    for name, values in drawn.items():
        # Four standard errors of the draw.
        assert values.mean() == pytest.approx(exact[name].mean(), abs=4 * values.std() / np.sqrt(3000))


def pooled(records: list[dict[str, Any]], measure: str) -> float:
    """Mean over triplets, from the means and sizes of groups."""
    sizes = [record["triplets"] for record in records]
    return float(np.average([record[measure] for record in records], weights=sizes))


def test_the_papers_table_by_distortion_gives_its_first_table(shared: Path) -> None:
    """Aggregated with the true numbers of triplets; with the printed ones, which are permuted, it does not."""
    printed = json.loads((shared / "paper-tables.json").read_text())
    parts, whole = printed["bapps_by_distortion"], printed["bapps_test"]["density"]
    for distance in ("euclidean", "nlpd", "ssim", "pim", "lpips", "dists"):
        records = {
            key: [
                {"group": group, "triplets": parts[key][group]}
                | {m: parts[distance][m][i] for m in ("nll", "agreement", "score_2afc")}
                for i, group in enumerate(parts["columns"])
            ]
            for key in ("triplets", "triplets_as_printed_permuted")
        }
        assert sum(record["triplets"] for record in records["triplets"]) == 36_344
        for measure in ("nll", "agreement", "score_2afc"):
            assert pooled(records["triplets"], measure) == pytest.approx(whole[measure][distance], abs=0.01)
        permuted = pooled(records["triplets_as_printed_permuted"], "score_2afc")
        assert abs(permuted - whole["score_2afc"][distance]) > 0.1
    by_group = [{"triplets": 1, "score_2afc": value} for value in parts["euclidean"]["score_2afc"]]
    assert mean_of_groups(by_group)["score_2afc"] == pytest.approx(63.095, abs=1e-9)


def test_seeds_are_averaged_without_the_runs_that_diverged() -> None:
    runs = [
        {
            "nll": value,
            "seed": seed,
            "diverged": int(value is None),
            "ties": 1,
            "ties_model": None if value is None else 2,
        }
        for seed, value in enumerate([1.0, 2.0, None])
    ]
    summary = over_seeds(runs)
    assert summary["nll"] == 1.5
    assert summary["nll_sd"] == pytest.approx(np.std([1, 2], ddof=1))
    assert (summary["seed"], summary["runs"], summary["diverged"], summary["ties"]) == (None, 3, 1, 1)
    nothing = over_seeds([runs[2], runs[2]])
    assert (nothing["nll"], nothing["nll_sd"], nothing["diverged"]) == (None, None, 2)
