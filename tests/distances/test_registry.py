"""Names of distances."""

from __future__ import annotations

import subprocess
import sys

import pytest

from twoafc.distances import ALIASES, DEEP, DISTANCES, distance


def test_an_unknown_name_lists_the_names():
    known = ", ".join((*DISTANCES, *DEEP, *ALIASES))
    with pytest.raises(
        ValueError,
        match=f"^there is no distance 'psnr'; the names are: {known}; your own goes by package.module:function$",
    ):
        distance("psnr")


def test_plain_distances_have_no_settings():
    with pytest.raises(TypeError, match=r"^ssim has no settings; got device$"):
        distance("ssim", device="cuda")


@pytest.mark.parametrize("name", ["lpips", "dists", "pim_5"])
def test_torch_is_asked_for_first(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"^torch is not installed; run: pip install 'twoafc\[torch\]'$"):
        distance(name)


def test_no_library_is_imported_before_a_distance_needs_it():
    modules = "adapters custom deep dists laplacian lpips pim registry weights"
    code = "; ".join(["import sys", *(f"import twoafc.distances.{name}" for name in modules.split())])
    libraries = {"torch", "piq", "pyiqa", "torchmetrics"}
    done = subprocess.run([sys.executable, "-c", f"{code}; print({libraries} & set(sys.modules))"], capture_output=True)
    assert done.stdout.decode().strip() == "set()"
