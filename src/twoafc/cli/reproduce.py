"""`twoafc reproduce`: the paper's experiments on its data sets, each figure beside the printed one."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from twoafc.cli.show import Several, Switch, print_table, rate, say

if TYPE_CHECKING:
    from twoafc.reproduce import Reproduction


def reproduce(
    *,
    bapps: Path | None = None,
    clic: Path | None = None,
    out: Path = Path("paper"),
    synthetic: Switch = False,
    distance: Several = None,
    limit: int | None = None,
    seeds: int = 10,
    seed: int = 0,
    quiet: Switch = False,
) -> None:
    """Run the paper's experiments and write its tables and figures, each figure beside the printed one.

    Either data set alone will do, and the other may come later into the same folder; `twoafc fetch` gets them. A run
    that was stopped goes on where it was when the same command is given again. Distances whose weights are not there
    are left out, with a note, unless they are asked for.

    Parameters
    ----------
    bapps
        Folder of BAPPS, with 2afc/train and 2afc/val in it.
    clic
        Folder of CLIC 2021, with clic2021_test (the paper's training set) and clic2021_valid in it.
    out
        Folder to write: tables, figures, results, and the page index.html.
    synthetic
        Run on generated sets in the same layouts instead; no figure then means anything.
    distance
        A distance, once for each, as `twoafc measure` takes them; default the paper's six.
    limit
        Triplets of each split, drawn before anything is measured: a quick look.
    seeds
        Runs of the network.
    seed
        Seed of the draw, and the first of the network's.
    quiet
        Print nothing but errors.
    """
    from twoafc.reproduce import Options
    from twoafc.reproduce import reproduce as run

    options = Options(distance, limit, seeds, seed)
    try:
        with warnings.catch_warnings(), rate(quiet) as show:
            warnings.filterwarnings("ignore", module=r"PIL\b")  # what it warns of, the list of failures tells
            found = run(out, bapps=bapps, clic=clic, synthetic=synthetic, options=options, progress=show)
    except KeyboardInterrupt:
        told = "interrupted; what is finished is kept, and the same command goes on from there"
        print(f"twoafc: {told}", file=sys.stderr)
        raise SystemExit(130) from None
    if not quiet:
        _tell(found)


def _tell(found: Reproduction) -> None:
    from twoafc.reproduce.written import as_table, below

    if found.warning:
        say(f"warning: not comparable. {found.warning}")
    told: dict[str, None] = {}
    for layout in found.tables:
        if layout.name in ("bapps", "clic"):
            table = as_table(layout)
            print_table(table.caption, table.header, table.rows)
            told |= dict.fromkeys(below(layout))
    # What is said of both tables is said once, and what the warning has said not again.
    say(*(line for line in told if line not in found.warning))
    say(*(f"note: {note}" for note in found.notes))
    print(f"Tables: {found.folder / 'tables'}; figures: {found.folder / 'figures'}; all of it on one page:")
    print(f"  {found.folder / 'index.html'}")
