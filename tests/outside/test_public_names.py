"""Public names: calls that work today go on working."""

from __future__ import annotations

from typing import Any

import pytest

import twoafc
from outside import comparing, names

EXPECTED = comparing.read("names")


@pytest.fixture(scope="module")
def actual() -> dict[str, Any]:
    return names.modules()


def accepts(expected: dict[str, list[str]], actual: dict[str, list[str]]) -> None:
    """Parameters may be added, with defaults, after those that may be given by position."""
    positional = expected["positional"]
    assert actual["positional"][: len(positional)] == positional
    assert set(expected["keywords"]) <= {*actual["positional"], *actual["keywords"]}
    assert set(actual["required"]) <= set(expected["required"])


def test_all_lists_the_names() -> None:
    assert set(EXPECTED["twoafc"]) <= set(twoafc.__all__)
    for name in twoafc.__all__:
        assert getattr(twoafc, name) is not None


@pytest.mark.parametrize(("module", "name"), [(module, name) for module in EXPECTED for name in EXPECTED[module]])
def test_a_name_means_what_it_meant(module: str, name: str, actual: dict[str, Any]) -> None:
    expected, found = EXPECTED[module][name], actual[module][name]
    assert found["kind"] == expected["kind"]
    assert set(expected.get("bases", [])) <= set(found.get("bases", []))
    assert set(expected.get("members", {})) <= set(found.get("members", {}))
    calls = {"()": expected["call"]} if "call" in expected else {}
    for method, call in (calls | expected.get("methods", {})).items():
        accepts(call, found["call"] if method == "()" else found["methods"][method])


def test_results_have_the_members_that_they_had() -> None:
    comparing.check("objects", names.objects())
