"""DISTS: golden values with the published weights, and its properties with any weights."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from distance_checks import (
    agrees_with_golden,
    any_tensors,
    images,
)
from twoafc.distances import distance
from twoafc.distances.deep import vgg16
from twoafc.distances.dists import smooth_pool

torch = pytest.importorskip("torch")


@pytest.mark.slow
@pytest.mark.usefixtures("published_weights")
def test_golden_values():
    agrees_with_golden(distance("dists"), "dists", "numpy float32")
    # Pairs of tensors; the large images are left out, as they take seconds.
    agrees_with_golden(distance("dists"), "dists", "torch float32", ("s64", "odd", "ex"))


@pytest.mark.usefixtures("published_weights")
def test_the_example_of_the_authors(shared):
    pair = []
    for name in ("dists_r0.png", "dists_r1.png"):
        with Image.open(shared / "weights" / "ref" / name) as picture:
            pair.append(np.asarray(picture.convert("RGB")).transpose(2, 0, 1)[None] / 255)
    assert distance("dists")(*pair).round(4) == 0.3347


def test_pooling_against_a_loop():
    image = images(0, 1, 2, 5, 6)
    window = np.outer((0.25, 0.5, 0.25), (0.25, 0.5, 0.25))
    padded = np.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)))
    found = smooth_pool(torch.from_numpy(image))
    assert found.shape == (1, 2, 3, 3)
    for c, i, j in np.ndindex(2, 3, 3):
        square = (padded[0, c, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3] ** 2 * window).sum()
        assert found[0, c, i, j].item() == pytest.approx(np.sqrt(square + 1e-12), rel=1e-12)


@pytest.mark.usefixtures("random_weights")
def test_against_the_formula():
    ref, x = (torch.from_numpy(images(seed, 1, 3, 20, 24)).float() for seed in range(2))
    mean, spread = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    stages = []
    for image in (ref, x):
        scaled = ((image.movedim(1, -1) - mean) / spread).movedim(-1, 1)
        maps = [image, *vgg16(any_tensors("vgg16"), scaled, pool=smooth_pool)]
        stages.append([channel.double().numpy() for stage in maps for channel in stage[0]])
    assert len(stages[0]) == 1475
    alpha, beta = (tensor.flatten().double().numpy() for tensor in any_tensors("dists_alpha_beta").values())
    similarity = 0.0
    for a, b, texture, structure in zip(*stages, alpha, beta, strict=True):
        similarity += texture * (2 * a.mean() * b.mean() + 1e-6) / (a.mean() ** 2 + b.mean() ** 2 + 1e-6)
        covariance = (a * b).mean() - a.mean() * b.mean()
        similarity += structure * (2 * covariance + 1e-6) / (a.var() + b.var() + 1e-6)
    expected = 1 - similarity / (alpha.sum() + beta.sum())
    assert distance("dists")(ref, x).item() == pytest.approx(expected, rel=1e-4)
