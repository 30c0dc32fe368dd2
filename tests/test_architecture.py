"""Between rooms only a room's front is imported: `from twoafc.ROOM import name`."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

import twoafc

SOURCE = Path(twoafc.__file__).parent
ROOMS = sorted(path.name for path in SOURCE.iterdir() if (path / "__init__.py").is_file())


@cache
def imports(path: Path) -> list[tuple[int, str]]:
    """Lines and modules of what a file imports from this package."""
    nodes = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.ImportFrom)]
    return [(node.lineno, node.module or "") for node in nodes if (node.module or "").startswith("twoafc")]


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_is_entered_by_its_front(room: str) -> None:
    inside = f"twoafc.{room}."
    entered = [
        f"{path.relative_to(SOURCE)}:{line} imports {module}"
        for path in SOURCE.rglob("*.py")
        if path.relative_to(SOURCE).parts[0] != room
        for line, module in imports(path)
        if module.startswith(inside)
    ]
    assert not entered


@pytest.mark.parametrize("room", [room for room in ROOMS if (SOURCE / room / "__init__.pyi").is_file()])
def test_every_name_of_a_front_is_there_and_is_no_module(room: str) -> None:
    front = __import__(f"twoafc.{room}", fromlist=["*"])
    modules = {path.stem for path in (SOURCE / room).iterdir()}
    for name in front.__all__:
        assert name not in modules, f"{name} is both a name of the front and a file of the room"
        getattr(front, name)
