"""Generated data sets in the true layouts of BAPPS and CLIC 2021: distorted photographs, and simulated people."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from math import ceil
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from twoafc.distortions import DISTORTIONS, Images, distort
from twoafc.evaluation import Progress
from twoafc.photographs import PHOTOGRAPHS, observers, patches, photograph
from twoafc.reproduce.sources import shares

FAMILIES: dict[str, tuple[str, ...]] = {
    "traditional": ("noise", "jpeg", "blur", "warp", "contrast", "colour_shift"),
    "cnn": ("downsample", "posterise", "chroma_noise", "shift"),
    "mix": tuple(DISTORTIONS),
    "superres": ("downsample", "blur"),
    "deblur": ("blur", "shift"),
    "color": ("chroma_noise", "colour_shift", "gamma"),
    "frameinterp": ("shift", "warp"),
}
"""What is done to photographs, by the names of BAPPS's subsets, which did other things to other photographs."""
SUBSETS = {
    "train": ("traditional", "cnn", "mix"),
    "val": ("traditional", "cnn", "superres", "deblur", "color", "frameinterp"),
}
M = {"train": 2, "val": 5}
SIZES = {"train": 2400, "val": 1200, "clic2021_test": 2000, "clic2021_valid": 600}
"""Triplets that are made where no limit is given."""
REPEATS = {"clic2021_test": (1, 2), "clic2021_valid": (1, 1, 1, 2, 3, 5, 10)}
"""How many judgements a triplet of CLIC gets: each of these equally often."""
VERSIONS = 6
"""Versions of each original of CLIC, besides the one that is the original itself: an anchor."""


class Batch(NamedTuple):
    """Images of triplets in [0, 1], shape (T, 3, 64, 64) each."""

    ref: Images
    x0: Images
    x1: Images


def write_bapps(root: Path, *, limit: int | None = None, seed: int = 0, progress: Progress | None = None) -> Path:
    """Write ROOT/bapps in the layout of BAPPS; one that stands is kept.

    Parameters
    ----------
    limit : int, optional
        Triplets of each split.
    """

    def fill(folder: Path) -> None:
        for number, (split, subsets) in enumerate(SUBSETS.items()):
            total = limit or SIZES[split]
            counts = shares(np.ones(len(subsets), dtype=np.int64), total)
            for place, (name, count) in enumerate(zip(subsets, counts, strict=True)):
                if progress:
                    progress(int(counts[:place].sum()), total, f"making BAPPS-like photographs, {split}")
                rng = np.random.default_rng([seed, number, place])
                _write_subset(folder / "2afc" / split / name, int(count), M[split], FAMILIES[name], rng)

    return _whole(root / "bapps", fill)


def _write_subset(folder: Path, count: int, votes: int, kinds: Sequence[str], rng: np.random.Generator) -> None:
    made = _triplets(count, kinds, rng)
    judged = observers(*made, votes=votes, seed=int(rng.integers(2**31)))
    for name, images in zip(("ref", "p0", "p1"), made, strict=True):
        (folder / name).mkdir(parents=True)
        for row, image in enumerate(images):
            _save(image, folder / name / f"{row:06d}.png")
    (folder / "judge").mkdir()
    for row, n in enumerate(judged.n):
        np.save(folder / "judge" / f"{row:06d}.npy", np.array([n / votes], dtype=np.float32))


def _triplets(count: int, kinds: Sequence[str], rng: np.random.Generator) -> Batch:
    ref = _references(count, rng)
    return Batch(ref, _spoiled(ref, kinds, rng), _spoiled(ref, kinds, rng))


def _references(count: int, rng: np.random.Generator) -> Images:
    source = rng.integers(len(PHOTOGRAPHS), size=count)
    ref = np.empty((count, 3, 64, 64), dtype=np.float32)
    for index in np.unique(source):
        rows = np.flatnonzero(source == index)
        ref[rows] = patches(photograph(PHOTOGRAPHS[index]), len(rows), seed=rng)[0]
    # As they will be on disk, so that people judge what is measured.
    return np.asarray(np.round(ref * 255) / np.float32(255), dtype=np.float32)


def _spoiled(ref: Images, kinds: Sequence[str], rng: np.random.Generator) -> Images:
    which, strength = rng.integers(len(kinds), size=len(ref)), rng.beta(1.5, 1.5, size=len(ref))
    x = np.empty_like(ref)
    for number, kind in enumerate(kinds):
        rows = np.flatnonzero(which == number)
        if len(rows):
            x[rows] = distort(kind, ref[rows], strength[rows], seed=rng)
    return x


def write_clic(root: Path, *, limit: int | None = None, seed: int = 0, progress: Progress | None = None) -> Path:
    """Write ROOT/clic in the layout of CLIC 2021, its two sets side by side; one that stands is kept.

    Originals recur, repeats are shown either way round, and some choices are the original itself (anchors).
    """

    def fill(folder: Path) -> None:
        for place, (name, repeats) in enumerate(REPEATS.items()):
            if progress:
                progress(place, len(REPEATS), f"making CLIC-like photographs, {name}")
            _write_answers(folder / name, limit or SIZES[name], repeats, np.random.default_rng([seed, 7, place]))

    return _whole(root / "clic", fill)


def _write_answers(folder: Path, total: int, repeats: Sequence[int], rng: np.random.Generator) -> None:
    folder.mkdir(parents=True)
    originals = ceil(total / 12)
    ref = _references(originals, rng)
    versions = np.stack([ref, *(_spoiled(ref, FAMILIES["mix"], rng) for _ in range(VERSIONS))])
    names = [[f"{rng.bytes(16).hex()}.png" for _ in ref] for _ in range(VERSIONS + 2)]
    for images, files in zip((ref, *versions), names, strict=True):
        for image, name in zip(images, files, strict=True):
            _save(image, folder / name)
    o, a, b = _pairs(originals, total, rng)
    P = observers(ref[o], versions[a, o], versions[b, o], votes=1, seed=int(rng.integers(2**31))).P
    lines = []
    for row in range(len(o)):
        for _ in range(rng.choice(repeats)):
            choice, turned = int(rng.random() < P[row]), bool(rng.integers(2))
            pair = (a[row], b[row])[:: -1 if turned else 1]
            shown = [names[0][o[row]], *(names[1 + version][o[row]] for version in pair)]
            lines.append(f"{','.join(shown)},{choice ^ turned}\n")
    (folder / "oracle.csv").write_text("".join(lines[place] for place in rng.permutation(len(lines))))


def _pairs(
    originals: int, total: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Draw distinct triplets: an original, and two of its versions; version 0 is an anchor, in every 28th or so."""
    a, b = np.triu_indices(VERSIONS + 1, 1)
    usual, anchored = np.flatnonzero(a > 0), np.flatnonzero(a == 0)
    every = [(o, pair) for o in range(originals) for pair in rng.permutation(usual)]
    chosen = [every[place] for place in rng.permutation(len(every))[:total]]
    chosen += [(o, int(rng.choice(anchored))) for o in rng.permutation(originals)[: max(1, originals // 3)]]
    o, pair = np.array(chosen, dtype=np.int64).T
    return o, a[pair].astype(np.int64), b[pair].astype(np.int64)


def _save(image: Images, path: Path) -> None:
    Image.fromarray(np.round(image.transpose(1, 2, 0) * 255).astype(np.uint8)).save(path, compress_level=1)


def _whole(folder: Path, fill: Callable[[Path], None]) -> Path:
    """Make a folder whole or not at all; one that stands is kept."""
    if not folder.is_dir():
        partial = folder.with_name(f".{folder.name}.part")
        shutil.rmtree(partial, ignore_errors=True)  # what a run that was killed has left
        partial.mkdir(parents=True)
        fill(partial)
        partial.rename(folder)
    return folder
