"""Compare what the package gives with what it gave: nothing may vanish, no number may move."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

EXPECTED = Path(__file__).parent / "expected"


def tolerance(path: str) -> float:
    """Relative tolerance of a number: results of iterations (spline, network) are known less exactly."""
    return 1e-6 if any(name in path for name in ("spline", "network")) else 1e-9


def differences(expected: Any, actual: Any, path: str = "") -> Iterator[str]:
    """List where `actual` differs: it may have more keys, but no fewer, and lists must have the same length."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key, value in expected.items():
            if key in actual:
                yield from differences(value, actual[key], f"{path}/{key}")
            else:
                yield f"{path}/{key} is missing"
    elif isinstance(expected, list) and isinstance(actual, list):
        if len(expected) != len(actual):
            yield f"{path} has {len(actual)} entries, expected {len(expected)}: {actual}, expected {expected}"
        else:
            for index, (value, other) in enumerate(zip(expected, actual, strict=True)):
                yield from differences(value, other, f"{path}/{index}")
    elif _is_number(expected) and _is_number(actual):
        relative = tolerance(path)
        # Rounding of values near zero is absolute: 1e-12, or 1e-9 for iterations.
        if not math.isclose(expected, actual, rel_tol=relative, abs_tol=relative / 1000):
            change = abs(actual - expected) / abs(expected) if expected else math.inf
            yield f"{path} is {actual!r}, expected {expected!r} (relative change {change:.1e})"
    elif expected != actual or isinstance(expected, bool) != isinstance(actual, bool):
        yield f"{path} is {actual!r}, expected {expected!r}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def plain(value: Any, path: str = "") -> Any:
    """Give a value as JSON has it, numbers with three digits more than they are compared to."""
    if isinstance(value, dict):
        return {str(key): plain(one, f"{path}/{key}") for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one, f"{path}/{index}") for index, one in enumerate(value)]
    if hasattr(value, "tolist"):  # arrays and scalars of numpy
        return plain(value.tolist(), path)
    if isinstance(value, float):
        return float(f"{value:.{9 if tolerance(path) > 1e-9 else 12}g}") if math.isfinite(value) else str(value)
    return value


def read(name: str) -> Any:
    return json.loads((EXPECTED / f"{name}.json").read_text(encoding="utf-8"))


def write(name: str, value: Any) -> None:
    """Write with sorted keys, one line for each record, so that a diff shows what changed."""
    (EXPECTED / f"{name}.json").write_text(_lines(plain(value)) + "\n", encoding="utf-8")


def _lines(value: Any, depth: int = 1) -> str:
    line = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    nested = isinstance(value, dict) and any(isinstance(one, dict | list) for one in value.values())
    if not nested or (len(line) < 120 and depth > 1):
        return line
    inner = (f"{' ' * depth}{json.dumps(key)}: {_lines(one, depth + 1)}" for key, one in sorted(value.items()))
    return "{\n" + ",\n".join(inner) + f"\n{' ' * (depth - 1)}}}"


def check(name: str, actual: Any) -> None:
    """Raise an AssertionError that lists every difference from the stored values."""
    found = list(differences(read(name), plain(actual)))
    assert not found, f"{len(found)} differences from expected/{name}.json:\n" + "\n".join(found[:40])
