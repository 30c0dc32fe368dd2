"""A fused distance measured on images: from its parts, each measured once, and from no other ones."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import trees
import twoafc
from commands import refused
from twoafc.estimators import Chance, Fused, Fusion, FusionFit

KNOTS = np.array([0.0, 0.05, 1.0])
HEIGHTS = np.array([0.0, 1.0, 3.0])


def fit_of(*parts: str, **identities: dict[str, object]) -> FusionFit:
    fused = Fused(parts, (KNOTS,) * len(parts), (HEIGHTS,) * len(parts))
    return FusionFit(Fusion(parts), fused, Chance(0.01), identities=identities)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "own_parts", raising=False)
    (tmp_path / "own_parts.py").write_text(
        "import numpy as np\n"
        "def mean(ref, x):\n"
        "    with open('calls.txt', 'a') as log:\n"
        "        log.write('x' * len(ref))\n"
        "    return abs(ref - x).mean(axis=(1, 2, 3))\n"
        "mean.takes = 'numpy'\n"
    )
    trees.write_bapps(tmp_path / "data", triplets=3)
    return tmp_path


def measure(*distances: str, out: str = "t.csv") -> pl.DataFrame:
    twoafc.measure("data", list(distances), out, device="cpu", workers=1)
    return pl.read_csv(out)


def test_its_columns_are_the_sums_of_its_functions(here: Path) -> None:
    fit_of("rmse", "ssim").save("both.npz")
    table = measure("both.npz")
    assert [name for name in table.columns if name.endswith("_d0")] == ["rmse_d0", "ssim_d0", "both_d0"]
    for end in ("d0", "d1"):
        expected = sum(np.interp(table[f"{part}_{end}"], KNOTS, HEIGHTS) for part in ("rmse", "ssim"))
        np.testing.assert_allclose(table[f"both_{end}"], expected)


def test_a_part_that_is_asked_for_too_is_measured_once(here: Path) -> None:
    fit_of("mean", "rmse").save("both.npz")
    measure("own_parts:mean")
    calls = len(Path("calls.txt").read_text())
    Path("calls.txt").unlink()
    table = measure("own_parts:mean", "both.npz", out="other.csv")
    assert len(Path("calls.txt").read_text()) == calls
    assert [name for name in table.columns if name.endswith("_d0")] == ["mean_d0", "rmse_d0", "both_d0"]


def test_it_is_added_to_a_table_and_kept_by_later_runs(here: Path) -> None:
    fit_of("rmse", "ssim").save("both.npz")
    first = measure("rmse")
    assert "both_d0" not in first.columns
    second = measure("both.npz")
    assert second["rmse_d0"].equals(first["rmse_d0"])
    assert measure("both.npz").equals(second)
    third = measure("ms_ssim_3")
    assert third["both_d1"].equals(second["both_d1"])
    changed = fit_of("rmse", "ssim")
    dataclasses.replace(changed, fused=Fused(("rmse", "ssim"), (KNOTS,) * 2, (HEIGHTS, 2 * HEIGHTS))).save("both.npz")
    with pytest.raises(twoafc.DataError, match=r"both in t.csv was measured differently: model .*, now "):
        measure("both.npz")


def test_what_its_table_was_measured_with_makes_its_parts(here: Path) -> None:
    fit_of("mean", "rmse", mean={"variant": "own_parts:mean"}).save("both.npz")
    with pytest.raises(twoafc.DataError, match=r"both.npz was fitted to another mean: "):
        measure("both.npz")  # the code of the function is not known to be the same
    table = measure("own_parts:mean", "rmse")
    assert table.height == 6
    known = twoafc.measurement.identities_of("t.csv")
    fit_of("mean", "rmse", **known).save("both.npz")
    assert "both_d1" in measure("both.npz", out="other.csv").columns


def test_other_weights_are_refused(here: Path) -> None:
    fit_of("rmse", "ssim", ssim={"variant": "ssim", "weights": {"net": "sha256 1"}}).save("both.npz")
    with pytest.raises(twoafc.DataError) as caught:
        measure("both.npz")
    assert str(caught.value) == "both.npz was fitted to another ssim: weights net sha256 1, now none"


def test_mistakes_get_one_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ("measure", "data", "--out", "t.csv", "--distance")
    fit_of("rmse", "hue").save("both.npz")
    said = refused(capsys, *command, "both.npz")
    assert said.startswith("both.npz needs hue: there is no distance 'hue'; the names are: ")
    assert refused(capsys, *command, "none.npz") == "no such file: none.npz"
    rng = np.random.default_rng(0)
    table = twoafc.Triplets.from_frame({"n": rng.integers(0, 3, 9), "M": [2] * 9, "d0": range(9), "d1": range(1, 10)})
    twoafc.Spline().fit(table).save("p.npz")
    assert refused(capsys, *command, "p.npz") == (
        "p.npz is a model of P for one distance, not a distance; twoafc fuse makes distances"
    )
