"""The view of the explorer, as a frozen value and as the query string of a permanent link."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any
from urllib.parse import parse_qs, urlencode

REFIT = "refit"
"""The estimator that the sliders make: density with their settings."""
COLOURS = ("surprise", "votes")
PAPER_SIGMA, PAPER_GRID = 1 / 44, 20
STEPS = (-10.0, 18.0)
"""Ends of the slider of sigma, in quarters of a doubling from the paper's value: 0.004 to 0.51."""
GRIDS = (5, 100)
MOST_VOTES, MOST_FIELDS = 30, 200
Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Known:
    """What there is to choose from, the first of each at the start, and where the sliders of a refit start."""

    distances: tuple[str, ...]
    estimators: tuple[str, ...]
    groups: tuple[str, ...] = ()
    triplets: tuple[str, ...] = field(default=(), repr=False)
    sigma: float = PAPER_SIGMA
    grid: int = PAPER_GRID

    def __post_init__(self) -> None:
        # Where the sliders can stand.
        object.__setattr__(self, "sigma", sigma_at(step_of(self.sigma)))
        object.__setattr__(self, "grid", min(max(self.grid, GRIDS[0]), GRIDS[1]))

    def row(self, triplet: str) -> int | None:
        """Return the row of a triplet; of several of one name, the first."""
        return self.triplets.index(triplet) if triplet in self.triplets else None


@dataclass(frozen=True)
class View:
    """What the page shows.

    Parameters
    ----------
    distance, estimator : str
    other : str
        A second distance beside the first, on the same triplets; "" for none.
    colour : "surprise" or "votes"
        What the points are coloured by.
    sigma, grid : float, int
        Settings of the density that is fitted anew, where `estimator` is "refit".
    votes : int
        Number of votes M to list the counts of; 0 for as many as were given.
    row : int or None
        The triplet that is chosen.
    group : str
        Group to keep; "" for all.
    surprise, disagreement : float
        The least to keep.
    box : (u0 from, to, u1 from, to) or None
        Part of the plane that the table is of.
    side : "first" or "other"
        Distance whose plane the box is in.
    sort : str
        Column that the table is sorted by, "-" before it for the largest first.

    Examples
    --------
    >>> known = Known(("ssim", "nlpd"), ("density",), triplets=("a", "b"))
    >>> view = View.read("?distance=nlpd&triplet=b&colour=<script>", known)
    >>> view.distance, view.row, view.colour
    ('nlpd', 1, 'surprise')
    >>> view.link(known)
    '?distance=nlpd&triplet=b'
    """

    distance: str
    estimator: str
    other: str = ""
    colour: str = "surprise"
    sigma: float = PAPER_SIGMA
    grid: int = PAPER_GRID
    votes: int = 0
    row: int | None = None
    group: str = ""
    surprise: float = 0.0
    disagreement: float = 0.0
    box: Box | None = None
    side: str = "first"
    sort: str = "-surprise"

    @classmethod
    def of(cls, values: Mapping[str, Any], known: Known) -> View:
        """Make a view from the values of a page; whatever is missing, unknown or out of range takes its default."""
        given = {name: _CLEAN[name](values.get(name), known) for name in _CLEAN}
        if given["other"] == given["distance"]:
            given["other"] = ""  # a distance beside itself shows nothing
        if not given["other"]:
            given["side"] = "first"
        return cls(**given)

    @classmethod
    def read(cls, search: object, known: Known) -> View:
        """Make a view from a query string; whatever is foreign or malformed in it is ignored."""
        try:
            query = parse_qs((search if isinstance(search, str) else "").removeprefix("?"), max_num_fields=MOST_FIELDS)
        except ValueError:  # more than that: no link of ours
            query = {}
        values: dict[str, Any] = {name: each[-1] for name, each in query.items()}
        values["box"] = (values.get("box") or "").split(",")
        values.setdefault("row", known.row(values.get("triplet", "")))
        return cls.of(values, known)

    def link(self, known: Known) -> str:
        """Return the query string from which `read` makes the same view; defaults are left out."""
        start, names = View.of({}, known), [each.name for each in fields(self)]
        changed = {name: getattr(self, name) for name in names if getattr(self, name) != getattr(start, name)}
        if self.estimator != REFIT:
            changed = {name: value for name, value in changed.items() if name not in ("sigma", "grid")}
        if self.row is not None and known.row(known.triplets[self.row]) == self.row:
            changed["triplet"] = known.triplets[changed.pop("row")]
        if self.box:
            changed["box"] = ",".join(f"{end:.4g}" for end in self.box)
        pairs = [(name, f"{value:.4g}" if isinstance(value, float) else value) for name, value in changed.items()]
        return "?" + urlencode(pairs) if pairs else ""


def sigma_at(step: float) -> float:
    """Return the sigma of a place of the slider.

    Examples
    --------
    >>> sigma_at(0) == PAPER_SIGMA, round(sigma_at(4), 4)
    (True, 0.0455)
    """
    return PAPER_SIGMA * 2 ** (step / 4)


def step_of(sigma: float) -> float:
    """Return the place of the slider that is nearest to a sigma.

    Examples
    --------
    >>> step_of(sigma_at(-3.5)), step_of(100.0)
    (-3.5, 18.0)
    """
    step = round(8 * math.log2(sigma / PAPER_SIGMA)) / 2
    return min(max(step, STEPS[0]), STEPS[1])


def _number(value: Any) -> float:
    """Return a finite number, or NaN."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return math.nan
    return number if math.isfinite(number) else math.nan


def _whole(value: Any, low: int, high: int, default: int | None) -> Any:
    number = _number(value)
    return default if not low <= number <= high else int(number)


def _least(value: Any, _: Known) -> float:
    number = _number(value)
    return number if number > 0 else 0.0


def _one_of(names: tuple[str, ...], default: str) -> Callable[[Any], str]:
    return lambda value: value if isinstance(value, str) and value in names else default


def _sigma(value: Any, known: Known) -> float:
    number = _number(value)
    return sigma_at(step_of(number)) if number > 0 else known.sigma


def _box(value: Any, _: Known) -> Box | None:
    ends = [_number(end) for end in value] if isinstance(value, list | tuple) else []
    if len(ends) != 4 or not (ends[0] < ends[1] and ends[2] < ends[3]):
        return None
    low0, high0, low1, high1 = (float(f"{end:.4g}") for end in ends)
    return low0, high0, low1, high1


COLUMNS = ("triplet", "group", "n", "M", "d0", "d1", "P", "nll", "surprise", "P_other", "disagreement", "likelier")
_CLEAN: dict[str, Callable[[Any, Known], Any]] = {
    "distance": lambda value, known: _one_of(known.distances, known.distances[0])(value),
    "estimator": lambda value, known: _one_of(known.estimators, known.estimators[0])(value),
    "other": lambda value, known: _one_of(known.distances, "")(value),
    "colour": lambda value, _: _one_of(COLOURS, COLOURS[0])(value),
    "sigma": _sigma,
    "grid": lambda value, known: _whole(value, *GRIDS, known.grid),
    "votes": lambda value, _: _whole(value, 0, MOST_VOTES, 0),
    "row": lambda value, known: _whole(value, 0, len(known.triplets) - 1, None),
    "group": lambda value, known: _one_of(known.groups, "")(value),
    "surprise": _least,
    "disagreement": _least,
    "box": _box,
    "side": lambda value, _: _one_of(("first", "other"), "first")(value),
    "sort": lambda value, _: _one_of((*COLUMNS, *(f"-{name}" for name in COLUMNS)), "-surprise")(value),
}
