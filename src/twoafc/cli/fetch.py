"""`twoafc fetch`: weights and data sets, listed, checked, downloaded or imported."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from twoafc.cli.show import Switch, say

if TYPE_CHECKING:
    from twoafc.fetch import Got, State
    from twoafc.fetch.digests import Progress
    from twoafc.fetch.registry import File


def fetch(
    *names: str,
    to: Path | None = None,
    from_: Annotated[Path | None, Parameter(name="--from")] = None,
    verify: Switch = False,
    json: Switch = False,
    quiet: Switch = False,
) -> None:
    """List the weights and data sets that are known, and get those that are named; nothing is downloaded unasked.

    Parameters
    ----------
    names
        Files (alexnet), distances (lpips_alex, for all that it needs), data sets (bapps_val);
        without any, all are listed.
    to
        Folder for weights, default TWOAFC_WEIGHTS or torch's cache; or a data set's own, default in TWOAFC_DATA.
    from_
        Take a file that you have, or a folder of such files, weights under any names, instead of downloading; it is
        checked and copied.
    verify
        Download nothing; read all that is there again, and say what is missing or damaged.
    json
        Print JSON.
    quiet
        Print nothing but errors, and JSON where it is asked for.
    """
    from twoafc import fetch as known

    if from_ is not None and (verify or len(names) != 1):
        raise ValueError("--from takes one name, that of the file: twoafc fetch NAME --from FILE")
    with _progress(quiet) as show:
        if verify:
            found = known.verify(names or None, to=to, progress=show)
        elif not names:
            found = known.status(to=to)
        elif from_ is not None:
            return _tell_got(known.import_file(names[0], from_, to=to, progress=show), json, quiet)
        else:
            return _get_each(names, to, show, json, quiet)
    _tell(found, json, quiet)
    damaged = [state.file.name for state in found if state.state == "damaged"]
    if verify and damaged:
        raise ValueError(f"{len(damaged)} damaged; to fetch again: twoafc fetch {' '.join(damaged)}")


def _get_each(names: tuple[str, ...], to: Path | None, show: Progress | None, json: bool, quiet: bool) -> None:
    """Get files one by one, and tell of each when it is there."""
    from twoafc import fetch as known

    got: list[Got] = []
    try:
        for file in known.chosen(names):
            got += known.get(file.name, to=to, progress=show)
            if not json:
                _tell_got(got[-1:], json, quiet)
    except KeyboardInterrupt:
        print("what has come is kept; the same command continues there", file=sys.stderr)
        raise
    if json:
        _tell_got(got, json, quiet)


def _tell(found: list[State], json: bool, quiet: bool) -> None:
    if json:
        _print_json([_record(state.file, state.state, state.where, state.note) for state in found])
    elif not quiet:
        _print_table(found)


def _tell_got(got: list[Got], json: bool, quiet: bool) -> None:
    if json:
        records = [_record(one.file, "fetched" if one.new else "there", one.where, one.note) for one in got]
        _print_json(records)
    elif not quiet:
        for one in got:
            print(
                f"{one.file.name}: {'' if one.new else 'there already, '}{one.where}"
                + (f" ({one.note})" * bool(one.note))
            )
            opens = getattr(one.file, "opens", None)
            if one.new and opens:
                folder = one.where if opens == one.file.place else one.where / opens  # type: ignore[union-attr]
                command = f"twoafc measure {folder} --distance ssim --out {one.file.name}.parquet"
                print(f"  to measure a distance on it: {command}")


def _record(file: File, state: str, where: Path | None, note: str) -> dict[str, Any]:
    from twoafc.fetch.registry import Archive, size_of, worth

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
        "worth": worth(file),
        "terms": file.terms,
    }


def _print_json(records: list[dict[str, Any]]) -> None:
    import json

    print(json.dumps(records, indent=1, ensure_ascii=False))


def _print_table(found: list[State]) -> None:
    """Print what is there: weights, then data sets, then how to get more."""
    from twoafc.distances.weights import NEEDS, Published
    from twoafc.fetch import data_folder, weights_folder

    weights = [_line(state) for state in found if isinstance(state.file, Published)]
    archives = _lines([state for state in found if not isinstance(state.file, Published)])
    lines = []
    for title, rows in (
        (f"Weights, kept in {weights_folder()}", weights),
        (f"Data sets, kept in {data_folder()}", archives),
    ):
        if rows:
            lines += [title, *_laid_out(rows), ""]
    needs = "; ".join(f"{name} = {' + '.join(parts)}" for name, parts in NEEDS.items() if len(parts) > 1)
    print("\n".join(lines))
    say(f"Get: twoafc fetch NAME, of a file or of a distance ({needs}).")


def _laid_out(rows: list[tuple[str, ...]]) -> list[str]:
    """Put rows in columns; on a terminal that is too narrow for them, addresses come below."""
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    padded = [[cell.ljust(width) for cell, width in zip(row, [*widths, 0], strict=True)] for row in rows]
    lines = [f"  {' '.join(row)}".rstrip() for row in padded]
    if not sys.stdout.isatty() or max(map(len, lines)) <= shutil.get_terminal_size().columns:
        return lines
    return [line for row in padded for line in (f"  {' '.join(row[:4])}".rstrip(), f"    {row[4]}")]


def _line(state: State) -> tuple[str, ...]:
    from twoafc.fetch.registry import size_of
    from twoafc.fetch.room import in_words

    size = state.bytes or size_of(state.file)
    where = str(state.where) if state.where else state.file.url
    note = f"({state.note})" if state.note else ""
    return state.file.name, state.state, in_words(size) if size else "?", state.file.terms, f"{where} {note}".rstrip()


def _lines(found: list[State]) -> list[tuple[str, ...]]:
    """One line for each archive; one for all of a data set that comes in many, as long as they are all missing."""
    groups: dict[str, list[State]] = {}
    for state in found:
        groups.setdefault(getattr(state.file, "group", None) or state.file.name, []).append(state)
    lines: list[tuple[str, ...]] = []
    for name, states in groups.items():
        if len(states) > 8 and all(state.state == "missing" and not state.where for state in states):
            first = states[0].file
            lines.append((name, "missing", "?", first.terms, f"{first.url} (and {len(states) - 1} others)"))
        else:
            lines += [_line(state) for state in states]
    return lines


@contextmanager
def _progress(quiet: bool) -> Iterator[Progress | None]:
    """Show how much has come and how fast, on a terminal; nothing where standard error goes elsewhere."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Bar(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, Any] = {}

        def show(done: int, total: int | None, what: str) -> None:
            if what not in tasks:
                for task in tasks.values():
                    bar.remove_task(task)
                tasks.clear()
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done, total=total)

        yield show
