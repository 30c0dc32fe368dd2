"""Distances of other libraries: real ones where they can be imported, stand-ins with their interface where not."""

from __future__ import annotations

import importlib
import pickle
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from twoafc import distance
from twoafc.distances import OneByOne, Own, rmse
from twoafc.distances.adapters import INSTEAD, PIQ, TORCHMETRICS, Rule

torch = pytest.importorskip("torch")

PIQ_FILE = """
import torch

def ssim(x, y, data_range=1., reduction='mean', kernel_size=11):
    assert data_range == 1 and reduction == 'none'
    return 1 - ((x - y) ** 2).mean(dim=(1, 2, 3)) / kernel_size

def gmsd(x, y, data_range=1., reduction='mean'):
    assert data_range == 1 and reduction == 'none'
    return (x - y).clip(min=0).mean(dim=(1, 2, 3))

class DISTS(torch.nn.Module):
    def __init__(self, reduction='mean'):
        super().__init__()
        assert reduction == 'none'
        self.weight = torch.nn.Parameter(torch.ones(1))
    def forward(self, x, y):
        return self.weight * (x - y).abs().mean(dim=(1, 2, 3)) * (2 if self.training else 1)

class LPIPS(torch.nn.Module):
    def __init__(self, reduction='mean'):
        raise OSError('no route to host')
"""
PYIQA_FILE = """
import torch

METRICS = {
    'nlpd': ('FR', True, '0, 1'), 'ssim': ('FR', False, '0, 1'), 'ckdn': ('FR', False, '0, 1'),
    'afine_fr': ('FR', True, '-2, 2'), 'niqe': ('NR', True, '~0, ~100'),
}

class InferenceModel(torch.nn.Module):
    def __init__(self, name):
        super().__init__()
        self.metric_mode, self.lower_better, self.score_range = METRICS[name]
    def forward(self, target, ref=None):
        change = (target - ref).clip(min=0).mean(dim=(1, 2, 3))[:, None]
        return change if self.lower_better else 1 - change

def create_metric(metric_name, as_loss=False, device=None, **kwargs):
    assert not as_loss and device == 'cpu'
    return InferenceModel(metric_name)

def list_models(metric_mode=None):
    return [name for name, (mode, *_) in METRICS.items() if metric_mode in (None, mode)]
"""


def images(seed: int, count: int = 3, side: int = 24) -> np.ndarray:
    return np.random.default_rng(seed).random((count, 3, side, side)).astype(np.float32)


def library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except Exception as error:  # what a library meets on import may raise anything
        pytest.skip(f"{name} cannot be imported here: {error}")


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder before all others, for packages in a library's name; what they leave is forgotten afterwards."""
    kept = {name: module for name, module in sys.modules.items() if name.split(".")[0] in ("piq", "pyiqa")}
    for name in kept:
        del sys.modules[name]
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [name for name in sys.modules if name.split(".")[0] in ("piq", "pyiqa", "torchmetrics_absent")]:
        del sys.modules[name]
    sys.modules.update(kept)


@pytest.mark.parametrize("name", [name for name, rule in TORCHMETRICS.items() if isinstance(rule, Rule)])
def test_torchmetrics(name: str) -> None:
    functional = library("torchmetrics.functional.image")
    found = distance(f"torchmetrics:{name}")
    side = 180 if name.startswith("multiscale") else 24
    ref, x = images(0, 2, side), images(1, 2, side)
    x[0] = ref[0]
    values = found(ref, x)
    # Its own value for a batch of one image, whatever its reduction.
    scaled = {"data_range": 1.0} if "structural" in name else {}
    theirs = float(getattr(functional, name)(torch.from_numpy(x[1:]), torch.from_numpy(ref[1:]), **scaled))
    assert values[0] == pytest.approx(0, abs=1e-6)
    assert values[1] == pytest.approx(1 - theirs if "structural" in name else theirs, rel=1e-5)
    np.testing.assert_allclose(pickle.loads(pickle.dumps(found))(ref, x), values)


def test_torchmetrics_by_the_name_of_a_class_and_with_settings() -> None:
    library("torchmetrics")
    found = distance("torchmetrics:StructuralSimilarityIndexMeasure", kernel_size=7)
    assert repr(found) == "Own(name='torchmetrics:StructuralSimilarityIndexMeasure', takes='torch', device='cpu')"
    assert found(images(0), images(1)).shape == (3,)
    assert distance("torchmetrics:MultiScaleStructuralSimilarityIndexMeasure") is not None


@pytest.mark.parametrize("name", [name for name, rule in PIQ.items() if isinstance(rule, Rule) and name.islower()])
def test_piq(name: str) -> None:
    piq = library("piq")
    side = 180 if name.startswith(("multi_scale_s", "information")) else 64
    ref, x = images(0, 2, side), images(1, 2, side)
    values = distance(f"piq:{name}")(ref, x)
    theirs = float(getattr(piq, name)(torch.from_numpy(x[1:]), torch.from_numpy(ref[1:])))
    assert values[1] == pytest.approx(1 - theirs if PIQ[name].similarity else theirs, rel=1e-4)  # type: ignore[union-attr]
    assert distance(f"piq:{name}")(ref, ref) == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("name", ["nlpd", "gmsd", "mad", "ssim", "ssimc", "fsim", "vsi", "cw_ssim"])
def test_pyiqa(name: str) -> None:
    pyiqa = library("pyiqa")
    ref, x = images(0, 2, 64), images(1, 2, 64)
    values = distance(f"pyiqa:{name}")(ref, x)
    made = pyiqa.create_metric(name, device="cpu")
    theirs = float(made(torch.from_numpy(x[1:]), torch.from_numpy(ref[1:])))
    assert values[1] == pytest.approx(theirs if made.lower_better else 1 - theirs, rel=1e-4)
    assert distance(f"pyiqa:{name}")(ref, ref) == pytest.approx(0, abs=1e-5)


def test_piq_in_its_documented_interface(stand_in: Path) -> None:
    (stand_in / "piq.py").write_text(PIQ_FILE)
    ref, x = images(0), images(1)
    np.testing.assert_allclose(distance("piq:ssim", kernel_size=1)(ref, x), rmse(ref, x) ** 2, rtol=1e-5)
    # The image comes first there, the reference first here.
    np.testing.assert_allclose(distance("piq:gmsd")(ref, x), (x - ref).clip(0).mean(axis=(1, 2, 3)), rtol=1e-5)
    np.testing.assert_allclose(distance("piq:DISTS")(ref, x), abs(ref - x).mean(axis=(1, 2, 3)), rtol=1e-5)
    message = "piq:LPIPS cannot be made; piq did not get its weights: no route to host"
    with pytest.raises(OSError, match=f"^{message}$"):
        distance("piq:LPIPS")


def test_pyiqa_in_its_documented_interface(stand_in: Path) -> None:
    (stand_in / "pyiqa.py").write_text(PYIQA_FILE)
    ref, x = images(0), images(1)
    for name in ("nlpd", "ssim"):
        found = distance(f"pyiqa:{name}")
        np.testing.assert_allclose(found(ref, x), (x - ref).clip(0).mean(axis=(1, 2, 3)), rtol=1e-5)
        assert isinstance(found, Own)
        assert found.takes == "torch"
    larger = "larger is better there, and it is not known to be 1 for equal images"
    for name, reason in {
        "ckdn": f"{larger}; {INSTEAD}",
        "afine_fr": f"its values do not start at 0 (pyiqa says: -2, 2); {INSTEAD}",
        "niqe": "it compares no image with its reference; the names are: nlpd, ssim, ckdn, afine_fr",
        "nosuch": "there is no metric of that name; the names are: nlpd, ssim, ckdn, afine_fr",
    }.items():
        with pytest.raises(ValueError, match=f"^{re.escape(f'pyiqa:{name} cannot be used; {reason}')}$"):
            distance(f"pyiqa:{name}")


def test_functions_of_whole_batches_are_called_image_by_image() -> None:
    library("torchmetrics")
    found = distance("torchmetrics:spectral_distortion_index")
    assert isinstance(found, Own)
    assert isinstance(found.function, OneByOne)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("piq:psnr", "it grows without bound as images become equal; rmse orders images alike"),
        ("piq:vif_p", "it can exceed its value for equal images, which is 1"),
        ("piq:brisque", "it compares no image with its reference"),
        ("piq:FID", "it is not known here; the names are: ssim, multi_scale_ssim, "),
        ("torchmetrics:spatial_correlation_coefficient", "it is not always 1 for equal images"),
        ("torchmetrics:spectral_angle_mapper", "it is not always 0 for equal images"),
        ("torchmetrics:relative_average_spectral_error", "it is infinite where a reference is black"),
        (
            "torchmetrics:learned_perceptual_image_patch_similarity",
            "it reads its network again for each batch; lpips_alex, lpips_vgg and lpips_squeeze are the same",
        ),
    ],
)
def test_functions_that_are_not_distances_are_refused_with_the_reason(name: str, reason: str, stand_in: Path) -> None:
    (stand_in / "piq.py").write_text(PIQ_FILE)
    if name.startswith("torchmetrics"):
        library("torchmetrics")
    with pytest.raises(ValueError, match=f"^{re.escape(f'{name} cannot be used; {reason}')}") as refused:
        distance(name)
    assert str(refused.value).endswith(INSTEAD)


def test_a_missing_library_is_reported_with_the_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for name in ("pyiqa", "piq", "torchmetrics"):
        with pytest.raises(ImportError, match=f"^{name} is not installed; run: pip install {name}$"):
            distance(f"{name}:ssim")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("import nosuch.inside", "piq cannot be imported: it needs nosuch; run: pip install nosuch"),
        (
            "raise RuntimeError('operator torchvision::nms does not exist')",
            "piq cannot be imported: RuntimeError: operator torchvision::nms does not exist; "
            "install the torchvision that fits this torch",
        ),
        ("raise ValueError('two\\nlines')", "piq cannot be imported: ValueError: two lines"),
    ],
)
def test_a_broken_library_is_reported_in_one_line(line: str, message: str, stand_in: Path) -> None:
    (stand_in / "piq.py").write_text(line)
    with pytest.raises(ImportError, match=f"^{re.escape(message)}$"):
        distance("piq:ssim")
