"""What the fits of this package share: the counts that they were fitted to, and how they are saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from numpy.typing import NDArray

from twoafc.files import save_archive


@dataclass(frozen=True, eq=False, repr=False)
class Saved:
    """A fit that can be saved; ``carried`` are further arrays of its file, the counts that it was fitted to."""

    settings: Any
    carried: Mapping[str, NDArray[Any]] = field(default_factory=dict, kw_only=True)

    name: ClassVar[str]
    """The name in the file of a model of triplets."""

    @property
    def k(self) -> int:
        """Distances of a row: 2 for triplets, 1 for pairs."""
        return 2

    @property
    def kind(self) -> str:
        """The name in the file of a model."""
        return self.name if self.k == 2 else f"pairs-{self.name}"

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays that a saved model holds, without those that it carries."""
        raise NotImplementedError

    def saved_settings(self) -> dict[str, Any]:
        """Settings that a saved model holds."""
        return asdict(self.settings)

    def save(self, path: str | Path) -> None:
        """Write the model; `twoafc.load` reads it."""
        save_archive(path, self.kind, self.saved_settings(), {**self.arrays(), **self.carried})
