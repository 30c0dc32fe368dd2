"""What a distance of somebody else's is made of: its code, its settings and its weights.

A function goes by its name and the file that it is in; what only one process has (``functools.partial``, a lambda, an
object) also by the values that it holds and uses; a network also by its weights. Where a value cannot be written down,
or code has no file, nobody can tell whether two distances are the same.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import hashlib
import inspect
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from twoafc.distances import LibraryDistance, OneByOne, Own

PLAIN = (bool, int, float, complex, str, bytes, type(None), Path, np.generic, np.dtype)
DEEPEST, MOST = 12, 20
"""How deep settings may lie, and how many a card tells one by one."""
Setting = tuple[str, str]


class UnidentifiedError(Exception):
    """Something of which it cannot be told whether it is the same as before."""


def library(text: str) -> dict[str, str]:
    """Tell the version of the package that a text such as ``piq:ssim`` or ``package.module:function`` names."""
    package = text.partition(":")[0].partition(".")[0]
    with contextlib.suppress(PackageNotFoundError, ValueError):
        return {"library": f"{package} {version(package)}"} if ":" in text else {}
    return {}


def made_by_name(function: Any) -> dict[str, Any]:
    """Tell the file and the weights of a distance that its text makes, always with the same settings."""
    function = _innermost(function)
    told: dict[str, Any] = {}
    with contextlib.suppress(UnidentifiedError):
        told["source"] = _source(function)
    held = getattr(function, "__dict__", {}).values()
    networks = [each for each in (function, *held) if _is_torch(each, "nn.Module")]
    return told | ({"weights": " ".join(map(_weights, networks))} if networks else {})


def made_here(function: Any) -> dict[str, Any]:
    """Tell all that a callable of this process is made of; as ``unidentified``, why that cannot be told.

    Examples
    --------
    >>> from twoafc.distances import rmse
    >>> made_here(functools.partial(rmse, k=1.0))
    {'source': 'sha256 ...', 'settings': {'name': 'twoafc.distances.pixelwise.rmse', 'k': '1.0'}}
    """
    told: dict[str, Any] = {}
    try:
        settings = dict(_settings(_unwrapped(function), "", 0))
    except UnidentifiedError as error:
        return {"unidentified": str(error)}
    for key, name in (("file", "source"), ("weights", "weights")):
        if key in settings:
            told[name] = settings.pop(key)
    if len(settings) > MOST:
        return told | {"settings": f"sha256 {_digest(repr(sorted(settings.items())).encode())}"}
    return told | {"settings": settings}


def _unwrapped(function: Any) -> Any:
    return _unwrapped(function.function) if isinstance(function, Own) else function


def _innermost(function: Any) -> Any:
    while isinstance(function, Own | OneByOne | LibraryDistance | functools.partial):
        function = function.func if isinstance(function, functools.partial) else function.function
    return function


def _settings(value: Any, name: str, depth: int) -> Iterator[Setting]:
    """Write down a value and all that it holds, each under a name such as ``function.k``."""
    if depth > DEEPEST:
        raise UnidentifiedError(f"{name} is nested too deep")
    if isinstance(value, PLAIN):
        text = repr(value)
        yield name, text if len(text) <= 200 else f"sha256 {_digest(text.encode())}"
    elif isinstance(value, np.ndarray) or _is_torch(value, "Tensor"):
        yield name, _array(value, name)
    elif isinstance(value, ModuleType):
        yield name, f"module {value.__name__}"
    elif isinstance(value, Mapping | list | tuple | set | frozenset):
        yield from _container(value, name, depth)
    elif isinstance(value, functools.partial):
        yield from _settings(value.func, name, depth + 1)
        yield from _inside(dict(enumerate(value.args)) | value.keywords, name, depth)
    elif inspect.ismethod(value):
        yield from _settings(value.__func__, name, depth + 1)
        yield from _settings(value.__self__, _under(name, "self"), depth + 1)
    elif inspect.isfunction(value):
        yield from _function(value, name, depth)
    elif isinstance(getattr(value, "__wrapped__", None), FunctionType):  # as functools.cache does
        yield from _function(value.__wrapped__, name, depth)
    elif inspect.isroutine(value) or isinstance(value, type):
        yield from _builtin(value, name)
    elif type(value).__module__ == "torch":  # a device, a type of number
        yield name, str(value)
    else:
        yield from _object(value, name, depth)


def _container(value: Any, name: str, depth: int) -> Iterator[Setting]:
    yield _under(name, "length"), f"{type(value).__name__} of {len(value)}"
    if isinstance(value, set | frozenset):
        value = sorted(value, key=repr)
    yield from _inside(value if isinstance(value, Mapping) else dict(enumerate(value)), name, depth)


def _function(function: Any, name: str, depth: int) -> Iterator[Setting]:
    """Any process finds a function of a module; any other may hold and use what is not in its file."""
    yield _under(name, "name"), f"{function.__module__}.{function.__qualname__}"
    there = Path(function.__code__.co_filename).is_file()
    if there:
        yield _under(name, "file"), _source(function)
    module = sys.modules.get(function.__module__)
    if there and function.__module__ != "__main__" and getattr(module, function.__qualname__, None) is function:
        return
    yield _under(name, "code"), f"sha256 {_digest(_code(function.__code__).encode())}"
    used = {key: function.__globals__[key] for key in _used(function.__code__) if key in function.__globals__}
    given = dict(enumerate(function.__defaults__ or ())) | (function.__kwdefaults__ or {})
    held = {key: each for key, each in (used | _closure(function)).items() if each is not function}
    yield from _inside(held | given, name, depth)


def _builtin(value: Any, name: str) -> Iterator[Setting]:
    yield name, f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, type) and value.__module__ != "builtins":
        with contextlib.suppress(UnidentifiedError) if value.__module__ != "__main__" else contextlib.nullcontext():
            yield _under(name, "file"), _source(value)


def _object(value: Any, name: str, depth: int) -> Iterator[Setting]:
    """An object goes by its class and its attributes, a network also by its weights and those of its layers."""
    kind = type(value)
    if not hasattr(value, "__dict__"):
        raise UnidentifiedError(f"{name or 'it'} is of type {kind.__name__}, which cannot be written down")
    yield _under(name, "name"), f"{kind.__module__}.{kind.__qualname__}"
    yield _under(name, "file"), _source(kind)
    for key, method in vars(kind).items():
        # What makes an object shows in its attributes, and what prints it changes no value.
        if inspect.isfunction(method) and (key == "__call__" or not key.startswith("__")):
            if not Path(method.__code__.co_filename).is_file():
                raise UnidentifiedError(f"the code of {kind.__name__} is in no file")
            yield from _inside(_closure(method), _under(name, key), depth)
    if not _is_torch(value, "nn.Module"):
        yield from _inside(vars(value), name, depth)
        return
    yield _under(name, "weights"), _weights(value)
    plain = vars(sys.modules["torch"].nn.Module())
    for where, layer in value.named_modules():
        held = {key: each for key, each in vars(layer).items() if key not in plain}
        yield _under(name, f"{where}.type"), type(layer).__qualname__
        yield from _inside(held, _under(name, where) if where else name, depth)


def _inside(held: Mapping[Any, Any], name: str, depth: int) -> Iterator[Setting]:
    for key, each in held.items():
        yield from _settings(each, _under(name, str(key)), depth + 1)


def _under(name: str, key: str) -> str:
    return f"{name}.{key}" if name else key


def _source(function: Any) -> str:
    target = function if inspect.isroutine(function) or isinstance(function, type) else type(function)
    try:
        file = inspect.getsourcefile(inspect.unwrap(target))
        return f"sha256 {_digest(Path(str(file)).read_bytes())}"
    except (TypeError, OSError) as error:
        raise UnidentifiedError(f"the code of {getattr(target, '__name__', 'it')} is in no file") from error


def _code(code: CodeType) -> str:
    consts = [_code(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts]
    return f"{code.co_code.hex()} {consts} {code.co_names} {code.co_varnames} {code.co_freevars}"


def _used(code: CodeType) -> list[str]:
    """List the names of its module that code uses, and that functions inside it do."""
    inner = [_used(each) for each in code.co_consts if isinstance(each, CodeType)]
    here = [each.argval for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")]
    return sorted({*here}.union(*inner))


def _closure(function: Any) -> dict[str, Any]:
    """Give what a function holds of the function that it was made in; a class holds itself so."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    try:
        return {key: cell.cell_contents for key, cell in cells if key != "__class__"}
    except ValueError as error:
        raise UnidentifiedError(f"{function.__qualname__} uses what is not there yet") from error


def _array(value: Any, name: str) -> str:
    array = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
    if array.dtype.hasobject:
        raise UnidentifiedError(f"{name or 'it'} is an array of objects, which cannot be written down")
    return f"{array.dtype} {array.shape} sha256 {_digest(array.tobytes())}"


def _weights(network: Any) -> str:
    """Give a digest of a network's parameters and buffers."""
    byte = sys.modules["torch"].uint8
    digest = hashlib.sha256()
    for name, tensor in sorted({**dict(network.named_parameters()), **dict(network.named_buffers())}.items()):
        found = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {found.dtype} {tuple(found.shape)}\n".encode())
        digest.update(found.reshape(-1).view(byte).numpy().tobytes())
    return f"sha256 {digest.hexdigest()}"


def _is_torch(value: Any, kind: str) -> bool:
    # Whoever holds a network has imported torch; whoever has not need not wait for it.
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module if kind == "nn.Module" else torch.Tensor)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
