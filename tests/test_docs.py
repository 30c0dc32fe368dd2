"""The pages of the documentation: their pictures and links are there; their commands and code run, in their order.

Pages whose examples Sphinx runs (tutorials) are run by it; `.ci/run` builds them.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from conftest import random_table
from fusing import several
from trees import write_bapps
from twoafc.cli import main

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md") if not {"_build", "jupyter_execute"} & set(page.parts))
NOTEBOOK = "file_format: mystnb"


def blocks(text: str) -> list[tuple[str, str]]:
    """Fenced blocks in their order: the language, and what is in them."""
    return re.findall(r"^```(\w+)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="session")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables and images by the names that the pages use."""
    folder = tmp_path_factory.mktemp("scene")
    for seed, name in enumerate(("train", "test")):
        random_table(200, seed=seed).write(folder / f"{name}.csv")
        rng = np.random.default_rng(seed)
        d = rng.random(200)
        pairs = {"n": rng.binomial(3, 1 - d), "M": [3] * 200, "ssim_d": d, "lpips_d": d + 0.1 * rng.random(200)}
        pl.DataFrame(pairs).write_csv(folder / f"jnd_{name}.csv")
    several(200, [1.0, 1.0])[0].write(folder / "votes.csv")
    write_bapps(folder / "bapps", 12, subsets={"train": ("cnn",), "val": ("cnn", "color")})
    return folder


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(DOCS).as_posix())
def test_pictures_and_links_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for picture in re.findall(r"!\[.*?\]\((.*?)\)", text):
        assert (page.parent / picture).stat().st_size > 1000
    for link in re.findall(r"(?<!!)\[[^\]]*\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (page.parent / link).exists(), link


RUNNABLE = [page for page in PAGES if NOTEBOOK not in page.read_text(encoding="utf-8")]
RUNNABLE = [page for page in RUNNABLE if {"python", "console"} & {kind for kind, _ in blocks(page.read_text())}]


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda path: path.relative_to(DOCS).as_posix())
@pytest.mark.usefixtures("plain")
def test_commands_and_code_run(page: Path, scene: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the page's order; the Python of a page is one script."""
    for path in scene.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    script = ""
    for kind, content in blocks(page.read_text(encoding="utf-8")):
        if kind == "console":
            lines = content.splitlines()
            assert all(line.startswith("$ twoafc ") for line in lines), f"{page}: every line is a command"
            for line in lines:
                main(line.split()[2:])
        if kind == "python":
            script += content
    if script:
        exec(compile(script, page.name, "exec"), {"__name__": "__main__"})
