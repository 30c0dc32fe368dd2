"""LPIPS: golden values with the published weights, and its properties with any weights."""

from __future__ import annotations

import numpy as np
import pytest

from distance_checks import (
    agrees_with_golden,
    any_tensors,
    golden_images,
    images,
)
from twoafc.distances import NEEDS, distance, lpips
from twoafc.distances.deep import alexnet

torch = pytest.importorskip("torch")

LEAST = {"lpips_alex": 31, "lpips_vgg": 16, "lpips_squeeze": 17}
STAGES = {
    "lpips_alex": [(64, 15), (192, 7), (384, 3), (256, 3), (256, 3)],
    "lpips_vgg": [(64, 64), (128, 32), (256, 16), (512, 8), (512, 4)],
    "lpips_squeeze": [(64, 31), (128, 15), (256, 7), (384, 3), (384, 3), (512, 3), (512, 3)],
}
names = pytest.mark.parametrize("name", list(LEAST))


@pytest.mark.usefixtures("published_weights")
@pytest.mark.parametrize("name", ["lpips_alex", "lpips_squeeze", pytest.param("lpips_vgg", marks=pytest.mark.slow)])
def test_golden_values(name):
    variant = name.replace("_", ".")
    agrees_with_golden(distance(name), variant, "numpy float32")
    # Pairs of tensors; the large images are left out, as they take seconds.
    agrees_with_golden(distance(name), variant, "torch float32", ("s64", "odd", "ex"))


@pytest.mark.usefixtures("published_weights")
def test_the_example_of_the_authors():
    d0, d1 = distance("lpips").triplet(*(golden_images("ex", which) for which in ("ref", "x0", "x1")))
    assert (d0.round(4), d1.round(4)) == (0.7219, 0.1376)


@pytest.mark.usefixtures("random_weights")
@names
def test_stages(name):
    backbone, _ = lpips.BACKBONES[name]
    stages = backbone(any_tensors(NEEDS[name][0]), torch.rand(1, 3, 64, 64))
    assert [(stage.shape[1], stage.shape[2]) for stage in stages] == STAGES[name]


@pytest.mark.usefixtures("random_weights")
def test_against_the_formula():
    ref, x = (torch.from_numpy(images(seed, 1, 3, 40, 50)).float() for seed in range(2))
    shift, scale = torch.tensor([-0.030, -0.088, -0.188]), torch.tensor([0.458, 0.448, 0.450])
    stages = []
    for image in (ref, x):
        scaled = ((2 * image.movedim(1, -1) - 1) - shift) / scale
        stages.append(list(alexnet(any_tensors("alexnet"), scaled.movedim(-1, 1))))
    total = 0.0
    heads = any_tensors("lpips_alex_head").values()
    for a, b, head in zip(*stages, heads, strict=True):
        for i, j in np.ndindex(*a.shape[2:]):
            p, q = a[0, :, i, j].double(), b[0, :, i, j].double()
            difference = p / (p.norm() + 1e-10) - q / (q.norm() + 1e-10)
            total += float((head.flatten() * difference**2).sum()) / (a.shape[2] * a.shape[3])
    assert distance("lpips_alex")(ref, x).item() == pytest.approx(total, rel=1e-5)


def test_pixels_without_features():
    """Where a network sees nothing, the unit vector is 0; against the formula, in double precision."""
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 3, 8, 2, 4)).astype(np.float32) * rng.choice([1e-6, 1, 1e4], (2, 3, 1, 2, 4))
    a[:, :, 0, :2] = 0
    b[:, :, 0, 1:3] = 0
    b[:, :, 1] = a[:, :, 1]
    weight = rng.random(8)
    a, b = a.astype(np.float32), b.astype(np.float32)
    units = [stage / (np.linalg.norm(stage.astype(float), axis=1, keepdims=True) + 1e-10) for stage in (a, b)]
    expected = np.einsum("bchw,c->b", (units[0] - units[1]) ** 2, weight) / 8
    parameters = {"lin0.model.1.weight": torch.from_numpy(weight).float().view(1, 8, 1, 1)}
    for one, other in ((a, b), (b, a)):
        found = lpips.compare(parameters, 0, torch.from_numpy(one), torch.from_numpy(other))
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert (lpips.compare(parameters, 0, torch.from_numpy(a), torch.from_numpy(a)) == 0).all()
