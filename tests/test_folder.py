"""A finished folder of results, read back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from drawing import plain_results
from twoafc import card, results, worlds
from twoafc.errors import DataError
from twoafc.estimators import estimator
from twoafc.evaluation import Settings, evaluate
from twoafc.folder import Results
from twoafc.table import Triplets


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    frame = worlds.simulate("weber", triplets=300, votes=3, seed=1)
    table = Triplets.from_frame(
        frame.rename({"d0": "a b_d0", "d1": "a b_d1"}).with_columns(**{"a/b_d0": frame["d0"], "a/b_d1": frame["d1"]})
    )
    folder = tmp_path_factory.mktemp("folder") / "results"
    settings, names = Settings(folds=2, seeds=2), ("density", "network")
    found = evaluate(table, estimators=names, settings=settings)
    chosen = {name: estimator(name) for name in names}
    with plain_results():
        results.write(found, folder, card.of_evaluation({"train": card.describe(table)}, chosen, settings, found.runs))
    return folder


def test_models_are_found_whatever_their_distances_are_called(finished: Path) -> None:
    read = Results.read(finished)
    assert read.fits == [
        (name, label, seed)
        for name in ("a b", "a/b")
        for label, seed in (("density", None), ("network", 0), ("network", 1))
    ]
    a, b = (read.fit(name, "density") for name in ("a b", "a/b"))
    assert np.array_equal(a.probability([0.1], [0.2]), b.probability([0.1], [0.2]))
    assert read.choose() == ("a b", "density")
    assert read.choose("a/b", "network") == ("a/b", "network")
    assert len(read.triplets) == 2 * 3 * 300
    assert read.votes is None
    assert (read.ties, read.way) == ("half", "analytic")


def test_asking_for_what_is_not_there(finished: Path) -> None:
    read = Results.read(finished)
    with pytest.raises(DataError, match=r"^no distance 'c' in .*results; it has a b, a/b$"):
        read.choose("c")
    with pytest.raises(DataError, match=r"^no estimator 'spline' in .*results; it has density, network$"):
        read.choose(estimator="spline")
    with pytest.raises(DataError, match=r"results has no model of a b, spline$"):
        read.fit("a b", "spline")


def test_what_is_no_folder_of_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"is not a folder of results; it has no scores\.json$"):
        Results.read(tmp_path)
    (tmp_path / "scores.json").write_text('{"card": 3}')
    with pytest.raises(DataError, match=r"scores\.json is not that of a result; run twoafc evaluate again$"):
        Results.read(tmp_path)
    (tmp_path / "scores.json").write_text(
        '{"card": {"settings": {"ties": "half"}, "error_bars": ""}, "scores": [], "comparisons": []}'
    )
    with pytest.raises(DataError, match=r"tells nothing of single triplets; it has no triplets\.parquet$"):
        _ = Results.read(tmp_path).triplets
    with pytest.raises(DataError, match=r"holds no models$"):
        Results.read(tmp_path).choose()
    (tmp_path / "triplets.parquet").write_text("no parquet")
    with pytest.raises(DataError, match=r"triplets\.parquet is not a readable Parquet file: "):
        _ = Results.read(tmp_path).triplets
    (tmp_path / "pairs.parquet").touch()
    with pytest.raises(DataError, match=r"holds results of pairs; how they compare is told in its comparisons\.csv$"):
        Results.read(tmp_path)
