"""Between subpackages only public names are imported: `from twoafc.SUBPACKAGE import name`."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import twoafc

SOURCE = Path(twoafc.__file__).parent
SUBPACKAGES = sorted(path.name for path in SOURCE.iterdir() if (path / "__init__.py").is_file())
WITH_NAMES = [name for name in SUBPACKAGES if (SOURCE / name / "__init__.pyi").is_file()]
TESTS = Path(__file__).parent
OUTSIDE = [*TESTS.rglob("*.py"), *(TESTS.parent / "benchmarks").rglob("*.py")]


@cache
def imports(path: Path) -> list[tuple[int, str, tuple[str, ...]]]:
    """Lines, modules and names of what a file imports from this package."""
    nodes = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.ImportFrom)]
    found = [(node.lineno, node.module or "", tuple(alias.name for alias in node.names)) for node in nodes]
    return [each for each in found if each[1].startswith("twoafc")]


def public_names(subpackage: str) -> list[str]:
    return list(__import__(f"twoafc.{subpackage}", fromlist=["*"]).__all__)


@pytest.mark.parametrize("subpackage", SUBPACKAGES)
def test_other_subpackages_import_public_names_only(subpackage: str) -> None:
    inside = f"twoafc.{subpackage}."
    wrong = [
        f"{path.relative_to(SOURCE)}:{line} imports {module}"
        for path in SOURCE.rglob("*.py")
        if path.relative_to(SOURCE).parts[0] != subpackage
        for line, module, _ in imports(path)
        if module.startswith(inside)
    ]
    assert not wrong


@pytest.mark.parametrize("subpackage", WITH_NAMES)
def test_tests_import_from_a_file_only_what_its_subpackage_does_not_export(subpackage: str) -> None:
    inside, public = f"twoafc.{subpackage}.", public_names(subpackage)
    wrong = [
        f"{path.relative_to(TESTS.parent)}:{line} imports {name} from {module}"
        for path in OUTSIDE
        for line, module, names in imports(path)
        if module.startswith(inside)
        for name in names
        if name in public
    ]
    assert not wrong


@pytest.mark.parametrize("subpackage", WITH_NAMES)
def test_every_public_name_is_there_and_is_no_module(subpackage: str) -> None:
    package = __import__(f"twoafc.{subpackage}", fromlist=["*"])
    modules = {path.stem for path in (SOURCE / subpackage).iterdir()}
    for name in public_names(subpackage):
        assert name not in modules, f"{name} is both a public name and a file of the subpackage"
        getattr(package, name)


def test_files_that_the_page_on_the_architecture_names_exist() -> None:
    page = (TESTS.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`([a-z_/]+\.py)`", page)
    assert len(named) > 15
    assert not [name for name in named if not (SOURCE / name).is_file() and not (TESTS.parent / name).is_file()]
