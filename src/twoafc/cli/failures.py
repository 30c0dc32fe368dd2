"""`twoafc failures`: the triplets that surprise a distance most, or on which two distances disagree most."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from twoafc.cli.options import Json, Quiet
from twoafc.cli.show import print_table, printed, progress, say

if TYPE_CHECKING:
    import polars as pl


def failures(
    results: Path,
    *,
    distance: str | None = None,
    versus: str | None = None,
    estimator: str | None = None,
    top: int = 20,
    images: Path | None = None,
    out: Path | None = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """List the triplets that surprise a distance most; with --versus, those where two distances disagree most.

    Parameters
    ----------
    results
        A folder of results, as twoafc evaluate writes it.
    distance
        The distance; default the one with the lowest NLL.
    versus
        Another distance: list where the two disagree most, and which was right.
    estimator
        The estimator; default the first of the results.
    top
        How many triplets to list.
    images
        Folder of the images, for the cards.
    out
        Folder to write the list and a card of each triplet to; an earlier list there is replaced.
    """
    from twoafc import results as room

    if images is not None and out is None:
        raise ValueError("--images needs --out, the folder for the cards")
    result = room.Result.read(results)
    result.require_triplets("failures")
    pictures = room.pictures_of(result, images)
    if out is not None:
        room.check_failures_folder(out, results)
    name = distance or room.ranking(result)[0]["distance"]
    if versus is None:
        rows = room.surprising(result, name, estimator=estimator, top=top)
        notes = _surprise_notes(len(result.outcome_rows(name, estimator)))
    else:
        rows = room.disagreements(result, name, versus, estimator=estimator, top=top)
        notes = _disagreement_notes(rows, name, versus)
    notes += room.missing_images(rows.iter_rows(named=True), pictures)
    if out is not None:
        with progress(quiet) as show:
            room.write_failures(result, rows, out, pictures=pictures, progress=show)
    if not printed({"failures": rows.to_dicts(), "notes": notes}, json, quiet):
        _print_rows(rows, name, versus)
        say(*notes)
        if out is not None:
            print(f"Failures: {out}")


def _print_rows(rows: pl.DataFrame, a: str, b: str | None) -> None:
    """Print the triplets that surprise a distance, or on which two disagree."""
    grouped = ["group"] if "group" in rows.columns else []
    if b is None:
        title, numbers = f"Most surprising under {a}", ["d0", "d1", "P", "NLL", "surprise", "by chance"]
    else:
        title, numbers = f"Where {a} and {b} disagree most", [f"P, {a}", f"P, {b}", "ratio", "right"]
    lines = []
    for r in rows.iter_rows(named=True):
        line = [r["triplet"], *(r[name] for name in grouped), f"{r['n']} of {r['M']}"]
        if b is None:
            line += [f"{r['d0']:.4g}", f"{r['d1']:.4g}", f"{r['P']:.4f}", f"{r['nll']:.4f}"]
            line += [f"{r['surprise']:.1f}", f"{r['by_chance']:.2g}"]
        else:
            line += [f"{r['P_a']:.4f}", f"{r['P_b']:.4f}", f"{r['ratio']:.3g}", r["right"] or "–"]
        lines.append(line)
    print_table(f"{title}, {rows['estimator'][0]}", ["triplet", *grouped, "votes for x1", *numbers], lines)


def _surprise_notes(count: int) -> list[str]:
    return [
        "surprise: -log2 of the mid p-value of the count, in bits; ten bits are as surprising as ten heads in a row",
        f"by chance: how many of all {count} triplets would surprise as much, on average, if P were true",
    ]


def _disagreement_notes(rows: pl.DataFrame, a: str, b: str) -> list[str]:
    from twoafc.results import TELLING

    right = {name: int((rows["right"] == name).sum()) for name in (a, b)}
    counts = ", ".join(f"{name} is right on {count}" for name, count in right.items())
    return [
        f"of these {len(rows)} triplets, chosen without regard to the votes, {counts}; "
        f"on {len(rows) - sum(right.values())} the votes do not decide",
        f"ratio: how many times as likely the votes are under the better of the two; ratios of {TELLING:g} or more "
        "are informative",
    ]
