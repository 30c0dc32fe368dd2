"""A user's own distance by the name ``package.module:name``; what goes wrong on the way is told in one line."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from twoafc.distances.own import Own, own


def imported(name: str, **settings: Any) -> Own:
    """Import the distance ``package.module:name``; a class is made with the settings, a function is given them.

    Parameters
    ----------
    name : str
        Looked for where Python looks, and then in the current folder.
    **settings
        ``takes`` and ``device`` are for `own`; the others are the class's or the function's.

    Examples
    --------
    >>> imported("twoafc.distances.euclidean:rmse")
    Own(name='twoafc.distances.euclidean:rmse', takes='numpy', device='cpu')
    """
    module, _, attribute = name.partition(":")
    # Looked for where the command is given, too, but last: a user's file must not stand in for a library.
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)
    try:
        found = getattr(_module(name, module), attribute)
    except AttributeError as error:
        where = getattr(sys.modules[module], "__file__", None) or "Python itself"
        told = f"{error}; it was imported from {where}{_hidden(module, here)}"
        raise ValueError(f"there is no distance {name!r}; {told}") from error
    except ImportError as error:
        raise ValueError(f"there is no distance {name!r}; {error}{_hidden(module, here)}") from error
    ours = {key: settings.pop(key) for key in ("takes", "device") if key in settings}
    if isinstance(found, type):
        found = _made(name, found, settings)
    elif settings and callable(found):
        found = functools.partial(found, **settings)
    if not callable(found):
        wrong = f"{name} is of type {type(found).__name__}; name a function, or a class with __call__"
        raise ValueError(f"a distance must be callable, (ref, x) -> (B,); {wrong}")
    return own(found, name=name, **ours)


def _module(name: str, module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise
    except (Exception, SystemExit) as error:  # a user's file may raise anything
        raise ValueError(f"there is no distance {name!r}; importing {module} raised {_raised(error)}") from error


def _made(name: str, found: type, settings: dict[str, Any]) -> Any:
    try:
        return found(**settings)
    except (Exception, SystemExit) as error:  # and so may a user's class
        given = ", ".join(settings) or "no arguments"
        raise ValueError(f"{name} cannot be made with {given}; it raised {_raised(error)}") from error


def _raised(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _hidden(module: str, here: str) -> str:
    """Say that another module goes by the name of a file in the current folder, where that is so."""
    top = module.partition(".")[0]
    mine = [Path(here, f"{top}.py"), Path(here, top)]
    loaded = sys.modules.get(top)
    sources = [getattr(loaded, "__file__", None), *getattr(loaded, "__path__", [])]
    there = [path for path in mine if path.exists()]
    if loaded is None or not there or any(Path(source).resolve() in mine for source in sources if source):
        return ""
    return f"; {there[0]} is hidden by another module {top}: give it another name"
