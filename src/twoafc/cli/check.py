"""`twoafc check`: report mistakes in a table."""

from __future__ import annotations

from pathlib import Path

from twoafc.cli.show import Switch, say


def check(
    table: Path, *, test: Path | None = None, json: Switch = False, strict: Switch = False, quiet: Switch = False
) -> None:
    """Look for common mistakes in a table of votes and distances: flipped, shuffled, constant, repeated, ...

    Parameters
    ----------
    table
        Table (.csv, .parquet) with n, M (or choice) and NAME_d0, NAME_d1 for each distance.
    test
        A second table, to be scored with a fit to the first.
    json
        Print the findings as JSON.
    strict
        Exit with code 1 if there are warnings.
    quiet
        Print nothing but errors, and JSON where it is asked for; with --strict the exit code shows the result.
    """
    from twoafc import diagnostics
    from twoafc.errors import DataError
    from twoafc.jnd.names import file_holds_pairs
    from twoafc.triplets import Triplets

    for path in (table, test):
        if path is not None and file_holds_pairs(path):
            raise DataError(f"{path} holds pairs (NAME_d); twoafc check looks at triplets (NAME_d0, NAME_d1)")
    findings = diagnostics.check(Triplets.read(table), None if test is None else Triplets.read(test))
    if json:
        import dataclasses

        from twoafc.plainjson import strict_json

        print(strict_json([dataclasses.asdict(finding) for finding in findings]))
    elif not quiet:
        # A line even without findings: no output could mean that the command did not run.
        say(*map(str, findings) if findings else ("nothing found",))
    if strict and any(finding.level == "warning" for finding in findings):
        raise SystemExit(1)
