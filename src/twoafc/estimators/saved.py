"""What the fits of this package share: the counts that they were fitted to, and how they are saved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from numpy.typing import ArrayLike, NDArray

from twoafc.arrays import FloatArray
from twoafc.core import Uniform
from twoafc.files import save_archive


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A fit that can be saved; ``carried`` are further arrays of its file, the counts that it was fitted to."""

    settings: Any
    carried: Mapping[str, NDArray[Any]] = field(default_factory=dict, kw_only=True)

    name: ClassVar[str]
    """The name in the file of a model of triplets."""

    if TYPE_CHECKING:  # what each fit has besides

        @property
        def probability(self) -> Callable[..., FloatArray]: ...  # noqa: D102
        @property
        def uniform(self) -> Uniform | None: ...  # noqa: D102
        def arrays(self) -> dict[str, NDArray[Any]]: ...  # noqa: D102
        def summary(self) -> dict[str, Any]: ...  # noqa: D102

    @property
    def k(self) -> int:
        """Distances of a row: 2 for triplets, 1 for pairs."""
        return 2

    @property
    def kind(self) -> str:
        """The name in the file of a model."""
        return self.name if self.k == 2 else f"pairs-{self.name}"

    def saved_settings(self) -> dict[str, Any]:
        """Return the settings of a saved model."""
        return asdict(self.settings)

    def save(self, path: str | Path) -> None:
        """Write the model; `twoafc.load` reads it."""
        save_archive(path, self.kind, self.saved_settings(), {**self.arrays(), **self.carried})


@dataclass(frozen=True)
class OfTriplets:
    """A function of d0 and d1, of any shape."""

    value: Callable[..., FloatArray]

    def __call__(self, d0: ArrayLike, d1: ArrayLike) -> FloatArray:
        """Return its value."""
        return self.value(d0, d1)


@dataclass(frozen=True)
class OfPairs:
    """A function of d, of any shape."""

    value: Callable[..., FloatArray]

    def __call__(self, d: ArrayLike) -> FloatArray:
        """Return its value."""
        return self.value(d)


def of_rows(value: Callable[..., FloatArray], k: int) -> Callable[..., FloatArray]:
    """Name the parameters of a function: d0 and d1 or, for pairs (k = 1), d. It can be pickled if `value` can."""
    return OfTriplets(value) if k == 2 else OfPairs(value)
