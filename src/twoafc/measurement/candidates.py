"""The distances asked for: what each is called in the table, how a process makes it, and what its values depend on."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import twoafc
from twoafc.distances import ALIASES, DEEP, DISTANCES, LIBRARIES, Deep, Distance, Own, distance, own
from twoafc.errors import DataError, require
from twoafc.measurement.origin import library, made_by_name, made_here

Asked = str | Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Candidate:
    """A distance to measure.

    Parameters
    ----------
    name : str
        What its columns are called: NAME_d0, NAME_d1.
    text : str or None
        What `make` makes it from in any process; None for an object that only this process has.
    distance : callable
        It, made in this process.
    identity : mapping
        What its values depend on: two columns of equal identity may be joined, unless it tells why that cannot be
        known, as ``unidentified``.
    """

    name: str
    text: str | None
    distance: Distance
    identity: Mapping[str, Any]


def make(text: str, device: str, precision: str) -> Distance:
    """Make a distance by its name, or by package.module:function, for a device."""
    full = ALIASES.get(text, text)
    if full in DEEP:
        return distance(full, device=device, precision=precision)
    if full in DISTANCES or device == "cpu":
        return distance(full)
    plain = distance(full)
    if getattr(plain, "takes", "torch") == "numpy" and not _works_there(full, device):
        return plain  # it gets arrays, wherever the others work
    return distance(full, device=device)


def _works_there(text: str, device: str) -> bool:
    """Tell whether a function that takes arrays takes tensors on another device too."""
    torch = require("torch", extra="torch")
    images = [torch.full((1, 3, 64, 64), value, device=device) for value in (0.5, 0.25)]
    try:
        distance(text, device=device)(*images)
    except Exception:  # a function for arrays may raise anything
        return False
    return True


def candidates(
    asked: Sequence[Asked] | Mapping[str, Asked], device: str, precision: str, taken: Mapping[str, Any] | None = None
) -> list[Candidate]:
    """Make the distances asked for, and name them.

    A name of the package's names its columns (a short name its full one); a function of a user's, ``pkg.mod:func``, is
    called ``func``, or by its whole text where ``func`` is a distance of the package's or is asked for twice; those of
    other libraries go by their whole text, ``piq:ssim``.

    Parameters
    ----------
    asked : sequence, or mapping of name to distance
        Names and callables; in a mapping the caller chooses the columns' names.
    device, precision : str
        Where and how the networks work.
    taken : mapping of name to identity, optional
        Distances that the table has already.
    """
    if not asked:
        raise ValueError("name at least one distance to measure")
    texts = [each if isinstance(each, str) else _text(each) for each in _values(asked)]
    names = list(asked) if isinstance(asked, Mapping) else _names(texts, _values(asked), taken or {})
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"distances must differ; {twice[0]} is asked for {names.count(twice[0])} times")
    found = []
    for name, text, each in zip(names, texts, _values(asked), strict=True):
        if not name or "\n" in name:
            raise ValueError(f"a distance needs a name for its columns; found {name!r}")
        made = make(text, device, precision) if text else _wrapped(each, name)
        found.append(Candidate(name, text, made, identity(text, made, device, name=name)))
    return found


def identity(text: str | None, made: Distance, device: str, *, name: str = "") -> dict[str, Any]:
    """Tell what the values of a distance depend on beside the images.

    Parameters
    ----------
    text : str or None
        What any process can make it from.
    made : callable
        It, made.
    device : str
        Where it is measured.
    name : str
        What it is called, where it has no text and does not say itself.

    Examples
    --------
    >>> identity("ssim", distance("ssim"), "cpu")
    {'variant': 'ssim', 'precision': 'fp64', 'device': 'cpu', 'twoafc': '...'}
    """
    full = ALIASES.get(text, text) if text else str(getattr(made, "name", name))
    # A network takes arrays to its own device, and tensors where they are.
    kind = str(getattr(made, "device", device) if device == "cpu" else device).partition(":")[0]
    native = "fp64" if full in DISTANCES and device == "cpu" else "fp32"
    told = {"variant": full, "precision": getattr(made, "precision", native), "device": kind}
    told["twoafc"] = twoafc.__version__
    weights = getattr(made, "weights", None)
    if isinstance(weights, Mapping):
        told["weights"] = dict(weights)
    settings = getattr(getattr(made, "compare", None), "keywords", None)
    if settings:
        told["settings"] = dict(settings)
    if isinstance(made, Deep) or (text and full in DISTANCES):
        return told
    function = made.function if isinstance(made, Own) else made
    return told | library(full) | (made_by_name(function) if text else made_here(function))


def differences(asked: Mapping[str, Any], there: Mapping[str, Any]) -> str:
    """Say in words what differs between two identities; nothing where they agree.

    Examples
    --------
    >>> differences({"variant": "dists", "precision": "tf32"}, {"variant": "dists", "precision": "fp32"})
    'precision fp32, now tf32'
    >>> differences({"settings": {"k": "2.0", "size": "8"}}, {"settings": {"k": "1.0", "size": "8"}})
    'settings k 1.0, now k 2.0'
    """
    told = []
    for key in {**there, **asked}:
        old, new = there.get(key), asked.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            unlike = [each for each in {**old, **new} if old.get(each) != new.get(each)]
            told += [f"{key} {each} {_told(old.get(each))}, now {each} {_told(new.get(each))}" for each in unlike]
        elif old != new:
            told.append(f"{key} {_told(old)}, now {_told(new)}")
    return "; ".join(told)


def require_same(name: str, where: Path, asked: Mapping[str, Any], there: Mapping[str, Any]) -> None:
    """Refuse to join values of a distance that were measured differently."""
    unlike = differences(asked, there)
    if unlike:
        raise DataError(
            f"{name} in {where} was measured otherwise: {unlike}; name another table, or remove {where.name}"
        )


def require_joinable(name: str, where: Path, asked: Mapping[str, Any]) -> None:
    """Refuse to join values of a distance of which nobody can tell whether it is the same as before."""
    reason = asked.get("unidentified")
    if reason:
        rule = f"whether {name} is the same as in another run cannot be told, so its values are not joined"
        remedy = "give it as package.module:function, name another table"
        raise DataError(f"{rule}: {reason}; {remedy}, or remove {where.name}")


def _told(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_told(item)}" for key, item in value.items())
    text = "none" if value is None else str(value)
    return text if len(text) < 60 else f"{text[:24]}..."


def _values(asked: Sequence[Asked] | Mapping[str, Asked]) -> list[Asked]:
    if isinstance(asked, str) or callable(asked):
        raise TypeError("distances must be a list, or a mapping of name to distance; found a single one")
    return list(asked.values()) if isinstance(asked, Mapping) else list(asked)


def _names(texts: list[str | None], asked: list[Asked], taken: Mapping[str, Any]) -> list[str]:
    short = [_short(text, each) for text, each in zip(texts, asked, strict=True)]
    whole = []
    for name, text in zip(short, texts, strict=True):
        full = ALIASES.get(text or name, text or name)
        others = {other for other in texts if other != text and _short(other, other) == name}
        foreign = name in taken and taken[name].get("variant") not in (full, None)
        own_ = full not in DISTANCES and full not in DEEP
        whole.append(full if own_ and (others or foreign or name in (*DISTANCES, *DEEP, *ALIASES)) else name)
    return whole


def _short(text: str | None, asked: Any) -> str:
    if text is None:
        name = getattr(asked, "name", None) or getattr(asked, "__name__", None) or type(asked).__name__
        if name == "<lambda>":
            raise ValueError("a distance needs a name; give distances={'name': function}")
        return str(name)
    module, _, attribute = text.partition(":")
    if not attribute:
        return ALIASES.get(text, text)
    return text if module in LIBRARIES else attribute


def _text(function: Any) -> str | None:
    """Find the text by which any process can find a callable; None where there is none."""
    for name, known in DISTANCES.items():
        if known is function:
            return name
    module, attribute = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(attribute, str) or module == "__main__":
        return None
    # A module may have been loaded from a place where another process would not look.
    if PathFinder.find_spec(module.partition(".")[0]) is None:
        return None
    found = getattr(importlib.import_module(module), attribute, None)
    return f"{module}:{attribute}" if found is function else None


def _wrapped(function: Any, name: str) -> Distance:
    known = isinstance(function, Own) or hasattr(function, "triplet")
    return function if known else own(function, name=name)
