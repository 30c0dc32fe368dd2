"""A callable that only one process has, on its way to the workers of a cluster.

What it is made of travels with it, but for what lies in modules: these go by their names, and must be the same files.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import os
import pickle
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twoafc.distances import Distance, Own, own
from twoafc.errors import require


@dataclass(frozen=True)
class Shipped:
    """A callable, packed.

    Parameters
    ----------
    name : str
        What the distance is called.
    content : bytes
        It, as cloudpickle writes it.
    modules : mapping of module to digest
        The files that it needs, but for those of libraries.
    """

    name: str
    content: bytes
    modules: Mapping[str, str]

    def opened(self, device: str) -> Distance:
        """Unpack it for a device; refuse modules that are not those of the one who packed it."""
        for module, digest in self.modules.items():
            if _digest(importlib.import_module(module)) != digest:
                told = f"{module} is another file there ({sys.modules[module].__file__})"
                raise ValueError(f"{self.name} needs the same files on all machines; {told}")
        try:
            made: Distance = pickle.loads(self.content)
        except Exception as error:  # a user's object may raise anything
            raise ValueError(f"{self.name} cannot be unpacked there ({type(error).__name__}: {error})") from error
        if isinstance(made, Own) and device != "cpu" and made.takes == "torch":
            return own(made.function, name=made.name, takes="torch", device=device)
        return made


def ship(name: str, distance: Distance) -> Shipped:
    """Pack a distance."""
    try:
        content = require("cloudpickle", extra="cluster").dumps(distance)
    except ImportError:
        raise
    except Exception as error:  # likewise
        told = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no reason given'}"
        raise ValueError(f"{name} cannot be sent to workers ({told}); give it as package.module:function") from error
    names = _Names(io.BytesIO(content))
    names.load()
    files = {module: getattr(sys.modules.get(module), "__file__", None) for module in sorted(names.modules)}
    # Those of libraries go by their versions, which the card tells.
    mine = [module for module, file in files.items() if file and not is_library(file)]
    return Shipped(name, content, {module: _digest(sys.modules[module]) for module in mine})


class _Names(pickle.Unpickler):
    """Finds out which modules a pickle needs."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.modules: set[str] = set()

    def find_class(self, module: str, name: str) -> Any:
        self.modules.add(module)
        return super().find_class(module, name)


def _digest(module: Any) -> str:
    return hashlib.sha256(Path(module.__file__).read_bytes()).hexdigest()


def is_library(path: str) -> bool:
    """Tell whether a file or folder is of Python or of an installed package.

    Examples
    --------
    >>> is_library(os.__file__), is_library("/home/me/distances")
    (True, False)
    """
    folders = {os.path.realpath(folder) for name, folder in sysconfig.get_paths().items() if "lib" in name}
    where = os.path.realpath(path)
    return "site-packages" in where or any(where == each or where.startswith(each + os.sep) for each in folders)


def own_paths() -> list[str]:
    """Where this process looks for modules beside those of libraries, so that others may look there too."""
    places = dict.fromkeys(os.path.abspath(place or os.curdir) for place in sys.path)
    return [place for place in places if os.path.isdir(place) and not is_library(place)]
