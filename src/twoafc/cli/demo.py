"""`twoafc demo`: the whole evaluation, on photographs that the package distorts itself."""

from __future__ import annotations

from pathlib import Path

from twoafc.cli.options import Json, Quiet, Seed
from twoafc.cli.show import print_result, progress, say, tell_where


def demo(
    *,
    out: Path = Path("demo"),
    triplets: int = 4000,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Score five distances on simulated observers who judge distorted photographs; needs no network.

    Parameters
    ----------
    out
        Folder of results, with the two tables; an earlier demonstration there is replaced.
    triplets
        Number of triplets; a quarter of them are the test set.
    """
    from twoafc.demo import STORY, run

    with progress(quiet) as show:
        evaluation = run(out, triplets=triplets, seed=seed, progress=show)
    if json:
        print((out / "scores.json").read_text(encoding="utf-8"))
    if json or quiet:
        return
    say(STORY)
    print_result(evaluation)
    tell_where(out)
    print(f"Tables: {out / 'train.csv'}, {out / 'test.csv'}. To repeat the evaluation:")
    print(f"  twoafc evaluate --train {out / 'train.csv'} --test {out / 'test.csv'} --out my-results")
