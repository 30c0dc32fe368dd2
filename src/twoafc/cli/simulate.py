"""`twoafc simulate`: a table of votes with a known P."""

from __future__ import annotations

from pathlib import Path

from twoafc.cli.options import Json, Quiet, Seed
from twoafc.cli.show import printed


def simulate(
    *,
    out: Path,
    world: str = "weber",
    triplets: int = 10_000,
    votes: tuple[int, ...] = (2,),
    lapse: float = 0.0,
    references: int | None = None,
    distances: str = "lognormal",
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a table of simulated votes with the true probability P of choosing x1 in a column.

    Parameters
    ----------
    out
        Table to write, .csv or .parquet.
    world
        weber, thurstone, sqrt_noise, saturating, turning or useless.
    triplets
        Number of rows, T.
    votes
        Votes per triplet, M; if given several times, each triplet draws one.
    lapse
        Share of votes cast at random.
    references
        Number of references shared by the triplets; default one each.
    distances
        lognormal, uniform, heavy or discrete.
    """
    from twoafc import worlds
    from twoafc.table import write_frame

    frame = worlds.simulate(
        world,
        triplets=triplets,
        votes=list(votes),
        lapse=lapse,
        references=references,
        distances=distances,
        seed=seed,
    )
    write_frame(frame, out)
    summary = {"out": str(out), "world": world, "triplets": len(frame), "votes": frame["M"].sum(), "seed": seed}
    if not printed(summary, json, quiet):
        print(f"{len(frame)} simulated triplets of world {world}: {out}")
