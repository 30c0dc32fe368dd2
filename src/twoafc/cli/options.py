"""Shared by commands: types of options, and what their texts mean."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

Several = tuple[str, ...] | None
Pairs = tuple[tuple[str, str], ...]
"""Two names for each time that the option is given."""
Json = Annotated[bool, Parameter(help="Print JSON instead of text.")]
Quiet = Annotated[bool, Parameter(help="Print nothing but errors, and JSON where it is asked for.")]
Rename = Annotated[
    Several, Parameter(help="OLD=NEW, another name for a column, such as response=choice; once for each.")
]
Distances = Annotated[Several, Parameter(help="A distance, once for each or with commas between them; default all.")]
Folds = Annotated[
    int | None,
    Parameter(help="Parts for cross-validation, whole references at a time where they are known; default 5."),
]
Seed = Annotated[int, Parameter(help="Equal seeds give equal results.")]


def listed(given: Several) -> tuple[str, ...] | None:
    """Split names at commas; each option may have one or several.

    Examples
    --------
    >>> listed(("ssim,lpips", "dists")), listed(None)
    (('ssim', 'lpips', 'dists'), None)
    """
    return None if given is None else tuple(name.strip() for text in given for name in text.split(",") if name.strip())


def renaming(given: Several) -> dict[str, str]:
    """Return columns and their new names, from options OLD=NEW.

    Examples
    --------
    >>> renaming(("response=choice",))
    {'response': 'choice'}
    """
    pairs = [text.partition("=") for text in given or ()]
    wrong = next((old + mark + new for old, mark, new in pairs if not (old and new)), None)
    if wrong is not None:
        raise ValueError(f"--rename takes OLD=NEW, such as response=choice; got {wrong}")
    return {old: new for old, _, new in pairs}
