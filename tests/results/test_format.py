"""Results that somebody has altered, or another program wrote: every command refuses them in one line."""

from __future__ import annotations

import copy
import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from commands import refused
from conftest import random_table
from drawing import plain_results
from twoafc.errors import DataError
from twoafc.evaluation import evaluate
from twoafc.results import Result
from twoafc.results.folder import RESULTS

DEEP = "[" * 100_000 + "]" * 100_000
AGAIN = "run twoafc evaluate again"
ALTERED: dict[str, tuple[str, Any]] = {
    "no scores": ("scores", None),
    "an NLL in its last digit": ("scores.0.nll", 0.1 + 0.2),
    "a number that is not finite": ("scores.0.nll", math.nan),
    "a name": ("scores.0.distance", "other"),
    "a p-value": ("comparisons.0.p", 0.01),
    "a setting": ("card.settings.ties", "x0"),
    "half a character": ("card.error_bars", "a\ud800"),
    "one more value": ("card.added", 1),
    "no card": ("card", []),
    "no digests": ("sha256", None),
    "digests of a list": ("sha256", []),
    "a digest of a list": ("sha256.scores.json", []),
    "a deep value": ("card.deep", json.loads("[" * 500 + "]" * 500)),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("format") / "results"
    with plain_results():
        one, other = random_table(60)["distance"], random_table(60, seed=1)
        few = tuple((d > 1) + 1.0 for d in other.distances["distance"])
        distances = {"a": one.distances["distance"], "b": few}  # with ties, which are a finding
        evaluate(replace(one, distances=distances), folds=2).write(out)
    return out


def altered(content: Any, place: str, value: Any) -> Any:
    """A copy of some content with another value at a place."""
    content = copy.deepcopy(content)
    *path, last = place.split(".") if not place.startswith("sha256.") else place.split(".", 1)
    inner = content
    for part in path:
        inner = inner[int(part) if part.isdecimal() else part]
    inner[last] = value
    return content


@pytest.mark.parametrize("name", ALTERED)
def test_altered_results_get_one_line(folder: Path, tmp_path: Path, name: str) -> None:
    content = json.loads((folder / "scores.json").read_text())
    (tmp_path / "scores.json").write_text(json.dumps(altered(content, *ALTERED[name])))
    with pytest.raises(DataError) as caught:
        Result.read(tmp_path)
    assert str(caught.value) == f"{tmp_path / 'scores.json'} was changed after it was written: {AGAIN}"


def test_spaces_and_line_breaks_alter_nothing(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "results")
    path = tmp_path / "results" / "scores.json"
    path.write_text(json.dumps(json.loads(path.read_text())))
    read, whole = Result.read(path.parent), Result.read(folder)
    assert read.scores == whole.scores
    assert read.rows.equals(whole.rows)


def extended(value: Any) -> Any:
    """The same with one more name in every record."""
    if isinstance(value, dict):
        return {name: extended(each) for name, each in value.items()} | {"added": 1}
    return [extended(each) for each in value] if isinstance(value, list) else value


def test_what_later_versions_add_is_not_refused(folder: Path, tmp_path: Path) -> None:
    content = json.loads((folder / "scores.json").read_text())
    more = extended({name: each for name, each in content.items() if name not in ("card", "sha256")})
    card = {name: each for name, each in content["card"].items() if name != "files"} | {"added": {"x": [1]}}
    RESULTS.write_card(tmp_path, card, more)
    read, whole = Result.read(tmp_path), Result.read(folder)
    assert whole.findings
    assert [repr(read.ceiling), read.findings] == [repr(whole.ceiling), whole.findings]
    assert [one.sentences() for one in read.goodness.values()] == [one.sentences() for one in whole.goodness.values()]


@pytest.mark.parametrize("text", ["", "[", DEEP, '{"card": NaN', "\ufeff{}", '{"a": ' + "9" * 5000 + "}", "\xff"])
def test_what_is_no_json_gets_one_line(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (tmp_path / "scores.json").write_text(text, encoding="latin-1" if text == "\xff" else "utf-8")
    said = f"{tmp_path / 'scores.json'} is not JSON that can be read: {AGAIN}"
    everywhere(capsys, tmp_path, folder, said)


@pytest.mark.parametrize(
    ("number", "said"),
    [(99, "99"), (True, "True"), (None, "0"), ("[]", "0"), ("null", "0"), ("3", "0"), ({"a": 1}, "{'a': 1}")],
)
def test_another_format_is_refused_by_every_command(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], number: Any, said: str
) -> None:
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    content = json.loads((other / "scores.json").read_text())
    assert content.pop("format") == 2
    text = number if isinstance(number, str) else json.dumps(content | ({} if number is None else {"format": number}))
    (other / "scores.json").write_text(text)
    message = f"{other / 'scores.json'} is of format {said}, this version reads 2: {AGAIN}"
    everywhere(capsys, other, folder, message)


def everywhere(capsys: pytest.CaptureFixture[str], folder: Path, good: Path, said: str) -> None:
    """Check that every command that reads results says this, and nothing else."""
    for command in (
        "report FOLDER",
        "compare FOLDER",
        "compare GOOD FOLDER",
        "failures FOLDER",
        "explore FOLDER",
        "query FOLDER --triplet 3",
        "gate --baseline GOOD --candidate FOLDER --distance a --max-loss 1",
    ):
        words = command.replace("FOLDER", str(folder)).replace("GOOD", str(good)).split()
        assert refused(capsys, *words) == said


def test_every_command_refuses_other_folders(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    everywhere(capsys, tmp_path, folder, f"{tmp_path} is not a folder of results; it has no scores.json")
    for command in ("report", "explore"):
        assert refused(capsys, command, str(folder), "--images", "none") == "no such folder of images: none"


def test_every_command_refuses_altered_triplets(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "results" / "triplets.parquet"
    shutil.copytree(folder, path.parent)
    third = pl.int_range(pl.len()) == 3
    frame = pl.read_parquet(path).with_columns(nll=pl.when(third).then(pl.col("nll") / 2).otherwise("nll"))
    frame.write_parquet(path)
    everywhere(capsys, path.parent, folder, f"{path} was changed after it was written: {AGAIN}")
    path.write_bytes(path.read_bytes()[:-9])
    everywhere(capsys, path.parent, folder, f"{path} was changed after it was written: {AGAIN}")
    path.unlink()
    everywhere(capsys, path.parent, folder, f"no such file: {path}")
    path.mkdir()
    everywhere(capsys, path.parent, folder, f"{path} is a folder, not a file")
