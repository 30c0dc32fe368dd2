"""Make the pictures of the README anew: python docs/pictures.py."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from twoafc.demo import run

HERE = Path(__file__).parent

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder, "demo"), triplets=4000, seed=0)
        shutil.copy(Path(folder, "demo", "figures", "surfaces-density.svg"), HERE / "images" / "surfaces.svg")
