"""The public surface, and that it is light."""

from __future__ import annotations

import doctest
import importlib.metadata
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import twoafc
from twoafc import worlds


def test_the_public_names() -> None:
    assert sorted(twoafc.__all__) == [
        "Counts", "DataError", "Density", "Finding", "Fusion", "Network", "Pairs", "Result", "Settings", "Spline",
        "Triplets", "check", "check_distance", "count", "datasets", "distance", "evaluate", "fetch", "fuse", "gate",
        "join_columns", "load", "measure", "metrics", "planning", "plots", "reproduce", "worlds",
    ]  # fmt: skip
    for name in twoafc.__all__:
        assert getattr(twoafc, name) is not None
    assert set(twoafc.__all__) <= set(dir(twoafc))
    with pytest.raises(AttributeError, match=r"^No twoafc attribute density$"):
        _ = twoafc.density  # type: ignore[attr-defined]


CLASSES = [name for name in twoafc.__all__ if isinstance(getattr(twoafc, name), type)]


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_is_known_by_its_public_path_and_its_examples_run(name: str) -> None:
    kind = getattr(twoafc, name)
    assert (kind.__module__, kind.__qualname__) == ("twoafc", name)
    assert pickle.loads(pickle.dumps(kind)) is kind
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    runner = doctest.DocTestRunner(optionflags=flags)
    names = vars(twoafc) | {"np": np, name: kind}
    for example in doctest.DocTestFinder().find(kind, name, module=False, globs=names):  # type: ignore[arg-type]
        runner.run(example)
    assert runner.failures == 0


def test_tables_are_taken_as_paths_and_frames_and_frames_come_back_as_they_were(tmp_path: Path) -> None:
    columns = {"good": 0.1, "poor": 1.0}
    rng = np.random.default_rng(0)
    true = rng.lognormal(size=(2, 300))
    frame: dict[str, Any] = {"n": rng.binomial(3, true[0] / true.sum(0)), "M": np.full(300, 3)}
    for name, noise in columns.items():
        seen = true * np.exp(noise * rng.normal(size=true.shape))
        frame |= {f"{name}_d0": seen[0], f"{name}_d1": seen[1]}
    path = tmp_path / "votes.csv"
    pl.DataFrame(frame).write_csv(path)
    asked: dict[str, Any] = {"estimators": "density", "settings": twoafc.Settings(folds=2)}
    expected = twoafc.evaluate(twoafc.Triplets.from_frame(frame), **asked)
    for table, kind in (
        (str(path), pl.DataFrame),
        (path, pl.DataFrame),
        (frame, pl.DataFrame),
        (pl.DataFrame(frame), pl.DataFrame),
        (pd.DataFrame(frame), pd.DataFrame),
        (pa.table(frame), pa.Table),
    ):
        result = twoafc.evaluate(table, **asked)
        assert result.scores == expected.scores
        for back in (result.summary(), result.frame(), result.outcomes("good")):
            assert isinstance(back, kind)
        assert twoafc.check(table) == twoafc.check(path)
    summary = expected.summary()
    assert summary.columns == [
        *("distance", "estimator", "nll", "nll_se", "nll_letters", "score_2afc", "score_2afc_se", "explained")
    ]
    assert summary["distance"].to_list() == ["good", "poor"]
    fit = twoafc.Density().fit(pd.DataFrame(frame)[["n", "M", "good_d0", "good_d1"]].rename(columns=lambda c: c[-2:]))
    assert fit.probability(1.0, 1.0) == pytest.approx(0.5)


def test_estimators_and_settings_are_taken_as_people_write_them() -> None:
    frame = twoafc.worlds.simulate("weber", triplets=100, votes=2, seed=1)
    result = twoafc.evaluate(frame, estimators=[twoafc.Density(), "auto"], folds=2)
    assert [record["estimator"] for record in result.summary().to_dicts()] == ["auto", "density"]
    assert result.card["settings"]["folds"] == 2
    assert twoafc.evaluate(frame, estimators=twoafc.Density(), folds=2).estimators == ["density"]
    for asked, message in (
        ({"estimators": {"mine": 3}}, "an estimator has a method fit(table); mine is int"),
        ({"settings": {"folds": 3}}, "settings must be twoafc.Settings(...); got dict"),
        ({"estimator": "density"}, "evaluate has no argument 'estimator'; perhaps estimators"),
        ({"zzz": 1}, "evaluate has no argument 'zzz'"),
    ):
        with pytest.raises(TypeError) as caught:
            twoafc.evaluate(frame, **asked)  # type: ignore[arg-type]
        assert str(caught.value) == message
    twice = pd.concat([pd.DataFrame(frame.to_dict(as_series=False))] * 2, axis=1)
    with pytest.raises(twoafc.DataError, match=r"^column names must differ; triplet is the name of 2 columns$"):
        twoafc.evaluate(twice)


def test_what_the_check_warns_of_is_in_the_verdict() -> None:
    frame = twoafc.worlds.simulate("weber", triplets=200, votes=2, seed=1)
    frame = frame.with_columns(ref=pl.Series([f"r{k % 40}" for k in range(200)]))
    seen = twoafc.evaluate(frame, frame)
    assert "Caution: 200 of 200 (100.0 %) test triplets are also in train" in str(seen)
    assert "new triplets" not in str(seen)
    flipped = frame.with_columns(n=frame["M"] - frame["n"])
    assert "Caution: the votes are flipped (n must count x1), or distance is a similarity" in str(
        twoafc.evaluate(flipped)
    )


def test_results_in_memory_are_compared_by_their_numbers() -> None:
    frame = twoafc.worlds.simulate("weber", triplets=200, votes=2, seed=1)
    one, other = (twoafc.evaluate(pd.DataFrame(frame.to_dict(as_series=False)), folds=2, seed=seed) for seed in (0, 1))
    compared = one.compare(other)
    assert {compared.comparisons[0]["a"], compared.comparisons[0]["b"]} == {
        "distance (result 1)",
        "distance (result 2)",
    }
    assert isinstance(compared.frame(), pd.DataFrame)
    with pytest.raises(twoafc.DataError, match=r"^a folder of results is given twice$"):
        one.compare(one)


def test_reprs_have_a_few_lines() -> None:
    frame = twoafc.worlds.simulate("weber", triplets=300, votes=2, seed=1)
    table = twoafc.Triplets.from_frame(frame)
    result = twoafc.evaluate(table)
    fits = [kind().fit(table) for kind in (twoafc.Density, twoafc.Spline)]
    goodness = next(iter(result.goodness.values()))
    for each in (table, result, result.ceiling, goodness, *fits, *twoafc.count(frame).values()):
        lines = repr(each).splitlines()
        assert len(lines) <= 10
        assert len(repr(each)) < 1200
    first, *_, header, row = repr(result).splitlines()
    assert first == "distance is the only distance, so nothing is compared."
    assert header.split()[:2] == ["distance", "estimator"]
    assert row.split()[:2] == ["distance", "auto"]
    page = result._repr_html_()
    assert page.startswith("<p>distance is the only distance, so nothing is compared.</p>")
    assert "<th>NLL ↓</th>" in page


FIRST = """
import sys
for first in sys.argv[1:]:
    for name in [name for name in sys.modules if name.split(".")[0] == "twoafc"]:
        del sys.modules[name]
    import twoafc
    getattr(twoafc, first)
    print(first, callable(twoafc.evaluate), callable(twoafc.distance))
"""


@pytest.mark.slow
def test_names_mean_the_same_whichever_is_used_first() -> None:
    """Each first in a package that is imported anew; a function may have the name of a module."""
    names = twoafc.__all__
    done = subprocess.run([sys.executable, "-c", FIRST, *names], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"{name} True True" for name in names]


def test_the_version_is_that_of_the_package() -> None:
    assert twoafc.__version__ == importlib.metadata.version("twoafc")


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import twoafc", ["scipy", "polars", "matplotlib", "torch", "rich"]),
        ("import twoafc; twoafc.Density", ["scipy.stats", "scipy.optimize", "matplotlib", "torch", "skimage"]),
        ("import twoafc.cli", ["scipy", "polars", "matplotlib", "torch", "skimage"]),
        ("import twoafc; twoafc.distance", ["torch", "skimage", "matplotlib"]),
        ("from twoafc.datasets import open_dataset", ["scipy", "torch", "skimage", "matplotlib"]),
        ("import twoafc.images", ["scipy", "polars", "torch", "skimage", "matplotlib"]),
    ],
)
def test_imports_are_light(code: str, absent: list[str]) -> None:
    told = f"{code}; import sys; print([name for name in {absent} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_command_imports_what_it_uses(tmp_path: Path) -> None:
    worlds.simulate("weber", triplets=80, votes=2, seed=1).write_csv(tmp_path / "t.csv")
    code = "import sys; from twoafc.cli import main; main(sys.argv[1:]); print(*sys.modules)"
    command = [sys.executable, "-c", code, "evaluate", "--train", "t.csv", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    ours = [name for name in done.stdout.split() if name.startswith("twoafc")]
    assert len(ours) < 90
    assert not [name for name in ours if name.split(".")[1:2] in (["measurement"], ["distances"], ["reproduce"])]


def test_an_absent_extra_answers_with_the_install_line() -> None:
    from twoafc.errors import require

    with pytest.raises(ImportError, match=r"nosuch is not installed; run: pip install 'twoafc\[explore\]'"):
        require("nosuch", extra="explore")
