"""Objects from the plain values that JSON has of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from math import nan
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np


def restored(kind: Any, value: Any) -> Any:
    """Build an object of a type, by the types of its fields: JSON has null for NaN, and lists for tuples and arrays.

    What a later version has added to a record is dropped.

    Examples
    --------
    >>> restored(tuple[float, ...], [0.5, None])
    (0.5, nan)
    """
    of = get_args(kind)
    if get_origin(kind) is UnionType:  # of a type and None
        return None if value is None else restored(of[0], value)
    if get_origin(kind) is tuple:
        return tuple(restored(of[0], item) for item in value)
    if get_origin(kind) is np.ndarray:
        return np.array(value, dtype=get_args(of[1])[0])
    if is_dataclass(kind) or hasattr(kind, "_fields"):
        fields = get_type_hints(kind)
        record = value if isinstance(value, Mapping) else dict(zip(fields, value, strict=False))
        return kind(**{name: restored(fields[name], record[name]) for name in fields if name in record})
    return nan if kind is float and value is None else value
