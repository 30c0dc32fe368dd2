"""The distances to measure: their names in the table, how any process makes them, and the device that they work on."""

from __future__ import annotations

import importlib
import importlib.util
import platform
import runpy
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from twoafc.arrays import FloatArray
from twoafc.distances import (
    ALIASES,
    DEEP,
    DISTANCES,
    LIBRARIES,
    Distance,
    Own,
    Precision,
    distance,
    lpips_channels,
    own,
)
from twoafc.errors import DataError, first_line, require
from twoafc.measurement.identity import Identity, identity_of, lasting_differences

if TYPE_CHECKING:
    from twoafc.estimators import FusionFit

Requested = str | Callable[..., Any]
CHANNELS = "/channels"
"""How the text ends that makes the channels of an LPIPS network, not the distance."""
Maker = dict[str, str]
"""The machine and the libraries that measured something."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A distance to measure."""

    name: str  # of its columns: NAME_d0, NAME_d1
    text: str | None  # from which `make` makes it in any process; None for a callable that only this process has
    distance: Distance  # made in this process
    identity: Identity  # what its values depend on; "unidentified" is the reason why that is not known


def make_candidates(
    requested: Sequence[Requested] | Mapping[str, Requested],
    device: str,
    precision: str,
    earlier: Mapping[str, Identity] | None = None,
    fused: Sequence[FusedFile] = (),
) -> list[Candidate]:
    """Make the requested distances, and name them.

    A distance of the package is named by its full name; a user's function ``pkg.mod:func`` is named ``func``, or by its
    whole text if ``func`` is a distance of the package or requested twice; one of another library by its whole text,
    ``piq:ssim``. In a mapping the caller chooses the names. `earlier` are distances that the table has already;
    an error of a distance that one of `fused` needs names its file.
    """
    if not requested:
        raise ValueError("name at least one distance to measure")
    functions = list(requested.values()) if isinstance(requested, Mapping) else list(requested)
    texts = [function if isinstance(function, str) else _text(function) for function in functions]
    names = list(requested) if isinstance(requested, Mapping) else _names(texts, functions, earlier or {})
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise ValueError(f"distances must differ; {name} is given {count} times")
    result = []
    for name, text, function in zip(names, texts, functions, strict=True):
        if not name or "\n" in name:
            raise ValueError(f"a distance needs a name for its columns; found {name!r}")
        if text:
            try:
                built = make(text, device, precision)
            except ValueError as error:
                file = next((file for file in fused if name in file.fit.fused.parts), None)
                if file is None:
                    raise
                raise DataError(f"{file.path} needs {name}: {error}") from error
        else:
            ready = isinstance(function, Own) or hasattr(function, "triplet")
            built = function if ready and callable(function) else own(function, name=name)
        result.append(Candidate(name, text, built, identity_of(text, built, device, name=name)))
    return result


def make(text: str, device: str, precision: str) -> Distance:
    """Make a distance from its name, or from package.module:function, for a device."""
    full = ALIASES.get(text, text)
    if full.endswith(CHANNELS):
        return lpips_channels(full.removesuffix(CHANNELS), device=device, precision=precision)  # type: ignore[arg-type]
    if full in DEEP or full.endswith(".npz"):
        return distance(full, device=device, precision=precision)
    return distance(full) if full in DISTANCES or device == "cpu" else distance(full, device=device)


def _names(texts: list[str | None], functions: list[Requested], earlier: Mapping[str, Identity]) -> list[str]:
    ours = (*DISTANCES, *DEEP)
    names = []
    for text, function in zip(texts, functions, strict=True):
        name = short_name(function, text)
        full = ALIASES.get(text or name, text or name)
        twice = any(other != text and other is not None and short_name(other) == name for other in texts)
        taken = name in earlier and earlier[name].get("variant") not in (full, None)
        ambiguous = twice or taken or name in (*ours, *ALIASES)
        names.append(full if full not in ours and ambiguous else name)
    return names


def short_name(function: Requested, text: str | None = None) -> str:
    """Return the name of a distance's columns, unless another distance has it."""
    text = function if isinstance(function, str) else text
    if text is None:
        name = getattr(function, "name", None) or getattr(function, "__name__", None) or type(function).__name__
        if name == "<lambda>":
            raise ValueError("a distance needs a name; give distances={'name': function}")
        return str(name)
    module, _, attribute = text.partition(":")
    if text.endswith(".npz"):
        return Path(text).stem
    if not attribute:
        return ALIASES.get(text, text)
    return text if module in LIBRARIES else attribute


def _text(function: Any) -> str | None:
    """Return the text from which any process can make a callable, or None."""
    for name, known in DISTANCES.items():
        if known is function:
            return name
    module, attribute = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(attribute, str) or module == "__main__":
        return None
    # A module may have been loaded from a folder that is not on another process's search path.
    if PathFinder.find_spec(module.partition(".")[0]) is None:
        return None
    return f"{module}:{attribute}" if getattr(importlib.import_module(module), attribute, None) is function else None


def resolve_device(device: str | None, precision: str) -> str:
    """Return the requested device or, by default, a GPU if torch can use one."""
    if precision not in get_args(Precision):
        raise ValueError(f"precision must be one of {', '.join(get_args(Precision))}; got {precision!r}")
    if device is None:
        device = "cuda" if _sees_gpu() else "cpu"
    elif device != "cpu":
        torch = require("torch", extra="torch")
        try:
            torch.zeros(1, device=device)
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            raise ValueError(
                f"torch cannot use the device {device!r} ({first_line(error)}); give another, or cpu"
            ) from error
    if precision == "tf32" and not device.startswith("cuda"):
        raise ValueError(f"tf32 is an arithmetic of GPUs; the device is {device}: leave precision out")
    return device


def _sees_gpu() -> bool:
    """Whether torch can use a GPU; a build that never can is not imported, which takes a second."""
    spec = importlib.util.find_spec("torch")
    if spec is None:
        return False
    for file in (Path(folder) / "version.py" for folder in spec.submodule_search_locations or ()):
        build = runpy.run_path(str(file)) if file.is_file() else {}
        if {build.get(kind, "unknown") for kind in ("cuda", "hip")} == {None}:
            return False
    return bool(importlib.import_module("torch").cuda.is_available())


def maker(measured: Distance, device: str) -> Maker:
    """Return which machine and libraries measure a distance."""
    result = {"python": platform.python_version(), "numpy": version("numpy"), "pillow": version("pillow")}
    result["device"] = f"cpu {platform.machine()}" if device == "cpu" else device
    if device.startswith("cuda"):
        result["device"] += f" {require('torch', extra='torch').cuda.get_device_name(device)}"
    if device != "cpu" or hasattr(measured, "precision") or getattr(measured, "takes", None) == "torch":
        result["torch"] = version("torch")
    return result


# --- fused distances: their parts are measured, and their columns computed from those of the parts --------------------


@dataclass(frozen=True, eq=False)
class FusedFile:
    """A fused distance, requested by its file."""

    name: str
    path: Path
    fit: FusionFit

    @property
    def identity(self) -> dict[str, Any]:
        """What its values depend on beside those of its parts."""
        return {"variant": "fused", "parts": list(self.fit.fused.parts), "model": self.fit.digest}

    def values(self, parts: Mapping[str, FloatArray]) -> FloatArray:
        """Return the fused values of all items; NaN where the value of a part is not known."""
        known = np.all([~np.isnan(parts[name]) for name in self.fit.fused.parts], axis=0)
        fused = np.full(known.shape, np.nan)
        fused[known] = self.fit.fused({name: parts[name][known] for name in self.fit.fused.parts})
        return fused

    def check(self, candidates: Sequence[Candidate]) -> None:
        """Raise if a part differs from the one that the distance was fitted to."""
        for candidate in candidates:
            before = self.fit.identities.get(candidate.name)
            if before is not None and candidate.name in self.fit.fused.parts:
                changed = lasting_differences(candidate.identity, before)
                if changed:
                    raise DataError(f"{self.path} was fitted to another {candidate.name}: {changed}")


def split_fused(
    requested: Sequence[Requested] | Mapping[str, Requested],
) -> tuple[Sequence[Requested] | Mapping[str, Requested], list[FusedFile]]:
    """Replace fused distances, requested as NAME.npz, by those of their parts that are not requested themselves.

    A part is made as it was for the fit or, where that is not known, by its name.
    """
    named = requested.items() if isinstance(requested, Mapping) else [(None, item) for item in requested]
    plain: dict[str, Requested] = {}
    files: list[FusedFile] = []
    for name, wanted in named:
        if not (isinstance(wanted, str | Path) and str(wanted).endswith(".npz")):
            plain[name or short_name(wanted)] = wanted
            continue
        from twoafc.estimators import FusionFit, HeadsFit, load  # slow to import: workers do without

        fit = load(wanted)
        if isinstance(fit, HeadsFit):
            plain[name or short_name(str(wanted))] = str(wanted)
        elif isinstance(fit, FusionFit):
            files.append(FusedFile(name or Path(str(wanted)).stem, Path(str(wanted)), fit))
        else:
            raise DataError(f"{wanted} is a model of P for one distance, not a distance; twoafc fuse makes distances")
    if not files:
        return requested, []
    for file in files:
        for part in file.fit.fused.parts:
            plain.setdefault(part, str(file.fit.identities.get(part, {}).get("variant", part)))
    return plain, files
