"""A user's own distance: any callable ``(ref, x) -> (B,)``.

Whether it is given numpy arrays or torch tensors is settled once, when it is wrapped:

- what it says itself, by an attribute ``takes = "torch"`` or ``takes = "numpy"``;
- tensors, if it is a ``torch.nn.Module``;
- otherwise arrays, unless it raises a TypeError or an AttributeError on two small arrays and does not on tensors. Where
  another device than ``"cpu"`` is asked for, tensors are tried first.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any, Literal, cast, get_args

import numpy as np

from twoafc.distances.batches import Batch, Distance, require_pair
from twoafc.errors import require

Kind = Literal["numpy", "torch"]
TRIAL = (2, 3, 64, 64)


@dataclass(frozen=True, eq=False)
class Own:
    """A distance around a user's callable, with the manners of the package's own.

    It checks its images, hands copies of them on as the callable takes them, without gradients, and gives one value
    for each image.

    Parameters
    ----------
    name : str
        What it is called in errors.
    function : callable
        ``(ref, x) -> (B,)``; what has further axes of length 1 is taken too.
    takes : {"numpy", "torch"}
        What it is given: arrays of the type that the caller has, or tensors of float32.
    device : str
        Where arrays go before a callable that takes tensors; the caller's tensors stay where they are. What takes
        arrays works on the processor.
    """

    name: str
    function: Distance = field(repr=False)
    takes: Kind = "numpy"
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.takes not in get_args(Kind):
            raise ValueError(f"takes must be one of {', '.join(get_args(Kind))}; {self.name} has {self.takes!r}")

    def __call__(self, ref: Batch, x: Batch) -> Batch:
        """Distance of each pair of images.

        Parameters
        ----------
        ref, x : array or tensor of float, shape (B, 3, H, W)
            Images in [0, 1].

        Returns
        -------
        array or tensor, shape (B,)
            Float64 for arrays, for tensors of their type and on their device.
        """
        ref, x = (images.detach() if hasattr(images, "detach") else images for images in (ref, x))
        require_pair(ref, x)
        values = as_array(called(self.function, self.takes, self.device, ref, x)) if len(ref) else np.zeros(0)
        if values.size != len(ref) or values.shape[:1] != (len(ref),):
            raise ValueError(f"a distance gives one value for each image; {self.name} gave {told(values, len(ref))}")
        flat = values.reshape(-1).astype(np.float64)
        if isinstance(ref, np.ndarray):
            return flat
        return require("torch", extra="torch").from_numpy(flat).to(device=ref.device, dtype=ref.dtype)


@dataclass(frozen=True, eq=False)
class OneByOne:
    """Call a function image by image: for one that gives a single value, whatever the size of its batch.

    Parameters
    ----------
    function : callable
        ``(ref, x) -> one value``, on batches of one image.

    Examples
    --------
    >>> mse = OneByOne(lambda ref, x: ((ref - x) ** 2).mean())
    >>> mse(np.zeros((2, 3, 8, 8)), np.full((2, 3, 8, 8), 0.5))
    array([0.25, 0.25])
    """

    function: Distance

    def __call__(self, ref: Batch, x: Batch) -> np.ndarray[Any, Any]:
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
        What to call it; by default what it calls itself.
    takes : {"numpy", "torch"}, optional
        What to give it; by default as this module says.
    device : str
        For a callable that takes tensors; a ``torch.nn.Module`` is moved there, and put into its mode for evaluation.

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
    if _is_module(function):
        function = function.to(device).eval()
    takes = takes or kind(function, device=device)
    return Own(label, function, takes, "cpu" if takes == "numpy" else device)


def kind(function: Any, *, device: str = "cpu") -> Kind:
    """Find out whether a callable takes arrays or tensors, by the rules of this module.

    Examples
    --------
    >>> kind(lambda ref, x: abs(ref - x).max(axis=(1, 2, 3)))
    'numpy'
    """
    declared: Kind | None = getattr(function, "takes", None)
    if declared is not None:
        return declared
    if _is_module(function):
        return "torch"
    first, second = get_args(Kind) if device == "cpu" else reversed(get_args(Kind))
    if _takes(function, first, device) or not _takes(function, second, device):
        return cast(Kind, first)
    return cast(Kind, second)


def called(function: Distance, takes: Kind, device: str, *batches: Batch) -> Any:
    """Call with copies of some batches, as arrays or as tensors, and give what comes back as it is."""
    try:
        if takes == "numpy":
            return function(*(np.array(as_array(images)) for images in batches))
        torch = require("torch", extra="torch")
        with torch.no_grad():
            return function(*(_tensor(images, device) for images in batches))
    except SystemExit as error:  # which would end the program without a word
        raise RuntimeError(f"it called sys.exit({error.code!r})") from error


def as_array(values: Any) -> np.ndarray[Any, Any]:
    """Take what a callable gave, a tensor on any device too, as an array.

    Examples
    --------
    >>> as_array([1.0, 2.0])
    array([1., 2.])
    """
    return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)


def told(values: np.ndarray[Any, Any], count: int) -> str:
    """Say what is wrong with the shape of a result for so many images, and what to do.

    Examples
    --------
    >>> told(np.zeros(()), 8)[:34]
    'a single value for a batch of 8; a'
    """
    if values.size == 1:
        remedy = "a library's function often does so with reduction='none', and twoafc.distances.OneByOne calls any"
        return f"a single value for a batch of {count}; {remedy} image by image"
    return f"shape {values.shape} for a batch of {count}; average or sum over the other axes"


def _takes(function: Any, takes: Kind, device: str) -> bool:
    try:
        called(function, takes, device, *(np.full(TRIAL, grey, dtype=np.float32) for grey in (0.5, 0.25)))
    except (TypeError, AttributeError, ImportError):
        return False
    except Exception:  # whatever it is, the other kind of array is no cure for it
        return True
    return True


def _is_module(function: Any) -> bool:
    # Whoever holds a module has imported torch; whoever has not need not wait for it.
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(function, torch.nn.Module)


def _tensor(images: Batch, device: str) -> Batch:
    torch = require("torch", extra="torch")
    if isinstance(images, np.ndarray):
        return torch.tensor(np.ascontiguousarray(images), dtype=torch.float32, device=device)
    return images.detach().to(torch.float32, copy=True)
