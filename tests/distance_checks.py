"""Checks that tests of several distances share: golden values, and the properties of every distance."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from twoafc.distances import Deep, Distance, pim, published
from twoafc.distances.pim import Architecture

KINDS = ("numpy", "numpy float32", "torch float32", "torch float64")


def images(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).random(shape)


def of_kind(kind: str, *batches: np.ndarray) -> Any:
    """Batches as arrays or tensors of a kind such as "torch float32"; a bare "numpy" leaves them in float64."""
    dtype = np.float32 if kind.endswith("float32") else np.float64
    arrays = [batch.astype(dtype) for batch in batches]
    return arrays if kind.startswith("numpy") else [*map(pytest.importorskip("torch").from_numpy, arrays)]


# Golden values


def golden_folder() -> Path:
    if "TWOAFC_SHARED" not in os.environ:
        pytest.skip("the golden values are not available: set TWOAFC_SHARED to the folder that holds golden/")
    return Path(os.environ["TWOAFC_SHARED"]) / "golden"


def golden_images(group: str, which: str) -> np.ndarray:
    with np.load(golden_folder() / "images.npz") as archive:
        return archive[f"{group}_{which}"].transpose(0, 3, 1, 2) / 255


def golden_vectors(prefix: str) -> dict[str, np.ndarray]:
    with np.load(golden_folder() / "pim_random.npz") as archive:
        return {name.removeprefix(prefix): archive[name] for name in archive.files if name.startswith(prefix)}


def agrees_with_golden(measure: Distance, variant: str, kind: str, groups: tuple[str, ...] | None = None) -> None:
    """Compare values, pair by pair; with a network and arrays, triplet by triplet, which is faster."""
    golden = json.loads((golden_folder() / "golden.json").read_text())["variants"][variant]
    precision = "float32" if kind.endswith("float32") else "float64"
    table, tolerance = golden["values"], golden["tolerance"].get(precision)
    if tolerance is None:  # the source is in single precision, and was recomputed in double
        table, tolerance = golden["values_float64"], golden["tolerance"]["float64 (against values_float64)"]
    for group in groups or table:
        which = list(table[group])
        ref, *others = of_kind(kind, golden_images(group, "ref"), *(golden_images(group, each) for each in which))
        together = isinstance(measure, Deep) and kind.startswith("numpy") and len(others) == 2
        found = measure.triplet(ref, *others) if together else [measure(ref, x) for x in others]
        for values, each in zip(found, which, strict=True):
            np.testing.assert_allclose(values, table[group][each], **tolerance)


# Properties


def keeps_promises(measure: Distance, height: int, width: int) -> None:
    ref, x = images(0, 3, 3, height, width), images(1, 3, 3, height, width)
    x[0] = ref[0]
    before = ref.copy(), x.copy()
    d = measure(ref, x)
    assert d.shape == (3,)
    assert d.dtype == np.float64
    assert d[0] == 0
    assert (d[1:] > 0).all()
    np.testing.assert_allclose(measure(x, ref), d, rtol=1e-12)
    np.testing.assert_allclose([measure(ref[[i]], x[[i]])[0] for i in range(3)], d, rtol=1e-12)
    np.testing.assert_array_equal((ref, x), before)
    assert measure(ref[:0], x[:0]).shape == (0,)


def agrees_on_torch(measure: Distance, height: int, width: int) -> None:
    ref, x = images(0, 2, 3, height, width), images(1, 2, 3, height, width)
    for kind, tolerance in (("torch float64", 1e-12), ("torch float32", 2e-5)):
        a, b = of_kind(kind, ref, x)
        assert measure(a, b).dtype == a.dtype
        np.testing.assert_allclose(measure(a, b), measure(ref, x), rtol=tolerance)
        assert (measure(a, a) == 0).all()


def refuses_smaller(measure: Any, least: int) -> None:
    assert (measure(*(images(seed, 1, 3, least, least) for seed in range(2))) > 0).all()
    small = np.zeros((1, 3, least - 1, least + 1))
    message = f"images must be at least {least} x {least} pixels for this distance; got {least - 1} x {least + 1}"
    calls = [lambda: measure(small, small)]
    if isinstance(measure, Deep):
        calls.append(lambda: measure.triplet(small, small, small))
    for call in calls:
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            call()


# Networks


def any_tensors(name: str, path: object = None) -> dict[str, Any]:
    """Tensors of the published shapes with other numbers, none negative in the heads."""
    torch = pytest.importorskip("torch")
    generator = torch.Generator().manual_seed(0)
    found = {}
    for tensor, (shape, _) in published()[name].tensors.items():
        values = torch.randn(shape, generator=generator) / np.sqrt(np.prod(shape[1:]) or 1)
        found[tensor] = values.abs() if name.endswith(("head", "beta")) else values
    return found


def any_variables(architecture: Architecture) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in architecture.shapes().items()}


def pim_of(variables: dict[str, np.ndarray], architecture: Architecture, **sampling: int) -> Deep:
    """Make a distance of PIM's form from any variables, under a name that says that it is not PIM."""
    pim.require_shapes(variables, architecture)
    content = b"".join(name.encode() + values.tobytes() for name, values in sorted(variables.items()))
    digests = {"given variables": f"sha256 {hashlib.sha256(content).hexdigest()}"}
    name, functions = f"pim_{architecture.mixtures} of given variables", pim.network(architecture, **sampling)
    return Deep(name, *functions, pim.tensors(variables), pim.LEAST, digests)


def keeps_deep_promises(measure: Deep, side: int) -> None:
    ref, x0, x1 = (images(seed, 5, 3, side, side + 3) for seed in range(3))
    x0[1] = ref[1]
    before = ref.copy(), x0.copy(), x1.copy()
    d0, d1 = measure.triplet(ref, x0, x1)
    assert d0.shape == d1.shape == (5,)
    assert d0.dtype == np.float64
    assert d0[1] == 0
    assert (np.delete(d0, 1) > 0).all()
    close = {"rtol": 1e-5, "atol": 1e-7}
    np.testing.assert_allclose(measure(ref, x0), d0, **close)
    np.testing.assert_allclose(measure(ref, x1), d1, **close)
    np.testing.assert_allclose(measure(x0, ref), d0, **close)
    np.testing.assert_allclose([measure(ref[[i]], x0[[i]])[0] for i in range(5)], d0, **close)
    np.testing.assert_array_equal((ref, x0, x1), before)
    assert (measure(ref, ref) == 0).all()
    assert measure(ref[:0], x0[:0]).shape == (0,)
    assert [d.shape for d in measure.triplet(ref[:0], x0[:0], x1[:0])] == [(0,), (0,)]


def works_on_tensors(measure: Deep, side: int) -> None:
    ref, x0, x1 = (images(seed, 3, 3, side, side) for seed in range(3))
    expected = measure.triplet(ref, x0, x1)
    for kind in ("torch float32", "torch float64"):
        batches = of_kind(kind, ref, x0, x1)
        batches[0].requires_grad_()
        found = measure.triplet(*batches)
        for d, e in zip(found, expected, strict=True):
            assert d.dtype == batches[0].dtype
            assert d.requires_grad
            np.testing.assert_allclose(d.detach(), e, rtol=1e-5, atol=1e-7)
        with pytest.importorskip("torch").no_grad():
            assert not any(d.requires_grad for d in measure.triplet(*batches))
