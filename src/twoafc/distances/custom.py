"""A user's own distance: any callable ``(ref, x) -> (B,)``, itself or by the name ``package.module:function``.

Whether it receives numpy arrays or torch tensors is decided once, when it is wrapped:

- by its attribute ``takes = "torch"`` or ``takes = "numpy"``, if it has one;
- tensors, if it is a ``torch.nn.Module``;
- otherwise arrays, unless it raises a TypeError or an AttributeError on two small arrays and does not on tensors. If
  the device is not ``"cpu"``, tensors are tried first.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from twoafc.arrays import FloatArray
from twoafc.distances.batches import Batch, Distance, require_pair
from twoafc.errors import import_named, require

Kind = Literal["numpy", "torch"]
TRIAL = (2, 3, 64, 64)


@dataclass(frozen=True, eq=False)
class Own:
    """A distance around a user's callable that behaves like the package's own.

    It checks its images, passes copies of them to the callable, without gradients, and returns one value per image.
    """

    name: str  #: in errors
    function: Distance = field(repr=False)  #: (ref, x) -> (B,); further axes of length 1 are allowed
    takes: Kind = "numpy"  #: what it receives: arrays of the caller's type, or tensors of float32
    device: str = "cpu"  #: where arrays are copied for tensors; the caller's tensors stay where they are

    def __post_init__(self) -> None:
        if self.takes not in get_args(Kind):
            raise ValueError(f"takes must be one of {', '.join(get_args(Kind))}; {self.name} has {self.takes!r}")

    def __call__(self, ref: Batch, x: Batch) -> Batch:
        """Distance of each pair of images, (B, 3, H, W) in [0, 1] to (B,).

        Float64 for arrays, the type and device of the images for tensors.
        """
        ref, x = (images.detach() if hasattr(images, "detach") else images for images in (ref, x))
        require_pair(ref, x)
        values = as_array(call_with_copies(self.function, self.takes, self.device, ref, x)) if len(ref) else np.zeros(0)
        right = values.size == len(ref) and values.shape[:1] == (len(ref),)
        if not right or np.iscomplexobj(values):
            problem = "complex numbers" if right else wrong_shape(values, len(ref))
            raise ValueError(f"a distance gives one value for each image; {self.name} gave {problem}")
        flat = values.reshape(-1).astype(np.float64)
        if isinstance(ref, np.ndarray):
            return flat
        return require("torch", extra="torch").from_numpy(flat).to(device=ref.device, dtype=ref.dtype)


@dataclass(frozen=True, eq=False)
class OneByOne:
    """Call a function image by image: for one that returns a single value, whatever the size of its batch.

    Examples
    --------
    >>> mse = OneByOne(lambda ref, x: ((ref - x) ** 2).mean())
    >>> mse(np.zeros((2, 3, 8, 8)), np.full((2, 3, 8, 8), 0.5))
    array([0.25, 0.25])
    """

    function: Distance  #: (ref, x) -> one value, on batches of one image

    def __call__(self, ref: Batch, x: Batch) -> FloatArray:
        """Distance of each pair of images, shape (B,)."""
        values = [as_array(self.function(ref[i : i + 1], x[i : i + 1])).reshape(-1) for i in range(len(ref))]
        return np.concatenate(values) if values else np.zeros(0)


def own(function: Any, *, name: str | None = None, takes: Kind | None = None, device: str = "cpu") -> Own:
    """Wrap a callable as a distance.

    Parameters
    ----------
    function : callable
        ``(ref, x) -> (B,)`` on batches (B, 3, H, W) in [0, 1].
    name : str, optional
        Its name; by default the callable's own.
    takes : {"numpy", "torch"}, optional
        What it receives; by default detected: its attribute ``takes``; tensors for a ``torch.nn.Module``; otherwise
        arrays, unless it accepts tensors only.
    device : str
        For a callable that takes tensors; a ``torch.nn.Module`` is moved there and set to evaluation mode.

    Examples
    --------
    >>> mae = own(lambda ref, x: abs(ref - x).mean(axis=(1, 2, 3)), name="mae")
    >>> mae
    Own(name='mae', takes='numpy', device='cpu')
    >>> mae(np.zeros((1, 3, 8, 8)), np.full((1, 3, 8, 8), 0.25))
    array([0.25])
    """
    label = name or getattr(function, "__name__", None) or type(function).__name__
    if not callable(function):
        raise TypeError(f"a distance must be callable, (ref, x) -> (B,); {label} is of type {type(function).__name__}")
    if is_network(function):
        function = function.to(device).eval()
    takes = takes or detect_kind(function, device=device)
    return Own(label, function, takes, "cpu" if takes == "numpy" else device)


def import_own(name: str, *, takes: Kind | None = None, device: str = "cpu", **settings: Any) -> Own:
    """Import the distance ``package.module:name``, from Python's path or the current folder.

    Settings are arguments of the class, or of the function.
    """
    imported = import_named(name, f"there is no distance {name!r}")
    if isinstance(imported, type):
        try:
            imported = imported(**settings)
        except (Exception, SystemExit) as error:  # a user's class may raise anything
            arguments = ", ".join(settings) or "no arguments"
            raise ValueError(
                f"{name} cannot be made with {arguments}; it raised {type(error).__name__}: {error}"
            ) from error
    elif settings and callable(imported):
        imported = functools.partial(imported, **settings)
    if not callable(imported):
        problem = f"{name} is of type {type(imported).__name__}; name a function, or a class with __call__"
        raise ValueError(f"a distance must be callable, (ref, x) -> (B,); {problem}")
    return own(imported, name=name, takes=takes, device=device)


def detect_kind(function: Any, *, device: str = "cpu") -> Kind:
    """Find out whether a callable takes arrays or tensors, by the rules of this module."""
    declared: Kind | None = getattr(function, "takes", None)
    if declared is not None:
        return declared
    if is_network(function):
        return "torch"
    kinds: tuple[Kind, Kind] = ("numpy", "torch") if device == "cpu" else ("torch", "numpy")
    return next((kind for kind in kinds if _accepts(function, kind, device)), kinds[0])


def call_with_copies(function: Distance, takes: Kind, device: str, *batches: Batch) -> Any:
    """Call a function with copies of batches, as arrays or as tensors, and return its result as it is."""
    try:
        with _contained():
            if takes == "numpy":
                return function(*(np.array(as_array(images)) for images in batches))
            torch = require("torch", extra="torch")
            with torch.no_grad():
                return function(*(_tensor(images, device) for images in batches))
    except SystemExit as error:  # it would end the program without a message
        raise RuntimeError(f"it called sys.exit({error.code!r})") from error


@contextlib.contextmanager
def _contained() -> Iterator[None]:
    """Raise if a user's function calls os._exit, and restore the current folder.

    Processes that it forks may end.
    """
    leave, caller, folder = os._exit, (os.getpid(), threading.get_ident()), None
    with contextlib.suppress(OSError):  # the folder may have been removed
        folder = os.getcwd()

    def refuse(code: int) -> None:
        if (os.getpid(), threading.get_ident()) != caller:
            leave(code)
        raise RuntimeError(f"it called os._exit({code!r})")

    os._exit = refuse  # type: ignore[assignment]
    try:
        yield
    finally:
        os._exit = leave
        if folder is not None:
            os.chdir(folder)


def as_array(values: Any) -> NDArray[Any]:
    """Convert a result, possibly a tensor on any device, to an array."""
    return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)


def wrong_shape(values: NDArray[Any], count: int) -> str:
    """Describe the wrong shape of a result for `count` images, and what to do."""
    if values.size == 1:
        remedy = "a library's function often does so with reduction='none', and twoafc.distances.OneByOne calls any"
        return f"a single value for a batch of {count}; {remedy} image by image"
    return f"shape {values.shape} for a batch of {count}; average or sum over the other axes"


def _accepts(function: Any, takes: Kind, device: str) -> bool:
    try:
        call_with_copies(function, takes, device, *(np.full(TRIAL, grey, dtype=np.float32) for grey in (0.5, 0.25)))
    except (TypeError, AttributeError, ImportError):
        return False
    except Exception:  # on the CPU any other error would occur with the other kind of array too
        return device == "cpu" or takes == "numpy"
    return True


def is_network(function: Any) -> bool:
    """Return whether an object is a ``torch.nn.Module``."""
    # If torch has not been imported, nothing can be one of its modules, and there is no need to wait for the import.
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(function, torch.nn.Module)


def _tensor(images: Batch, device: str) -> Batch:
    torch = require("torch", extra="torch")
    if isinstance(images, np.ndarray):
        return torch.tensor(np.ascontiguousarray(images), dtype=torch.float32, device=device)
    return images.detach().to(torch.float32, copy=True)
