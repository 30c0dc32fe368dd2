"""Measuring: a data set's images and some distances to a table, whatever happens in between."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from PIL import Image

import trees
import twoafc
from commands import refused
from distance_checks import pim_of
from measuring import SELF, TRIED, TWICE
from twoafc import datasets
from twoafc.cli import main
from twoafc.errors import DataError

OWN = """
import os
import numpy as np

def mine(ref, x):
    with open(os.environ.get("TWOAFC_TEST_LOG", os.devnull), "a") as log:
        log.write(f"{len(ref)}\\n")
    trap = os.environ.get("TWOAFC_TEST_TRAP")
    if trap and np.isclose(x.mean(axis=(1, 2, 3)), float(trap), atol=1e-9, rtol=0).any():
        raise RuntimeError("a trap")
    return abs(ref - x).mean(axis=(1, 2, 3), dtype=np.float64)

def ssim(ref, x):
    return mine(ref, x)

def constant(ref, x):
    return np.full(len(ref), float(os.environ["TWOAFC_TEST_VALUE"]))

def arrays(ref, x):
    if not isinstance(ref, np.ndarray):
        raise TypeError("arrays, please")
    return mine(ref, x)

def single(ref, x):
    return 0.5

def quits(ref, x):
    raise SystemExit(3)

class Mute:
    pass

class Needy:
    def __init__(self, power):
        pass

mine.takes = ssim.takes = constant.takes = single.takes = "numpy"
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a user's own distances, which is also where the commands are given."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "own_distances", raising=False)
    (tmp_path / "own_distances.py").write_text(OWN)
    return tmp_path


@pytest.fixture
def log(here: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Counts the pairs that the own distance was called with, since the last time."""
    path = here / "log.txt"
    path.touch()
    monkeypatch.setenv("TWOAFC_TEST_LOG", str(path))

    def counted() -> int:
        pairs = sum(map(int, path.read_text().split()))
        path.write_text("")
        return pairs

    return counted


def measure(data: Any, distances: Any, out: str = "t.parquet", **options: Any) -> Any:
    return twoafc.measure(data, distances, out, **({"device": "cpu", "workers": 1} | options))


def failure(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    return refused(capsys, "measure", *arguments)


def expected(data: datasets.Dataset, name: str) -> dict[str, np.ndarray]:
    """The slow, obvious way: row by row."""
    found: dict[str, list[float]] = {f"{name}_{column}": [] for _, _, column in data.pairs}
    for row in range(len(data)):
        images = dict(zip(data.roles, data.images([row]), strict=True))
        for ref, x, column in data.pairs:
            found[f"{name}_{column}"].append(twoafc.distance(name)(images[ref], images[x])[0])
    return {name: np.array(values) for name, values in found.items()}


def same_as_row_by_row(table: pl.DataFrame, data: datasets.Dataset, *names: str) -> None:
    assert table.drop(pl.selectors.matches("_d[01]?$")).equals(data.table)
    for name in names:
        for column, values in expected(data, name).items():
            np.testing.assert_array_equal(table[column].to_numpy(), values)


@pytest.mark.slow
def test_a_bapps_tree_from_end_to_end(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trees.write_bapps(here / "bapps", 40)
    main(["measure", "bapps", "--distance", "euclidean", "--distance", "ssim", "--out", "t.parquet", "--device", "cpu"])
    said = capsys.readouterr().out
    assert said.startswith("Measured 80 triplets in ")
    assert said.endswith("Table: t.parquet (80 rows)\n")
    same_as_row_by_row(pl.read_parquet("t.parquet"), datasets.open_dataset("bapps"), "euclidean", "ssim")
    assert sorted(path.name for path in here.iterdir()) == ["bapps", "own_distances.py", "t.parquet"]
    main(["evaluate", "--train", "t.parquet", "--distance", "ssim", "--folds", "2", "--quiet"])
    assert {r["distance"] for r in json.loads(Path("results/scores.json").read_text())["scores"]} == {"ssim"}


def test_torch_is_imported_only_where_it_may_have_a_gpu(here: Path) -> None:
    if sys.platform != "darwin" and not version("torch").endswith("+cpu"):
        pytest.skip("this build of torch may have a GPU, which only torch can tell")
    trees.write_bapps(here / "bapps", 2)
    code = 'import sys, twoafc; twoafc.measure("bapps", ["ssim"], "t.csv", workers=1); print("torch" in sys.modules)'
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.split() == [b"False"]
    assert len(pl.read_csv("t.csv")) == 4


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        ("cuda = None; hip = None", "cpu False"),
        ("cuda = '12.4'; hip = None", "cuda True"),
        ("cuda = None; hip = '6.3'", "cuda True"),
        (None, "cuda True"),
    ],
)
def test_a_gpu_is_looked_for_in_the_torch_that_would_be_imported(here: Path, build: str | None, expected: str) -> None:
    (here / "torch").mkdir()
    (here / "torch/__init__.py").write_text("class cuda: is_available = lambda: True")
    if build is not None:
        (here / "torch/version.py").write_text(build)
    code = "import sys; from twoafc.measurement.candidates import resolve_device"
    code += "; print(resolve_device(None, 'fp32'), 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)  # the folder is on the path
    assert done.stdout.decode().strip() == expected


def test_a_clic_file_from_end_to_end(here: Path) -> None:
    answers = trees.write_clic(here / "clic")
    main(
        ["measure", str(answers), "--distance", "rmse", "--distance", "ms_ssim_3", "--out", "t.csv", "--device", "cpu"]
    )
    data = datasets.open_dataset(answers)
    table = twoafc.Triplets.read("t.csv")
    assert table.n.tolist() == data.n.tolist()
    for column, values in expected(data, "ms_ssim_3").items():
        np.testing.assert_array_equal(table.to_frame()[column].to_numpy(), values)
    arguments = ["--distance", "rmse", "--out", "u.csv", "--device", "cpu", "--without-anchors", "--quiet"]
    main(["measure", str(answers), *arguments])
    assert len(twoafc.Triplets.read("u.csv")) == len(data) - 3


def test_pairs_and_quadruples(here: Path) -> None:
    trees.write_jnd(here, 5)
    found = measure(here / "jnd", ["euclidean"])
    same_as_row_by_row(found.table, datasets.open_dataset(here / "jnd"), "euclidean")
    assert "euclidean_d" in found.table.columns
    trees.write_table(here, 6)
    table = pl.read_csv("table.csv").rename({"ref": "ref0"}).with_columns(ref1=pl.col("ref0").reverse())
    table.write_csv("quadruples.csv")
    found = measure("quadruples.csv", ["euclidean", "ssim"], "q.parquet")
    same_as_row_by_row(found.table, datasets.open_dataset("quadruples.csv"), "euclidean", "ssim")
    assert found.kind == "pairs"


def test_images_that_recur_are_measured_once(here: Path, log: Callable[[], int]) -> None:
    trees.write_table(here, 4)
    files = sorted(f"images/{path.name}" for path in (here / "images").iterdir())
    rng = np.random.default_rng(0)
    rows = [dict(zip(("ref", "x0", "x1"), rng.choice(files, 3, replace=False), strict=True)) for _ in range(200)]
    pl.DataFrame(rows).with_columns(triplet=pl.row_index(), n=1, M=2).write_csv("many.csv")
    found = measure("many.csv", ["own_distances:mine", "ssim"], workers=2)
    assert found.kind == "pairs"
    assert log() - TRIED - TWICE - SELF == found.items <= 12 * 11
    same_as_row_by_row(found.table, datasets.open_dataset("many.csv"), "ssim")


def test_a_function_for_arrays_gets_arrays_beside_a_device(here: Path) -> None:
    trees.write_table(here, 4)
    found = measure("table.csv", ["own_distances:arrays", "rmse"], device="cpu:0")
    plain = measure("table.csv", ["own_distances:arrays"], "u.parquet")
    assert found.table["arrays_d0"].to_list() == pytest.approx(plain.table["arrays_d0"].to_list(), rel=1e-6)


@pytest.mark.parametrize("options", [{"workers": 2}, {"batch_size": 3}, {"batch_size": 1000}, {"device": "cpu:0"}])
def test_the_way_of_working_changes_nothing(here: Path, options: dict[str, Any]) -> None:
    trees.write_table(here, 20, sizes=(64, (48, 72)))
    names = ["euclidean", "ssim", "nlpd"]
    first = measure("table.csv", names).table
    other = measure("table.csv", names, "u.parquet", **options).table
    if options == {"device": "cpu:0"}:  # the way of a GPU: tensors, in single precision
        numbers = pl.selectors.matches("_d[01]$")
        np.testing.assert_allclose(first.select(numbers), other.select(numbers), rtol=1e-4)
        assert first.drop(numbers).equals(other.drop(numbers))
    else:
        assert first.equals(other)


@pytest.mark.slow
def test_real_materials_reproduce_the_columns_that_came_with_them(
    shared: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWOAFC_WEIGHTS", str(shared / "weights"))
    folder = shared / "data" / "material"
    known = pl.read_csv(folder / "train.csv", schema_overrides={"triplet": pl.String})
    # Rows with few distinct images, so that pairs recur.
    chosen = known["ref"].unique().sort().head(15)
    known = known.filter(pl.all_horizontal(pl.col("ref", "x0", "x1").is_in(chosen.implode())))
    paths = [pl.format("{}/{}.jpg", pl.lit(str(folder / "images")), name).alias(name) for name in ("ref", "x0", "x1")]
    known.select("triplet", "group", "n", "M", *paths).write_csv("paths.csv")
    arguments = ["--distance", "lpips", "--distance", "ssim_luma", "--out", "t.parquet", "--device", "cpu"]
    main(["measure", "paths.csv", *arguments, "--workers", "1", "--quiet"])
    found = pl.read_parquet("t.parquet")
    assert len(found) == len(known) > 20
    assert found["triplet"].equals(known["triplet"])
    for column in ("d0", "d1"):
        np.testing.assert_allclose(found[f"lpips_alex_{column}"], known[f"lpips_alex_{column}"], rtol=0, atol=1e-5)
        np.testing.assert_allclose(found[f"ssim_luma_{column}"], known[f"ssim_{column}"], rtol=0, atol=1e-4)
    weights = json.loads(pl.read_parquet_metadata("t.parquet")["twoafc"])["distances"]["lpips_alex"]["identity"]
    assert weights["weights"]["alexnet"].startswith("sha256 7be5be79")
    main(["evaluate", "--train", "t.parquet", "--folds", "2", "--distance", "lpips_alex", "--quiet"])
    records = json.loads(Path("results/scores.json").read_text())["scores"]
    ours = next(r["score_2afc_distance"] for r in records if r["split"] == "test" and r["group"] == "all")
    n, M, d0, d1 = known.select("n", "M", "lpips_alex_d0", "lpips_alex_d1").to_numpy().T
    assert ours == pytest.approx(100 * np.where(d0 > d1, n / M, 1 - n / M).mean(), abs=1e-9)


def test_a_distance_is_added_without_measuring_the_others_again(here: Path, log: Callable[[], int]) -> None:
    trees.write_table(here, 10)
    measure("table.csv", ["own_distances:mine"])
    assert log() == 2 * (10 + TRIED + TWICE) + SELF
    found = measure("table.csv", ["ssim", "own_distances:mine"])
    assert log() == 2 * TRIED + SELF
    assert [name for name in found.table.columns if "_d" in name] == ["mine_d0", "mine_d1", "ssim_d0", "ssim_d1"]
    again = measure("table.csv", ["rmse"])
    assert log() == 0
    assert [name for name in again.table.columns if "_d0" in name] == ["mine_d0", "ssim_d0", "rmse_d0"]
    before = Path("t.parquet").read_bytes()
    nothing = measure("table.csv", ["rmse", "ssim"])
    assert nothing.items == 0
    assert Path("t.parquet").read_bytes() == before
    whole = measure("table.csv", ["own_distances:mine", "ssim", "rmse"], "u.parquet")
    assert whole.table.equals(again.table)
    assert Path("u.parquet").read_bytes() == before
    assert set(again.card["distances"]) == {"mine", "ssim", "rmse"}
    assert again.card["distances"]["mine"]["identity"]["variant"] == "own_distances:mine"
    assert again.card["distances"]["ssim"]["identity"] == {
        "variant": "ssim",
        "precision": "fp64",
        "device": "cpu",
        "twoafc": twoafc.__version__,
    }
    assert again.card["data"]["rows"] == again.card["data"]["in_table"] == 10


def test_a_failed_image_is_told_and_tried_again(
    here: Path, log: Callable[[], int], capsys: pytest.CaptureFixture[str]
) -> None:
    trees.write_table(here, 10)
    kept = Path("images/3-x1.png").read_bytes()
    Path("images/3-x1.png").write_bytes(kept[:200])
    Path("images/5-x0.png").unlink()
    arguments = ["table.csv", "--distance", "own_distances:mine", "--out", "t.csv", "--device", "cpu"]
    with pytest.raises(SystemExit) as caught:
        main(["measure", *arguments])
    assert caught.value.code == 1
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "twoafc: 2 rows could not be measured and are not in the table:"
    assert said[1].startswith("  t3: images/3-x1.png: the image is truncated")
    assert said[2:] == ["  t5: images/5-x0.png: no such file", "  all of them: t.csv.failures.csv"]
    listed = pl.read_csv("t.csv.failures.csv")
    assert listed.columns == ["triplet", "file", "reason"]
    assert listed["triplet"].to_list() == ["t3", "t5"]
    names = twoafc.Triplets.read("t.csv").labels["triplet"].to_list()
    assert names == [f"t{number}" for number in range(10) if number not in (3, 5)]
    assert log() == 2 * (8 + TRIED + TWICE) + SELF
    Path("images/3-x1.png").write_bytes(kept)
    Path("images/5-x0.png").write_bytes(kept)
    main(["measure", *arguments, "--quiet"])
    assert log() == 2 * (2 + TRIED + TWICE) + SELF
    assert not Path("t.csv.failures.csv").exists()
    assert not Path("t.csv.parts").exists()
    table = measure("table.csv", ["own_distances:mine"], "u.csv").table
    assert table["triplet"].to_list() == [f"t{number}" for number in range(10)]
    assert Path("t.csv").read_bytes() == Path("u.csv").read_bytes()


def test_what_is_known_of_a_row_that_is_left_out_is_kept(here: Path, log: Callable[[], int]) -> None:
    trees.write_table(here, 6)
    whole = measure("table.csv", ["own_distances:mine"]).table
    image = Path("images/2-x0.png").read_bytes()
    Path("images/2-x0.png").unlink()
    found = measure("table.csv", ["rmse"])
    assert [str(each) for each in found.failures] == [
        f"t2: {'images/2-x0.png'}: no such file",
    ]
    assert found.notes[-1] == "t.parquet.parts keeps the known values of rows or distances that are not in the table"
    assert len(found.table) == 5
    Path("images/2-x0.png").write_bytes(image)
    log()
    again = measure("table.csv", ["rmse"])
    assert log() == 0
    assert again.failures == []
    assert again.table.drop("rmse_d0", "rmse_d1").equals(whole)
    assert not Path("t.parquet.parts").exists()


def test_a_row_comes_back_with_all_its_distances_only(here: Path) -> None:
    trees.write_table(here, 6)
    image = Path("images/2-x0.png").read_bytes()
    Path("images/2-x0.png").unlink()
    measure("table.csv", ["rmse"])
    Path("images/2-x0.png").write_bytes(image)
    found = measure("table.csv", ["ssim"])
    told = "t2: not all distances of t.parquet are known of it; name all of them to bring it back"
    assert [str(each) for each in found.failures] == [told]
    found = measure("table.csv", ["ssim", "rmse"])
    assert found.failures == []
    assert found.items == 1
    assert found.table.equals(measure("table.csv", ["rmse", "ssim"], "u.parquet").table)


def test_many_failures_are_counted(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trees.write_table(here, 30)
    for number in range(25):
        Path(f"images/{number}-ref.png").unlink()
    with pytest.raises(SystemExit):
        main(["measure", "table.csv", "--distance", "rmse", "--out", "t.csv", "--device", "cpu", "--json"])
    said = capsys.readouterr()
    assert said.err.count("no such file") == 20
    assert said.err.splitlines()[-2:] == ["  and 5 more", "  all of them: t.csv.failures.csv"]
    summary = json.loads(said.out)
    assert summary["rows"] == summary["measured"] == 5
    assert len(summary["failures"]) == 25


def test_no_row_at_all(here: Path) -> None:
    trees.write_table(here, 3)
    for path in Path("images").glob("*-ref.png"):
        path.write_text("no image")
    found = measure("table.csv", ["rmse"])
    assert found.table is None
    assert len(found.failures) == 3
    assert found.notes[-1] == "no row could be measured; t.parquet is not written"
    assert not Path("t.parquet").exists()


def test_images_of_several_sizes(here: Path) -> None:
    trees.write_table(here, 9, sizes=(64, (48, 72), 30))
    trees.save(trees.picture(np.random.default_rng(1), (48, 71)), Path("images/4-x1.png"))
    Image.fromarray(np.full((64, 64), 40000, dtype=np.uint16)).save("images/3-x0.png")
    found = measure("table.csv", ["ms_ssim_3", "rmse"])
    small = (
        "ms_ssim_3 cannot measure images of 30 x 30 pixels (images must be at least 41 x 41 pixels for this distance; "
    )
    assert [str(each) for each in found.failures] == [
        f"t2: {small}got 30 x 30)",
        f"t4: {Path('images/4-x1.png')}: the image has 48 x 71 pixels, its reference 48 x 72",
        f"t5: {small}got 30 x 30)",
        f"t8: {small}got 30 x 30)",
    ]
    data = datasets.open_dataset("table.csv").where([0, 1, 3, 6, 7])
    same_as_row_by_row(found.table, data, "ms_ssim_3", "rmse")


def test_what_a_distance_cannot_do_is_known_at_once(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trees.write_table(here, 3)
    said = failure(capsys, "table.csv", "--distance", "ms_ssim", "--out", "t.csv", "--device", "cpu")
    assert said == (
        "ms_ssim cannot measure images of 64 x 64 pixels (images must be at least 161 x 161 pixels for this distance; "
        "got 64 x 64); ms_ssim_3 can"
    )
    assert not list(here.glob("t.csv*"))


def test_the_users_own_distances_have_names(here: Path) -> None:
    trees.write_table(here, 3)
    found = measure("table.csv", ["own_distances:mine", "own_distances:ssim", "lpips_free:mine"][:2])
    assert [name for name in found.table.columns if "_d0" in name] == ["mine_d0", "own_distances:ssim_d0"]
    (here / "others.py").write_text(OWN)
    found = measure("table.csv", ["others:mine"])
    assert "others:mine_d0" in found.table.columns
    assert found.table["others:mine_d0"].equals(found.table["mine_d0"], check_names=False)
    both = measure("table.csv", ["others:mine", "own_distances:mine"], "u.parquet")
    assert [name for name in both.table.columns if "_d0" in name] == ["others:mine_d0", "own_distances:mine_d0"]


def test_callables_that_only_this_process_has(here: Path) -> None:
    trees.write_table(here, 8, sizes=(64, 32))
    blame = []

    def local(ref: Any, x: Any) -> Any:
        blame.append(len(ref))
        return ((ref - x) ** 2).mean(axis=(1, 2, 3)) ** 0.5

    found = measure("table.csv", {"here": local, "rmse": twoafc.distance("rmse")}, workers=2)
    assert sum(blame) >= 16
    np.testing.assert_allclose(found.table["here_d1"], found.table["rmse_d1"], rtol=1e-5)
    with pytest.raises(ValueError, match=r"a distance needs a name; give distances=\{'name': function\}"):
        measure("table.csv", [lambda ref, x: local(ref, x)])
    named = measure("table.csv", [local, twoafc.distances.euclidean], "u.parquet")
    assert [name for name in named.table.columns if "_d0" in name] == ["local_d0", "euclidean_d0"]


@pytest.mark.parametrize(
    ("distances", "options", "said"),
    [
        ([], {}, "name at least one distance to measure"),
        (["lpips_free"], {}, "there is no distance 'lpips_free'"),
        (["rmse", "rmse"], {}, "distances must differ; rmse is given 2 times"),
        (["lpips", "lpips_alex"], {}, "distances must differ; lpips_alex is given 2 times"),
        (["own_distances:mine", "own_distances:mine"], {}, "distances must differ; mine is given 2 times"),
        ({"": "rmse"}, {}, "a distance needs a name for its columns; found ''"),
        (["rmse"], {"workers": 0}, "workers must be at least 1; found 0"),
        (["rmse"], {"batch_size": -1}, "batch_size must be at least 1; found -1"),
        (["rmse"], {"shard": (3, 2)}, "a shard is i of n, from 1 to n; found 3/2"),
        (["rmse"], {"precision": "tf32"}, "tf32 is an arithmetic of GPUs; the device is cpu: leave precision out"),
        (["rmse"], {"precision": "fp16"}, "precision must be one of fp32, tf32; got 'fp16'"),
        (["rmse"], {"device": "gpu"}, "torch cannot use the device 'gpu' ("),
        (["rmse"], {"out": "t.txt"}, "a table is written as .csv or .parquet; found t.txt"),
        (["rmse"], {"out": "images.csv"}, "images.csv is a folder; name a table, .csv or .parquet"),
        (["rmse"], {"out": "card.csv"}, "card.csv.json is a folder; name a table, .csv or .parquet"),
    ],
)
def test_mistakes_are_told_before_any_work(here: Path, distances: Any, options: dict[str, Any], said: str) -> None:
    trees.write_table(here, 2)
    Path("images.csv").mkdir()
    Path("card.csv.json").mkdir()
    with pytest.raises(ValueError, match=f"^{re.escape(said)}"):
        measure("table.csv", distances, **options)
    assert not list(here.glob("t.*"))


def test_a_link_that_leads_nowhere_is_no_place_for_a_table(here: Path) -> None:
    trees.write_table(here, 2)
    Path("t.csv").symlink_to("nowhere/t.csv")
    with pytest.raises(OSError, match=f"^no such folder: {here / 'nowhere'}$"):
        measure("table.csv", ["rmse"], "t.csv")


def test_more_shards_than_a_number_can_hold(here: Path) -> None:
    trees.write_table(here, 2)
    assert measure("table.csv", ["rmse"], shard=(2, 10**30), batch_size=1).items == 1


def test_other_mistakes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trees.write_table(here, 2)
    for given, found in (("rmse", "a single one"), (len, "a single one"), (None, "None"), (5, "5")):
        with pytest.raises(TypeError) as caught:
            measure("table.csv", given)
        assert str(caught.value) == f"distances must be a list, or a mapping of name to distance; found {found}"
    with pytest.raises(OSError, match="no such folder: nowhere"):
        measure("table.csv", ["rmse"], "nowhere/t.csv")
    empty = datasets.open_dataset("table.csv").where([])
    with pytest.raises(DataError, match="the data set has no rows"):
        measure(empty, ["rmse"])
    told = failure(capsys, "table.csv", "--distance", "rmse", "--out", "t.csv", "--shard", "one/2", "--device", "cpu")
    assert told == "--shard is i/n, such as 2/8; found 'one/2'"
    wide = datasets.open_dataset("table.csv")
    wide = datasets.Dataset(
        wide.name, wide.folder, wide.roles, wide.files, wide.table.with_columns(pl.lit(1).alias("rmse_d0"))
    )
    with pytest.raises(DataError, match="the data set has a column rmse_d0 already; measure rmse by another name"):
        measure(wide, ["rmse"])


@pytest.mark.parametrize("value", ["nan", "-1", "inf"])
def test_what_no_distance_gives_is_refused(here: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    trees.write_table(here, 2)
    monkeypatch.setenv("TWOAFC_TEST_VALUE", value)
    with pytest.raises(ValueError, match=f"^a distance must be finite and at least 0; constant gave {value}, on "):
        measure("table.csv", ["own_distances:constant"])
    with pytest.raises(ValueError, match="a distance gives one value for each image; own_distances:single gave"):
        measure("table.csv", ["own_distances:single"], batch_size=2)


def test_a_value_that_is_wrong_in_the_middle_is_named(here: Path) -> None:
    trees.write_table(here, 40)
    worst = twoafc.measure("table.csv", ["rmse"], "t.csv", device="cpu", workers=1).table
    most = worst["rmse_d0"].max()

    def spoilt(ref: Any, x: Any) -> Any:
        d = ((ref - x).astype(np.float64) ** 2).mean(axis=(1, 2, 3)) ** 0.5
        return np.where(abs(d - most) < 1e-9, np.nan, d)

    culprit = worst.filter(pl.col("rmse_d0") == most).row(0, named=True)
    said = (
        f"a distance must be finite and at least 0; spoilt gave nan, on triplet {culprit['triplet']} "
        f"({culprit['x0']}); values finished before it are kept"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        measure("table.csv", {"spoilt": spoilt}, "u.csv", batch_size=4)


def test_a_table_that_is_not_ours_is_left_alone(here: Path) -> None:
    trees.write_table(here / "a", 3)
    trees.write_table(here / "b", 4)
    for name in ("t.parquet", "t.csv"):
        measure("a/table.csv", ["rmse"], name)
        before = Path(name).read_bytes()
        with pytest.raises(DataError, match=f"{name} was measured on other data than these; name another file"):
            measure("b/table.csv", ["rmse"], name)
        assert Path(name).read_bytes() == before
    Path("t.csv").write_text(Path("t.csv").read_text() + "\n")
    with pytest.raises(DataError, match=r"t\.csv was changed since it was measured; name another file, or remove it"):
        measure("a/table.csv", ["ssim"], "t.csv")
    with pytest.raises(DataError, match=r"a/table\.csv has no card that describes it"):
        measure("a/table.csv", ["rmse"], "a/table.csv")
    pl.read_parquet("t.parquet").write_parquet("t.parquet")
    with pytest.raises(DataError, match=r"t\.parquet has no card"):
        measure("a/table.csv", ["ssim"])


def test_values_measured_otherwise_are_not_joined(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trees.write_table(here, 3)
    measure("table.csv", ["rmse", "own_distances:mine"])
    monkeypatch.setattr(twoafc, "__version__", "9.9.9")
    with pytest.raises(DataError) as caught:
        measure("table.csv", ["rmse"])
    assert str(caught.value) == (
        "rmse in t.parquet was measured differently: twoafc 0.1.0, now 9.9.9; name another table, or remove t.parquet"
    )
    assert "ssim_d0" in measure("table.csv", ["ssim"]).table.columns
    monkeypatch.undo()
    monkeypatch.chdir(here)
    Path("own_distances.py").write_text(OWN + "\n# changed\n")
    sys.modules.pop("own_distances", None)
    with pytest.raises(DataError, match=r"mine in t\.parquet was measured differently: source sha256"):
        measure("table.csv", ["own_distances:mine"])


def test_shards_make_the_same_table(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trees.write_table(here, 20)
    arguments = ["measure", "table.csv", "--distance", "rmse", "--device", "cpu", "--batch-size", "3"]
    main([*arguments, "--out", "whole.parquet"])
    capsys.readouterr()
    for shard, left in (("1/3", 4), ("3/3", 2)):
        main([*arguments, "--out", "t.parquet", "--shard", shard])
        said = capsys.readouterr().out.splitlines()
        assert said[-1] == (
            f"Shard {shard}: {left} blocks of other shards are still to be measured; when all shards are done, "
            "the same command without --shard writes t.parquet"
        )
        assert not Path("t.parquet").exists()
    main([*arguments, "--out", "t.parquet", "--shard", "2/3"])
    assert "Shard 2/3: all is there; when all" in capsys.readouterr().out
    main([*arguments, "--out", "t.parquet", "--json"])
    assert json.loads(capsys.readouterr().out)["measured"] == 0
    assert Path("t.parquet").read_bytes() == Path("whole.parquet").read_bytes()
    assert not Path("t.parquet.parts").exists()


def test_progress_is_told(here: Path) -> None:
    trees.write_table(here, 10)
    told: list[tuple[int, int, str]] = []
    measure("table.csv", ["rmse"], batch_size=4, progress=lambda *each: told.append(each))
    assert [each for each in told if each[2] == "triplets"] == [(n, 10, "triplets") for n in (0, 4, 8, 10)]


def test_bapps_with_gaps_in_its_images_still_reads(here: Path) -> None:
    trees.write_bapps(here / "bapps", 4)
    path = here / "bapps" / "2afc" / "val" / "cnn" / "p0" / "000002.png"
    path.write_bytes(b"")
    found = measure("bapps", ["rmse"])
    assert [(each.triplet, each.reason) for each in found.failures] == [("val/cnn/000002", "the file is empty")]
    assert len(found.table) == 7


def test_a_small_image_that_comes_first_is_a_failure_like_any_other(here: Path) -> None:
    trees.write_table(here, 4, sizes=(30, 64))
    found = measure("table.csv", ["ms_ssim_3", "rmse"])
    small = (
        "ms_ssim_3 cannot measure images of 30 x 30 pixels (images must be at least 41 x 41 pixels for this distance; "
        "got 30 x 30)"
    )
    assert [str(each) for each in found.failures] == [f"t0: {small}", f"t2: {small}"]
    same_as_row_by_row(found.table, datasets.open_dataset("table.csv").where([1, 3]), "ms_ssim_3", "rmse")
    with pytest.raises(ValueError, match=r"^ms_ssim cannot measure images of 30 x 30 pixels .*; got 30 x 30\)$"):
        measure("table.csv", ["rmse", "ms_ssim"], "u.parquet")


def test_a_small_image_that_comes_first_for_a_network(here: Path) -> None:
    pytest.importorskip("torch")
    from twoafc.distances import pim

    shape = pim.Architecture(mixtures=5, levels=1, filters=(4, 4, 4, 3), latent=2)
    variables = {name: np.ones(size, dtype=np.float32) for name, size in shape.shapes().items()}
    network = pim_of(variables, shape, draws=2, seed=0)
    trees.write_table(here, 4, sizes=(network.least - 1, 64))
    found = measure("table.csv", {"pim": network})
    assert [each.triplet for each in found.failures] == ["t0", "t2"]
    assert found.table["triplet"].to_list() == ["t1", "t3"]


@pytest.mark.parametrize(("device", "takes"), [("cpu", "numpy"), ("cpu:0", "torch")])
def test_a_distance_that_breaks_is_not_taken_for_one_that_size_does_not_suit(
    here: Path, device: str, takes: str
) -> None:
    trees.write_table(here, 6, sizes=(64, 40, 48))
    calls = iter(range(1000))

    def breaking(ref: Any, x: Any) -> Any:
        if next(calls) > 4:
            raise RuntimeError("out of order")
        return abs(ref - x).mean(axis=(1, 2, 3))

    breaking.takes = takes  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match=r"^breaking raised RuntimeError: out of order, on triplet t"):
        measure("table.csv", [breaking], batch_size=1, device=device)


def test_answers_without_images_are_told_in_one_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers = trees.write_clic(here / "clic")
    for path in answers.parent.glob("*.png"):
        path.unlink()
    said = failure(capsys, str(answers), "--distance", "rmse", "--out", "t.csv", "--device", "cpu")
    assert said.startswith(f"none of the images is there; triplet 0, ref: no such file: {answers.parent}/")
    assert not list(here.glob("t.csv*"))


def test_options_are_named_as_they_were_given(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trees.write_bapps(here / "bapps", 2, subsets={"val": ("cnn",)})
    trees.write_table(here, 2)
    asked = ["--distance", "rmse", "--out", "t.csv", "--device", "cpu"]
    said = failure(capsys, "bapps", *asked, "--images", "images")
    assert said == "--images is not for data of this layout: bapps takes --split, --M"
    said = failure(capsys, "table.csv", *asked, "--M", "5")
    assert said == "--M is not for data of this layout: table.csv takes --images, --rename"
    (here / "bapps" / "2afc" / "val").rename(here / "bapps" / "2afc" / "test")
    assert failure(capsys, "bapps", *asked).endswith(": give M (--M of the command)")
    main(["measure", "bapps", *asked, "--M", "5", "--quiet"])
    assert twoafc.Triplets.read("t.csv").M.tolist() == [5, 5]


def test_rounding_below_0_counts_as_0(here: Path) -> None:
    trees.write_table(here, 4)
    for x in ("x0", "x1"):
        shutil.copy("images/2-ref.png", f"images/2-{x}.png")

    def scaled(ref: Any, x: Any, *, scale: float, offset: float) -> Any:
        d = scale * abs(ref - x).mean(axis=(1, 2, 3))
        return np.where(d == 0, offset, d)

    def with_offset(scale: float, offset: float) -> Any:
        return lambda ref, x: scaled(ref, x, scale=scale, offset=offset)

    found = measure("table.csv", {"d": with_offset(1, -2.4e-7)})
    assert found.notes == ["d gave 2 values just below 0, by rounding; they are set to 0"]
    assert found.table.row(2, named=True)["d_d0"] == 0
    assert found.table["d_d0"].min() == 0
    said = (
        r"^a distance must be finite and at least 0; d gave -0\.0003 \(if that is rounding, clip it at 0\), on triplet"
    )
    with pytest.raises(ValueError, match=said):
        measure("table.csv", {"d": with_offset(1, -3e-4)}, "u.parquet")
    # A distance of another scale rounds on that scale.
    assert measure("table.csv", {"d": with_offset(1e5, -0.1)}, "v.parquet").table["d_d0"].min() == 0
    with pytest.raises(ValueError, match=r"^a distance must be finite and at least 0; d gave -1, on triplet t2"):
        measure("table.csv", {"d": with_offset(1, -1)}, "w.parquet")


def test_a_wrong_shape_is_told_as_such(here: Path) -> None:
    trees.write_table(here, 2)
    said = r"^a distance gives one value for each image; own_distances:single gave a single value for a batch of 1; "
    with pytest.raises(ValueError, match=said):
        measure("table.csv", ["own_distances:single"])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Mute", "a distance must be callable, (ref, x) -> (B,); own_distances:Mute is of type Mute"),
        ("Needy", "own_distances:Needy cannot be made with no arguments; it raised TypeError: "),
        ("quits", "it called sys.exit(3)"),
    ],
)
def test_what_is_no_distance(here: Path, capsys: pytest.CaptureFixture[str], name: str, message: str) -> None:
    trees.write_table(here, 2)
    arguments = ["--distance", f"own_distances:{name}", "--out", "t.parquet", "--device", "cpu", "--workers", "1"]
    assert message in failure(capsys, "table.csv", *arguments)


def test_materials_named_without_their_endings(shared: Path, here: Path) -> None:
    folder = shared / "data" / "material"
    known = pl.read_csv(folder / "train.csv", schema_overrides={"triplet": pl.String}).head(20)
    known.select("triplet", "group", "n", "M", "ref", "x0", "x1").write_csv("names.csv")
    arguments = ["--images", str(folder / "images"), "--distance", "ssim_luma", "--out", "t.parquet", "--device", "cpu"]
    main(["measure", "names.csv", *arguments, "--quiet"])
    found = pl.read_parquet("t.parquet")
    assert found["ref"].equals(known["ref"])
    np.testing.assert_allclose(found["ssim_luma_d0"], known["ssim_d0"], rtol=0, atol=1e-4)


def test_a_single_failure_and_a_warning_of_pillow(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    trees.write_table(here, 6)
    image = Image.fromarray(trees.picture(np.random.default_rng(0)))
    image.save("images/3-x0.png", format="TIFF")
    whole = Path("images/3-x0.png").read_bytes()
    Path("images/3-x0.png").write_bytes(whole[: len(whole) - 200])
    with pytest.raises(SystemExit):
        main(["measure", "table.csv", "--distance", "rmse", "--out", "t.csv", "--device", "cpu", "--quiet"])
    said = capfd.readouterr().err.splitlines()
    assert said[0] == "twoafc: 1 row could not be measured and is not in the table:"
    assert said[1].startswith("  t3: images/3-x0.png: the image is truncated or damaged (")
    assert said[2:] == ["  all of them: t.csv.failures.csv"]


ODD = """
import ctypes, os, subprocess, sys, threading, time
import numpy as np

def same(ref, x):
    return abs(ref - x).mean(axis=(1, 2, 3), dtype=np.float64)

def rounded(ref, x):
    return same(ref, x) * (1 + 1e-6 * len(ref))

def normalised(ref, x):
    return same(ref, x) / same(ref, x).max()

def first_in_line(ref, x):
    return same(ref, x) + abs(ref[:1] - x).mean(axis=(1, 2, 3))

def noisy(ref, x):
    return same(ref, x) + np.random.default_rng().random(len(ref)) / 100

def by_exit(ref, x):
    sys.exit(3)

def at_once(ref, x):
    os._exit(3)

def lost(ref, x):
    return {}["key"]

def forking(ref, x):
    if os.fork() == 0:
        os._exit(0)
    os.wait()
    return same(ref, x)

def touching(ref, x):
    ctypes.string_at(0)

def aborting(ref, x):
    os.abort()

def leaving(ref, x):
    ctypes.CDLL(None)._exit(3)

def complex_numbers(ref, x):
    return same(ref, x) + 0j

def restless(ref, x):
    sys.stdin.read()
    os.chdir("/")
    threading.Thread(target=time.sleep, args=(600,)).start()
    return same(ref, x)

def starting(ref, x):
    if os.fork() == 0:  # what it starts belongs to nobody, in a session of its own
        started = subprocess.Popen(["sleep", "600"], start_new_session=True)
        with open("started.txt", "a") as file:
            file.write(f"{started.pid}\\n")
        os._exit(0)
    os.wait()
    return same(ref, x)

for each in [each for each in globals().values() if getattr(each, "__module__", "") == __name__]:
    each.takes = "numpy"
"""


@pytest.fixture
def odd(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "odd", raising=False)
    monkeypatch.syspath_prepend(here)
    Path("odd.py").write_text(ODD)
    trees.write_table(here, 6)


RULE = "a distance must give the same value in any batch and every time; "
REMEDY = "; leave training mode, fix its seed, use nothing of the other images, or allow it: --allow-random (in Python "


@pytest.mark.usefixtures("odd")
@pytest.mark.parametrize("name", ["normalised", "first_in_line", "noisy"])
def test_a_distance_that_depends_on_the_batch_or_on_chance(here: Path, name: str) -> None:
    odd = importlib.import_module("odd")
    before = sorted(here.iterdir())
    ways = (f"odd:{name}", lambda ref, x: getattr(odd, name)(ref, x))  # in workers, and in this process
    for given in ways if name == "noisy" else ways[:1]:
        for _ in range(2 if name == "noisy" else 1):  # nothing that the first run has measured lets the second pass
            with pytest.raises(ValueError, match="any batch") as caught:
                measure("table.csv", {name: given})
            said = re.sub(r"\d[^\s;]*", "0", str(caught.value))
            seen = f"{name} gave 0 then 0 in another batch, on triplet t0 (images/0"
            assert said == f"{RULE}{seen}{REMEDY}allow_random=True)"
        assert sorted(path for path in here.iterdir() if path.name != "__pycache__") == before
    found = measure("table.csv", {name: f"odd:{name}", "same": "odd:same"}, allow_random=True)
    assert len(found.table) == 6
    assert re.fullmatch(
        f"values of {name} depend on the batch or on chance, which is allowed: {name} gave .*", *found.notes
    )
    made = {name: about["made"][0].get("random") for name, about in found.card["distances"].items()}
    assert made == {name: "values depend on the batch or on chance", "same": None}
    # What was allowed once stays on the card, also where the next run measures something else.
    card = measure("table.csv", ["rmse"]).card["distances"]
    assert card[name] == found.card["distances"][name]


@pytest.mark.usefixtures("odd")
def test_rounding_that_depends_on_the_batch_is_no_fault() -> None:
    assert measure("table.csv", ["odd:rounded", "rmse"]).notes == []


def test_images_of_one_item_and_of_many_sizes(here: Path) -> None:
    Path("odd.py").write_text(ODD)
    trees.write_table(here, 1)
    with pytest.raises(ValueError, match="any batch"):
        measure("table.csv", ["odd:noisy"])
    trees.write_table(here, 4, sizes=(16, 24, 32, 48))
    assert len(measure("table.csv", ["rmse"]).table) == 4


@pytest.mark.usefixtures("odd")
def test_a_distance_that_would_end_the_program_says_so() -> None:
    for name, reason in (
        ("by_exit", "RuntimeError: it called sys.exit(3)"),
        ("at_once", "RuntimeError: it called os._exit(3)"),
        ("lost", "KeyError: 'key'"),
    ):
        with pytest.raises(ValueError, match=name) as caught:
            measure("table.csv", [f"odd:{name}"], f"{name}.csv")
        assert str(caught.value) == f"{name} cannot measure images of 64 x 64 pixels ({reason})"
    assert len(measure("table.csv", ["odd:forking"], "t.csv").table) == 6


@pytest.mark.usefixtures("odd")
@pytest.mark.parametrize(
    ("name", "ended"),
    [
        ("touching", "was ended by signal 11 (Segmentation fault) in line {}"),
        ("aborting", "was ended by signal 6 (Aborted) in line {}"),
        ("leaving", "ended with code 3"),
    ],
)
def test_a_distance_that_crashes_gets_one_line(
    here: Path, capfd: pytest.CaptureFixture[str], name: str, ended: str
) -> None:
    line = 1 + next(at for at, text in enumerate(ODD.splitlines(), 1) if text == f"def {name}(ref, x):")
    ended = ended.format(f"{line} of {here / 'odd.py'}")
    assert failure(capfd, "table.csv", "--distance", f"odd:{name}", "--out", "t.csv", "--device", "cpu") == (
        f"a distance must not end its process; odd:{name} was tried, and its process {ended}; fix it, or measure "
        "without it"
    )
    assert not Path("t.csv.parts").exists()


def test_a_file_that_crashes_when_it_is_imported_is_named(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    trees.write_table(here, 2)
    Path("fatal.py").write_text("import os\n\nprint('begun')\nos.abort()\n")
    said = failure(capfd, "table.csv", "--distance", "fatal:distance", "--out", "t.csv", "--device", "cpu")
    assert f"its process was ended by signal 6 (Aborted) in line 4 of {here / 'fatal.py'}; fix it" in said


def test_a_distance_that_crashes_later_leaves_a_traceback(here: Path) -> None:
    trees.write_table(here, 2)
    Path("later.py").write_text(
        "import os\n"
        "first = not os.path.exists('tried')\n"
        "open('tried', 'w').close()\n"
        "def later(ref, x):\n"
        "    return abs(ref - x).mean((1, 2, 3)) if first else os.abort()\n"
    )
    command = [sys.executable, "-m", "twoafc", "measure", "table.csv", "--distance", "later:later", "--out", "t.csv"]
    done = subprocess.run([*command, "--device", "cpu"], capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGABRT
    assert f'File "{here / "later.py"}", line 5 in later' in done.stderr


@pytest.mark.usefixtures("odd")
def test_complex_numbers_are_no_distances(capfd: pytest.CaptureFixture[str]) -> None:
    said = failure(capfd, "table.csv", "--distance", "odd:complex_numbers", "--out", "t.csv", "--device", "cpu")
    assert said.startswith("a distance gives one value for each image; odd:complex_numbers gave complex numbers, on ")


@pytest.mark.usefixtures("odd")
def test_a_distance_that_reads_moves_and_leaves_threads_stops_nothing() -> None:
    command = [sys.executable, "-m", "twoafc", "measure", "table.csv", "--distance", "odd:restless", "--out", "t.csv"]
    done = subprocess.run([*command, "--device", "cpu"], stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(pl.read_csv("t.csv")) == 6
    done = subprocess.run([*command, "--device", "cpu", "--shard", "2/1"], capture_output=True, timeout=60)
    assert done.returncode == 2


@pytest.mark.usefixtures("odd")
def test_what_a_distance_has_started_ends_with_the_run() -> None:
    main(["measure", "table.csv", "--distance", "odd:starting", "--out", "t.csv", "--device", "cpu", "--quiet"])
    started = Path("started.txt").read_text().split()
    assert len(started) == 2 * (TRIED + 3 + 1) + SELF  # two calls for each batch: tried, a few twice, and all
    until = time.monotonic() + 10
    for pid in started:
        while Path(f"/proc/{pid}").exists() and "State:\tZ" not in Path(f"/proc/{pid}/status").read_text():
            assert time.monotonic() < until, "it outlived the run"
            time.sleep(0.02)


def similarity(ref: Any, x: Any) -> Any:
    """How alike two images are: 1 for equal ones."""
    return 1 / (1 + ((ref - x) ** 2).mean((1, 2, 3)))


def test_a_similarity_is_noted(tmp_path: Path) -> None:
    trees.write_bapps(tmp_path / "bapps", 3)
    result = twoafc.measure(tmp_path / "bapps", {"mine": similarity, "ssim": "ssim"}, tmp_path / "t.csv", workers=1)
    (note,) = [note for note in result.notes if "similarity" in note]
    assert note.startswith("mine looks like a similarity: it is 1 for ")
    assert note.endswith(" for the images beside it; a distance is 0 there: return 1 - similarity, for example")
