"""The form of the files of a result, kept beside what reads them: a foreign or damaged file is refused in one line.

In scores.json a form is a tuple of types, ``[form]`` for a list, a mapping of names to forms for a record, or `OrNull`
of one of these. A name that ends in ``?`` may be missing; `OTHERS` is the form of all names that are not listed, and
without it they may be anything: what later versions add is not refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import polars as pl

from twoafc.table import LABELS, MOST_VOTES, PAIR_LABELS

TEXT, COUNT, NUMBER, FLAG, NULL = (str,), (int,), (int, float), (bool,), (type(None),)
MAYBE = (*NUMBER, *NULL)
"""A number; null stands for one that is not finite, which JSON cannot hold."""
SCALAR = (*TEXT, *NUMBER, *FLAG, *NULL)
OTHERS = "..."
NAMES = {str: "a text", int: "a whole number", float: "a number", bool: "true or false", type(None): "null"}
DEEPEST, LARGEST = 32, 2**63
"""Levels of lists and records, of which results have some ten; and a whole number that no count reaches."""


HALVES = "P_halves"
"""Column of the tested rows with P by fits to complementary halves of the training table, where its noise counts."""


class OrNull(NamedTuple):
    """The form of what may be null."""

    form: Any


def numbers(*names: str) -> dict[str, Any]:
    """Return the form of a record of numbers."""
    return dict.fromkeys(names, MAYBE)


NAMED = {"distance": TEXT, "estimator": TEXT}
SCORE = {
    **NAMED,
    **dict.fromkeys(("split", "group"), TEXT),
    **dict.fromkeys(("triplets?", "pairs?", "votes?", "diverged?"), COUNT),
    **dict.fromkeys(("seed", "runs?"), (*COUNT, *NULL)),
    OTHERS: SCALAR,
}
COMPARISON = {
    **dict.fromkeys(("a", "b", "estimator", "measure", "sentence"), TEXT),
    **numbers("difference", "se", "low", "high", "p", "p_holm"),
    "different": FLAG,
    OTHERS: SCALAR,
}
INTERVAL = numbers("value", "se", "low", "high")
CALIBRATION = {
    "bins": [numbers("triplets", "votes", "P", "share", "se", "low", "high")],
    "slope": INTERVAL,
    **numbers("ece", "ece_by_chance", "rmse", "floor", "sharpness", "calibration", "calibration_se"),
}
RESIDUALS = {**{name: [[MAYBE]] for name in ("residual", "se", "p")}, "triplets": [[COUNT]], "edges": [NUMBER]}
GOODNESS = {
    **NAMED,
    "calibration": CALIBRATION,
    "intraclass?": OrNull(INTERVAL),
    "residuals?": OrNull(RESIDUALS),
    "asymmetry?": OrNull({"shown": FLAG, "sentence": TEXT, **numbers("value", "se", "low", "high", "p")}),
    "lapses?": OrNull({"sentence": TEXT, **numbers("high", "votes")}),
    "row": TEXT,
}
BOUNDS = [MAYBE]
CEILING = {
    "by_votes": [{"M": COUNT, "triplets": COUNT, "nll": BOUNDS, "gain": BOUNDS, "score_2afc": BOUNDS, OTHERS: SCALAR}],
    "known": FLAG,
    "note": TEXT,
    OTHERS: MAYBE,
}
FINDING = {
    **dict.fromkeys(("code", "level", "table", "message", "evidence", "remedy"), TEXT),
    "distance?": OrNull(TEXT),
    "caveat?": TEXT,
}
CARD = {
    "kind?": TEXT,
    "versions?": {OTHERS: TEXT},
    "settings": {"ties": TEXT, "seed?": COUNT, OTHERS: SCALAR},
    "error_bars": TEXT,
    "notes?": [TEXT],
    "files?": [TEXT],
    "data?": {OTHERS: {}},
    "fits?": [NAMED],
    "baseline?": OrNull(TEXT),
    "planned?": [[TEXT]],
}
FORM = {
    "card": CARD,
    "scores": [SCORE],
    "comparisons": [COMPARISON],
    "ceiling?": OrNull(CEILING),
    "findings?": [FINDING],
    "goodness?": [GOODNESS],
}


class Column(NamedTuple):
    """The form of a column of single triplets or votes: in words, by its type, and by its values."""

    words: str
    is_kind: Callable[[pl.DataType], bool]
    is_right: Callable[[pl.Expr], pl.Expr] = pl.Expr.is_not_null


WHOLE, DECIMAL = (lambda kind: kind.is_integer()), (lambda kind: kind.is_float())
COLUMNS = {
    **dict.fromkeys((*LABELS, *PAIR_LABELS, "distance", "estimator"), Column("text", lambda kind: kind == pl.String)),
    **dict.fromkeys(("diverged", "swapped"), Column("true or false", lambda kind: kind == pl.Boolean)),
    **dict.fromkeys(("d", "d0", "d1"), Column("finite numbers", DECIMAL, pl.Expr.is_finite)),
    "seed": Column("whole numbers", lambda kind: kind.is_integer() or kind == pl.Null, lambda _: pl.lit(True)),
    "choice": Column("0 or 1", WHOLE, lambda choice: choice.is_between(0, 1)),
    "M": Column(f"whole numbers from 1 to {MOST_VOTES:.0e}", WHOLE, lambda M: M.is_between(1, MOST_VOTES)),
    "n": Column("whole numbers from 0 to M", WHOLE, lambda n: n.is_between(0, pl.col("M"))),
    "weight": Column("positive numbers", DECIMAL, lambda weight: weight.is_finite() & (weight > 0)),
    "P": Column("numbers in [0, 1]", DECIMAL, lambda P: P.is_between(0, 1)),
    "nll": Column("numbers", DECIMAL, pl.Expr.is_not_nan),
}


def frame_problem(frame: pl.DataFrame) -> str | None:
    """Say which column of single triplets or votes has not its form; None where all have.

    Examples
    --------
    >>> frame_problem(pl.DataFrame({"M": [2, 3], "n": [2, 4]}))
    'n must be whole numbers from 0 to M'
    """
    for name, column in COLUMNS.items():
        if name in frame.columns and not (
            column.is_kind(frame.schema[name])
            and frame.select(column.is_right(pl.col(name)).fill_null(False).all()).item()
        ):
            return f"{name} must be {column.words}"
    return None if len(frame) else "it has no rows"


def problem(content: Any) -> str | None:
    """Say in what a file of results differs from its form; None where it does not.

    Examples
    --------
    >>> problem({"card": {"settings": {"ties": 1}}, "scores": [], "comparisons": []})
    'card has no error_bars'
    >>> problem([])
    'it must be a record, found []'
    """
    return _unsound(content) or _difference(content, FORM, "") or (None if content["scores"] else "it has no scores")


def _unsound(content: Any) -> str | None:
    """What no result has anywhere, whatever its version: found without recursion, which has an end of its own."""
    level: list[Any] = [content]
    for _ in range(DEEPEST):
        inner: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                inner += [*value, *value.values()]
            elif isinstance(value, list):
                inner += value
            elif isinstance(value, str) and any("\ud800" <= sign <= "\udfff" for sign in value):
                return f"it has half a character in {value[:20]!r}"
            elif isinstance(value, float) and not math.isfinite(value):
                return "it has a number that is not finite"
            elif isinstance(value, int) and abs(value) >= LARGEST:
                return "it has a number that is too large"
        level = inner
    return f"it has more than {DEEPEST} levels" if level else None


def _difference(value: Any, form: Any, place: str) -> str | None:
    if isinstance(form, OrNull):
        return None if value is None else _difference(value, form.form, place)
    if isinstance(form, tuple):
        fits = isinstance(value, form) and (not isinstance(value, bool) or bool in form)
        return None if fits else _must_be(" or ".join(dict.fromkeys(map(NAMES.__getitem__, form))), value, place)
    if isinstance(form, list):
        if not isinstance(value, list):
            return _must_be("a list", value, place)
        parts = ((item, form[0], f"{place}[{number}]") for number, item in enumerate(value))
    else:
        if not isinstance(value, dict):
            return _must_be("a record", value, place)
        missing = next((name for name in form if name != OTHERS and name[-1] != "?" and name not in value), None)
        if missing is not None:
            return f"{place or 'it'} has no {missing}"
        listed = {name.rstrip("?"): inner for name, inner in form.items() if name != OTHERS}
        parts = (
            (item, listed.get(name, form.get(OTHERS)), f"{place}.{name}".lstrip("."))
            for name, item in value.items()
            if name in listed or OTHERS in form
        )
    return next((issue for part in parts if (issue := _difference(*part))), None)


def _must_be(what: str, value: Any, place: str) -> str:
    shown = repr(value)
    return f"{place or 'it'} must be {what}, found {shown if len(shown) <= 20 else f'{shown[:20]}...'}"
