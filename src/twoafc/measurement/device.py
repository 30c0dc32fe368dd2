"""Where distances are measured, and what that is called on a card."""

from __future__ import annotations

import importlib.util
import platform
from importlib.metadata import version
from typing import Any, get_args

from twoafc.distances import Distance, Precision
from twoafc.errors import require


def resolve(device: str | None, precision: str) -> str:
    """Give the device to work on: the one asked for, or a GPU where there is one that torch can use.

    Examples
    --------
    >>> resolve("cpu", "fp32")
    'cpu'
    """
    if precision not in get_args(Precision):
        raise ValueError(f"precision must be one of {', '.join(get_args(Precision))}; got {precision!r}")
    if device is None:
        torch = importlib.import_module("torch") if importlib.util.find_spec("torch") else None
        device = "cuda" if torch is not None and torch.cuda.is_available() else "cpu"
    elif device != "cpu":
        torch = require("torch", extra="torch")
        try:
            torch.zeros(1, device=device)
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            reason = str(error).strip().splitlines()[0]
            raise ValueError(f"torch cannot use the device {device!r} ({reason}); give another, or cpu") from error
    if precision == "tf32" and not device.startswith("cuda"):
        raise ValueError(f"tf32 is an arithmetic of GPUs; the device is {device}: leave precision out")
    return device


def maker(distance: Distance, device: str) -> dict[str, str]:
    """Tell which machine and libraries measure a distance."""
    told = {"python": platform.python_version(), "numpy": version("numpy"), "pillow": version("pillow")}
    with_torch = hasattr(distance, "precision") or getattr(distance, "takes", None) == "torch"
    if device == "cpu":
        told["device"] = f"cpu {platform.machine()}"
    else:
        with_torch = True
        told["device"] = _name(device)
    return told | ({"torch": version("torch")} if with_torch else {})


def _name(device: str) -> str:
    torch: Any = require("torch", extra="torch")
    return f"{device} {torch.cuda.get_device_name(device)}" if device.startswith("cuda") else device
