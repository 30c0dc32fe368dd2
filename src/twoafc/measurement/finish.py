"""The end of a run: the table with its card, the list of failures, and what is kept for the next run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import twoafc
from twoafc.measurement import assemble, outfile
from twoafc.measurement.assemble import Failure
from twoafc.measurement.files import write_whole
from twoafc.measurement.ledger import Ledger
from twoafc.measurement.outfile import beside
from twoafc.measurement.parts import Parts
from twoafc.measurement.traces import TraceArray, summary
from twoafc.measurement.way import Run


@dataclass(frozen=True, eq=False)
class Measured:
    """What came of a run.

    Attributes
    ----------
    table : polars.DataFrame or None
        The table as it is on disk; None where this was a shard, or no row could be measured.
    failures : list of Failure
        Rows that are not in the table, and why.
    notes : list of str
        What a reader should know.
    card : dict
        What made the table.
    items : int
        Items that were measured in this run.
    kind : str
        What the items are: triplets, or distinct pairs where images recur.
    remaining : int
        Blocks that other shards have still to measure.
    """

    table: pl.DataFrame | None
    failures: list[Failure]
    notes: list[str]
    card: dict[str, Any]
    items: int
    kind: str
    remaining: int = 0


def finish(run: Run, ledger: Ledger) -> Measured:
    """Write the table and the list of failures, and give up the parts that are no longer needed."""
    there = list(run.earlier.identities) if run.earlier else []
    names = [*there, *(name for name in run.names if name not in there)]
    values = {name: ledger.of(name) for name in names}
    rows = assemble.complete_rows(run.plan, values)
    failures = assemble.rows_failed(run.plan, ~rows, ledger.failures, run.out)
    _write_failures(failures, beside(run.out, "failures.csv"))
    notes = [*run.plan.data.notes, *run.notes, *_rounded(ledger)]
    if not rows.any():
        notes.append(f"no row could be measured; {run.out} is not written")
        return Measured(None, failures, notes, {}, ledger.measured, run.plan.kind)
    table = assemble.table(run.plan, values, rows)
    traces = assemble.traces(run.plan, ledger.parts.traces.known, rows)
    card = _card(run, ledger.parts, names, len(table), traces)
    if ledger.learnt or run.earlier is None:
        outfile.write(table, run.out, card, traces)
    items, kept = assemble.left_over(run.plan, ledger.values, set(names), rows)
    if len(items):
        notes.append(f"{beside(run.out, 'parts')} keeps what is known of rows or distances that are not in the table")
    ledger.parts.replace(items, kept)
    return Measured(table, failures, notes, card, ledger.measured, run.plan.kind)


def finish_shard(run: Run, ledger: Ledger) -> Measured:
    """Count what other shards have still to do; they may have written since this one began."""
    failed = assemble.rows_failed(run.plan, assemble.rows_of(run.plan, ledger.failures), ledger.failures, run.out)
    ledger.learn(ledger.parts.read(*ledger.shape))
    size = run.way.block(run.first)
    unknown = np.any(list(ledger.unknown(run.names).values()), axis=0) & ~run.way.share(len(run.plan), size)
    left = len(np.unique(np.flatnonzero(unknown) // size))
    notes = [*run.plan.data.notes, *run.notes, *_rounded(ledger)]
    return Measured(None, failed, notes, {}, ledger.measured, run.plan.kind, left)


def _rounded(ledger: Ledger) -> list[str]:
    counts = {name: count for name, count in ledger.rounded.items() if count}
    return [
        f"{name} gave {count} values just below 0, by rounding; they are taken for 0" for name, count in counts.items()
    ]


def _card(run: Run, parts: Parts, names: list[str], rows: int, traces: TraceArray) -> dict[str, Any]:
    """Say what made the table; the same measurement gives the same card, so it tells no time."""
    data = run.plan.data
    told = {"layout": data.name, "fingerprint": data.fingerprint(), "rows": len(data), "in_table": rows}
    told["images"] = summary(traces)
    distances = {name: {"identity": parts.identities[name], "made": parts.makers[name]} for name in names}
    return {"twoafc": twoafc.__version__, "data": told, "distances": distances}


def _write_failures(failures: list[Failure], path: Path) -> None:
    if not failures:
        path.unlink(missing_ok=True)
        return
    columns = {name: [getattr(each, name) for each in failures] for name in ("triplet", "file", "reason")}
    write_whole(pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String)), path, {})
