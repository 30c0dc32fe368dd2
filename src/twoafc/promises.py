"""Whether a callable is a distance: its promises, tried on photographs spoiled more and more.

A distance promises one value for each image of a batch, at least 0, 0 for equal images, smaller for closer ones, and
the same whatever else is in the batch; it takes images in [0, 1] and leaves them as they are.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from twoafc.distances import Distance, OneByOne, wrong_shape
from twoafc.faults import (
    at_least_0,
    direction,
    finite,
    half_range,
    independent,
    input_range,
    is_similarity,
    leaves_images_alone,
    nearly_0,
    repeatable,
    symmetric,
)
from twoafc.trial import Raised, Subject, Trial, photographs, spoiled, subject_of
from twoafc.worlds import Images

LARGER = (96, 128, 176, 224, 256)
"""Sizes tried where the one asked for is too small."""
RANGES: dict[str, Callable[[Images], Images]] = {
    "[0, 255]": lambda images: 255 * images,
    "[-1, 1]": lambda images: 2 * images - 1,
}


@dataclass(frozen=True)
class Report:
    """What `check_distance` found.

    Parameters
    ----------
    name : str
        The distance's.
    size : int
        Height and width of the images that it was tried on.
    least : int or None
        The smallest height and width that it works on, of those up to `size`; None where it works on none.
    problems : tuple of str
        Promises broken: each says which, by what, and what to do.
    notes : tuple of str
        What is allowed, and worth knowing.
    """

    name: str
    size: int
    least: int | None
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether no promise is broken."""
        return not self.problems

    def __str__(self) -> str:
        tried = f"tried on {self.size} x {self.size} pixels"
        if self.least is not None:
            tried += f", works from {self.least} x {self.least} on"
        verdict = "keeps the promises of a distance" if self.ok else "is not a distance yet"
        lines = [f"{self.name} {verdict} ({tried})"]
        return "\n".join(lines + [f"- {text}" for text in self.problems] + [f"  note: {text}" for text in self.notes])


def check_distance(f: Distance, *, size: int = 64, seed: int = 0) -> Report:
    """Call a distance on photographs, and say in words which of its promises it breaks.

    Values that are out by a factor of 255 show. That a network wants images in [-1, 1] need not show from outside,
    since its values look plausible all the same: its documentation says.

    Parameters
    ----------
    f : callable
        ``(ref, x) -> (B,)``; of one that `twoafc.distance` has wrapped, the callable inside is tried.
    size : int
        Height and width of the images, from 8 to 256.
    seed : int
        Where the photographs are cut, and their noise.

    Examples
    --------
    >>> from twoafc.distances import rmse
    >>> print(check_distance(rmse))
    rmse keeps the promises of a distance (tried on 64 x 64 pixels, works from 1 x 1 on)
    >>> print(check_distance(lambda ref, x: 1 / (1 + rmse(ref, x))).problems[0])
    larger means closer: ...
    """
    if not 8 <= size <= LARGER[-1]:
        raise ValueError(f"size must lie in [8, {LARGER[-1]}]; got {size}")
    subject = subject_of(f)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # What it warns of at the edge of its powers is told in the report.
        warnings.simplefilter("ignore")
        return _report(subject, size, seed)


def looks_like_similarity(f: Distance, *, size: int = 64, seed: int = 0) -> str | None:
    """Say that values of a callable fall as images are spoiled; None where they do not, or where it cannot be tried.

    The quickest of the checks of `check_distance`, whose parameters it takes.

    Examples
    --------
    >>> from twoafc.distances import rmse
    >>> looks_like_similarity(lambda ref, x: 1 / (1 + rmse(ref, x)))[:50]
    'larger means closer: it is 1 for equal images and '
    >>> looks_like_similarity(rmse) is None
    True
    """
    subject = subject_of(f)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        used, _ = working_size(subject, size, seed)
        if used is None:
            return None
        ref = photographs(used, seed=seed)
        trial = Trial(subject, ref, spoiled(ref, seed=seed))
        try:
            return next(direction(trial), None) if is_similarity(trial) else None
        except Raised:
            return None


def _report(subject: Subject, size: int, seed: int) -> Report:
    used, reason = working_size(subject, size, seed)
    if used is None:
        return Report(subject.name, size, None, (reason,))
    problems, notes = [], [reason] * bool(reason)
    ref = photographs(used, seed=seed)
    trial = Trial(subject, ref, spoiled(ref, seed=seed))
    problems += [*leaves_images_alone(trial)]
    values = subject.raw(trial.ref, trial.mixed)
    if values.dtype.kind != "f" or values.dtype.itemsize < 4:
        wrong = f"wrong type: its values are {values.dtype}; return float32 or float64"
        if values.dtype.kind not in "fiu":
            return Report(subject.name, used, None, (*problems, wrong))
        problems.append(wrong)
    if values.size == 1 < len(ref):
        problems.append(f"wrong shape: {wrong_shape(values, len(ref))}")
        trial = replace(trial, subject=replace(subject, function=OneByOne(subject.function)))
    elif values.size != len(ref) or len(values) != len(ref):
        return Report(subject.name, used, None, (*problems, f"wrong shape: {wrong_shape(values, len(ref))}"))
    elif values.ndim > 1:
        notes.append(f"its values have shape {values.shape}; twoafc.distance makes that ({len(ref)},)")
    try:
        problems += (unsteady := [*repeatable(trial)])
        for check in () if unsteady else (finite, direction, at_least_0, independent, input_range):
            problems += check(trial)
        for remark in () if unsteady else (symmetric, nearly_0, half_range):
            notes += remark(trial)
    except Raised as error:
        problems.append(f"it raises {error}, though it works on other images of {used} x {used} pixels")
    return Report(subject.name, used, least_size(trial), tuple(problems), tuple(notes))


def working_size(subject: Subject, size: int, seed: int) -> tuple[int | None, str]:
    """Find a size at which the callable can be tried, and what to say where it is not the one asked for."""
    ref = photographs(size, seed=seed)
    try:
        subject.raw(ref, ref[::-1])
        return size, ""
    except Raised as error:
        raised = error
    for larger in LARGER:
        if larger > size and subject.works(photographs(larger, seed=seed), photographs(larger, seed=seed + 1)):
            return larger, f"on {size} x {size} pixels it raises {raised}; so it was tried on {larger} x {larger}"
    for name, scaled in RANGES.items():
        if subject.works(scaled(ref), scaled(ref[::-1])):
            told = f"images come in [0, 1]: rescale them inside to {name}, on which it works"
            return None, f"input range mistaken: it raises {raised}; {told}"
    return None, f"it raises {raised}; it is called as f(ref, x) with two batches of shape {ref.shape}"


def least_size(trial: Trial) -> int:
    """Find the smallest size of images that the callable works on, by halving."""
    low, high = 0, int(trial.ref.shape[-1])
    while high - low > 1:
        middle = (low + high) // 2
        small = trial.ref[:1, :, :middle, :middle], trial.mixed[:1, :, :middle, :middle]
        low, high = (low, middle) if trial.subject.works(*small) else (middle, high)
    return high
