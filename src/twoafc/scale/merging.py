"""Add counts of several sites, and refit models that carry the counts they were fitted to; votes stay at their site."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np
import polars as pl

from twoafc import estimators
from twoafc.errors import DataError, naming
from twoafc.estimators import CARRIED, CountsEstimator, Model
from twoafc.files import read_archive
from twoafc.scale.lattice import BIN_KEY, KEY, KIND, REF_KEY, Counts, summed

CARD = f"{CARRIED}card"
SURE = 100
"""With fewer cells, two small sites may have the same counts by chance."""


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
    groups = tuple(sorted({group for part in counts for group in part.groups}))
    return Counts(
        first.distance,
        first.lattice,
        summed(
            REF_KEY if all(part.refs_kept for part in counts) else KEY,
            *(_renumbered(part.cells, part.groups, groups) for part in counts),
        ),
        summed(BIN_KEY, *(part.histogram for part in counts)),
        (min(part.ends[0] for part in counts), max(part.ends[1] for part in counts)),
        groups,
        tuple(sorted({digest for part in counts for digest in part.parts or (part.digest,)})),
        tuple(sorted({file for part in counts for file in part.files})),
        tuple(sorted({kind for part in counts for kind in part.rows})),
    )


def _check_alike(one: str, a: Counts, other: str, b: Counts) -> None:
    """Refuse counts that cannot be added, with the reason."""
    if a.distance != b.distance:
        raise DataError(f"only counts of one distance can be merged; {one} has {a.distance}, {other} {b.distance}")
    if a.lattice != b.lattice:
        raise DataError(
            f"only counts on one lattice can be merged; {one} has {a.lattice.per_octave} bins per octave, {other} "
            f"{b.lattice.per_octave}: count one of them again, or make the finer ones coarser (Counts.coarser)"
        )
    if bool(a.groups) != bool(b.groups):
        with_groups, without = (one, other) if a.groups else (other, one)
        raise DataError(
            f"counts can be merged only if all have groups or none do; {with_groups} has groups, {without} has none"
        )


def _renumbered(cells: pl.DataFrame, old: Sequence[str], new: Sequence[str]) -> pl.DataFrame:
    """Number the groups of one part as in the sum of all parts."""
    if not old:
        return cells
    place = np.array([new.index(name) for name in old], dtype=np.int32)
    return cells.with_columns(group=pl.Series(place[cells["group"].to_numpy()]))


def load_counts(files: Sequence[str]) -> dict[str, Counts]:
    """Load files of counts by distance, and add up those of the same distance."""
    by_distance: dict[str, list[tuple[str, Counts]]] = {}
    for file in files:
        counts = Counts.load(file)
        by_distance.setdefault(counts.distance, []).append((file, counts))
    return {distance: _merged_once(*zip(*named, strict=True))[0] for distance, named in by_distance.items()}


def _merged_once(names: Sequence[str], counts: Sequence[Counts]) -> tuple[Counts, list[str]]:
    """Add counts, refuse votes that are in two of them, and note where that is not certain."""
    # Added first, so that counts on different lattices are refused for that.
    total, notes = merge(counts, names=names), []
    for (one, a), (other, b) in combinations(zip(names, counts, strict=True), 2):
        shared = share_votes(a, b)
        if shared:
            raise DataError(f"votes must be merged only once; {other} has counts that are already in {one}")
        if shared is None:
            notes.append(
                f"{one} and {other} have the same cells, from different files; the same votes would be counted twice"
            )
    return total, notes


def share_votes(a: Counts, b: Counts) -> bool | None:
    """Whether two counts have the same votes, by the files or the cells that they were made of.

    None where it may be chance: few cells are the same, and they come from different files.
    """
    if set(a.files) & set(b.files):
        return True
    if not {*(a.parts or (a.digest,))} & {*(b.parts or (b.digest,))}:
        return False
    by_chance = a.files and b.files and min(len(a.cells), len(b.cells)) < SURE
    return None if by_chance else True


def carrying(fit: Model, estimator: CountsEstimator, counts: Counts) -> Model:
    """Add to a fit its counts and the settings that the user asked for (sigma "auto", not the chosen one)."""
    card, arrays = counts.stored()
    text = json.dumps({"asked": asdict(estimator), "counts": card}).encode()
    carried = {CARD: np.frombuffer(text, dtype=np.uint8)} | {
        f"{CARRIED}{name}": array for name, array in arrays.items()
    }
    return replace(fit, carried=carried)


def fit_counts(estimator: CountsEstimator, counts: Counts) -> Model:
    """Fit P to counts; the model carries them, so that `merge_files` can fit it anew with new votes.

    Examples
    --------
    >>> from twoafc import Density, count, worlds
    >>> counts = count(worlds.simulate("weber", triplets=3000, votes=2))["distance"]
    >>> fit = fit_counts(Density(sigma=0.1), counts)
    >>> bool(fit.probability(2.0, 1.0) > 0.7), carried_by(fit)[1] == counts
    (True, True)
    """
    return carrying(estimator.fit(counts.table()), estimator, counts)


def carried_by(model: Model) -> tuple[CountsEstimator, Counts]:
    """Return the settings that a model was asked for, and the counts that it carries."""
    if CARD not in model.carried:
        raise DataError("the model carries no counts")
    arrays = {name.removeprefix(CARRIED): array for name, array in model.carried.items() if name != CARD}
    card = json.loads(model.carried[CARD].tobytes())
    return type(model.settings)(**card["asked"]), Counts.restore(card["counts"], arrays)


@dataclass(frozen=True, eq=False)
class MergedFiles:
    """The result of merging files.

    Attributes
    ----------
    made : Counts, or a fit that carries its counts
        Both have ``save(path)``.
    counts : Counts
        The sum.
    notes : list of str
        Notes for the user.
    """

    made: Counts | Model
    counts: Counts
    notes: list[str]


def merge_files(paths: Sequence[str | Path]) -> MergedFiles:
    """Add the counts of some files; if there are models among them, fit their estimator to the sum.

    Parameters
    ----------
    paths : sequence of paths
        Files of counts, and models of one estimator and its settings that carry counts; of one distance, on one
        lattice, no votes twice.
    """
    if len(paths) < 2:
        raise ValueError(f"name two files to merge, or more; found {len(paths)}")
    names = sorted(map(str, paths), key=lambda name: read_archive(name)[0] == KIND)  # models first
    settings: dict[str, CountsEstimator] = {}
    counts = []
    for name in names:
        if read_archive(name)[0] == KIND:
            counts.append(Counts.load(name))
            continue
        model = estimators.load(name)
        if CARD not in getattr(model, "carried", {}):
            raise DataError(
                f"only models fitted to counts can be merged; {name} carries none: "
                "fit it with twoafc evaluate --engine, or merge the tables"
            )
        with naming(name):
            settings[name], carried = carried_by(model)
        counts.append(carried)
        one, other = repr(settings[names[0]]), repr(settings[name])
        if one != other:
            raise DataError(f"only models with equal settings can be merged; {names[0]} is {one}, {name} {other}")
    total, notes = _merged_once(names, counts)
    made = fit_counts(settings[names[0]], total) if settings else total
    lost = any(part.refs_kept for part in counts) and not total.refs_kept
    refs = ["not all files kept their refs; error bars of the sum are not clustered"] if lost else []
    return MergedFiles(made, total, [*refs, *notes, *total.vote_notes])
