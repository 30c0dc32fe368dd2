"""`twoafc compare`: whether one distance is better than another."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from twoafc.cli.options import Pairs, Quiet
from twoafc.cli.show import print_table, printed, say

Measure = Literal["nll", "score_2afc", "score_2afc_distance", "average_precision"]


def compare(
    *results: Path,
    baseline: str | None = None,
    pair: Pairs = (),
    measure: tuple[Measure, ...] = (),
    json: bool = False,
    quiet: Quiet = False,
) -> None:
    """Compare the distances of finished evaluations, on the triplets (or pairs) that they share.

    Parameters
    ----------
    results
        Folders of results; of several, the triplets that all of them tested are compared.
    baseline
        Compare every other distance with this one, instead of all with each other.
    pair
        Two distances to compare, instead of all with each other; once for each pair.
    measure
        What to compare by, once for each; default nll, and where comparisons are planned also the 2AFC score of the
        distance alone (pairs: average precision).
    json
        Print JSON, with all measures.
    """
    from twoafc.results import Result, compare_results

    if not results:
        raise ValueError("name at least one folder of results, as twoafc evaluate writes it")
    compared = compare_results([Result.read(folder) for folder in results], baseline=baseline, pairs=pair)
    content = {"comparisons": compared.comparisons, "letters": compared.letters, "notes": compared.notes}
    if printed(content, json, quiet):
        return
    known = dict.fromkeys(record["measure"] for record in compared.comparisons)
    wrong = [name for name in measure if name not in known]
    if wrong:
        raise ValueError(f"--measure must be one of {', '.join(known)} for these results; found {wrong[0]}")
    measures = measure or compared.shown
    if compared.planned:
        say(*(sentence for name in measures for sentence in compared.sentences(name)))
    else:
        for name in measures:
            for table in compared.matrices(name):
                print_table(table.caption, table.header, table.rows)
        corrected = ", Holm" * any(record["tests"] > 1 for record in compared.comparisons)
        say(
            *compared.sentences(measures[0]),
            f"Cells: how far the row is behind the column; * significant (paired test{corrected}, 5 %).",
        )
    say(*(f"note: {note}" for note in compared.notes))
