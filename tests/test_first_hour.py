"""The first hour as a newcomer walks it: every command of the script runs, and says what it should."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "examples" / "first_hour.sh"


@pytest.mark.slow
def test_the_first_hour(tmp_path: Path) -> None:
    home = Path(sys.executable).parent
    path = {"PATH": os.pathsep.join([str(home), os.environ["PATH"]]), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        ["bash", str(SCRIPT)], cwd=tmp_path, env=os.environ | path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    _, demo, table, question, python, metric, study, paper = done.stdout.split("# ")
    assert "They are not people" in demo
    assert "Four of five distances share the lead: " in demo
    assert "Results: demo" in demo
    assert "note: both: M differs between train and test" in table
    assert "Report: results/report.html" in table
    first, *_, last = question.splitlines()[1:-1]
    assert first.startswith("nlpd and ssim cannot be told apart: nlpd is ahead by ")
    assert first.endswith(" (Holm)")
    assert last.startswith("ssim agrees with more votes than brightness: ")
    assert (
        "Both distances share the lead: ssim is nominally first, and euclidean cannot be told apart from it." in python
    )
    assert "pandas ['ssim', 'euclidean']" in python
    assert python.splitlines()[-1].startswith("ssim and euclidean cannot be told apart: ssim is ahead by ")
    assert not python.splitlines()[-1].endswith("(Holm)")
    assert metric.splitlines()[1].startswith("blocks keeps the promises of a distance (tried on 64 x 64 pixels")
    assert "Table: measured.parquet (60 rows)" in study
    assert "Against rmse, the baseline: two cannot be told apart from it (ssim, blocks)." in study
    assert "Caution: only 48 training triplets" in study
    assert r"\begin{table}" in paper
    assert "differences.pdf" in paper
    page = (tmp_path / "study" / "report.html").read_text(encoding="utf-8")
    assert page.count("data:image/") >= 9  # three triplets with their pictures
