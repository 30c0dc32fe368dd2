"""The public surface, and that it is light."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import pytest

import twoafc


def test_the_public_names() -> None:
    assert sorted(twoafc.__all__) == [
        "Counts",
        "DataError",
        "Density",
        "Finding",
        "Network",
        "Pairs",
        "Result",
        "Settings",
        "Spline",
        "Triplets",
        "check",
        "check_distance",
        "count",
        "datasets",
        "distance",
        "evaluate",
        "fetch",
        "join_columns",
        "load",
        "measure",
        "metrics",
        "plots",
        "reproduce",
        "worlds",
    ]
    for name in twoafc.__all__:
        assert getattr(twoafc, name) is not None
    assert set(twoafc.__all__) <= set(dir(twoafc))
    with pytest.raises(AttributeError, match="module 'twoafc' has no attribute 'density'"):
        _ = twoafc.density  # type: ignore[attr-defined]


FIRST = """
import sys
for first in sys.argv[1:]:
    for name in [name for name in sys.modules if name.split(".")[0] == "twoafc"]:
        del sys.modules[name]
    import twoafc
    getattr(twoafc, first)
    print(first, callable(twoafc.evaluate), callable(twoafc.distance))
"""


@pytest.mark.slow
def test_names_mean_the_same_whichever_is_used_first() -> None:
    """Each first in a package that is imported anew; a function may have the name of a module."""
    names = twoafc.__all__
    done = subprocess.run([sys.executable, "-c", FIRST, *names], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"{name} True True" for name in names]


def test_the_version_is_that_of_the_package() -> None:
    assert twoafc.__version__ == importlib.metadata.version("twoafc")


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import twoafc", ["scipy", "polars", "matplotlib", "torch", "rich"]),
        ("import twoafc; twoafc.Density", ["scipy.stats", "scipy.optimize", "matplotlib", "torch", "skimage"]),
        ("import twoafc.cli", ["scipy", "polars", "matplotlib", "torch", "skimage"]),
        ("import twoafc; twoafc.distance", ["torch", "skimage", "matplotlib"]),
        ("from twoafc.datasets import open_dataset", ["scipy", "torch", "skimage", "matplotlib"]),
        ("import twoafc.images", ["scipy", "polars", "torch", "skimage", "matplotlib"]),
    ],
)
def test_imports_are_light(code: str, absent: list[str]) -> None:
    told = f"{code}; import sys; print([name for name in {absent} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_absent_extra_answers_with_the_install_line() -> None:
    from twoafc.errors import require

    with pytest.raises(ImportError, match=r"nosuch is not installed; run: pip install 'twoafc\[explore\]'"):
        require("nosuch", extra="explore")
