"""`twoafc fetch`: list, check, download or import weights and data sets."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from twoafc.cli.options import Json, Quiet
from twoafc.cli.show import printed, progress, say

if TYPE_CHECKING:
    from twoafc.fetch import File, Got, Progress, State


def fetch(
    *names: str,
    to: Path | None = None,
    from_: Annotated[Path | None, Parameter(name="--from")] = None,
    verify: bool = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """List the known weights and data sets, and download or import those that are named.

    Parameters
    ----------
    names
        Files (alexnet), distances (lpips_alex, for all that it needs), data sets (bapps_val);
        without any, all are listed.
    to
        Folder for weights, default TWOAFC_WEIGHTS or torch's cache; or a data set's own, default in TWOAFC_DATA.
    from_
        Import a file that you have, or a folder of such files, weights under any names, instead of downloading; it is
        checked and copied.
    verify
        Download nothing; read all installed files again, and report what is missing or damaged.
    """
    from twoafc import fetch as room

    if from_ is not None and (verify or len(names) != 1):
        raise ValueError("--from takes one name, that of the file: twoafc fetch NAME --from FILE")
    with _progress(quiet) as show:
        if verify:
            states = room.verify(names or None, to=to, progress=show)
        elif not names:
            states = room.status(to=to)
        elif from_ is not None:
            return _report_files(room.import_file(names[0], from_, to=to, progress=show), json, quiet)
        else:
            return _get_files(names, to, show, json, quiet)
    if not printed([_record(each.file, each.state, each.where, each.note) for each in states], json, quiet):
        _print_table(states)
    damaged = [state.file.name for state in states if state.state == "damaged"]
    if verify and damaged:
        raise ValueError(f"{len(damaged)} damaged; to fetch again: twoafc fetch {' '.join(damaged)}")


def _get_files(names: tuple[str, ...], to: Path | None, show: Progress | None, json: bool, quiet: bool) -> None:
    """Get files one by one, and report each when it is installed."""
    from twoafc import fetch as room

    results: list[Got] = []
    try:
        for file in room.chosen(names):
            results += room.get(file.name, to=to, progress=show)
            if not json:
                _report_files(results[-1:], json, quiet)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("the partial download is kept, and the same command continues it") from None
    if json:
        _report_files(results, json, quiet)


def _report_files(results: list[Got], json: bool, quiet: bool) -> None:
    if json:
        printed([_record(got.file, "fetched" if got.new else "there", got.where, got.note) for got in results], json)
        return
    for got in () if quiet else results:
        note = f" ({got.note})" if got.note else ""
        print(f"{got.file.name}: {'' if got.new else 'there already, '}{got.where}{note}")
        opens = getattr(got.file, "opens", None)
        if got.new and opens:
            folder = got.where if opens == got.file.place else got.where / opens  # type: ignore[union-attr]
            command = f"twoafc measure {folder} --distance ssim --out {got.file.name}.parquet"
            print(f"  to measure a distance on it: {command}")


def _record(file: File, state: str, where: Path | None, note: str) -> dict[str, Any]:
    from twoafc.fetch import Archive, digest_source, size_of

    return {
        "name": file.name,
        "kind": "data set" if isinstance(file, Archive) else "weights",
        "state": state,
        "where": None if where is None else str(where),
        "note": note,
        "file": file.file,
        "source": file.url,
        "bytes": size_of(file),
        "digest": file.digest,
        "worth": digest_source(file),
        "terms": file.terms,
    }


def _print_table(states: list[State]) -> None:
    """Print weights, then data sets, then how to get more."""
    from twoafc.distances import NEEDS, Published
    from twoafc.fetch import data_folder, weights_folder

    weights = [_row(state) for state in states if isinstance(state.file, Published)]
    archives = _archive_rows([state for state in states if not isinstance(state.file, Published)])
    lines = []
    for title, rows in (
        (f"Weights, kept in {weights_folder()}", weights),
        (f"Data sets, kept in {data_folder()}", archives),
    ):
        if rows:
            lines += [title, *_aligned(rows), ""]
    needs = "; ".join(f"{name} = {' + '.join(parts)}" for name, parts in NEEDS.items() if len(parts) > 1)
    print("\n".join(lines))
    say(f"Get: twoafc fetch NAME, of a file or of a distance ({needs}).")


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    """Align rows in columns; the last, an address, may be of any length."""
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return [f"  {' '.join(map(str.ljust, row, [*widths, 0]))}".rstrip() for row in rows]


def _row(state: State) -> tuple[str, ...]:
    from twoafc.fetch import format_size, size_of

    size = state.bytes or size_of(state.file)
    where = str(state.where) if state.where else state.file.url
    note = f"({state.note})" if state.note else ""
    return (
        state.file.name,
        state.state,
        format_size(size) if size else "?",
        state.file.terms,
        f"{where} {note}".rstrip(),
    )


def _archive_rows(states: list[State]) -> list[tuple[str, ...]]:
    """Make a row for each archive, but one for a data set of many archives if they are all missing."""
    groups: dict[str, list[State]] = {}
    for state in states:
        groups.setdefault(getattr(state.file, "group", None) or state.file.name, []).append(state)
    rows: list[tuple[str, ...]] = []
    for name, members in groups.items():
        if len(members) > 8 and all(state.state == "missing" and not state.where for state in members):
            first = members[0].file
            rows.append((name, "missing", "?", first.terms, f"{first.url} (and {len(members) - 1} others)"))
        else:
            rows += [_row(state) for state in members]
    return rows


def _progress(quiet: bool) -> AbstractContextManager[Progress | None]:
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    description = TextColumn("{task.description}")
    return progress(quiet, description, BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
