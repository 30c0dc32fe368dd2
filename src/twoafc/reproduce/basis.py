"""Which figures found here may be set against the paper's: those of its splits, where these are whole."""

from __future__ import annotations

from dataclasses import dataclass

from twoafc.reproduce.experiments import Measured
from twoafc.reproduce.printed import document
from twoafc.reproduce.sources import SETS
from twoafc.table import Triplets

NEAR = 0.01
"""A split or a family is whole if its triplets are as many as the paper's but for this share: some may be lost."""
CALLED = {"train": "training set", "test": "test set"}


@dataclass(frozen=True)
class Basis:
    """What of a data set is as in the paper.

    Parameters
    ----------
    splits : frozenset of str
        train, test: those that are there, and whole.
    families : frozenset of str
        Distortions of the test set that are whole.
    warnings : tuple of str
        What is missing, and what is not compared for it.
    """

    splits: frozenset[str] = frozenset()
    families: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether everything is as in the paper."""
        return self.splits == frozenset(CALLED)

    def compares(self, estimator: str, split: str, group: str = "all") -> bool:
        """Tell whether a figure rests on the same data as the paper's; P is always fitted to the training set.

        Examples
        --------
        >>> tested = Basis(frozenset({"test"}))
        >>> tested.compares("distance", "test"), tested.compares("density", "test")
        (True, False)
        """
        if split == "train":
            return "train" in self.splits
        fitted = estimator == "distance" or "train" in self.splits
        return fitted and ("test" in self.splits if group in ("all", "mean") else group in self.families)


def basis(data: Measured, *, counted: bool = True) -> Basis:
    """Hold a data set against the paper's numbers of triplets.

    Parameters
    ----------
    counted : bool
        Whether to tell of triplets that are fewer than the paper's; not where a limit has made them so.
    """
    alone = data.source.alone
    there = data.as_in_paper
    lacks = {role: _lacks(data.name, role, table, counted=counted) for role, table in there.items()}
    warnings = [_alone(data.name, alone)] if alone else []
    for role, told in lacks.items():
        if told:
            what = f"{SETS[data.name]}, {CALLED[role]}: {'; '.join(told)}"
            warnings.append(f"{what}; figures that depend on it are not compared with the paper's.")
    splits = frozenset(role for role, table in there.items() if _is_whole(data.name, role, table))
    families = _families(data.name, "test") if "test" in there else {}
    counts = _counts(there["test"]) if families else {}
    whole = frozenset(name for name, expected in families.items() if _near(counts.get(name, 0), expected))
    return Basis(splits, whole, tuple(warnings))


def _is_whole(name: str, role: str, table: Triplets) -> bool:
    counts = _counts(table)
    families = _families(name, role)
    known = all(
        _near(counts.get(family, 0), count) if count else family in counts for family, count in families.items()
    )
    return known and _near(len(table), document()["data"][name][role]["count"])


def _lacks(name: str, role: str, table: Triplets, *, counted: bool) -> list[str]:
    """Say what a split lacks of the paper's, or has beside it."""
    if _is_whole(name, role, table):
        return []
    printed, counts = document()["data"][name][role], _counts(table)
    lost = [family for family in _families(name, role) if family not in counts]
    told = [f"{', '.join(lost)} {'is' if len(lost) == 1 else 'are'} missing"] if lost else []
    if counted or lost:
        told.append(f"{len(table):,} of the paper's {printed['triplets']} triplets")
    return told if counted or lost else []


def _alone(name: str, role: str) -> str:
    """Say what it means that one split is all that is there."""
    printed = document()["data"][name]
    M, other_M = printed[role]["M"], printed["test" if role == "train" else "train"]["M"]
    if role == "train":
        return (
            f"{SETS[name]} has no test set here: what stands in its place is cross-validated on the training set "
            f"(M = {M}, not {other_M}), and is not compared with the paper's."
        )
    return (
        f"{SETS[name]} has no training set here: P is cross-validated on the test set, which also stands in the place "
        f"of the training set (M = {M}, not {other_M}); only the distance alone is compared with the paper's."
    )


def _families(name: str, role: str) -> dict[str, int | None]:
    """Name the families of a split, with their triplets where they are known."""
    return dict(document()["data"][name][role].get("families", {}))


def _counts(table: Triplets) -> dict[str, int]:
    if "group" not in table.labels.columns:
        return {}
    return dict(table.labels["group"].value_counts().iter_rows())


def _near(found: int, expected: int | None) -> bool:
    return expected is None or abs(found - expected) <= NEAR * expected
