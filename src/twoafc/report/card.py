"""The reproducibility card as lines for people: versions, tables with their hashes, settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

LEFT_OUT = ("files", "fits", "notes", "error_bars", "data", "estimators", "settings", "versions")
"""What is told elsewhere on the page or in lines of its own; scores.json has all of it."""


def plainly(card: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Tell a card in pairs of a name and a value.

    Examples
    --------
    >>> plainly({"seed": 0, "tie_rule": "a tie counts one half", "data": {"test": {"file": "t.csv", "votes": 1200}}})
    [('table, test', 'file t.csv, votes 1200'), ('seed', '0'), ('tie rule', 'a tie counts one half')]
    """
    told = [("versions", _listed(card["versions"]))] if card.get("versions") else []
    told += [(f"table, {role}", _listed(table)) for role, table in (card.get("data") or {}).items()]
    told += [(f"estimator, {name}", _listed(settings)) for name, settings in (card.get("estimators") or {}).items()]
    told += [("settings", _listed(card["settings"]))] if card.get("settings") else []
    return told + [(name.replace("_", " "), _value(value)) for name, value in card.items() if name not in LEFT_OUT]


def _listed(values: Any) -> str:
    if not isinstance(values, Mapping):
        return _value(values)
    return ", ".join(f"{name.replace('_', ' ')} {_value(value)}" for name, value in values.items() if value is not None)


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return f"({_listed(value)})"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " ".join(map(_value, value))
    return str(value)
