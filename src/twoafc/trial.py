"""What a callable that may be a distance is tried on: photographs spoiled more and more, and how it is called."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoafc.distances import Distance, Kind, Own, as_array, call_with_copies, detect_kind
from twoafc.worlds import LEAST_CONTRAST, Images, distort, photograph

Values = NDArray[np.float64]

PHOTOGRAPHS = ("astronaut", "chelsea", "coffee", "rocket")
DISTORTIONS = ("noise", "blur", "jpeg")
STRENGTHS = (0.1, 0.3, 0.6, 1.0)


class Raised(Exception):  # noqa: N818 - it is the callable's error, told in words
    """What a callable under trial has raised."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A callable under trial, and whether it is given arrays or tensors.

    Examples
    --------
    >>> subject_of(lambda ref, x: abs(ref - x).mean(axis=(1, 2, 3)))(np.zeros((1, 3, 8, 8)), np.ones((1, 3, 8, 8)))
    array([1.])
    """

    name: str
    function: Distance
    takes: Kind
    device: str

    def raw(self, ref: Images, x: Images) -> NDArray[Any]:
        """What it gives for copies of some images, whatever its shape."""
        try:
            return as_array(call_with_copies(self.function, self.takes, self.device, ref, x))
        except Exception as error:  # a user's callable may raise anything
            raise Raised(" ".join(f"{type(error).__name__}: {error}".split())) from error

    def __call__(self, ref: Images, x: Images) -> Values:
        """One value for each image."""
        values = self.raw(ref, x)
        if values.size != len(ref):
            raise Raised(f"no error, but gives shape {values.shape} for {len(ref)} images")
        return values.reshape(len(ref)).astype(np.float64)

    def works(self, ref: Images, x: Images) -> bool:
        """Whether it gives finite numbers for some images."""
        try:
            return bool(np.isfinite(self(ref, x)).all())
        except Raised:
            return False


def subject_of(f: Distance) -> Subject:
    """Take a callable as it is, or out of its wrapping."""
    if isinstance(f, Own):
        return Subject(f.name, f.function, f.takes, f.device)
    name = getattr(f, "name", None) or getattr(f, "__name__", None) or type(f).__name__
    takes = detect_kind(f)
    return Subject(str(name), f, takes, str(getattr(f, "device", "cpu")) if takes == "torch" else "cpu")


@dataclass(frozen=True, eq=False)
class Trial:
    """Photographs, the same spoiled in three ways and four strengths, and what a callable makes of them.

    Parameters
    ----------
    subject : Subject
        The callable.
    ref : array of float32, shape (4, 3, size, size)
        Photographs.
    x : array of float32, shape (3, 4, 4, 3, size, size)
        The same, by distortion, strength and photograph.
    """

    subject: Subject
    ref: Images
    x: Images

    @cached_property
    def d(self) -> Values:
        """What it gives for (ref, x), shape (3, 4, 4)."""
        return np.array([[self.subject(self.ref, spoiled) for spoiled in way] for way in self.x])

    @cached_property
    def equal(self) -> Values:
        """What it gives for (ref, ref), shape (4,)."""
        return self.subject(self.ref, self.ref)

    @cached_property
    def usual(self) -> float:
        """How much spoiling changes its value, usually: what a deviation is to be compared with."""
        origin = np.where(np.isfinite(self.equal), self.equal, 0)
        change = abs(self.d - origin)
        return float(np.median(change[np.isfinite(change)])) if np.isfinite(change).any() else 0.0

    @cached_property
    def mixed(self) -> Images:
        """The four photographs, each spoiled by noise of another strength."""
        return np.stack([self.x[0, i, i] for i in range(len(self.ref))])


def photographs(size: int, *, seed: int = 0) -> Images:
    """Cut a square from each of four photographs, at a random place that is not nearly flat.

    Examples
    --------
    >>> photographs(64).shape
    (4, 3, 64, 64)
    """
    rng = np.random.default_rng(seed)
    cut = []
    for name in PHOTOGRAPHS:
        image = photograph(name)
        corners = rng.integers(0, [side - size + 1 for side in image.shape[1:]], size=(64, 2))
        squares = [image[:, row : row + size, column : column + size] for row, column in corners]
        cut.append(next((square for square in squares if square.std() >= LEAST_CONTRAST), squares[0]))
    return np.stack(cut)


def spoiled(ref: Images, *, seed: int = 0) -> Images:
    """Spoil images in three ways, each more and more: shape (3, 4, B, 3, size, size)."""
    count = len(ref)
    # One seed for all strengths: then only the strength differs.
    return np.stack(
        [[distort(name, ref, np.full(count, strength), seed=seed) for strength in STRENGTHS] for name in DISTORTIONS]
    )
