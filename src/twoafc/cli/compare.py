"""`twoafc compare`: whether one distance is really better than another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from twoafc.cli.show import Switch, print_table, say

Measure = Literal["nll", "score_2afc", "score_2afc_distance", "average_precision"]
DEFAULT: tuple[Measure, ...] = ("nll", "score_2afc_distance")


def compare(
    *results: Path,
    measure: Annotated[tuple[Measure, ...], Parameter(negative="")] = DEFAULT,
    json: Switch = False,
    quiet: Switch = False,
) -> None:
    """Compare all distances of finished evaluations pair by pair, on the triplets (or pairs) that they share.

    Parameters
    ----------
    results
        Folders of results; of several, the triplets that all of them tested are compared.
    measure
        What to compare by, once for each; average_precision is for pairs, which have it in the place of
        score_2afc_distance by default.
    json
        Print JSON, with all measures.
    quiet
        Print nothing but errors, and JSON where it is asked for.
    """
    from twoafc.results import COLUMNS, compare_results

    if not results:
        raise ValueError("name at least one folder of results, as twoafc evaluate writes it")
    found = compare_results(results)
    if json:
        from twoafc.files import strict_json

        print(strict_json({"comparisons": found.comparisons, "letters": found.letters, "notes": found.notes}, indent=1))
    if json or quiet:
        return
    known = dict.fromkeys(record["measure"] for record in found.comparisons)
    if measure == DEFAULT and "average_precision" in known:
        measure = ("nll", "average_precision")
    wrong = [name for name in measure if name not in known]
    if wrong:
        raise ValueError(f"--measure must be one of {', '.join(known)} for these results; found {wrong[0]}")
    for name in measure:
        pairs = [record for record in found.comparisons if record["measure"] == name]
        heading = next(c.heading for columns in COLUMNS.values() for c in columns if c.name == name)
        rows = [
            (r["distance"], r["estimator"], f"{r['value']:.4f}" if name == "nll" else f"{r['value']:.2f}", r["letters"])
            for r in found.letters
            if r["measure"] == name
        ]
        print_table(heading, ("distance", "estimator", "mean", "letters"), rows)
        several = len({record["estimator"] for record in pairs}) > 1
        say(
            *(f"{record['estimator']}: {record['sentence']}" if several else record["sentence"] for record in pairs), ""
        )
    say("Distances that share a letter cannot be told apart (paired, Holm, 5 %).")
    say(*(f"note: {note}" for note in found.notes))
