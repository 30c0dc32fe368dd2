"""Text that is safe to show on a terminal or a page, and strict JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

# Control characters (C0, DEL, C1), surrogates, and the two codes that are never characters.
STEERING = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
BREAKS = "\t\n\r"


def legible(text: str, keep: str = "") -> str:
    r"""Replace control characters and other invisible codes, except those to keep, by a replacement sign.

    Examples
    --------
    >>> legible("ssim\x1b[31m\n"), legible("ssim\x07\n", keep=BREAKS)
    ('ssim�[31m�', 'ssim�\n')
    """
    return STEERING.sub(lambda match: match[0] if match[0] in keep else "\ufffd", text)


def strict_json(value: Any, indent: int | None = None) -> str:
    """Write standard JSON: numbers that are not finite become null.

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
