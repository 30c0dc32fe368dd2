"""Values are joined only where the images are the same as before."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trees
import twoafc
from measuring import dataset
from twoafc.cli import main
from twoafc.errors import DataError
from twoafc.measurement.journal import traces_as_text, traces_from_text
from twoafc.measurement.plan import Traces, plan_items

CHANGED = "all values must be of the same images; {} has changed since it was measured; name another table, or remove "


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def measure(distances: Any, out: str = "t.parquet", data: Any = "table.csv", **options: Any) -> Any:
    return twoafc.measure(data, distances, out, **({"device": "cpu", "workers": 1, "batch_size": 4} | options))


def refused(*arguments: Any, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        measure(*arguments, **options)
    return str(caught.value)


def mix_up(name: str) -> None:
    """Write another image of that name, of the same size and date."""
    path = Path(name)
    times = path.stat()
    trees.save(trees.picture(np.random.default_rng(99)), path)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.mark.parametrize("out", ["t.parquet", "t.csv"])
def test_a_folder_of_other_images_with_the_same_names(here: Path, capsys: pytest.CaptureFixture[str], out: str) -> None:
    trees.write_table(here / "a", 5)
    trees.write_table(here / "b", 5, seed=1)
    shutil.copytree(here / "a", here / "copy")
    asked = ["measure", "a/table.csv", "--out", out, "--device", "cpu", "--distance"]
    main([*asked, "euclidean"])
    before = Path(out).read_bytes()
    for distance in ("euclidean", "rmse"):
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main([*asked, distance, "--images", "b"])
        assert caught.value.code == 2
        assert capsys.readouterr().err == f"twoafc: {CHANGED.format('b/images/0-ref.png')}{out} and {out}.parts\n"
        assert Path(out).read_bytes() == before
    # The same images elsewhere are the same.
    main([*asked, "rmse", "--images", "copy"])
    assert twoafc.Triplets.read(out).distances.keys() == {"euclidean", "rmse"}
    assert not Path(f"{out}.parts").exists()


def test_an_image_replaced_in_place(here: Path) -> None:
    trees.write_table(here, 12)
    first = measure(["rmse"])
    mix_up("images/7-x1.png")
    said = CHANGED.format("images/7-x1.png") + "t.parquet and t.parquet.parts"
    assert refused(["rmse"]) == said
    assert refused(["ssim"]) == said
    other = measure(["rmse"], "u.parquet")
    assert other.card["data"]["images"] != first.card["data"]["images"]
    assert other.card["data"]["fingerprint"] == first.card["data"]["fingerprint"]
    changed = other.table["rmse_d1"] != first.table["rmse_d1"]
    assert other.table.filter(changed)["triplet"].to_list() == ["t7"]


def test_an_image_replaced_before_a_run_is_resumed(here: Path) -> None:
    trees.write_table(here, 12)
    measure(["rmse"], shard=(1, 3))
    mix_up("images/0-x0.png")
    said = CHANGED.format("images/0-x0.png") + "t.parquet and t.parquet.parts"
    assert refused(["rmse"]) == said
    # A shard reads only what is its own, and so does not see it; the run that puts them together does.
    measure(["rmse"], shard=(2, 3))
    measure(["rmse"], shard=(3, 3))
    assert refused(["rmse"]) == said
    shutil.rmtree("t.parquet.parts")
    assert len(measure(["rmse"]).table) == 12


def test_shards_that_saw_different_images_are_not_put_together(here: Path) -> None:
    trees.write_table(here, 4)
    rows = pl.read_csv("table.csv").with_columns(ref=pl.lit("images/0-ref.png"))
    rows.write_csv("shared.csv")
    measure(["rmse"], data="shared.csv", shard=(1, 2), batch_size=2)
    mix_up("images/0-ref.png")
    said = CHANGED.format("images/0-ref.png") + "t.parquet and t.parquet.parts"
    assert refused(["rmse"], data="shared.csv", shard=(2, 2), batch_size=2) == said


def test_an_image_that_is_gone_is_no_other_image(here: Path) -> None:
    trees.write_table(here, 6)
    whole = measure(["rmse"]).table
    Path("images/2-x0.png").unlink()
    again = measure(["rmse"])
    assert again.table.equals(whole)
    assert again.items == 0


def test_images_of_failed_rows_may_be_replaced(here: Path) -> None:
    trees.write_table(here, 6)
    Path("images/2-x0.png").unlink()
    measure(["rmse"])
    for role in ("ref", "x0", "x1"):
        trees.save(trees.picture(np.random.default_rng(5)), Path(f"images/2-{role}.png"))
    found = measure(["rmse"])
    assert found.items == 1
    measure(["rmse"], "u.parquet")
    assert Path("t.parquet").read_bytes() == Path("u.parquet").read_bytes()


def test_the_card_tells_the_images(here: Path) -> None:
    trees.write_table(here, 3)
    card = measure(["rmse"]).card
    known = traces_from_text(pl.read_parquet_metadata("t.parquet")["twoafc.traces"])
    assert len(known) == 9
    assert (known > 0).all()
    assert card["data"]["images"].startswith("sha256 ")
    assert measure(["rmse"], "t.csv").card["data"] == card["data"]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=12))
@settings(deadline=None)
def test_traces_are_entered_once_for_each_image(seen: list[tuple[int, int]]) -> None:
    """Against the obvious way: a dictionary."""
    found = plan_items(dataset([("a", "b"), ("a", "c"), ("b", "c")]))
    traces, obvious = Traces(found, Path("t.csv"), np.zeros(0, dtype=np.uint64)), dict[int, int]()
    items = np.array([item for item, _ in seen])
    given_ = np.array([[7, value] for _, value in seen], dtype=np.uint64)
    clash = False
    for (ref, x), (_, value) in zip(found.items[items].tolist(), seen, strict=True):
        for image, each in ((ref, 7), (x, value)):
            clash = clash or (each != 0 and obvious.setdefault(image, each) != each)
    if clash:
        with pytest.raises(DataError, match="has changed since it was measured"):
            traces.add(items, given_)
    else:
        traces.add(items, given_)
        assert {image: int(each) for image, each in enumerate(traces.known) if each} == obvious
        assert (traces_from_text(traces_as_text(traces.known)) == traces.known).all()
