"""Results that somebody has altered, or another program wrote: every command refuses them in one line."""

from __future__ import annotations

import copy
import json
import math
import shutil
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
from twoafc.results.folder import FORM, problem

DEEP = "[" * 100_000 + "]" * 100_000
ALTERED: dict[str, tuple[str, Any, str]] = {
    "no scores": ("scores", None, "scores must be a list, found None"),
    "an empty list of scores": ("scores", [], "it has no scores"),
    "fits that are none": ("card.fits", None, "card.fits must be a list, found None"),
    "a seed that is too large": ("card.settings.seed", 1e300, "card.settings.seed must be int, found 1e+300"),
    "scores of text": ("scores", "x", "scores must be a list, found 'x'"),
    "a score that is none": ("scores.0", None, "scores[0] must be a record, found None"),
    "a distance that is none": ("scores.0.distance", None, "scores[0].distance must be str, found None"),
    "a list for a number": ("scores.0.nll", [1], "scores[0].nll must be str | int | float | None, found [1]"),
    "a seed of text": ("scores.0.seed", "0", "scores[0].seed must be int | None, found '0'"),
    "no card": ("card", [], "card must be a record, found []"),
    "settings that are none": ("card.settings", None, "card.settings must be a record, found None"),
    "ties of a number": ("card.settings.ties", 1, "card.settings.ties must be str, found 1"),
    "notes of numbers": ("card.notes", [3], "card.notes[0] must be str, found 3"),
    "files that are none": ("card.files", {}, "card.files must be a list, found {}"),
    "a comparison of text": ("comparisons", ["x"], "comparisons[0] must be a record, found 'x'"),
    "an empty comparison": ("comparisons", [{}], "comparisons[0] has no a"),
    "a finding without words": ("findings", [{"code": "x"}], "its values do not fit (Finding.__init__() missing "),
    "a ceiling of text": ("ceiling", "high", "ceiling must be dict | None, found 'high'"),
    "an empty ceiling": ("ceiling", {}, "its values do not fit (Ceiling.__init__() missing "),
    "an interval of text": ("goodness.0.intraclass", ["x"], "its values do not fit (Interval.__new__() missing "),
    "an empty interval": ("goodness.0.intraclass", [], "its values do not fit (Interval.__new__() missing 4 required "),
    "goodness of numbers": ("goodness", [1], "goodness[0] must be a record, found 1"),
    "bins that are none": ("goodness.0.calibration.bins", None, "its values do not fit ('NoneType' object is not ite"),
    "a ragged map": ("goodness.0.residuals.se", [[1], []], "its values do not fit (setting an array element with a "),
    "half a character": ("card.error_bars", "a\ud800", "it is not JSON that can be read"),
    "a number that is not finite": ("scores.0.nll", math.nan, "it is not JSON that can be read"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("format") / "results"
    with plain_results():
        evaluate(random_table(60, ref=[f"r{row % 10}" for row in range(60)])).write(out)
    return out


def altered(content: Any, place: str, value: Any) -> Any:
    """A copy of some content with another value at a place."""
    content = copy.deepcopy(content)
    *path, last = (int(part) if part.isdecimal() else part for part in place.split("."))
    inner = content
    for part in path:
        inner = inner[part]
    inner[last] = value
    return content


@pytest.mark.parametrize("name", ALTERED)
def test_altered_results_get_one_line(folder: Path, tmp_path: Path, name: str) -> None:
    place, value, message = ALTERED[name]
    content = json.loads((folder / "scores.json").read_text())
    (tmp_path / "scores.json").write_text(json.dumps(altered(content, place, value)))
    with pytest.raises(DataError) as caught:
        Result.read(tmp_path)
    said = str(caught.value)
    assert said.startswith(f"{tmp_path / 'scores.json'} is not that of a result; {message}")
    assert said.endswith("; run twoafc evaluate again")
    assert said.isprintable()


@pytest.mark.parametrize("text", ["", "[", DEEP, '{"card": NaN', "\ufeff{}", '{"a": ' + "9" * 5000 + "}"])
def test_what_is_no_json_gets_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "scores.json").write_text(text)
    with pytest.raises(DataError, match=r"is not that of a result; it is not JSON that can be read; run twoafc eval"):
        Result.read(tmp_path)


def test_every_command_refuses_them(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    (broken / "scores.json").write_text(DEEP)
    for command in ("report", "compare", "failures", "explore"):
        assert "is not that of a result" in refused(capsys, command, str(broken))
    assert "is not that of a result" in refused(capsys, "query", str(broken), "--triplet", "0")


def test_another_version_is_named(folder: Path, tmp_path: Path) -> None:
    content = json.loads((folder / "scores.json").read_text())
    content["card"]["versions"]["twoafc"] = "9.0"
    del content["scores"]
    (tmp_path / "scores.json").write_text(json.dumps(content))
    with pytest.raises(
        DataError, match=r"it has no scores \(twoafc 9\.0 wrote it, this is [\d.]+\); run twoafc evaluate"
    ):
        Result.read(tmp_path)


@pytest.mark.parametrize(
    ("number", "said"), [(99, "is of format 99"), (True, "is of format True"), (None, "is of format 0")]
)
def test_another_format_is_refused_by_every_command(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], number: Any, said: str
) -> None:
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    content = json.loads((other / "scores.json").read_text())
    assert content.pop("format") == 1
    (other / "scores.json").write_text(json.dumps(content | ({} if number is None else {"format": number})))
    message = f"{other / 'scores.json'} {said}, this version reads 1: run twoafc evaluate again"
    for arguments in (["report"], ["compare"], ["failures"], ["explore"], ["query", "--triplet", "0"]):
        assert refused(capsys, arguments[0], str(other), *arguments[1:]) == message


def extended(value: Any) -> Any:
    """The same with one more name in every record."""
    if isinstance(value, dict):
        return {name: extended(each) for name, each in value.items()} | {"added": 1}
    return [extended(each) for each in value] if isinstance(value, list) else value


def test_what_later_versions_add_is_not_refused(folder: Path, tmp_path: Path) -> None:
    content = json.loads((folder / "scores.json").read_text())
    assert problem(content) is None
    assert {name.rstrip("?") for name in FORM} == content.keys()
    more = extended({name: each for name, each in content.items() if name != "card"})
    (tmp_path / "scores.json").write_text(json.dumps(more | {"card": content["card"] | {"added": {"x": [1]}}}))
    read, whole = Result.read(tmp_path), Result.read(folder)
    assert [repr(read.ceiling), read.findings] == [repr(whole.ceiling), whole.findings]
    assert [one.sentences() for one in read.goodness.values()] == [one.sentences() for one in whole.goodness.values()]


COLUMNS = {
    "triplet": (pl.lit(3), "text"),
    "ref": (pl.lit(b"x"), "text"),
    "distance": (pl.lit(None), "text"),
    "diverged": (pl.lit(0.5), "true or false"),
    "d0": (pl.lit(math.inf), "finite numbers"),
    "d1": (pl.concat_list("d1"), "finite numbers"),
    "M": (pl.lit(10**18), "whole numbers from 1 to 1e+09"),
    "n": (pl.col("M") + 1, "whole numbers from 0 to M"),
    "P": (pl.when(pl.int_range(pl.len()) == 3).then(1.5).otherwise("P"), "numbers in [0, 1]"),
    "nll": (pl.lit(math.nan), "numbers"),
    "seed": (pl.lit("0"), "whole numbers"),
}


@pytest.mark.parametrize("column", [*COLUMNS, "no rows"])
def test_every_command_refuses_altered_triplets(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], column: str
) -> None:
    shutil.copytree(folder, tmp_path / "results")
    path = tmp_path / "results" / "triplets.parquet"
    frame, (to, words) = pl.read_parquet(path), COLUMNS.get(column, (None, ""))
    (frame.head(0) if to is None else frame.with_columns(to.alias(column))).write_parquet(path)
    reason = f"{column} must be {words}" if words else "it has no rows"
    said = f"{path} was not written by twoafc evaluate; {reason}; run it again"
    for command in ("report", "failures", "query --triplet 3", "explore", f"compare {folder}"):
        name, *options = command.split()
        assert refused(capsys, name, str(path.parent), *options) == said
