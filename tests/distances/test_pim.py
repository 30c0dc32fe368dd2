"""PIM: golden vectors of random variables, its archives, and the distance's properties."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import re
import zipfile

import numpy as np
import pytest

from distance_checks import (
    agrees_with_golden,
    any_variables,
    golden_folder,
    golden_images,
    golden_vectors,
    images,
    pim_of,
)
from tensorflow_checkpoints import checkpoint, equal
from twoafc.distances import distance, pim, weights
from twoafc.distances.pim import Architecture, Mixture, divergence, read_checkpoint, read_variables
from twoafc.errors import DataError

torch = pytest.importorskip("torch")

SMALL = Architecture(levels=1, filters=(4, 4, 4, 3), latent=2)
SMALL_5 = Architecture(mixtures=5, levels=1, filters=(4, 4, 4, 3), latent=2)


def nhwc(tensor: torch.Tensor) -> np.ndarray:
    return tensor.permute(0, 2, 3, 1).numpy()


def tensor(images: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(images.astype(np.float32))


def archive_of(members: dict[str, bytes], name: str = "pim-1") -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in members.items():
            archive.writestr(f"{name}/{member}", content)
    return stream.getvalue()


def members_of(architecture: Architecture) -> dict[str, bytes]:
    index, data = checkpoint(any_variables(architecture))
    return {"config.json": b'{"padding": "same"}', "weights.index": index, "weights.data-00000-of-00001": data}


# Archives


def test_the_sample_archives():
    for mixtures in (1, 5):
        content = (golden_folder() / "pim_random_ckpt" / f"pim-{mixtures}-random.zip").read_bytes()
        found = read_variables(content, f"pim-{mixtures}", Architecture(mixtures=mixtures))
        expected = golden_vectors(f"pim{mixtures}/var/")
        equal(found, {name: expected[name] for name in found})
        assert len(found) == {1: 96, 5: 144}[mixtures]
        assert sum(values.size for values in found.values()) == {1: 1717960, 5: 1739400}[mixtures]


def test_the_sample_checkpoint_of_tensorflow():
    folder = golden_folder() / "pim_random_ckpt" / "tiny"
    data = (folder / "weights.data-00000-of-00001").read_bytes()
    expected = golden_vectors("tiny/var/")
    equal(read_checkpoint((folder / "weights.index").read_bytes(), [data], expected), expected)


def test_what_is_written_is_read():
    rng = np.random.default_rng(0)
    shapes = {"bias": (4,), "kernel": (5, 5, 3, 4), "large": (40, 41), "scalar": ()}
    expected = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    index, data = checkpoint(expected)
    equal(read_checkpoint(index, [data], expected), expected)


def test_archives_of_other_networks_are_refused():
    message = "the archive of pim-1 must have steerable_filter_type 1; it has 3"
    with pytest.raises(DataError, match=f"^{message}$"):
        read_variables(archive_of(members_of(SMALL) | {"config.json": b'{"steerable_filter_type": 3}'}), "pim-1", SMALL)
    with pytest.raises(DataError, match=r"^the variable frontend/cnns/4/layer_with_weights-0/kernel .* it has none$"):
        read_variables(archive_of(members_of(SMALL)), "pim-1", Architecture(levels=2, filters=(4, 4, 4, 3), latent=2))
    message = (
        "the variable frontend/cnns/0/layer_with_weights-0/kernel must have shape (5, 5, 3, 8); it has (5, 5, 3, 4)"
    )
    wider = Architecture(levels=1, filters=(8, 4, 4, 3), latent=2)
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        read_variables(archive_of(members_of(SMALL)), "pim-1", wider)


@pytest.mark.parametrize("mixtures", [1, 5])
def test_only_the_published_archive_is_pim(mixtures, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    file = tmp_path / f"pim-{mixtures}.zip"
    file.write_bytes(archive_of(members_of(SMALL), f"pim-{mixtures}"))
    message = (
        f"the weights pim_{mixtures} are needed and not at hand; tried: {file} (its sha512 is not the published one)"
    )
    with pytest.raises(DataError, match=f"^{re.escape(message)}; wanted: pim-{mixtures}.zip, sha512 "):
        distance(f"pim_{mixtures}", weights=file)
    with pytest.raises(DataError, match=f"; run: twoafc fetch pim_{mixtures}$"):
        distance(f"pim_{mixtures}", weights=tmp_path / "nowhere")


def pin(content: bytes, name: str, monkeypatch: pytest.MonkeyPatch) -> weights.Published:
    """The published files are not available: let another archive take their place, with its digest."""
    row = dataclasses.replace(weights.published()[name], digest=f"sha512 {hashlib.sha512(content).hexdigest()}")
    monkeypatch.setitem(weights.published(), name, row)
    return row


@pytest.mark.parametrize("mixtures", [1, 5])
def test_an_archive_with_the_pinned_digest_makes_the_distance(mixtures, tmp_path, monkeypatch):
    name, architecture = f"pim_{mixtures}", Architecture(mixtures=mixtures)
    content = archive_of(members_of(architecture), f"pim-{mixtures}")
    row = pin(content, name, monkeypatch)
    (tmp_path / "downloaded.zip").write_bytes(content)
    made = distance("pim" if mixtures == 1 else "pim_5", weights=tmp_path)
    assert (made.name, dict(made.weights)) == (name, {name: row.digest})
    same = pim_of(any_variables(architecture), architecture)
    assert same.name == f"{name} of given variables"
    pair = images(0, 1, 3, 16, 16), images(1, 1, 3, 16, 16)
    assert made(*pair) == same(*pair)


# The distance


def test_golden_layers_of_pim_1():
    expected = golden_vectors("pim1/")
    variables = {name.removeprefix("var/"): values for name, values in expected.items() if name.startswith("var/")}
    parameters = pim.tensors(variables)
    for group in ("ex", "odd"):
        ref = tensor(golden_images(group, "ref"))
        bands = pim.pyramid(parameters, ref, 3)
        assert [nhwc(band).shape for band in bands] == shapes_of(group)
        means = list(pim.layers(parameters, ref, architecture=Architecture()))
        for number, (band, mean) in enumerate(zip(bands, means, strict=True)):
            for kind, found in (("pyramid", band), ("mean", mean)):
                if (golden := expected.get(f"{group}_ref/{kind}/{number}")) is not None:
                    np.testing.assert_allclose(nhwc(found), golden, rtol=1e-4, atol=2e-5)


def shapes_of(group: str) -> list[tuple[int, ...]]:
    parameters = json.loads((golden_folder() / "pim_params.json").read_text())
    sides = (8, 16, 16, 32, 32, 64, 64, 64)
    return [(1, side, side, 3) for side in sides] if group == "ex" else [*map(tuple, parameters["odd_shapes"])]


@pytest.mark.slow
def test_golden_values_of_pim_1():
    measure = pim_of(golden_vectors("pim1/var/"), Architecture())
    agrees_with_golden(measure, "pim.random.pim1", "numpy float32", ("s64", "odd", "ex"))
    # The large images take seconds: one of them will do.
    golden = json.loads((golden_folder() / "golden.json").read_text())["variants"]["pim.random.pim1"]
    triplet = (tensor(golden_images("s256", which)[:1]) for which in ("ref", "x0", "x1"))
    for found, which in zip(measure.triplet(*triplet), ("x0", "x1"), strict=True):
        np.testing.assert_allclose(found, golden["values"]["s256"][which][:1], **golden["tolerance"]["float32"])


def test_golden_values_of_the_small_network():
    measure = pim_of(golden_vectors("tiny/var/"), SMALL)
    agrees_with_golden(measure, "pim.random.tiny", "torch float32")


def test_golden_densities_of_pim_5():
    expected = golden_vectors("pim5/")
    variables = {name.removeprefix("var/"): values for name, values in expected.items() if name.startswith("var/")}
    parameters, architecture = pim.tensors(variables), Architecture(mixtures=5)
    ref, x0 = (
        [pim.mixture(layer, 5) for layer in pim.layers(parameters, tensor(images), architecture=architecture)]
        for images in (golden_images("ex", "ref"), golden_images("ex", "x0"))
    )
    rows = json.loads((golden_folder() / "pim_params.json").read_text())["pim5_given_samples"]["per_scale"]
    for number in range(5):
        np.testing.assert_allclose(nhwc(ref[number].logits), expected[f"ex_ref/logits/{number}"], rtol=1e-4, atol=1e-5)
        for source in ("ref", "x0"):
            sample = tensor(expected[f"ex_ref_vs_ex_x0/sample_from_{source}/{number}"][0]).permute(0, 3, 1, 2)
            for which, mixtures in (("ref", ref), ("x0", x0)):
                found = log_density(mixtures[number], sample).mean().item()
                assert found == pytest.approx(rows[number][f"log_{which}_of_{source}_sample"], rel=1e-5)


def test_golden_values_of_pim_5_within_their_errors():
    variables = golden_vectors("pim5/var/")
    golden = json.loads((golden_folder() / "golden.json").read_text())["variants"]["pim.random.pim5_monte_carlo"]
    batches = [golden_images("ex", which) for which in ("ref", "x0", "x1")]
    found = [pim_of(variables, Architecture(mixtures=5), draws=4, seed=seed).triplet(*batches) for seed in range(6)]
    for number, which in enumerate(("x0", "x1")):
        ours = np.array([pair[number][0] for pair in found])
        error = np.hypot(ours.std(ddof=1) / np.sqrt(6), golden["values_standard_error"]["ex"][which][0])
        assert abs(ours.mean() - golden["values"]["ex"][which][0]) < 5 * error


def test_draws_and_seed():
    pair = images(0, 1, 3, 16, 16), images(1, 1, 3, 16, 16)

    def measured(**settings: int) -> float:
        return float(pim_of(any_variables(SMALL_5), SMALL_5, **settings)(*pair)[0])

    assert measured(seed=1) == measured(seed=1) != measured(seed=2)
    assert measured() == measured(draws=8, seed=0)
    for draws in (0, 3, -2):
        with pytest.raises(ValueError, match=f"^draws must be even and at least 2; got {draws}$"):
            distance("pim_5", draws=draws)
    with pytest.raises(ValueError, match=r"^seed must be at least 0; got -1$"):
        distance("pim_5", seed=-1)
    with pytest.raises(TypeError, match=r"^pim_1 has no such settings; got draws$"):
        distance("pim_1", draws=2)


# Mixtures


def log_density(mixture: Mixture, z: torch.Tensor) -> torch.Tensor:
    """As the definition reads."""
    gaussians = (-((z[:, None] - mixture.means) ** 2).sum(axis=2) / 2).exp() / (2 * np.pi) ** (z.shape[1] / 2)
    return (mixture.logits.softmax(1) * gaussians).sum(axis=1).log()


def mixture_at(means: list[list[float]], weights: list[float]) -> Mixture:
    """The same mixture at each of 40 x 40 pixels."""
    grid = torch.tensor(means, dtype=torch.float64)[None, :, :, None, None].expand(-1, -1, -1, 40, 40)
    logits = torch.tensor(weights, dtype=torch.float64).log()[None, :, None, None].expand(-1, -1, 40, 40)
    return Mixture(grid, logits)


def test_single_gaussians_have_their_exact_divergence():
    a, b = mixture_at([[0.0, 1.0]], [1.0]), mixture_at([[2.0, 0.5]], [1.0])
    # Twice half the squared distance of the means.
    assert divergence(a, b, draws=2, seed=[0]).item() == pytest.approx(4.25, rel=1e-12)


def test_mixtures_have_their_divergence_by_quadrature():
    def density(z: np.ndarray, means: list[list[float]], weights: list[float]) -> np.ndarray:
        terms = (w * np.exp(-((z - mean[0]) ** 2) / 2) for mean, w in zip(means, weights, strict=True))
        return np.asarray(sum(terms) / np.sqrt(2 * np.pi))

    first, second = ([[-1.0], [2.0]], [0.3, 0.7]), ([[0.0], [1.0]], [0.6, 0.4])
    z = np.linspace(-9, 10, 20001)
    p, q = density(z, *first), density(z, *second)
    expected = ((p - q) * np.log(p / q)).sum() * (z[1] - z[0])
    found = divergence(mixture_at(*first), mixture_at(*second), draws=64, seed=[0]).item()
    assert found == pytest.approx(expected, rel=0.01)


def test_divergence_against_its_definition():
    rng = np.random.default_rng(0)
    a, b = (
        Mixture(*(torch.from_numpy(rng.standard_normal(shape)) for shape in ((2, 3, 4, 5, 6), (2, 3, 5, 6))))
        for _ in range(2)
    )
    noise = np.random.default_rng([7, 1])
    expected = 0.0
    for _ in range(2):
        e, u = noise.standard_normal((4, 5, 6), dtype=np.float32), noise.random((5, 6), dtype=np.float32)
        for p, q in ((a, b), (b, a)):
            for sign in (1, -1):
                z = p.choose(torch.from_numpy(u)) + sign * torch.from_numpy(e)
                expected += (log_density(p, z) - log_density(q, z)).mean(axis=(1, 2)) / 4
    np.testing.assert_allclose(divergence(a, b, draws=4, seed=[7, 1]), expected, rtol=1e-12)


def test_the_chosen_gaussian_follows_the_weights():
    mixture = mixture_at([[0.0], [1.0], [2.0]], [0.2, 0.5, 0.3])
    u = torch.linspace(0, 1, 1600, dtype=torch.float64).reshape(40, 40)
    counts = torch.bincount(mixture.choose(u).flatten().long())
    np.testing.assert_allclose(counts / 1600, [0.2, 0.5, 0.3], atol=1e-3)
