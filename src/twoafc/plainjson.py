"""JSON that any reader takes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def strict_json(value: Any, indent: int | None = None) -> str:
    """Write JSON that any reader takes: numbers that are not finite become null.

    Examples
    --------
    >>> strict_json({"nll": float("inf"), "group": "é"})
    '{"nll": null, "group": "é"}'
    """
    return json.dumps(_finite(value), indent=indent, ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
