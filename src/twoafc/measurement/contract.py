"""Check whether a callable is a distance, by calling it on photographs with increasing distortions.

A distance must return one value for each image of a batch, at least 0, 0 for equal images, smaller for closer ones, and
the same whatever else is in the batch; it takes images in [0, 1] and does not change them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoafc.arrays import FloatArray
from twoafc.distances import Distance, OneByOne, Own, as_array, call_with_copies, detect_kind, wrong_shape
from twoafc.measurement.block import ROUNDING, most_unlike
from twoafc.worlds import LEAST_CONTRAST, Images, distort, photograph

PHOTOGRAPHS = ("astronaut", "chelsea", "coffee", "rocket")
DISTORTIONS = ("noise", "blur", "jpeg")
STRENGTHS = (0.1, 0.3, 0.6, 1.0)
LARGER = (96, 128, 176, 224, 256)
"""Sizes to try if the requested one is too small."""
SAME, ZERO = ROUNDING, 1e-3
"""Tolerances relative to the change of a value by distortion: SAME for rounding, ZERO for rounding that a root or an
angle has made larger."""

Problems = Iterator[str]


@dataclass(frozen=True)
class Report:
    """The result of `check_distance`.

    Parameters
    ----------
    name : str
        The name of the distance.
    size : int
        Height and width of the images that it was tried on.
    least : int or None
        The smallest height and width that it works on, of those up to `size`; None if it works on none.
    problems : tuple of str
        Broken rules: each with the evidence and a remedy.
    notes : tuple of str
        Remarks on what is allowed.
    """

    name: str
    size: int
    least: int | None
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether no rule is broken."""
        return not self.problems

    def __str__(self) -> str:
        tried = f"tried on {self.size} x {self.size} pixels"
        if self.least is not None:
            tried += f", works from {self.least} x {self.least} on"
        verdict = "keeps the promises of a distance" if self.ok else "is not a valid distance"
        lines = [f"{self.name} {verdict} ({tried})"]
        return "\n".join(lines + [f"- {text}" for text in self.problems] + [f"  note: {text}" for text in self.notes])


def check_distance(f: Distance, *, size: int = 64, seed: int = 0) -> Report:
    """Call a distance on photographs, and report which rules it breaks.

    Values that are wrong by a factor of 255 are detected. A network that expects images in [-1, 1] often is not, since
    its values look plausible: see its documentation.

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
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # the report describes the problems
        return _report(_subject(f), size, seed)


def _report(subject: Own, size: int, seed: int) -> Report:
    trial, notes = _trial(subject, size, seed), list[str]()
    try:
        trial.raw(trial.ref, trial.ref[::-1])
    except CallError as error:
        larger = (_trial(subject, side, seed) for side in LARGER if side > size)
        working = next((other for other in larger if other.works(other.ref, other.ref[::-1])), None)
        if working is None:
            ranges = {"[0, 255]": 255 * trial.ref, "[-1, 1]": 2 * trial.ref - 1}
            wanted = next((name for name, images in ranges.items() if trial.works(images, images[::-1])), None)
            remedy = f"images come in [0, 1]: rescale them inside to {wanted}, on which it works"
            called = f"it is called as f(ref, x) with two batches in [0, 1] of shape {trial.ref.shape}"
            problem = f"wrong input range: it raises {error}; {remedy}" if wanted else f"it raises {error}; {called}"
            return Report(subject.name, size, None, (problem,))
        trial, used = working, working.ref.shape[-1]
        notes.append(f"on {size} x {size} pixels it raises {error}; so it was tried on {used} x {used}")
    ref, used = trial.ref, trial.ref.shape[-1]
    problems = [*_leaves_images_alone(trial)]
    values = trial.raw(ref, trial.mixed)
    if values.dtype.kind != "f" or values.dtype.itemsize < 4:
        problems.append(f"wrong type: its values are {values.dtype}; return float32 or float64")
        if values.dtype.kind not in "fiu":
            return Report(subject.name, used, None, tuple(problems))
    if values.size != len(ref) or values.shape[:1] != (len(ref),):
        problems.append(f"wrong shape: {wrong_shape(values, len(ref))}")
        if values.size != 1:
            return Report(subject.name, used, None, tuple(problems))
        trial = replace(trial, subject=replace(subject, function=OneByOne(subject.function)))
    elif values.ndim > 1:
        notes.append(f"its values have shape {values.shape}; twoafc.distance makes that ({len(ref)},)")
    try:
        unsteady = [*_repeatable(trial)]
        problems += unsteady
        if not unsteady:
            for check in (_finite, _direction, _independent, _input_range):
                problems += check(trial)
            notes += _remarks(trial)
    except CallError as error:
        problems.append(f"it raises {error}, though it works on other images of {used} x {used} pixels")
    return Report(subject.name, used, _least_size(trial), tuple(problems), tuple(notes))


def _least_size(trial: Trial) -> int:
    """Return the smallest size of images that the callable works on, by bisection."""
    low, high = 0, int(trial.ref.shape[-1])
    while high - low > 1:
        middle = (low + high) // 2
        small = trial.ref[:1, :, :middle, :middle], trial.mixed[:1, :, :middle, :middle]
        low, high = (low, middle) if trial.works(*small) else (middle, high)
    return high


# --- the callable, and the images that it is tried on -----------------------------------------------------------------


class CallError(Exception):
    """An error of a callable under test."""


def _subject(f: Distance) -> Own:
    """Wrap a callable, unless it is wrapped already."""
    if isinstance(f, Own):
        return f
    name = getattr(f, "name", None) or getattr(f, "__name__", None) or type(f).__name__
    takes = detect_kind(f)
    return Own(str(name), f, takes, str(getattr(f, "device", "cpu")) if takes == "torch" else "cpu")


@dataclass(frozen=True, eq=False)
class Trial:
    """A callable, photographs, their distorted versions, and the callable's values for them."""

    subject: Own
    ref: Images  # (4, 3, size, size)
    x: Images  # (3, 4, 4, 3, size, size), by distortion, strength and photograph

    def raw(self, ref: Images, x: Images) -> NDArray[Any]:
        """Return the result for copies of some images, of any shape."""
        own = self.subject
        try:
            return as_array(call_with_copies(own.function, own.takes, own.device, ref, x))
        except Exception as error:  # a user's callable may raise anything
            raise CallError(" ".join(f"{type(error).__name__}: {error}".split())) from error

    def values(self, ref: Images, x: Images) -> FloatArray:
        """Return one value for each image."""
        values = self.raw(ref, x)
        if values.size != len(ref):
            raise CallError(f"no error, but gives shape {values.shape} for {len(ref)} images")
        return values.reshape(len(ref)).astype(np.float64)

    def works(self, ref: Images, x: Images) -> bool:
        """Whether the callable returns finite numbers for some images."""
        try:
            return bool(np.isfinite(self.values(ref, x)).all())
        except CallError:
            return False

    @cached_property
    def d(self) -> FloatArray:
        """Values for (ref, x), shape (3, 4, 4)."""
        return np.array([[self.values(self.ref, x) for x in by_strength] for by_strength in self.x])

    @cached_property
    def equal(self) -> FloatArray:
        """Values for (ref, ref), shape (4,)."""
        return self.values(self.ref, self.ref)

    @cached_property
    def usual(self) -> float:
        """The median change of a value by distortion, relative to which deviations are judged."""
        change = abs(self.d - np.where(np.isfinite(self.equal), self.equal, 0))
        return float(np.median(change[np.isfinite(change)])) if np.isfinite(change).any() else 0.0

    @cached_property
    def mixed(self) -> Images:
        """The four photographs, each with noise of another strength."""
        return np.stack([self.x[0, i, i] for i in range(len(self.ref))])

    @cached_property
    def is_similarity(self) -> bool:
        """Whether values are highest for equal images, and fall as photographs are distorted."""
        steps = np.diff(self.d, axis=1)
        falling = np.mean(steps < -SAME * self.usual) - np.mean(steps > SAME * self.usual)
        return bool(falling > 0.5 and np.mean(self.d < self.equal) > 0.9)


def _trial(subject: Own, size: int, seed: int) -> Trial:
    ref = _photographs(size, seed)
    # One seed, so that only the strength differs.
    x = [[distort(name, ref, np.full(len(ref), by), seed=seed) for by in STRENGTHS] for name in DISTORTIONS]
    return Trial(subject, ref, np.stack(x))


def _photographs(size: int, seed: int) -> Images:
    """Cut a square from each of four photographs, at a random place that is not nearly flat."""
    rng = np.random.default_rng(seed)
    squares = []
    for name in PHOTOGRAPHS:
        image = photograph(name)
        corners = rng.integers(0, [side - size + 1 for side in image.shape[1:]], size=(64, 2))
        cuts = [image[:, row : row + size, column : column + size] for row, column in corners]
        squares.append(next((cut for cut in cuts if cut.std() >= LEAST_CONTRAST), cuts[0]))
    return np.stack(squares)


# --- the rules --------------------------------------------------------------------------------------------------------


def _leaves_images_alone(trial: Trial) -> Problems:
    """Images must not be changed in place: other distances are measured on them next."""
    seen: dict[str, tuple[Any, Any]] = {}

    def watching(ref: Images, x: Images) -> object:
        seen.update(ref=(ref, as_array(ref).copy()), x=(x, as_array(x).copy()))
        return trial.subject.function(ref, x)

    replace(trial, subject=replace(trial.subject, function=watching)).raw(trial.ref, trial.mixed)
    changed = [name for name, (after, before) in seen.items() if not np.array_equal(as_array(after), before)]
    if changed:
        yield f"it changes its images: {' and '.join(changed)} was not the same after the call; work on a copy"


def _finite(trial: Trial) -> Problems:
    """Values must be finite, for flat images too."""
    flat = np.broadcast_to(np.array([0, 0, 0.5, 1], dtype=np.float32)[:, None, None, None], trial.ref.shape)
    by_case = {"equal images": trial.equal, "images of one colour": trial.values(flat, flat[::-1])}
    by_case |= {f"photographs distorted by {name}": d for name, d in zip(DISTORTIONS, trial.d, strict=True)}
    for where, values in by_case.items():
        wrong = values[~np.isfinite(values)]
        if wrong.size:
            count = f"{wrong.size} of {values.size}"
            yield f"not finite: it is {wrong[0]} for {where} ({count}); a table cannot have such values"


def _direction(trial: Trial) -> Problems:
    """Smaller must mean closer, equal images must be at 0, and no value may be negative."""
    equal, worst = float(np.median(trial.equal)), float(np.median(trial.d[:, -1]))
    if trial.usual == 0 and not [*_input_range(trial)]:
        yield f"it is constant: it is {equal:.3g} for equal and for distorted photographs"
    elif trial.is_similarity:
        remedy = "return 1 - similarity, for example" if np.isfinite(equal) else "return a value that grows instead"
        fall = f"it is {equal:.3g} for equal images and falls to {worst:.3g} for distorted ones"
        yield f"larger means closer: {fall}; {remedy}"
    elif np.isfinite(equal) and abs(trial.equal).max() > ZERO * trial.usual:
        value = trial.equal[abs(trial.equal).argmax()]
        text = f"it is {value:.3g} for a photograph and itself, and {worst:.3g} for a distorted one"
        yield f"d(x, x) is not 0: {text}; a distance starts at 0"
    low = float(np.nanmin([trial.equal.min(), trial.d.min()]))
    if low < -SAME * trial.usual and not trial.is_similarity:
        yield f"negative values: down to {low:.3g}; a distance is at least 0"


def _repeatable(trial: Trial) -> Problems:
    """Equal calls must give equal values; otherwise nothing else can be checked."""
    first, again = (trial.values(trial.ref, trial.mixed) for _ in range(2))
    if (at := most_unlike(first, again, SAME * trial.usual)) is not None:
        text = f"{first[at]:.6g}, then {again[at]:.6g} for the same images"
        yield f"not repeatable: {text}; fix its seed, or leave training mode; nothing else was tested"


def _independent(trial: Trial) -> Problems:
    """An image's value must be the same in any order of the batch, and alone."""
    ref, x, values_of = trial.ref, trial.mixed, trial.values
    first, turned = values_of(ref, x), values_of(ref[::-1], x[::-1])[::-1]
    alone = np.concatenate([values_of(ref[i : i + 1], x[i : i + 1]) for i in range(len(ref))])
    for values, how in ((turned, "with the batch in reverse order"), (alone, "alone")):
        if (at := most_unlike(first, values, SAME * trial.usual)) is not None:
            text = f"{first[at]:.6g} in a batch of {len(ref)}, {values[at]:.6g} {how}"
            yield f"depends on the batch: an image has {text}; use nothing of the other images, or leave training mode"
            return


def _input_range(trial: Trial) -> Problems:
    """Images come in [0, 1]: a callable meant for [0, 255] behaves differently on the two."""
    x = trial.x[:, 2].reshape(-1, *trial.ref.shape[1:])
    ref = np.tile(trial.ref, (len(DISTORTIONS), 1, 1, 1))
    near, wide, wider = (_changes(trial, ref, x, scale) for scale in (1, 255, 510))
    if wide is None or near is None:  # a callable that refuses another range has not mistaken its own
        return
    (change, contrast), (change_255, contrast_255) = near, wide
    usual, usual_255 = float(np.median(change)), float(np.median(change_255))
    ratios = change_255 / np.where(change > 0, change, np.inf)
    # A bounded distance that is near its bound on [0, 255], and far below it on [0, 1].
    bounded = usual == 0 or wider is None or np.median(wider[0]) < 1.3 * usual_255
    if ratios.min() > 100 and np.ptp(ratios) < 0.02 * ratios.max() and abs(contrast_255 - 1) < 0.1:
        text = f"black and white are {contrast:.3g} apart, and {contrast_255:.3g} if both are multiplied by 255"
        yield f"wrong input range: {text}; images come in [0, 1]: do not divide by 255 again"
    elif usual < 0.05 * usual_255 and bounded and contrast < 0.3 * contrast_255:
        text = f"distorting a photograph changes it by {usual:.3g}, and by {usual_255:.3g} on [0, 255]"
        yield f"wrong input range: {text}; images come in [0, 1]: multiply them by 255, or adapt its constants"


def _changes(trial: Trial, ref: Images, x: Images, scale: float) -> tuple[FloatArray, float] | None:
    """Return the change by distortion, and from black to white, of scaled images; None if the callable raises."""
    ref, x = np.float32(scale) * ref, np.float32(scale) * x
    black = np.zeros_like(ref[:1])
    try:
        change = abs(trial.values(ref, x) - trial.values(ref, ref))
        contrast = abs(trial.values(black, black + np.float32(scale)) - trial.values(black, black))[0]
    except CallError:
        return None
    return (change, float(contrast)) if np.isfinite([*change, contrast]).all() else None


def _remarks(trial: Trial) -> Problems:
    """Note properties that are allowed, but that users should know."""
    there, back = trial.values(trial.ref, trial.mixed), trial.values(trial.mixed, trial.ref)
    if abs(there - back).max() > ZERO * trial.usual:
        at = abs(there - back).argmax()
        yield f"not symmetric: d(ref, x) = {there[at]:.3g}, d(x, ref) = {back[at]:.3g}; the reference comes first"
    # Rounding at 0 matters to users who divide by a distance.
    largest = abs(trial.equal).max()
    if SAME / 10 * trial.usual < largest <= ZERO * trial.usual:
        yield f"d(x, x) is {largest:.1g}, not quite 0, probably by rounding"
    # A distance of 1 between -1 and 1 suggests images in [-1, 1].
    black = np.zeros_like(trial.ref[:1])
    if trial.works(black - 1, black + 1):
        ours, wider = (float(trial.values(low, black + 1)[0]) for low in (black, black - 1))
        if abs(wider - 1) < 1e-3 and (abs(ours - 1 / 2) < 1e-3 or abs(ours - 1 / 4) < 1e-3):
            yield f"black and white are {ours:.3g} apart, and 1 if black is -1; does it expect images in [-1, 1]?"
