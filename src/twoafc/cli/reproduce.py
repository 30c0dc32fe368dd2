"""`twoafc reproduce`: the paper's experiments on its data sets, each value beside the printed one."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from twoafc.cli.options import Several
from twoafc.cli.show import print_table, rate, say

if TYPE_CHECKING:
    from twoafc.reproduce import Reproduction


def reproduce(
    *,
    bapps: Path | None = None,
    clic: Path | None = None,
    out: Path = Path("paper"),
    synthetic: bool = False,
    distance: Several = None,
    limit: int | None = None,
    seeds: int = 10,
    seed: int = 0,
    quiet: bool = False,
) -> None:
    """Run the paper's experiments and write its tables and figures, each value beside the printed one.

    One data set is enough, and the other can be added later to the same folder; `twoafc fetch` downloads them. The same
    command resumes a run that was stopped. Distances whose weights are missing are left out, with a note, unless they
    are requested.

    Parameters
    ----------
    bapps
        Folder of BAPPS, with 2afc/train and 2afc/val in it.
    clic
        Folder of CLIC 2021, with clic2021_test (the paper's training set) and clic2021_valid in it.
    out
        Output folder: tables, figures, results, and the page index.html.
    synthetic
        Run on generated sets in the same layouts instead; the values are then meaningless.
    distance
        A distance, as for `twoafc measure`; repeat the option for several. Default: the paper's six.
    limit
        Triplets of each split, drawn before anything is measured, for a quick look.
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
            warnings.filterwarnings("ignore", module=r"PIL\b")  # the list of failures reports the same
            reproduction = run(out, bapps=bapps, clic=clic, synthetic=synthetic, options=options, progress=show)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("run the same command again to resume") from None
    if not quiet:
        _report(reproduction)


def _report(reproduction: Reproduction) -> None:
    if reproduction.warning:
        say(f"warning: not comparable. {reproduction.warning}")
    notes: dict[str, None] = {}
    for table in reproduction.tables:
        if table.name in ("bapps", "clic"):
            text = table.text()
            print_table(text.caption, text.header, text.rows)
            notes |= dict.fromkeys(table.footnotes())
    # Each note is printed once, and the warning is not repeated.
    say(*(note for note in notes if note not in reproduction.warning))
    say(*(f"note: {note}" for note in reproduction.notes))
    print(
        f"Tables: {reproduction.folder / 'tables'}; figures: {reproduction.folder / 'figures'}; everything on one page:"
    )
    print(f"  {reproduction.folder / 'index.html'}")
