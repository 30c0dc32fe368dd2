"""Error bars of the scores of pairs; that of the average precision comes from how each pair moves it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twoafc import metrics
from twoafc.arrays import FloatArray, IntArray
from twoafc.inference.errorbars import Errors, Together, Values, bar, errors
from twoafc.inference.observers import Ballots, Score, moves
from twoafc.jnd.drawn import Drawn, spread
from twoafc.jnd.precision import Ranking
from twoafc.jnd.scores import ALL_MEASURES, MEASURES, Prediction, groups_of, means_per_pair
from twoafc.scores import Record

PRECISION, SIMULATED = (MEASURES.index(f"average_precision{end}") for end in ("", "_simulated"))
SCORES: dict[str, Score] = {
    "nll": lambda row, n, M, P: -metrics.log_likelihood(n, M, P),
    "agreement": lambda row, n, M, P: metrics.agreement_per_triplet(n, M, P),
}


def values_of(one: Prediction, link: Together, group: IntArray | None = None) -> Values:
    """One value of each measure per pair, whose means are the scores: of all pairs, or of each group where given."""
    table, P = one.table, one.P
    means = means_per_pair(one)
    columns = np.stack([means.get(name, np.zeros(len(table))) for name in MEASURES], axis=1)
    gain = np.empty(len(table))
    for rows in _parts(table.n, group):
        ranking, share = Ranking.by(table.d[rows]), table.n[rows] / table.M[rows]
        columns[rows, PRECISION], columns[rows, SIMULATED] = ranking.values(share), ranking.values(P[rows])
        gain[rows] = len(rows) * ranking.influence(share)[1] / table.M[rows]
    moved = None if link.votes is None else _moved(one, link.votes, gain)
    return Values(MEASURES, columns, table.M, moved)


def _parts(n: IntArray, group: IntArray | None) -> list[IntArray]:
    return [np.arange(len(n))] if group is None else [np.flatnonzero(group == g) for g in np.unique(group)]


def _moved(one: Prediction, votes: Ballots, gain: FloatArray) -> FloatArray:
    """What each vote moves the values by, shape (votes, measures), for observers who cast several."""
    moved = np.zeros((len(votes.row), len(MEASURES)))
    for name, score in SCORES.items():
        moved[:, MEASURES.index(name)] = moves(score, votes, one.table.n, one.table.M, one.P)
    moved[:, PRECISION] = (votes.chosen - one.P[votes.row]) * gain[votes.row]
    return moved


def with_bars(records: Sequence[Record], one: Prediction, link: Together, drawn: Drawn | None = None) -> list[Record]:
    """Give every measure of the records of a prediction its error bar: by formula, or by the spread of drawn tables."""
    found = _errors(one, link)
    barred = []
    for record in records:
        error = found[record["group"]]
        if drawn is not None:
            # Of a group that hardly any drawn table has, nothing is known.
            replicates = drawn.get(record["group"], np.full((1, len(ALL_MEASURES)), np.nan))
            error = error._replace(se=spread(replicates))
        bars: Record = {}
        for name, se, skew in zip(ALL_MEASURES, error.se, error.skew, strict=True):
            bars |= bar(name, record[name], float(se), error.units, skew=float(skew))
        barred.append(record | bars)
    return barred


def _errors(one: Prediction, link: Together) -> Errors:
    """Errors by group; the average precision of all pairs is no mean over groups, and has values of its own."""
    codes = groups_of(one.table)
    parts = values_of(one, link, None if codes is None else codes[1])
    with np.errstate(invalid="ignore"):  # where nobody said "same" there is nothing to be sure of
        return errors(parts, codes, link) | {"all": errors(values_of(one, link), None, link)["all"]}
