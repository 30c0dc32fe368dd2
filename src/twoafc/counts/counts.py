"""`Counts`: how many triplets fell into each bin of d0 and of d1, with their sign, n, M and group.

Method, section "Density estimator": sums of kernels live on axes that depend on the data's own map, so that fits of
different data cannot be added. Counts on one lattice of raw distances can; map, fit and scores are made from their sum.

Clustered error bars need sums over the triplets of each reference of terms that depend on the fit, which is not known
yet when votes are counted. Where it is asked for, a second table therefore keeps the reference in the key, on bins
4 times as wide: a term of a wide cell is the mean of its terms in the fine cells that lie in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twoafc.counts.atoms import Atoms, joined
from twoafc.counts.cells import CLUSTER_KEY, KEY, cluster_lattice, gathered, widened
from twoafc.counts.lattice import Lattice
from twoafc.counts.stored import NOTES, TRIPLETS, Stored, packed, unpacked
from twoafc.errors import DataError
from twoafc.files import read_archive, save_archive

KIND = "counts"
"""What a file of counts says that it holds, where one of a model names its estimator."""


@dataclass(frozen=True, eq=False, repr=False)
class Counts:
    """Triplets of one distance, counted; made by `twoafc.engine.count`, added by `merge`.

    Attributes
    ----------
    distance : str
        Name of the distance.
    lattice : Lattice
        Bins of d0 and d1.
    cells : polars.DataFrame
        ``group`` (a number among `groups`), ``bin0``, ``bin1``, ``sign`` of d0 - d1, ``n``, ``M`` and ``count``, the
        number of triplets, at least 1; each key once, in order.
    groups : tuple of str
        Names of the groups, sorted; none where the table has no column of groups, and every ``group`` is 0 then.
    clusters : polars.DataFrame or None
        The same with ``ref`` (a digest of its name) in front and bins of `cluster_lattice`, where refs were kept.
    parts : tuple of str
        Digests of the counts that were added to make these; none where they were counted.
    files : tuple of str
        Fingerprints of the files that they were counted from; none where these are not known.
    rows : tuple of str
        What the rows of the tables were: ``triplets``, ``votes``, or ``unidentified votes``.
    atoms : mapping of float to int
        Values that so many distances share that their bins tower over those beside them, and how many do.

    Examples
    --------
    >>> from twoafc.counts import tally
    >>> from twoafc.table import Triplets
    >>> votes = {"n": [3, 3, 0], "M": [5, 5, 2], "ssim_d0": [0.4, 0.4, 0], "ssim_d1": [0.2, 0.2, 0]}
    >>> counts = tally(Triplets.from_frame(votes)["ssim"])
    >>> counts
    Counts(ssim: 3 triplets, 12 votes, 2 cells, 128 bins per octave)
    >>> print(*counts.cells.rows(), sep=chr(10))
    (0, 0, 0, 0, 0, 2, 1)
    (0, 4942, 4814, 1, 3, 5, 2)
    """

    distance: str
    lattice: Lattice
    cells: pl.DataFrame
    groups: tuple[str, ...] = ()
    clusters: pl.DataFrame | None = None
    parts: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    rows: tuple[str, ...] = (TRIPLETS,)
    atoms: Atoms = field(default_factory=dict)

    def __repr__(self) -> str:
        kept = ", refs kept" if self.clusters is not None else ""
        return (
            f"Counts({self.distance}: {self.triplets} triplets, {self.votes} votes, {len(self.cells)} cells, "
            f"{self.lattice.per_octave} bins per octave{kept})"
        )

    def __len__(self) -> int:
        return self.triplets

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Counts) or self.digest != other.digest:
            return False
        if self.clusters is None or other.clusters is None:
            return self.clusters is other.clusters
        return self.clusters.equals(other.clusters)

    def __hash__(self) -> int:
        return hash(self.digest)

    def __add__(self, other: Counts) -> Counts:
        return merge([self, other])

    @cached_property
    def triplets(self) -> int:
        """Number of triplets counted."""
        return int(self.cells["count"].sum())

    @cached_property
    def votes(self) -> int:
        """Number of votes on them."""
        return int((self.cells["count"] * self.cells["M"]).sum())

    @property
    def notes(self) -> list[str]:
        """What a reader should know of the votes that were counted."""
        return [NOTES[kind] for kind in self.rows if kind in NOTES]

    @property
    def cluster_lattice(self) -> Lattice:
        """Bins of the table by reference."""
        return cluster_lattice(self.lattice)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the cells: the same for the same votes, whatever parts they came in, with refs or without."""
        said = hashlib.sha256(repr((self.distance, self.lattice, self.groups)).encode())
        for column in self.cells.iter_columns():
            said.update(column.to_numpy().tobytes())
        return said.hexdigest()

    def coarser(self) -> Counts:
        """Give the counts that the lattice with half as many bins would have given.

        Examples
        --------
        >>> from twoafc.counts import tally
        >>> from twoafc.table import Triplets
        >>> table = Triplets.from_frame({"n": [1, 1], "M": [2, 2], "d0": [0.404, 0.405], "d1": [0.2, 0.2]})
        >>> len(tally(table).cells), len(tally(table).coarser().cells)
        (2, 1)
        """
        lattice = self.lattice.coarser()
        cells = gathered(KEY, widened(self.cells, self.lattice, lattice))
        made = Counts(self.distance, lattice, cells, self.groups, files=self.files, rows=self.rows, atoms=self.atoms)
        if self.clusters is None:
            return made
        clusters = gathered(CLUSTER_KEY, widened(self.clusters, self.cluster_lattice, made.cluster_lattice))
        return replace(made, clusters=clusters)

    def split(self, folds: int, *, seed: int) -> list[Counts]:
        """Give every triplet at random to one of several folds, which add up to the whole.

        Triplets of one cell are alike, so that only their number in each fold is drawn. References are not kept apart,
        and not kept: the table by reference has other bins.

        Examples
        --------
        >>> from twoafc.counts import tally
        >>> from twoafc.table import Triplets
        >>> counts = tally(Triplets.from_frame({"n": [1, 0] * 50, "M": [2] * 100, "d0": [3] * 100, "d1": [2] * 100}))
        >>> parts = counts.split(2, seed=0)
        >>> merge(parts) == counts, [len(part) for part in parts]
        (True, [49, 51])
        """
        return [
            replace(
                self,
                cells=self.cells.with_columns(count=pl.Series(drawn)).filter(pl.col("count") > 0),
                clusters=None,
                parts=(),
                files=(),
            )
            for drawn in self.drawn(folds, seed=seed)
        ]

    def drawn(self, folds: int, *, seed: int) -> Iterator[NDArray[np.int64]]:
        """Give the number of triplets of each cell that `split` puts into each fold, one fold after the other."""
        if not 2 <= folds <= self.triplets:
            raise DataError(f"folds must lie between 2 and the number of triplets, {self.triplets}; found {folds}")
        rng, left = np.random.default_rng(seed), self.cells["count"].to_numpy()
        for rest in range(folds, 0, -1):
            taken = rng.binomial(left, 1 / rest)
            left = left - taken
            if not taken.any() or (rest > 1 and not left.any()):
                raise DataError(
                    f"each fold must have triplets; of {self.triplets} one of {folds} folds got none: take fewer folds"
                )
            yield taken

    def save(self, path: str | Path) -> None:
        """Write the counts as .npz; a crash leaves the old file or none."""
        card, arrays = self.stored()
        save_archive(path, KIND, card, arrays)

    @classmethod
    def load(cls, path: str | Path) -> Counts:
        """Read counts back; a file of another kind, or one that was changed, is refused with a `DataError`."""
        kind, card, arrays = read_archive(path)
        if kind != KIND:
            raise DataError(f"{path} holds no counts; it holds a model of kind {kind!r}")
        try:
            return cls.restore(card, arrays)
        except DataError as error:
            raise DataError(f"{path} holds no usable counts; {error}") from error

    def stored(self) -> Stored:
        """What a file holds: settings as plain values, and arrays; a model that carries counts holds them too."""
        card = {
            "distance": self.distance,
            "per_octave": self.lattice.per_octave,
            "groups": list(self.groups),
            "refs_kept": self.clusters is not None,
            "parts": list(self.parts),
            "files": list(self.files),
            "rows": list(self.rows),
            "atoms": [[value, times] for value, times in self.atoms.items()],
        }
        arrays = packed(self.cells)
        if self.clusters is not None:
            arrays |= packed(self.clusters, "clusters_")
        return card, arrays

    @classmethod
    def restore(cls, card: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Counts:
        """Take back what `stored` gave, checking all of it."""
        return cls(*unpacked(card, arrays))


def merge(counts: Sequence[Counts], *, names: Sequence[str] | None = None) -> Counts:
    """Add counts of parts, days or sites: exactly what counting all their triplets together gives.

    The refs are kept where all of them kept theirs.

    Parameters
    ----------
    counts : sequence of Counts
        Of one distance, on one lattice; all with groups, or all without.
    names : sequence of str, optional
        What errors call them.
    """
    if not counts:
        raise ValueError("there must be counts to merge; found none")
    names = names or [f"part {place}" for place in range(len(counts))]
    first = counts[0]
    for name, other in zip(names, counts, strict=True):
        _check_alike(names[0], first, name, other)
    if len(counts) == 1:
        return first
    groups = tuple(sorted({group for each in counts for group in each.groups}))
    kept = [renumbered(each.clusters, each.groups, groups) for each in counts if each.clusters is not None]
    parts = {digest for each in counts for digest in each.parts or (each.digest,)}
    return Counts(
        first.distance,
        first.lattice,
        gathered(KEY, *(renumbered(each.cells, each.groups, groups) for each in counts)),
        groups,
        gathered(CLUSTER_KEY, *kept) if len(kept) == len(counts) else None,
        tuple(sorted(parts)),
        tuple(sorted({file for each in counts for file in each.files})),
        tuple(sorted({kind for each in counts for kind in each.rows})),
        joined([each.atoms for each in counts]),
    )


def _check_alike(one: str, a: Counts, other: str, b: Counts) -> None:
    """Refuse counts that do not add up to anything, with the reason."""
    if a.distance != b.distance:
        raise DataError(f"counts of one distance add; {one} counts {a.distance}, {other} {b.distance}")
    if a.lattice != b.lattice:
        raise DataError(
            f"counts on one lattice add; {one} has {a.lattice.per_octave} bins per octave, {other} "
            f"{b.lattice.per_octave}: count one of them again, or take the finer ones on wider bins (Counts.coarser)"
        )
    if bool(a.groups) != bool(b.groups):
        with_groups, without = (one, other) if a.groups else (other, one)
        raise DataError(f"counts add where all have groups or none has; {with_groups} has them, {without} has not")


def renumbered(frame: pl.DataFrame, old: Sequence[str], new: Sequence[str]) -> pl.DataFrame:
    """Number the groups of one part as those of all parts together are."""
    if not old:
        return frame
    place = np.array([new.index(name) for name in old], dtype=np.int32)
    return frame.with_columns(group=pl.Series(place[frame["group"].to_numpy()]))
