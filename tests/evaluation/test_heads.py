"""`twoafc.fuse` on channels: heads tested on votes they have not seen, against the published ones, and of use after."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import twoafc
from channels import PUBLISHED, WEIGHTS, world
from commands import refused
from twoafc.cli import main
from twoafc.errors import DataError
from twoafc.measurement import MeasuredChannels
from twoafc.results import Result
from twoafc.table import assign_folds

TRUTH = np.array([0.0, 0.0, 1.5, 0.0, 2.0, 0.0, 0.0, 0.3])


@pytest.fixture(scope="module")
def file() -> MeasuredChannels:
    return world(300, TRUTH, seed=1, votes=3)[0]


@pytest.fixture(scope="module")
def path(file: MeasuredChannels, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("channels") / "c.npz"
    file.save(path)
    return path


@pytest.fixture(scope="module")
def result(path: Path) -> Result:
    return twoafc.fuse(path, folds=2)


def test_heads_are_compared_with_the_published(result: Result) -> None:
    compared = [(r["a"], r["b"], r["different"]) for r in result.comparisons if r["measure"] == "nll"]
    assert compared == [("heads", "lpips_alex", True)]
    assert "noise of training included" in result.error_bars
    about = result.card["heads"]
    assert (about["network"], about["weights"], about["published"]) == ("lpips_alex", WEIGHTS, False)
    gain, *_, layers = about["sentences"]
    assert gain.startswith("heads explains the votes better than lpips_alex: ")
    assert layers.startswith(f"heads weighs {about['channels']} of 8 channels; its layers make up ")
    assert result.verdict()[0] == gain


def test_scores_are_those_of_votes_that_no_choice_has_seen(
    file: MeasuredChannels, result: Result, tmp_path: Path
) -> None:
    """Turning all votes of a fold round changes nothing in what is predicted of it."""
    fold = assign_folds(file.votes(), 2, seed=0)
    n, M = file.frame["n"].to_numpy(), file.frame["M"].to_numpy()
    turned = file.frame.with_columns(n=pl.Series(np.where(fold == 1, M - n, n)))
    dataclasses.replace(file, frame=turned).save(tmp_path / "turned.npz")
    other = twoafc.fuse(tmp_path / "turned.npz", folds=2, error_bars="fixed")
    ours, theirs = (each.table()[["heads_d0", "heads_d1"]] for each in (result, other))
    assert ours.filter(pl.Series(fold == 1)).equals(theirs.filter(pl.Series(fold == 1)))
    assert not ours.equals(theirs)


def test_images_that_recur_are_a_caution(file: MeasuredChannels, result: Result, tmp_path: Path) -> None:
    assert not any("new images" in sentence for sentence in result.verdict())
    rng = np.random.default_rng(0)
    names = {
        role: pl.Series([f"i{image}" for image in rng.integers(20, size=len(file.frame))]) for role in ("x0", "x1")
    }
    dataclasses.replace(file, frame=file.frame.with_columns(**names)).save(tmp_path / "c.npz")
    found = twoafc.fuse(tmp_path / "c.npz", folds=2, error_bars="fixed")
    assert (
        "Caution: the heads that predict a triplet were fitted to other triplets with its images: on new images they "
        "may gain less; a test set of other images shows how much (--test)."
    ) in found.verdict()


def test_a_test_file_is_predicted_by_one_fit(path: Path, tmp_path: Path) -> None:
    test, _ = world(200, TRUTH, seed=2, votes=3)
    test.save(tmp_path / "test.npz")
    found = twoafc.fuse(path, tmp_path / "test.npz", name="mine", error_bars="fixed")
    d = test.means @ np.concatenate(found.fused.heads)
    np.testing.assert_allclose(found.table()["mine_d1"].to_numpy(), d[test.places[:, 1]], rtol=1e-5)


def test_the_folder_has_the_heads_and_the_table(result: Result, tmp_path: Path) -> None:
    result.write(tmp_path / "out")
    again = Result.read(tmp_path / "out")
    assert again.fused.digest == result.fused.digest
    assert again.card["heads"] == result.card["heads"]
    assert again.fused.card["scores"]["triplets"] == 300
    assert again.fused.card["licence"] == "made from votes and distances whose licences may apply to it"
    assert twoafc.load(tmp_path / "out/heads.npz").summary() == result.fused.summary()
    scored = twoafc.evaluate(tmp_path / "out/heads.parquet", distances="heads", folds=2, error_bars="fixed")
    ours, theirs = (
        next(r["score_2afc_distance"] for r in each.scores if (r["distance"], r["split"]) == ("heads", "test"))
        for each in (result, scored)
    )
    assert ours == pytest.approx(theirs)


def test_where_the_published_are_the_truth_they_are_kept(tmp_path: Path) -> None:
    world(150, PUBLISHED, seed=5, votes=2)[0].save(tmp_path / "c.npz")
    found = twoafc.fuse(tmp_path / "c.npz", folds=2)
    assert found.card["heads"]["sentences"] == [
        "heads is lpips_alex: heads fitted to these votes do not predict votes that were left out within the training "
        "table better than the published ones do."
    ]
    assert not any(r["different"] for r in found.comparisons)


def test_mistakes_get_one_line(path: Path, file: MeasuredChannels, tmp_path: Path) -> None:
    def wrong(*arguments: object, **changes: object) -> str:
        with pytest.raises(DataError) as caught:
            twoafc.fuse(*arguments, **changes)  # type: ignore[arg-type]
        return str(caught.value)

    assert wrong(path, {"n": [1]}) == "train and test must both be channels (.npz), or both tables"
    assert wrong(path, distances=["a"]) == "channels are those of one distance; leave distances out"
    assert wrong(path, name="lpips_alex") == (
        "the table has a distance lpips_alex already; give the new one another name (--name)"
    )
    other = {"lpips_alex": {"identity": {"variant": "lpips_alex/channels", "weights": {"net": "sha256 2"}}, "made": []}}
    dataclasses.replace(file, card={**file.card, "distances": other}).save(tmp_path / "other.npz")
    assert wrong(path, tmp_path / "other.npz") == (
        f"train and test must have channels of one network; {tmp_path / 'other.npz'} has other ones: "
        "weights net sha256 1, now net sha256 2"
    )
    pairs = dataclasses.replace(file, places=file.places[:, :1])
    pairs.save(tmp_path / "pairs.npz")
    assert wrong(tmp_path / "pairs.npz") == "heads are fitted to votes on triplets; the file has pairs"


def test_the_command(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "mine"
    command = ["fuse", "--train", str(path), "--out", str(out)]
    main([*command, "--name", "mine", "--error-bars", "fixed", "--folds", "2"])
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("mine explains the votes better than lpips_alex: ")
    assert said[-1] == f"Heads: {out / 'mine.npz'}"
    assert refused(capsys, *command, "--distance", "a") == "--distance is for tables; channels have their names"
