"""The pages of the documentation: their pictures are there and their commands run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import random_table

PAGES = sorted((Path(__file__).parents[1] / "docs").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_pictures_and_commands(page: Path, tmp_path: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for picture in re.findall(r"!\[.*?\]\((.*?)\)", text):
        assert (page.parent / picture).stat().st_size > 1000
    for name in ("train", "test"):
        random_table(200).write(tmp_path / f"{name}.csv")
    commands = re.findall(r"^\$ twoafc (.*)$", text, flags=re.MULTILINE)
    assert commands
    for command in commands:
        subprocess.run(
            [sys.executable, "-m", "twoafc", *command.split()], cwd=tmp_path, check=True, capture_output=True
        )
