"""The public path of a class: users know it as twoafc.NAME, wherever it is defined."""

from __future__ import annotations

from typing import TypeVar

Kind = TypeVar("Kind", bound=type)


def public(kind: Kind) -> Kind:
    """Show a class as twoafc.NAME in messages, help and pickles; `twoafc` must offer it by that name."""
    kind.__module__ = "twoafc"
    return kind
