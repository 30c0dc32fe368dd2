"""`twoafc plan`: how large a study must be, which triplets to ask next, and when to stop."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from twoafc.cli.options import Json, Pairs, Quiet, Seed
from twoafc.cli.show import print_table, printed, progress, say

plan = App(
    name="plan",
    help="Plan a study: how large, which triplets to ask next, when to stop.",
    default_parameter=Parameter(negative=""),  # the program inherits it, the page of its help does not
)

Pair = Annotated[tuple[str, str] | None, Parameter(help="The two distances, where there are more.")]
Measure = Annotated[
    Literal["nll", "score_2afc", "score_2afc_distance"], Parameter(help="What distances are compared by.")
]
Paths = tuple[Path, ...]
COLUMNS = {
    "votes_per_triplet": ("votes each", ",.0f"),
    "triplets": ("triplets", ",.0f"),
    "references": ("references", ",.0f"),
    "votes": ("votes", ",.0f"),
    "observers": ("people", ",.0f"),
    "cost": ("cost", ",.0f"),
    "se": ("se", ".2g"),
    "power": ("power", ".2f"),
}
"""Columns of the table of studies: head and format."""


@plan.command(sort_key=0)
def size(
    pilot: Path | None = None,
    *,
    world: str | None = None,
    noise: tuple[float, float] = (0.2, 0.5),
    pair: Pair = None,
    difference: float | None = None,
    se: float | None = None,
    power: float = 0.8,
    measure: Measure = "nll",
    votes: tuple[int, ...] = (1, 2, 3, 5, 10),
    references: int | None = None,
    observers: int | None = None,
    per_reference: float | None = None,
    per_observer: float | None = None,
    cost_per_vote: float = 0.0,
    cost_per_observer: float = 0.0,
    figure: Paths = (),
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compute how many triplets, votes, references and people are needed to distinguish two distances.

    Parameters
    ----------
    pilot
        Table of votes and distances, or a folder of results.
    world
        Instead of a pilot: weber, thurstone, sqrt_noise, saturating, turning or useless, seen by two distances.
    noise
        Noise of the two distances in the world, on the logarithm.
    difference
        Difference to detect: nats per vote, or % of votes.
    se
        Standard error of the difference to reach, instead.
    power
        Chance to detect the difference.
    votes
        Votes on each triplet to consider, once for each.
    references
        References that there are; default as many for each triplet as in the pilot.
    observers
        People that there are; default as many for each vote as in the pilot.
    per_reference
        Triplets of each reference, where the number of references is free; default the pilot's.
    per_observer
        Votes of each person, where the number of people is free; default the pilot's.
    cost_per_vote
        Cost of a vote.
    cost_per_observer
        Cost of a person, besides.
    figure
        Contours of power and cost to write: .svg, .pdf or .png; once for each.
    """
    from twoafc import planning

    if (pilot is None) == (world is None):
        raise ValueError("name a pilot (a table of votes, or a folder of results) or a world: one of them")
    estimate = planning.size(
        pilot if world is None else planning.simulated_pilot(world, noise),
        pair=pair,
        measure=measure,
        votes=votes,
        difference=difference,
        se=se,
        power=power,
        references=references,
        observers=observers,
        per_reference=per_reference,
        per_observer=per_observer,
        cost_per_vote=cost_per_vote,
        cost_per_observer=cost_per_observer,
    )
    _save(estimate, figure)
    if printed(estimate.record(), json, quiet):
        return
    if estimate.rows:
        known = {name: column for name, column in COLUMNS.items() if estimate.rows[0].get(name) is not None}
        rows = [[f"{row[name]:{form}}" for name, (_, form) in known.items()] for row in estimate.rows]
        print_table("Studies that are large enough", [head for head, _ in known.values()], rows)
    say(*estimate.variances, *(f"note: {note}" for note in estimate.notes), estimate.sentence)


@plan.command(sort_key=1)
def choose(
    *,
    pool: Path,
    votes: int,
    out: Path,
    judged: Paths = (),
    pair: Pairs = (),
    measure: Literal["nll", "score_2afc_distance"] = "nll",
    per_reference: int | None = None,
    uniform: float = 0.1,
    repeats: float = 0.1,
    look_at: Path | None = None,
    figure: Paths = (),
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Choose from measured triplets those to ask next, with weights that make their scores those of the pool.

    Parameters
    ----------
    pool
        Measured triplets without votes, .csv or .parquet.
    votes
        Votes to ask for.
    out
        Table to write: the chosen triplets with weight and votes_wanted.
    judged
        Votes so far: earlier batches with their columns, or a pilot; once for each table.
    pair
        Two distances to compare, once for each pair; default all pairs, the hardest first (max-min).
    measure
        What distances are compared by.
    per_reference
        At most so many triplets of one reference in this batch.
    uniform
        Share of the choice that is uniform.
    repeats
        Share of the triplets that get two votes, for the ceiling.
    look_at
        Table to write: the triplets on which the first pair disagrees most, to look at, without weights.
    figure
        Plane of the first pair with the chosen triplets to write: .svg, .pdf or .png; once for each.
    """
    from twoafc import planning
    from twoafc.table import write_frame

    _check_outputs([out, look_at], figure, [pool, *judged])
    chosen = planning.choose(
        pool,
        votes=votes,
        judged=list(judged) or None,
        pairs=pair,
        measure=measure,
        per_reference=per_reference,
        uniform=uniform,
        repeats=repeats,
        seed=seed,
    )
    _save(chosen, figure)
    if look_at is not None:
        write_frame(planning.extremes(chosen, pool, pair=next(iter(chosen.gains))), look_at)
    write_frame(chosen.frame, out)
    if printed(chosen.record() | {"out": str(out)}, json, quiet):
        return
    say(f"{chosen}.", f"Triplets to ask: {out}")
    if look_at is not None:
        say(f"To look at, without weights: {look_at}")
    if chosen.batch > 1:
        say("note: evaluate what twoafc plan status --out writes: earlier batches get new weights there")


@plan.command(sort_key=2)
def status(
    *judged: Path,
    pair: Pair = None,
    measure: Measure = "nll",
    difference: float | None = None,
    estimator: str = "auto",
    out: Path | None = None,
    figure: Paths = (),
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Report the state of a running study, with an interval that stays valid however often it is computed.

    Parameters
    ----------
    judged
        Votes so far: the tables of all batches, with the columns that twoafc plan choose wrote.
    difference
        Difference to detect, per vote; name it before the study.
    estimator
        What fits P.
    out
        Table to write: all votes with the weights of all batches, for twoafc evaluate.
    figure
        The difference over batches to write: .svg, .pdf or .png; once for each.
    """
    from twoafc import planning
    from twoafc.table import write_frame

    if not judged:
        raise ValueError("name the tables of votes so far")
    _check_outputs([out], figure, judged)
    with progress(quiet) as shown:
        standing = planning.status(
            list(judged), pair=pair, measure=measure, difference=difference, estimator=estimator, progress=shown
        )
    _save(standing, figure)
    if out is not None:
        write_frame(standing.table, out)
    if printed(standing.record(), json, quiet):
        return
    rows = [
        [str(look["batch"]), f"{look['triplets']:,}", f"{look['votes']:,}"]
        + [f"{look[name]:+.4f}" for name in ("difference", "low", "high")]
        for look in standing.looks
    ]
    a, b = standing.pair
    print_table(f"{a} less {b}, after each batch", ["batch", "triplets", "votes", "difference", "low", "high"], rows)
    say(*(f"note: {note}" for note in standing.notes), standing.sentence)
    if out is not None:
        say(f"All votes with their weights: {out}")


def _check_outputs(tables: Sequence[Path | None], figures: Sequence[Path], read: Sequence[Path]) -> None:
    """Refuse, before the work, what cannot be written, and what would replace a table that is read or written too."""
    from twoafc.table import require_table_path

    known = {os.path.realpath(path): "read" for path in read}
    for path in (path for path in (*tables, *figures) if path is not None):
        place = os.path.realpath(path)
        if place in known:
            raise ValueError(f"{path} is {known[place]}; write to another file")
        known[place] = "written already"
        if path not in figures:
            require_table_path(path)
        elif not path.parent.is_dir():
            raise OSError(f"no such folder: {path.parent}")


def _save(result: Any, paths: Paths) -> None:
    if paths:
        from twoafc.plots import save

        save(result.figure(), *paths)
