"""Values are joined only where the distance is the same as before."""

from __future__ import annotations

import functools
import json
import linecache
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest
from numpy import mean

import trees
import twoafc
from distance_checks import pim_of
from twoafc.errors import DataError
from twoafc.measurement import make_candidates
from twoafc.measurement.identity import differences, identity_of, identity_of_callable


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def measure(distances: Any, out: str = "t.parquet", data: Any = "table.csv", **options: Any) -> Any:
    return twoafc.measure(data, distances, out, **({"device": "cpu", "workers": 1, "batch_size": 4} | options))


def refused(*arguments: Any, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        measure(*arguments, **options)
    return str(caught.value)


def weighted(ref: Any, x: Any, k: float = 1.0) -> Any:
    return k * abs(ref - x).mean(axis=(1, 2, 3))


@functools.cache
def window(size: int) -> Any:
    return np.ones((1, 3, size, size))


def kept(ref: Any, x: Any, k: float) -> Any:
    return k * abs(window(ref.shape[-1]) * (ref - x)).mean(axis=(1, 2, 3))


def scaled_by(k: float) -> Callable[..., Any]:
    def decorate(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(ref: Any, x: Any) -> Any:
            return k * function(ref, x)

        return wrapper

    return decorate


class Weighted:
    """A distance with a setting."""

    def __init__(self, k: Any) -> None:
        self.k = k

    def __call__(self, ref: Any, x: Any) -> Any:
        return self.k * abs(ref - x).mean(axis=(1, 2, 3))

    def bound(self, ref: Any, x: Any) -> Any:
        return self(ref, x)


def closed(k: Any) -> Callable[..., Any]:
    def inner(ref: Any, x: Any) -> Any:
        return k * abs(ref - x).mean(axis=(1, 2, 3))

    return inner


def typed_in(k: Any, cell: str = "<cell>") -> Callable[..., Any]:
    """A function as a notebook has it: without a file, and with values around it; a cell's text is in linecache."""
    space: dict[str, Any] = {"np": np, "k": k, "__name__": "__main__"}
    code = (
        "def scaled(d):\n    return k * d\ndef mine(ref, x):\n    return scaled(np.abs(ref - x).mean(axis=(1, 2, 3)))\n"
    )
    exec(compile(code, cell, "exec"), space)
    if cell == "<cell>":
        linecache.cache[cell] = (len(code), None, code.splitlines(keepends=True), cell)
    mine = space["mine"]
    assert isinstance(mine, FunctionType)
    return mine


def typed_class() -> Any:
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(compile("class Typed:\n    def __call__(self, ref, x):\n        return ref\n", "<cell>", "exec"), space)
    return space["Typed"]()


MAKERS: dict[str, Callable[[float], Any]] = {
    "partial": lambda k: functools.partial(weighted, k=k),
    "partial by place": lambda k: functools.partial(functools.partial(weighted), k=k),
    "object": Weighted,
    "object of an array": lambda k: Weighted(np.array([k])),
    "object of objects": lambda k: Weighted([{"k": k}]) if k < 0 else Weighted(np.float32(k)),
    "method": lambda k: Weighted(k).bound,
    "closure": closed,
    "lambda": lambda k: lambda ref, x: k * abs(ref - x).mean(axis=(1, 2, 3)),
    "default": lambda k: lambda ref, x, k=k: k * abs(ref - x).mean(axis=(1, 2, 3)),
    "cached": lambda k: functools.partial(kept, k=k),
    "closure of a cached": lambda k: lambda ref, x: k * kept(ref, x, 1.0),
    "a library's function": lambda k: lambda ref, x: k * mean(abs(ref - x), axis=(1, 2, 3)),
    "typed in": typed_in,
    "decorated": lambda k: scaled_by(k)(weighted),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_settings_are_part_of_a_distance(here: Path, make: Callable[[float], Any]) -> None:
    trees.write_table(here, 2)
    first = measure({"d": make(1.0)}).table
    again = measure({"d": make(1.0), "rmse": "rmse"})
    assert again.table.select(first.columns).equals(first)
    said = refused({"d": make(2.0)})
    assert said.startswith("d in t.parquet was measured differently: settings ")
    assert said.endswith("; name another table, or remove t.parquet")


def test_two_functions_of_one_file_are_not_one() -> None:
    first, second = (lambda ref, x: ref), (lambda ref, x: x)  # on one line, too
    assert identity_of_callable(first) != identity_of_callable(second)
    assert identity_of_callable(first) == identity_of_callable(first)
    assert identity_of_callable(functools.partial(weighted)) != identity_of_callable(functools.partial(closed))


UNKNOWN: dict[str, tuple[Any, str]] = {
    "generator": (Weighted(np.random.default_rng(0)), "k is of type Generator, which cannot be written down"),
    "objects": (Weighted(np.array([object()])), "k is an array of objects, which cannot be written down"),
    "iterator": (closed(iter([1])), "k is of type list_iterator, which cannot be written down"),
    "typed in": (typed_in(iter([1])), "scaled.k is of type list_iterator, which cannot be written down"),
    "deep": (Weighted(functools.reduce(lambda inner, _: [inner], range(20), 1)), "k.0.0.0.0.0.0.0.0.0.0.0.0 is nested"),
    "no text": (typed_in(1.0, "<stdin>"), "the code of mine is not in a file"),
    "class": (typed_class(), "the code of Typed is not in a file"),
}


@pytest.mark.parametrize(("function", "reason"), UNKNOWN.values(), ids=UNKNOWN)
def test_what_cannot_be_told_is_told_so(function: Any, reason: str) -> None:
    assert identity_of_callable(function)["unidentified"].startswith(reason)


def test_what_cannot_be_told_is_never_joined(here: Path) -> None:
    trees.write_table(here, 12)

    def odd(spare: Any = np.random.default_rng(0)) -> Any:  # noqa: B008
        return lambda ref, x: abs(ref - x).mean(axis=(1, 2, 3)) + 0 * (spare is None)

    rule = "d cannot be compared with the d of another run, so their values are not combined: "
    reason = "spare is of type Generator, which cannot be written down; "
    remedy = "give it as package.module:function, name another table, or remove "
    first = measure({"d": odd()}).table
    assert refused({"d": odd()}) == f"{rule}{reason}{remedy}t.parquet"
    # What is there stays there, beside others.
    assert measure(["rmse"]).table.select(first.columns).equals(first)
    assert refused({"d": odd()}, "u.parquet", shard=(1, 2)) == f"{rule}{reason}{remedy}u.parquet"
    stopped = iter(range(100))

    def stop(*_: Any) -> None:
        if next(stopped) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure({"d": odd()}, "v.parquet", progress=stop)
    assert list(here.glob("v.parquet.parts/*.parquet"))
    assert refused({"d": odd()}, "v.parquet") == f"{rule}{reason}{remedy}v.parquet.parts"
    assert "rmse_d0" in measure(["rmse"], "v.parquet").table.columns


def test_a_network_is_known_by_its_weights(here: Path) -> None:
    torch = pytest.importorskip("torch")
    trees.write_table(here, 2)

    class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, seed: int, power: float = 1.0) -> None:
            super().__init__()
            torch.manual_seed(seed)
            self.layer = torch.nn.Conv2d(3, 2, 3)
            self.power = power

        def forward(self, ref: Any, x: Any) -> Any:
            return (self.layer(ref) - self.layer(x)).abs().mean(dim=(1, 2, 3)) ** self.power

    class Around:
        def __init__(self, net: Any) -> None:
            self.net = net
            self.takes = "torch"

        def __call__(self, ref: Any, x: Any) -> Any:
            return self.net(ref, x)

    first = measure({"net": Net(0)})
    assert first.card["distances"]["net"]["identity"]["weights"].startswith("sha256 ")
    assert measure({"net": Net(0)}).items == 0
    assert refused({"net": Net(1)}).startswith("net in t.parquet was measured differently: weights sha256 ")
    assert "measured differently: settings sha256 " in refused({"net": Net(0, power=0.5)})
    measure({"around": Around(Net(0))})
    assert measure({"around": Around(Net(0))}).items == 0
    assert "was measured differently: " in refused({"around": Around(Net(1))})


def test_weights_of_a_network_that_goes_by_its_name(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    trees.write_table(here, 2)
    monkeypatch.delitem(sys.modules, "own_net", raising=False)
    code = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 2, 3)
        self.load_state_dict(torch.load("weights.pt"))

    def forward(self, ref, x):
        return (self.layer(ref) - self.layer(x)).abs().mean(dim=(1, 2, 3))
"""
    Path("own_net.py").write_text(code)
    for seed in (0, 1):
        torch.manual_seed(seed)
        layer = torch.nn.Conv2d(3, 2, 3)
        torch.save({f"layer.{name}": value for name, value in layer.state_dict().items()}, "weights.pt")
        if seed:
            assert refused(["own_net:Net"]).startswith("Net in t.parquet was measured differently: weights sha256 ")
        else:
            measure(["own_net:Net"])


@pytest.fixture
def no_torchmetrics() -> Iterator[None]:
    """Nothing of that library is loaded before or after, but what was there."""
    before = {name: sys.modules.pop(name) for name in _torchmetrics()}
    yield
    for name in _torchmetrics():
        del sys.modules[name]
    sys.modules.update(before)


def _torchmetrics() -> list[str]:
    return [name for name in sys.modules if name.partition(".")[0] == "torchmetrics"]


@pytest.mark.usefixtures("no_torchmetrics")
def test_a_librarys_distance_is_known_by_its_settings_and_version(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library of that name, with the one function that the adapter asks for."""
    pytest.importorskip("torch")
    for folder in ("torchmetrics/functional", "torchmetrics-1.2.3.dist-info"):
        Path(folder).mkdir(parents=True)
    Path("torchmetrics/__init__.py").touch()
    Path("torchmetrics/functional/__init__.py").touch()
    Path("torchmetrics/functional/image.py").write_text(
        "def structural_similarity_index_measure(x, ref, reduction, data_range, sigma=1.5):\n"
        "    return 1 - sigma * (ref - x).abs().mean(dim=(1, 2, 3)) / 2\n"
    )
    Path("torchmetrics-1.2.3.dist-info/METADATA").write_text(
        "Metadata-Version: 2.1\nName: torchmetrics\nVersion: 1.2.3\n"
    )
    monkeypatch.syspath_prepend(str(here))
    trees.write_table(here, 2)
    text = "torchmetrics:structural_similarity_index_measure"
    first = measure({"s": twoafc.distance(text, sigma=1.5)})
    identity = first.card["distances"]["s"]["identity"]
    assert (identity["variant"], identity["library"]) == (text, "torchmetrics 1.2.3")
    assert identity["settings"]["settings.sigma"] == "1.5"
    assert measure({"s": twoafc.distance(text, sigma=1.5)}).items == 0
    said = refused({"s": twoafc.distance(text, sigma=0.5)})
    assert said.startswith("s in t.parquet was measured differently: settings ")
    assert measure([text], "u.parquet").card["distances"][text]["identity"]["library"] == "torchmetrics 1.2.3"


def test_identities_survive_their_card() -> None:
    for make in MAKERS.values():
        (found,) = make_candidates({"d": make(1.0)}, "cpu", "fp32")
        assert json.loads(json.dumps(found.identity)) == found.identity


def test_identities_tell_what_values_depend_on() -> None:
    (found,) = make_candidates(["rmse"], "cpu", "fp32")
    assert (found.name, found.text) == ("rmse", "rmse")
    assert found.identity == identity_of("rmse", twoafc.distance("rmse"), "cpu")
    assert identity_of("rmse", twoafc.distance("rmse"), "cuda:1")["precision"] == "fp32"
    assert identity_of("rmse", twoafc.distance("rmse"), "cuda:1")["device"] == "cuda"
    assert differences(found.identity, found.identity) == ""
    assert differences({"weights": {"a": "sha256 12"}}, {}) == "weights none, now a sha256 12"
    partial = functools.partial(twoafc.distances.rmse)
    (own,) = make_candidates({"part": partial}, "cpu", "fp32")
    assert own.text is None
    assert own.identity["source"].startswith("sha256 ")


def test_a_network_is_known_by_its_weights_and_settings() -> None:
    pytest.importorskip("torch")
    from twoafc.distances.pim import Architecture

    shape = Architecture(mixtures=5, levels=1, filters=(4, 4, 4, 3), latent=2)
    variables = {name: np.ones(size, dtype=np.float32) for name, size in shape.shapes().items()}
    made = pim_of(variables, shape, draws=4, seed=2)
    (found,) = make_candidates([made], "cpu", "fp32")
    assert found.name == "pim_5 of given variables"
    assert found.identity["weights"]["given variables"].startswith("sha256 ")
    assert found.identity["settings"] == {"bands": 4, "mixtures": 5, "draws": 4, "seed": 2}
