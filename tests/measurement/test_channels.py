"""Channels measured on images: each distinct pair once, resumed after any interruption, and refused if others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import trees
import twoafc
from commands import refused
from distance_checks import any_tensors
from twoafc.cli import main
from twoafc.datasets import open_dataset
from twoafc.distances import lpips_channels, weights
from twoafc.errors import DataError
from twoafc.estimators import Chance, Heads, HeadsFit
from twoafc.files import read_archive, save_archive
from twoafc.measurement import Measured, MeasuredChannels, make_candidates, read_channels
from twoafc.measurement.candidates import split_fused

pytest.importorskip("torch")
SIZE, IMAGES = 32, 5
STAGES = (4, 3, 5, 2, 2)
"""Channels of each stage: of a network as small as can be."""


def few_tensors(name: str, path: object = None) -> dict[str, object]:
    """Random weights of a narrow AlexNet."""
    import torch

    tensors = any_tensors(name)
    if name == "alexnet":
        before = (3, *STAGES)
        names = [f"features.{layer}" for layer in (0, 3, 6, 8, 10)]
        return {
            f"{layer}.{part}": tensors[f"{layer}.{part}"][slice(after), *([slice(first)] if part == "weight" else [])]
            for layer, first, after in zip(names, before, STAGES, strict=False)
            for part in ("weight", "bias")
        }
    return {
        f"lin{layer}.model.1.weight": torch.abs(tensors[f"lin{layer}.model.1.weight"][:, :width])
        for layer, width in enumerate(STAGES)
    }


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table of triplets on few images; the network is that of this process, so that workers need no torch."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(weights, "tensors", few_tensors)
    monkeypatch.setattr("twoafc.measurement.run.channels_of", lambda _: {"lpips_alex": lpips_channels("lpips_alex")})
    rng = np.random.default_rng(0)
    for number in range(IMAGES):
        trees.save(trees.picture(rng, SIZE), tmp_path / f"{number}.png")
    names = [f"{number}.png" for number in range(IMAGES)]
    rows = [(a, b, c) for a in names[:3] for b in names for c in names if len({a, b, c}) == 3 and b < c]
    table = pl.DataFrame(rows, schema=["ref", "x0", "x1"], orient="row")
    table.with_columns(n=pl.Series(rng.integers(0, 4, len(rows))), M=pl.lit(3)).write_csv("votes.csv")
    return tmp_path


def measure(**options: object) -> Measured:
    return twoafc.measure("votes.csv", ["lpips_alex"], "c.npz", device="cpu", workers=1, channels=True, **options)  # type: ignore[arg-type]


def test_the_file_has_each_pair_once(here: Path) -> None:
    found = measure()
    file = read_channels("c.npz")
    assert found.table is not None
    assert len(found.table) == len(file.frame) == 18
    assert file.means.shape == (12, sum(STAGES))  # of 36 pairs in 18 triplets
    assert file.means.dtype == np.float32
    data, channels = open_dataset("votes.csv"), lpips_channels("lpips_alex")
    for row in range(18):
        ref, x0, x1 = data.images([row])
        for place, x in zip(file.places[row], (x0, x1), strict=True):
            np.testing.assert_allclose(file.means[place], channels(ref, x)[0], rtol=1e-5, atol=1e-9)
    votes = file.votes()
    expected = [float(channels(*data.images([row])[:2])[0] @ np.concatenate(channels.heads)) for row in range(18)]
    np.testing.assert_allclose(votes["lpips_alex"].columns[0], expected, rtol=1e-5)
    assert votes.n.tolist() == pl.read_csv("votes.csv")["n"].to_list()
    assert list(file.identity["weights"]) == ["alexnet", "lpips_alex_head"]
    assert not Path("c.npz.parts").exists()


class StopError(Exception):
    pass


def test_a_run_that_was_stopped_is_resumed(here: Path) -> None:
    def stop(done: int, of: int, what: str) -> None:
        if 4 <= done < of and what == "pairs":
            raise StopError

    with pytest.raises(StopError):
        measure(batch_size=2, progress=stop)
    assert not Path("c.npz").exists()
    resumed = measure(batch_size=2)
    assert 0 < resumed.items <= 8
    content = Path("c.npz").read_bytes()
    assert measure().items == 0
    assert Path("c.npz").read_bytes() == content
    Path("c.npz").unlink()
    assert measure().items == 12
    np.testing.assert_allclose(read_channels("c.npz").means, _means(content), rtol=1e-6)


def _means(content: bytes) -> np.ndarray:
    Path("other.npz").write_bytes(content)
    return read_channels("other.npz").means


def test_rows_whose_images_cannot_be_read_are_listed_and_tried_again(here: Path) -> None:
    whole = Path("4.png").read_bytes()
    Path("4.png").write_bytes(whole[:100])
    found = measure()
    assert len(found.failures) == 9
    assert len(read_channels("c.npz").frame) == 9
    assert Path("c.npz.failures.csv").is_file()
    Path("4.png").write_bytes(whole)
    again = measure()
    assert (again.items, len(again.failures)) == (3, 0)
    file = read_channels("c.npz")
    assert (len(file.frame), file.means.shape) == (18, (12, sum(STAGES)))
    assert np.isfinite(file.means).all()


def test_changed_images_and_other_data_are_refused(here: Path) -> None:
    measure()
    trees.save(trees.picture(np.random.default_rng(9), SIZE), here / "0.png")
    with pytest.raises(DataError, match=r"all values must be of the same images; 0.png has changed since it was"):
        measure()
    pl.read_csv("votes.csv")[:5].write_csv("votes.csv")
    with pytest.raises(DataError, match=r"c.npz was measured on other data than these; name another file"):
        measure()


def test_channels_of_another_format_are_refused(here: Path) -> None:
    measure()
    kind, card, arrays = read_archive("c.npz")
    assert card["format"] == 1
    save_archive("c.npz", kind, card | {"format": 99}, arrays)
    with pytest.raises(DataError) as error:
        measure()
    assert str(error.value) == "c.npz is of format 99, this version reads 1: measure again, into another file"


def test_mistakes_get_one_line(here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.chdir(here)
    command = ("measure", "votes.csv", "--channels", "--out")
    assert refused(capsys, *command, "c.csv", "--distance", "lpips") == "channels are written as .npz; found c.csv"
    assert refused(capsys, *command, "c.npz", "--distance", "lpips,lpips_vgg") == (
        "channels are those of one distance, lpips_alex, lpips_vgg, lpips_squeeze; found lpips, lpips_vgg"
    )
    assert refused(capsys, *command, "c.npz", "--distance", "ssim") == (
        "channels are those of one distance, lpips_alex, lpips_vgg, lpips_squeeze; found ssim"
    )


def test_other_files_are_refused(here: Path) -> None:
    measure()
    file = read_channels("c.npz")
    table = file.votes()
    twoafc.Spline().fit(table).save("p.npz")
    with pytest.raises(DataError, match=r"p.npz is a model, not a file of channels; twoafc measure --channels writes"):
        read_channels("p.npz")
    cut = MeasuredChannels(file.frame[:3], file.card, file.traces, file.means, file.pairs, file.places, file.heads)
    cut.save("cut.npz")
    with pytest.raises(DataError, match=r"cut.npz is not a whole file of channels; remove it, and measure again"):
        read_channels("cut.npz")
    with pytest.raises(DataError, match=r"c.npz contains a model of kind 'channels'"):
        twoafc.load("c.npz")


def test_heads_of_ones_own_are_measured_by_their_file(here: Path) -> None:
    heads = tuple(np.full(width, 0.5, dtype=np.float32) for width in STAGES)
    digests = {name: weights.published()[name].digest for name in ("alexnet", "lpips_alex_head")}
    settings = Heads("lpips_alex", tuple(head.astype(np.float64) for head in heads), digests)
    HeadsFit(settings, heads, Chance(0.01), np.ones(sum(STAGES))).save("mine.npz")
    requested, fused = split_fused(["mine.npz", "rmse"])
    assert (requested, fused) == (["mine.npz", "rmse"], [])
    mine, _ = make_candidates(requested, "cpu", "fp32")
    assert (mine.name, mine.text, mine.identity["variant"]) == ("mine", "mine.npz", "heads")
    assert list(mine.identity["weights"]) == ["alexnet", "heads"]
    table = twoafc.measure("votes.csv", {"mine": mine.distance}, "t.csv", device="cpu", workers=1).table
    assert table is not None
    measure()
    file = read_channels("c.npz")
    np.testing.assert_allclose(table["mine_d1"], file.means[file.places[:, 1]].sum(axis=1) / 2, rtol=1e-5)


@pytest.mark.slow
def test_from_images_to_heads_and_back(here: Path, shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the published weights, in worker processes, by the commands that a user types."""
    monkeypatch.undo()
    monkeypatch.chdir(here)
    monkeypatch.setenv("TWOAFC_WEIGHTS", str(shared / "weights"))
    main(["measure", "votes.csv", "--distance", "lpips", "--channels", "--out", "c.npz", "--workers", "1", "--quiet"])
    main(["fuse", "--train", "c.npz", "--out", "out", "--folds", "2", "--error-bars", "fixed", "--quiet"])
    both = ["--distance", "out/heads.npz,lpips"]
    main(["measure", "votes.csv", *both, "--out", "t.parquet", "--workers", "1", "--quiet"])
    table, file = pl.read_parquet("t.parquet"), read_channels("c.npz")
    heads = twoafc.Result.read("out").fused.heads
    d = file.means @ np.concatenate(heads)
    for end, place in zip(("d0", "d1"), file.places.T, strict=True):
        np.testing.assert_allclose(table[f"heads_{end}"], d[place], rtol=1e-5)
        np.testing.assert_allclose(
            table[f"lpips_alex_{end}"], file.votes().distances["lpips_alex"][0 if end == "d0" else 1], rtol=1e-6
        )
