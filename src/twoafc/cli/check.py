"""`twoafc check`: mistakes in a table, in words."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from twoafc.cli.options import Json, Quiet, Rename
from twoafc.cli.show import printed, say
from twoafc.cli.tables import by_role, changed_tables, read_tables

LOOKED_AT = (
    "looked for flipped votes, similarities, {shuffled}constant, repeated and tied values, other units, repeated "
    "and shared {row}s and references, one-sided choices"
)


def check(
    table: Path,
    *,
    test: Path | None = None,
    rename: Rename = None,
    json: Json = False,
    strict: bool = False,
    quiet: Quiet = False,
) -> None:
    """Check a table of votes and distances for common mistakes: flipped, shuffled, constant, repeated, ...

    Parameters
    ----------
    table
        Table (.csv, .parquet) with n, M (or choice) and NAME_d0, NAME_d1 for each distance.
    test
        A second table, to be scored on a fit to the first.
    strict
        Exit with code 1 where there are warnings.
    """
    from twoafc.diagnostics import check as run
    from twoafc.inference import clustering_of

    paths = by_role(table, test)
    tables = read_tables(paths, rename)
    findings = [*changed_tables(paths), *run(*tables.values())]
    if not printed([asdict(finding) for finding in findings], json, quiet):
        sizes = [f"{role}: {table.description}" for role, table in tables.items()]
        row = tables["train"].row
        looked_at = LOOKED_AT.format(row=row, shuffled="shuffled rows, " if row == "triplet" else "")
        say(*map(str, findings) if findings else (*sizes, f"Nothing wrong was found; {looked_at}."))
        role, scored = [*tables.items()][-1]
        say(*(f"note: {role}: {caveat}" for caveat in clustering_of(scored).caveats()))
    if strict and any(finding.level == "warning" for finding in findings):
        raise SystemExit(1)
