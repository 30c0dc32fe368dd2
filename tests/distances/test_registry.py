"""Names of distances, and the properties that all of those without a network share."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distance_checks import KINDS, agrees_on_torch, agrees_with_golden, keeps_promises, refuses_smaller
from twoafc.distances import ALIASES, DEEP, DISTANCES, distance

LEAST = {"euclidean": 1, "rmse": 1, "ssim": 11, "ssim_luma": 11, "ms_ssim": 161, "ms_ssim_3": 41}
LEAST |= {"nlpd": 17, "nlpd_rgb": 33, "nlpd_2017": 65, "nlpd_2017_5": 33}
GOLDEN = {
    "euclidean": "euclidean.l2",
    "rmse": "euclidean.rmse",
    "ssim": "ssim.rgb",
    "ssim_luma": "ssim.luma601",
    "ms_ssim": "ms_ssim.rgb.exact_window",
    "nlpd": "nlpd.matlab2016.luma601",
}
names = pytest.mark.parametrize("name", list(LEAST))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", list(GOLDEN))
def test_golden_values(name, kind):
    agrees_with_golden(distance(name), GOLDEN[name], kind)


@names
@settings(max_examples=8, deadline=None)
@given(height=st.integers(0, 29), width=st.integers(0, 29))
def test_promises(name, height, width):
    keeps_promises(distance(name), LEAST[name] + height, LEAST[name] + width)


@names
def test_torch_agrees_with_numpy(name):
    agrees_on_torch(distance(name), LEAST[name] + 1, LEAST[name] + 90)


@names
def test_smaller_images_are_refused(name):
    refuses_smaller(distance(name), LEAST[name])


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
