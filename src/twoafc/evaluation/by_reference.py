"""Scores of counts as their error bars look at them: by reference, where the counts kept references."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from twoafc.arrays import FloatArray
from twoafc.core import blocks_of
from twoafc.counted import CountedTriplets, Lines
from twoafc.evaluation.records import Scored
from twoafc.inference import FEWEST, Dependence, Errors, Together
from twoafc.inference.counted import CountedDependence, alone


def by_reference(one: Scored) -> tuple[Scored, Together]:
    """Give what error bars rest on: the mean scores of each reference's triplets of one n, M and group.

    More is not needed: what a reference moves a score by is a sum over its triplets. References were counted on wider
    bins than the rows; a value there is the mean over the triplets in them, so that all means stay. Where counts kept
    no references, or too few, or each has one triplet, every triplet stands alone.
    """
    table = one.prediction.table
    assert isinstance(table, CountedTriplets)
    kept = table.references
    if kept is None:
        return one, Together(alone(table))
    references, triplets = int(kept.ref.max()) + 1, int(kept.times.sum())
    if references < min(FEWEST, triplets):
        return one, Together(alone(table, "each triplet stands alone; the few references are taken as given"))
    if references == triplets:
        return one, Together(alone(table, "each triplet stands alone"))
    lines = table.lines
    assert lines is not None
    row = lines.row
    groups = None if table.groups is None else (table.groups[0], table.groups[1][row])
    fewer = replace(
        table,
        place=table.place[row],
        n=table.n[row],
        M=table.M[row],
        count=lines.times,
        groups=groups,
        wide=None,
        references=None,
    )
    values = one.values
    if values is not None:
        columns = _means(table, lines, _of_wide(table, values.columns))
        values = replace(values, columns=columns, M=fewer.M, count=lines.times)
    link = CountedDependence(lines.times, Dependence(len(row), (lines.ref,), ""), "clustered by ref")
    prediction = replace(one.prediction, table=fewer, P=one.prediction.P[row])
    return replace(one, prediction=prediction, values=values), Together(link)


def with_hidden(one: Scored, bars: Errors) -> Errors:
    """Add to errors by reference what the wide bins hide from them: how triplets within one of them differ.

    Whose triplets these are is not known, so that each is taken to stand alone there.
    """
    table, values = one.prediction.table, one.values
    assert isinstance(table, CountedTriplets)
    if values is None or table.wide is None:
        return bars
    names, group = one.codes or ([], np.zeros(len(table), dtype=np.int64))
    columns, count = np.column_stack([values.columns, values.over_votes]), table.count
    squares = [
        np.bincount(group, count * (column - mean[table.wide]) ** 2)
        for column, mean in zip(columns.T, _of_wide(table, columns).T, strict=True)
    ]
    triplets, votes = np.bincount(group, count), np.bincount(group, count * table.M)
    # Means over triplets, then those over votes: one row for each group.
    size = np.stack([triplets] * len(values.measures) + [votes] * len(values.per_vote), axis=1)
    sums = np.stack(squares, axis=1)
    of_group = np.sqrt(sums) / size
    beside = {"all": np.sqrt(sums.sum(axis=0)) / size.sum(axis=0)}
    if names:
        beside |= dict(zip(names, of_group, strict=True))
        beside["mean"] = np.sqrt((of_group**2).sum(axis=0)) / len(names)
    return {name: bar._replace(se=np.hypot(bar.se, beside[name])) for name, bar in bars.items()}


def _of_wide(table: CountedTriplets, columns: FloatArray) -> FloatArray:
    """Means over the triplets of each wide cell of values that every row has."""
    assert table.wide is not None
    total = np.bincount(table.wide, table.count)
    return np.stack([np.bincount(table.wide, table.count * column) / total for column in columns.T], axis=1)


def _means(table: CountedTriplets, lines: Lines, of_wide: FloatArray) -> FloatArray:
    """Means over the triplets of each line, from those of the wide cells."""
    kept = table.references
    assert kept is not None
    sums = np.zeros((of_wide.shape[1], len(lines.row)))
    for some in blocks_of(len(kept.ref)):
        values = of_wide[kept.wide[some]] * kept.times[some, None]
        for each, column in zip(sums, values.T, strict=True):
            np.add.at(each, lines.line[some], column)
    return np.ascontiguousarray((sums / lines.times).T)
