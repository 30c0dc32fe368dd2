"""Single votes merged into triplets by the engine itself, before they are counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw

from twoafc.engine.rules import broken_choice, broken_distance, broken_name
from twoafc.table import MOST_VOTES, QUADRUPLE, TRIPLET

TURNED, LEAST = "twoafc_turned", "_twoafc_least"
Pairs = Mapping[str, tuple[str, str]]


def identifying(columns: Sequence[str]) -> list[str]:
    """Columns that say which triplet a vote is on; none where nothing does.

    Examples
    --------
    >>> identifying(["choice", "ref", "x0", "x1", "d0", "d1"]), identifying(["choice", "d0", "d1"])
    (['ref', 'x0', 'x1'], [])
    """
    for names in (TRIPLET, QUADRUPLE, ("triplet",)):
        if set(names) <= set(columns):
            return list(names)
    return []


def merged_votes(frame: Any, columns: Sequence[str], pairs: Pairs) -> Any:
    """Merge the votes of a lazy frame: columns n, M, the distances, and group and ref where there are any.

    As `twoafc.votes.merge` does it: votes are turned so that of x0 and x1 the one whose name is smaller is x0, and a
    merged triplet is turned back where most of its votes were shown the other way round. A vote that breaks a rule, and
    votes on one triplet that give it unlike distances, leave an n outside [0, M], so that counting finds them.
    """
    labels = [name for name in ("group", "ref") if name in columns]
    distances = [name for pair in pairs.values() for name in pair]
    if not identifying(columns):
        n = nw.when(broken_choice()).then(nw.lit(-1.0)).otherwise(nw.col("choice").cast(nw.Float64))
        return frame.select(n.alias("n"), nw.lit(1).alias("M"), *distances, *labels)
    back = 2 * nw.col(TURNED) > nw.col("M")
    n, M = nw.col("n").cast(nw.Float64), nw.col("M").cast(nw.Float64)
    n = nw.when(_alike(distances, columns)).then(nw.when(back).then(M - n).otherwise(n)).otherwise(nw.lit(-1.0))
    usual = [
        nw.when(back).then(nw.col(there)).otherwise(nw.col(here)).alias(here)
        for pair in pairs.values()
        for here, there in (pair, pair[::-1])
    ]
    return _by_triplet(frame, columns, pairs).select(n.alias("n"), "M", *usual, *labels)


def unlike_votes(frame: Any, columns: Sequence[str], pairs: Pairs) -> Any:
    """Find the triplets whose votes give them unlike distances, or unlike references.

    Returns
    -------
    lazy frame with what identifies a triplet, and of all that must be alike the greatest and (name + `LEAST`) the least
    """
    distances = [name for pair in pairs.values() for name in pair]
    spread = [name for column in (*distances, *described(columns)) for name in (column, f"{column}{LEAST}")]
    found = _by_triplet(frame, columns, pairs).filter(~_alike(distances, columns))
    return found.select(*identifying(columns), *spread)


def described(columns: Sequence[str]) -> list[str]:
    """Columns that say the same of all votes on a triplet without identifying it: the reference, where `triplet` does.

    Examples
    --------
    >>> described(["choice", "triplet", "ref", "d0", "d1"]), described(["choice", "ref", "x0", "x1", "d0", "d1"])
    (['ref'], [])
    """
    return [name for name in ("ref",) if name in columns and name not in identifying(columns)]


def _by_triplet(frame: Any, columns: Sequence[str], pairs: Pairs) -> Any:
    """Group votes by triplet, turned so that the smaller name is x0: n, M, how many were turned, and the distances."""
    by = identifying(columns)
    swapped = _swapped(by)
    turned: dict[str, Any] = {}
    for d0, d1 in pairs.values():
        x0, x1 = nw.col(d0).cast(nw.Float64), nw.col(d1).cast(nw.Float64)
        turned |= {d0: nw.when(swapped).then(x1).otherwise(x0), d1: nw.when(swapped).then(x0).otherwise(x1)}
    items = {name: nw.col(name).cast(nw.String) for name in by}
    for one, other in (("x0", "x1"), ("ref0", "ref1")):
        if one in items and other in items:
            a, b = nw.col(one).cast(nw.String), nw.col(other).cast(nw.String)
            items |= {one: nw.when(swapped).then(b).otherwise(a), other: nw.when(swapped).then(a).otherwise(b)}
    kept = [name for name in ("group",) if name in columns]
    told = described(columns)
    choice = nw.col("choice").cast(nw.Float64)
    vote = nw.when(swapped).then(1 - choice).otherwise(choice)
    # One vote that breaks a rule outweighs all others on its triplet, whichever way round that is turned.
    broken = broken_choice()
    for each in (*map(broken_distance, turned), *map(broken_name, [*by, *kept, *told])):
        broken = broken | each
    weighed = nw.when(broken).then(nw.lit(-2.0 * MOST_VOTES)).otherwise(vote)
    rows = frame.select(
        weighed.alias("n"),
        nw.when(swapped).then(nw.lit(1)).otherwise(nw.lit(0)).alias(TURNED),
        *(value.alias(name) for name, value in (items | turned).items()),
        *(nw.col(name).cast(nw.String) for name in (*kept, *told)),
    )
    least = [nw.col(name).min().alias(f"{name}{LEAST}") for name in (*turned, *told)]
    most = [nw.col(name).max() for name in (*turned, *told)]
    sums = [nw.col(name).sum() for name in ("n", TURNED)]
    return rows.group_by(*by, *kept).agg(*sums, nw.len().alias("M"), *least, *most)


def _alike(distances: Sequence[str], columns: Sequence[str]) -> Any:
    """Tell whether the votes on a triplet give it one value of each distance, and one reference."""
    alike = nw.lit(True)
    for name in described(columns):
        alike = alike & (nw.col(name) == nw.col(f"{name}{LEAST}"))
    for name in distances:
        alike = alike & (nw.col(name) - nw.col(f"{name}{LEAST}") <= room(nw.col(name).abs()))
    return alike


def room(most: Any) -> Any:
    """Give how far apart two values of a distance may lie that was measured twice: rounding, and no more."""
    return 1e-6 * most + 1e-12


def _swapped(by: Sequence[str]) -> Any:
    """Tell whether the names of a vote's two images, or pairs of images, are in falling order."""
    if "x0" not in by:
        return nw.lit(False)
    x0, x1 = nw.col("x0").cast(nw.String), nw.col("x1").cast(nw.String)
    if "ref0" not in by:
        return x0 > x1
    ref0, ref1 = nw.col("ref0").cast(nw.String), nw.col("ref1").cast(nw.String)
    return (ref0 > ref1) | ((ref0 == ref1) & (x0 > x1))
