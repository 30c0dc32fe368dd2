"""Identities of distances: a value is used again only if its distance is the same as when it was measured.

The identity of a distance is what its values depend on: variant, precision, kind of device, weights, versions. A user's
function is identified by its file. A callable that only one process has (``functools.partial``, a lambda, an object) is
also identified by the values that it uses, a network by its weights. They are written as text, one by one, since a
pickle differs between processes and does not show which setting has changed. If a value cannot be written as text, or
code has no source, the callable is unidentified, and its values are never combined with others.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import hashlib
import inspect
import linecache
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

import twoafc
from twoafc.distances import ALIASES, DISTANCES, Deep, Distance, LibraryDistance, OneByOne, Own, as_array, is_network
from twoafc.errors import DataError

Identity = Mapping[str, Any]

PLAIN = (bool, int, float, complex, str, bytes, type(None), Path, np.generic, np.dtype)
MAX_DEPTH, MAX_SETTINGS = 12, 20
"""How deep settings may be nested, and how many a card lists one by one."""
CHANGEABLE = ("precision", "device", "twoafc")
"""What may differ between the measurement that a fused distance was fitted to and one that uses it."""


class UnidentifiedError(Exception):
    """A value that cannot be compared with that of an earlier run."""


def identity_of(text: str | None, distance: Distance, device: str, *, name: str = "") -> dict[str, Any]:
    """Return what the values of a distance depend on, apart from the images.

    `text` is that from which any process can make it, or None; `name` serves if it has no text and no name itself.
    """
    full = ALIASES.get(text, text) if text else str(getattr(distance, "name", name))
    if full.endswith(".npz"):
        full = "heads"  # identified by their digest among the weights
    # A network processes arrays on its own device, and tensors where they are.
    kind = str(getattr(distance, "device", device) if device == "cpu" else device).partition(":")[0]
    native = "fp64" if full in DISTANCES and device == "cpu" else "fp32"
    result = {"variant": full, "precision": getattr(distance, "precision", native), "device": kind}
    result["twoafc"] = twoafc.__version__
    weights = getattr(distance, "weights", None)
    if isinstance(weights, Mapping):
        result["weights"] = dict(weights)
    settings = getattr(getattr(distance, "compare", None), "keywords", None)
    if settings:
        result["settings"] = dict(settings)
    if isinstance(distance, Deep) or (text and full in DISTANCES):
        return result
    function = distance.function if isinstance(distance, Own) else distance
    return result | _library(full) | (_made_from_text(function) if text else identity_of_callable(function))


def differences(now: Identity, before: Identity) -> str:
    """Describe how two identities differ; return "" if they agree.

    Examples
    --------
    >>> differences({"variant": "dists", "precision": "tf32"}, {"variant": "dists", "precision": "fp32"})
    'precision fp32, now tf32'
    >>> differences({"settings": {"k": "2.0", "size": "8"}}, {"settings": {"k": "1.0", "size": "8"}})
    'settings k 1.0, now k 2.0'
    """
    texts = []
    for key in {**before, **now}:
        old, new = before.get(key), now.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            changed = [name for name in {**old, **new} if old.get(name) != new.get(name)]
            texts += [f"{key} {name} {_brief(old.get(name))}, now {name} {_brief(new.get(name))}" for name in changed]
        elif old != new:
            texts.append(f"{key} {_brief(old)}, now {_brief(new)}")
    return "; ".join(texts)


def lasting_differences(now: Identity, before: Identity) -> str:
    """Describe how two identities differ, except in what is `CHANGEABLE`; return "" if they agree."""
    kept = ({key: value for key, value in identity.items() if key not in CHANGEABLE} for identity in (now, before))
    return differences(*kept)


def require_same(name: str, where: Path, now: Identity, before: Identity) -> None:
    """Raise if values of a distance were measured differently, and must not be combined."""
    changed = differences(now, before)
    if changed:
        raise DataError(
            f"{name} in {where} was measured differently: {changed}; name another table, or remove {where.name}"
        )


def require_identified(name: str, where: Path, now: Identity) -> None:
    """Raise if a distance cannot be identified, so that its values must not be combined with others."""
    reason = now.get("unidentified")
    if reason:
        rule = f"{name} cannot be compared with the {name} of another run, so their values are not combined"
        remedy = "give it as package.module:function, name another table"
        raise DataError(f"{rule}: {reason}; {remedy}, or remove {where.name}")


def _brief(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_brief(item)}" for key, item in value.items())
    text = "none" if value is None else str(value)
    return text if len(text) < 60 else f"{text[:24]}..."


def _library(text: str) -> dict[str, str]:
    """Return the version of the package that a text such as ``piq:ssim`` names."""
    package = text.partition(":")[0].partition(".")[0]
    with contextlib.suppress(PackageNotFoundError, ValueError):
        return {"library": f"{package} {version(package)}"} if ":" in text else {}
    return {}


def _made_from_text(function: Any) -> dict[str, Any]:
    """Return the source and the weights of a distance made from a text, which fixes its settings."""
    while isinstance(function, Own | OneByOne | LibraryDistance | functools.partial):
        function = function.func if isinstance(function, functools.partial) else function.function
    result: dict[str, Any] = {}
    with contextlib.suppress(UnidentifiedError):
        result["source"] = _source(inspect.unwrap(function))
    networks = [value for value in (function, *getattr(function, "__dict__", {}).values()) if is_network(value)]
    return result | ({"weights": " ".join(map(_weights, networks))} if networks else {})


def identity_of_callable(function: Any) -> dict[str, Any]:
    """Return the source, weights and settings of a callable, or as ``unidentified`` why they are not known."""
    while isinstance(function, Own):
        function = function.function
    try:
        settings = dict(_settings(function, "", 0))
    except UnidentifiedError as error:
        return {"unidentified": str(error)}
    moved = {"file": "source", "weights": "weights"}
    result: dict[str, Any] = {moved[key]: settings.pop(key) for key in moved if key in settings}
    if len(settings) > MAX_SETTINGS:
        return result | {"settings": _sha256(repr(sorted(settings.items())).encode())}
    return result | {"settings": settings}


def _settings(value: Any, name: str, depth: int) -> Iterator[tuple[str, str]]:
    """Yield the text of a value and of all values inside it, each under a name such as ``function.k``."""
    if depth > MAX_DEPTH:
        raise UnidentifiedError(f"{name} is nested too deep")
    if isinstance(value, PLAIN):
        text = repr(value)
        yield name, text if len(text) <= 200 else _sha256(text.encode())
    elif isinstance(value, np.ndarray) or ("torch" in sys.modules and isinstance(value, sys.modules["torch"].Tensor)):
        array = as_array(value)
        if array.dtype.hasobject:
            raise UnidentifiedError(f"{name or 'it'} is an array of objects, which cannot be written down")
        yield name, f"{array.dtype} {array.shape} {_sha256(array.tobytes())}"
    elif isinstance(value, ModuleType):
        yield name, f"module {value.__name__}"
    elif isinstance(value, Mapping | list | tuple | set | frozenset):
        yield _under(name, "length"), f"{type(value).__name__} of {len(value)}"
        items = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
        yield from _all_settings(items if isinstance(items, Mapping) else dict(enumerate(items)), name, depth)
    elif isinstance(value, functools.partial):
        yield from _settings(value.func, name, depth + 1)
        yield from _all_settings(dict(enumerate(value.args)) | value.keywords, name, depth)
    elif inspect.ismethod(value):
        yield from _settings(value.__func__, name, depth + 1)
        yield from _settings(value.__self__, _under(name, "self"), depth + 1)
    elif isinstance(value, FunctionType) or isinstance(getattr(value, "__wrapped__", None), FunctionType):
        yield from _function_settings(value, name, depth)
    elif isinstance(value, type) or inspect.isroutine(value):
        yield name, f"{value.__module__}.{value.__qualname__}"
        if isinstance(value, type) and value.__module__ != "builtins":
            with contextlib.suppress(*() if value.__module__ == "__main__" else (UnidentifiedError,)):
                yield _under(name, "file"), _source(value)
    elif type(value).__module__ == "torch":  # a device, a type of number
        yield name, str(value)
    else:
        yield from _object_settings(value, name, depth)


def _all_settings(values: Mapping[Any, Any], name: str, depth: int) -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        yield from _settings(value, _under(name, str(key)), depth + 1)


def _function_settings(value: Any, name: str, depth: int) -> Iterator[tuple[str, str]]:
    """A function of a module is its file; any other is also its place in the file, and the values that it uses."""
    function: Any = value if isinstance(value, FunctionType) else value.__wrapped__  # functools.cache wraps one
    yield _under(name, "name"), f"{function.__module__}.{function.__qualname__}"
    module = sys.modules.get(value.__module__)
    if value.__module__ != "__main__" and getattr(module, value.__qualname__, None) is value:
        yield _under(name, "file"), _source(inspect.unwrap(function))
        return
    yield _under(name, "file"), _source(function)
    code = function.__code__
    columns = [position for position in code.co_positions() if None not in position]  # lambdas may share a line
    yield _under(name, "at"), f"{code.co_firstlineno} {max(columns, default='')}"
    used = {key: function.__globals__[key] for key in sorted(_names_in(code)) if key in function.__globals__}
    defaults = dict(enumerate(function.__defaults__ or ())) | (function.__kwdefaults__ or {})
    captured = {key: value for key, value in (used | _closure(function)).items() if value is not function}
    yield from _all_settings(captured | defaults, name, depth)


def _object_settings(value: Any, name: str, depth: int) -> Iterator[tuple[str, str]]:
    """An object is its class and its attributes, a network also its weights and the attributes of its layers."""
    kind = type(value)
    if not hasattr(value, "__dict__"):
        raise UnidentifiedError(f"{name or 'it'} is of type {kind.__name__}, which cannot be written down")
    yield _under(name, "name"), f"{kind.__module__}.{kind.__qualname__}"
    yield _under(name, "file"), _source(kind)
    for key, method in vars(kind).items():
        # Of special methods only __call__ matters: constructors set attributes, and others change no value.
        if inspect.isfunction(method) and (key == "__call__" or not key.startswith("__")):
            if not Path(method.__code__.co_filename).is_file():
                raise UnidentifiedError(f"the code of {kind.__name__} is not in a file")
            yield from _all_settings(_closure(method), _under(name, key), depth)
    if not is_network(value):
        yield from _all_settings(vars(value), name, depth)
        return
    yield _under(name, "weights"), _weights(value)
    standard = vars(sys.modules["torch"].nn.Module())
    for where, layer in value.named_modules():
        attributes = {key: attribute for key, attribute in vars(layer).items() if key not in standard}
        yield _under(name, f"{where}.type"), type(layer).__qualname__
        yield from _all_settings(attributes, _under(name, where) if where else name, depth)


def _under(name: str, key: str) -> str:
    return f"{name}.{key}" if name else key


def _source(function: Any) -> str:
    """Return a digest of the file, or of the notebook's cell, that has the code of a callable."""
    target = function if inspect.isroutine(function) or isinstance(function, type) else type(function)
    content = b""
    with contextlib.suppress(TypeError, OSError):
        file = str(inspect.getsourcefile(target))
        content = Path(file).read_bytes() if Path(file).exists() else "".join(linecache.getlines(file)).encode()
    if not content:
        raise UnidentifiedError(f"the code of {getattr(target, '__name__', 'it')} is not in a file")
    return _sha256(content)


def _names_in(code: CodeType) -> set[str]:
    """Return the global names that code uses, with those of functions inside it."""
    here = {step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return here.union(*(_names_in(inner) for inner in code.co_consts if isinstance(inner, CodeType)))


def _closure(function: Any) -> dict[str, Any]:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    try:
        return {key: cell.cell_contents for key, cell in cells if key != "__class__"}
    except ValueError as error:
        raise UnidentifiedError(f"{function.__qualname__} uses a variable that has no value yet") from error


def _weights(network: Any) -> str:
    """Return a digest of a network's parameters and buffers."""
    byte = sys.modules["torch"].uint8
    digest = hashlib.sha256()
    for name, tensor in sorted({**dict(network.named_parameters()), **dict(network.named_buffers())}.items()):
        array = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {array.dtype} {tuple(array.shape)}\n".encode())
        digest.update(array.reshape(-1).view(byte).numpy().tobytes())
    return f"sha256 {digest.hexdigest()}"


def _sha256(content: bytes) -> str:
    return f"sha256 {hashlib.sha256(content).hexdigest()}"
