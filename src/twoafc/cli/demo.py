"""`twoafc demo`: the whole way, on photographs that the package makes itself."""

from __future__ import annotations

from pathlib import Path

from twoafc.cli.show import Switch, progress, say, tell


def demo(
    *,
    out: Path = Path("demo"),
    triplets: int = 4000,
    seed: int = 0,
    json: Switch = False,
    quiet: Switch = False,
) -> None:
    """Score five distances on simulated observers who judge distorted photographs; needs no network.

    Parameters
    ----------
    out
        Folder of results, with the two tables beside them; an earlier demonstration there is replaced.
    triplets
        Number of triplets, a quarter of them for the test.
    seed
        Seed.
    json
        Print scores.json instead of the table.
    quiet
        Print nothing but errors, and JSON where it is asked for.
    """
    from twoafc.demo import STORY, run

    with progress(quiet) as show:
        found = run(out, triplets=triplets, seed=seed, progress=show)
    if json:
        print((out / "scores.json").read_text(encoding="utf-8"))
    if json or quiet:
        return
    say(STORY)
    tell(found, out)
    print(f"The tables themselves: {out / 'train.csv'}, {out / 'test.csv'}. The same again:")
    print(f"  twoafc evaluate --train {out / 'train.csv'} --test {out / 'test.csv'} --out my-results")
