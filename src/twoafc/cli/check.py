"""`twoafc check`: what is wrong with a table, in words."""

from __future__ import annotations

from pathlib import Path

from twoafc.cli.show import Switch, changed_tables, say


def check(
    table: Path, *, test: Path | None = None, json: Switch = False, strict: Switch = False, quiet: Switch = False
) -> None:
    """Find what people get wrong in a table of votes and distances: flipped, shuffled, constant, repeated, ...

    Parameters
    ----------
    table
        Table (.csv, .parquet) with n, M (or choice) and NAME_d0, NAME_d1 for each distance.
    test
        A second table, to be scored on a fit to the first.
    json
        Print the findings as JSON.
    strict
        Exit with code 1 where there are warnings.
    quiet
        Print nothing but errors, and JSON where it is asked for; with --strict the exit code says it.
    """
    from twoafc.diagnostics import check as look
    from twoafc.table import read_votes

    given = {role: [path] for role, path in (("train", table), ("test", test)) if path is not None}
    found = [*changed_tables(given), *look(*map(read_votes, given.values()))]
    if json:
        import dataclasses

        from twoafc.files import strict_json

        print(strict_json([dataclasses.asdict(finding) for finding in found]))
    elif not quiet:
        # One line where there is nothing to say: silence could be a command that did not run.
        say(*map(str, found) if found else ("nothing found",))
    if strict and any(finding.level == "warning" for finding in found):
        raise SystemExit(1)
