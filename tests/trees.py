"""Small data sets on disk in their true layouts, with images that are cheap to make and differ from each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from PIL import Image

BAPPS = {"val": ("cnn", "color")}
"""By split, the subsets of a small BAPPS tree."""
PEOPLE = {"train": 2, "val": 5}


def picture(rng: np.random.Generator, size: int | tuple[int, int] = 64) -> NDArray[np.uint8]:
    """An RGB image (H, W, 3): soft stripes of random colours and directions, with a little noise."""
    height, width = (size, size) if isinstance(size, int) else size
    y, x = np.mgrid[:height, :width][..., None] / 16
    waves = np.sin(x * rng.normal(size=3) + y * rng.normal(size=3) + rng.uniform(0, 6, size=3))
    noise = rng.normal(0, 6, (height, width, 3))
    return np.clip(127 + 90 * waves + noise, 0, 255).astype(np.uint8)


def spoiled(image: NDArray[np.uint8], amount: float, rng: np.random.Generator) -> NDArray[np.uint8]:
    """The image with noise of a standard deviation of `amount` levels."""
    return np.clip(image + rng.normal(0, amount, image.shape), 0, 255).astype(np.uint8)


def save(image: NDArray[np.uint8], path: Path) -> None:
    """Write an image, with the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image).save(path)


def write_bapps(
    root: Path, triplets: int = 3, *, subsets: Mapping[str, Sequence[str]] = BAPPS, size: int = 64, seed: int = 0
) -> pl.DataFrame:
    """Write ROOT/2afc/SPLIT/SUBSET/{ref,p0,p1}/NNNNNN.png and judge/NNNNNN.npy; give triplet, n and M."""
    rng = np.random.default_rng(seed)
    rows = []
    for split, subset in ((split, subset) for split, names in subsets.items() for subset in names):
        M = PEOPLE[split]
        folder = root / "2afc" / split / subset
        for number in range(triplets):
            ref = picture(rng, size)
            save(ref, folder / "ref" / f"{number:06d}.png")
            for name in ("p0", "p1"):
                save(spoiled(ref, rng.uniform(2, 60), rng), folder / name / f"{number:06d}.png")
            n = int(rng.integers(M + 1))
            _share(n / M, folder / "judge" / f"{number:06d}.npy", rng)
            rows.append((f"{split}/{subset}/{number:06d}", n, M))
    return pl.DataFrame(rows, schema=["triplet", "n", "M"], orient="row")


def write_jnd(root: Path, pairs: int = 3, *, subsets: Sequence[str] = ("cnn",), seed: int = 0) -> pl.DataFrame:
    """Write ROOT/jnd/val/SUBSET/{p0,p1}/NNNNNN.png and same/NNNNNN.npy; give triplet, n and M."""
    rng = np.random.default_rng(seed)
    rows = []
    for subset, number in ((subset, number) for subset in subsets for number in range(pairs)):
        folder = root / "jnd" / "val" / subset
        image = picture(rng)
        save(image, folder / "p0" / f"{number:06d}.png")
        save(spoiled(image, rng.uniform(0, 30), rng), folder / "p1" / f"{number:06d}.png")
        n = int(rng.integers(4))
        _share(n / 3, folder / "same" / f"{number:06d}.npy", rng)
        rows.append((f"val/{subset}/{number:06d}", n, 3))
    return pl.DataFrame(rows, schema=["triplet", "n", "M"], orient="row")


def _share(share: float, path: Path, rng: np.random.Generator) -> None:
    """Write a share as the data sets do: float32 or float64, of shape () or (1,)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = (np.float32, np.float64)[rng.integers(2)]
    shape: tuple[int, ...] = ((), (1,))[rng.integers(2)]
    np.save(path, np.full(shape, share, dtype=kind))


def write_clic(root: Path, *, originals: int = 3, size: tuple[int, int] = (96, 96), seed: int = 0) -> Path:
    """Write images and their answers ROOT/oracle.csv; give the path of the answers.

    Of each original: a triplet, its repeat and its repeat the other way round, one with another pair, and one whose
    choice is pixel-identical to the original though its file is not the same. The last row has A == B.
    """
    rng = np.random.default_rng(seed)
    lines = []
    for number in range(originals):
        original = picture(rng, size)
        names = [f"{rng.bytes(16).hex()}.png" for _ in range(5)]
        o, a, b, c, anchor = names
        save(original, root / o)
        for name, amount in ((a, 5), (b, 20), (c, 50)):
            save(spoiled(original, amount, rng), root / name)
        Image.fromarray(original).save(root / anchor, compress_level=1)
        lines += [f"{o},{a},{b},0", f"{o},{a},{b},1", f"{o},{b},{a},1", f"{o},{a},{c},{number % 2}"]
        lines += [f"{o},{anchor},{c},0"]
    path = root / "oracle.csv"
    path.write_text("".join(f"{line}\n" for line in [*lines, f"{o},{a},{a},1"]))
    return path


def write_nights(root: Path, triplets: int = 6, *, size: int = 48, seed: int = 0) -> pl.DataFrame:
    """Write ROOT/data.csv with ROOT/ref and ROOT/distort; give the table as written."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(triplets):
        stem = f"{number // 3:03d}/{number:03d}"
        ref = picture(rng, size)
        save(ref, root / "ref" / f"{stem}.png")
        for side in (0, 1):
            save(spoiled(ref, rng.uniform(5, 60), rng), root / "distort" / f"{stem}_{side}.png")
        right = int(rng.integers(2))
        rows.append(
            {
                "id": number,
                "left_vote": 1 - right,
                "right_vote": right,
                "votes": int(rng.integers(5, 10)),
                "ref_path": f"ref/{stem}.png",
                "left_path": f"distort/{stem}_0.png",
                "right_path": f"distort/{stem}_1.png",
                "prompt": "An image of a plum, ripe",
                "split": ("train", "val", "test")[number % 3],
                "is_imagenet": bool(number % 2),
            }
        )
    table = pl.DataFrame(rows)
    table.write_csv(root / "data.csv")
    return table


def write_table(
    root: Path, triplets: int = 8, *, sizes: Sequence[int | tuple[int, int]] = (64,), seed: int = 0
) -> Path:
    """Write ROOT/table.csv of paths, with group, n and M, and images in ROOT/images; sizes alternate by triplet."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(triplets):
        ref = picture(rng, sizes[number % len(sizes)])
        names = [f"images/{number}-{role}.png" for role in ("ref", "x0", "x1")]
        for name, image in zip(names, (ref, spoiled(ref, 15, rng), spoiled(ref, 40, rng)), strict=True):
            save(image, root / name)
        M = int(rng.integers(1, 6))
        rows.append((f"t{number}", "ab"[number % 2], *names, int(rng.integers(M + 1)), M))
    columns = ["triplet", "group", "ref", "x0", "x1", "n", "M"]
    path = root / "table.csv"
    pl.DataFrame(rows, schema=columns, orient="row").write_csv(path)
    return path
