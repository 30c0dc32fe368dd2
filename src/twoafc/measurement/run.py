"""Measure distances on a data set, in blocks and by several processes; a run that is killed can be resumed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

import twoafc
from twoafc.arrays import BoolArray, Progress
from twoafc.datasets import Dataset, note_missing, open_dataset
from twoafc.distances import DISTANCES, LIBRARIES
from twoafc.errors import DataError
from twoafc.files import clear_partial
from twoafc.images import ImageError, pixel_size
from twoafc.measurement.block import (
    NEGLIGIBLE,
    ROUNDING,
    Block,
    BlockError,
    Decoded,
    Decoder,
    DistanceError,
    Measurer,
    Proven,
    Size,
    cannot_take,
    most_unlike,
)
from twoafc.measurement.candidates import Candidate, Requested, make_candidates, resolve_device, split_fused
from twoafc.measurement.channels import channels_of, earlier_channels, write_channels
from twoafc.measurement.cluster import IDLE, ClusterExecutor, pack
from twoafc.measurement.executors import Job, LocalExecutor, rehearse
from twoafc.measurement.identity import Identity, require_identified, require_same
from twoafc.measurement.journal import (
    FORMAT,
    Earlier,
    ItemFailure,
    Journal,
    beside,
    check_columns,
    check_name,
    complete_rows,
    digest_of_traces,
    locked,
    read_table,
    table_of,
    traces_of,
    write_table,
)
from twoafc.measurement.plan import Plan, Shard, block_size, in_shard, plan_items
from twoafc.table import write_frame

if TYPE_CHECKING:
    from distributed import Client

Executor = LocalExecutor | ClusterExecutor
MAX_TRIED = 1000
"""Items that are searched for the first readable one."""
FEW = 4
"""Items that are measured twice."""
GPU_ROUNDING = 1e-2
"""Share of the largest value by which a value may depend on the batch on a GPU. By default networks round factors to
11 bits there, differently for each batch size: ours then differ by up to 1.5e-3 (in single precision 2e-5)."""


@dataclass(frozen=True)
class Failure:
    """A row that is not in the table: its name, the faulty image if any, and the reason."""

    triplet: str
    file: str
    reason: str

    def __str__(self) -> str:
        return f"{self.triplet}: {self.file}: {self.reason}" if self.file else f"{self.triplet}: {self.reason}"


@dataclass(frozen=True, eq=False)
class Measured:
    """The result of `measure`.

    Attributes
    ----------
    table : polars.DataFrame or None
        The table as it is on disk; None after a shard, or if no row could be measured.
    failures : list of Failure
        Rows that are not in the table, and why.
    notes : list of str
        Remarks on the data and the values.
    card : dict
        What made the table.
    items : int
        Items that were measured in this run.
    kind : str
        What the items are: triplets, or distinct pairs if images recur.
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


def measure(
    data: Dataset | str | Path,
    distances: Sequence[Requested] | Mapping[str, Requested],
    out: str | Path,
    *,
    device: str | None = None,
    precision: str = "fp32",
    workers: int | None = None,
    batch_size: int | None = None,
    shard: Shard | None = None,
    client: Client | None = None,
    allow_random: bool = False,
    channels: bool = False,
    progress: Progress | None = None,
) -> Measured:
    """Measure distances on all rows of a data set, and write a table of votes and distances.

    Finished values are kept in ``OUT.parts`` until the table is complete: a run that was killed is resumed by the same
    call. A distance that the table already has is not measured again, a new one is added; images that have changed
    since are refused. Rows whose images cannot be read are left out, listed in ``OUT.failures.csv``, and tried again by
    the next call.

    Parameters
    ----------
    data : Dataset or path
        See `twoafc.datasets.open_dataset`.
    distances : sequence, or mapping of name to distance
        Names that `twoafc.distance` knows, and callables.
    out : path
        The table, .parquet or .csv.
    device : str, optional
        Such as ``"cpu"`` or ``"cuda"``; by default a GPU if torch can use one (on a cluster, all workers or none).
    precision : {"fp32", "tf32"}
        Of networks on a GPU; see `twoafc.distances.deep.Deep`.
    workers : int, optional
        Processes that decode images and, on the CPU, measure; by default one for each core.
    batch_size : int, optional
        Items that are measured together; by default a number that needs little memory.
    shard : pair of int, optional
        (i, n) measures the i-th of n shares, counted from 1, and writes no table: the call without it does, when all
        shares are measured.
    client : dask.distributed.Client, optional
        Measure on the workers of this cluster, each on its own device if none is given; see `docs/clusters.md`.
    allow_random : bool
        Also measure distances whose values depend on the batch or on chance, and note it on the card.
    channels : bool
        Write the channels of one LPIPS distance, which its heads weigh, to a file .npz from which `twoafc.fuse` fits
        heads of your own.
    progress : callable, optional
        Called with the items done, the items in all, and what they are.
    """
    out = Path(out)
    check_name(out, channels=channels)
    _check_options(workers, batch_size, shard, client)
    single = isinstance(distances, str) or callable(distances)
    if single or not isinstance(distances, Iterable):
        found = "a single one" if single else repr(distances)
        raise TypeError(f"distances must be a list, or a mapping of name to distance; found {found}")
    distances = distances if isinstance(distances, Mapping) else list(distances)
    # Workers of a cluster have their own devices; here their distances are only identified and tried.
    here, precision_here = (resolve_device(device, precision), precision) if client is None else ("cpu", "fp32")
    dataset = data if isinstance(data, Dataset) else open_dataset(data, progress=progress)
    if not len(dataset):
        raise DataError("the data set has no rows")
    plan = plan_items(dataset)
    earlier = (earlier_channels if channels else read_table)(out, dataset.fingerprint())
    first = next(_readable_items(plan), None)
    if first is not None:
        _rehearse_all(distances.values() if isinstance(distances, Mapping) else distances, first[0])
    distances, fused = (channels_of(distances), []) if channels else split_fused(distances)
    chosen = make_candidates(distances, here, precision_here, earlier.identities, fused)
    check_columns(plan, [*(candidate.name for candidate in chosen), *(file.name for file in fused)])
    for file in fused:
        file.check(chosen)
    if first is None:
        note_missing(dataset)  # raises if all are
    proven, similarities = _try_first(plan, chosen, here)
    executor: Executor
    if client is None:
        executor = LocalExecutor(chosen, here, workers=workers or cores(), proven=proven, cache=plan.cache)
    else:
        sources = {one.name: one.text or pack(one.name, one.distance) for one in chosen}
        sample = (os.path.abspath(first[0].images[0]), first[2].traces[0]) if first else None
        job = Job(sources, proven, plan.cache, device, precision, sample, IDLE)
        executor = ClusterExecutor(client, job, chosen, progress)
    with executor:
        identities = {one.name: one.identity for one in executor.candidates}
        identities |= {file.name: file.identity for file in fused}
        _require_combinable(out, identities, earlier, shard)
        step = batch_size or block_size(executor.device, first[1] if first else None)
        mine = in_shard(len(plan), step, shard)
        with locked(beside(out, "parts"), shard):
            journal = Journal(out, plan, executor.candidates, executor.makers, earlier)
            journal.read()
            journal.notes += similarities
            if shard is None:
                clear_partial(out.parent, [f"{out.name}{ending}" for ending in ("", ".json", ".failures.csv")])
                # Shards check the images that they read; the run that writes the table reads all images again.
                journal.traces.check(progress)
            with _described(plan):
                missing = [name for name, mask in journal.missing().items() if (mask & mine).any()]
                _try_twice(journal, executor, missing, proven, allow_random)
                _measure_missing(journal, executor, mine, step, progress)
            if shard is not None:
                return _finish_shard(out, journal, ~mine, step)
            for file in fused:
                parts = {candidate.name: journal.of(candidate.name) for candidate in chosen}
                journal.derive(file.name, file.values(parts), file.identity)
            columns = [*dict.fromkeys([*earlier.identities, *identities])]
            return _finish(out, journal, columns, chosen[0] if channels else None)


def cores() -> int:
    """Return how many cores this process may use, which may be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _check_options(workers: int | None, batch_size: int | None, shard: Shard | None, client: Any) -> None:
    if client is not None and workers is not None:
        raise ValueError(f"a cluster has workers of its own; found workers={workers}: leave it out")
    for name, value in (("workers", workers), ("batch_size", batch_size)):
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1; found {value}")
    if shard is not None and not 1 <= shard[0] <= shard[1]:
        raise ValueError(f"a shard is i of n, from 1 to n; found {shard[0]}/{shard[1]}")


def _require_combinable(out: Path, identities: Mapping[str, Identity], earlier: Earlier, shard: Shard | None) -> None:
    """Raise unless the values of each distance can be combined with those of the table and of other shards."""
    for name, identity in identities.items():
        if name in earlier.identities or shard is not None:
            require_identified(name, out, identity)
        if name in earlier.identities:
            require_same(name, out, identity, earlier.identities[name])


# --- trying distances before any value is kept ------------------------------------------------------------------------
# A user's distance is first tried in a process of its own, which it may crash; then each distance in this process, on
# one item; then all where they will work, on a few items, twice.


def _rehearse_all(requested: Iterable[Requested], trial: Block) -> None:
    """Try users' distances in another process first, since they may crash it."""
    for text in requested:
        if isinstance(text, str) and ":" in text.strip(":") and text.partition(":")[0] not in LIBRARIES:
            rehearse(text, trial)


def _readable_items(
    plan: Plan, wanted: Callable[[Size], bool] = lambda size: True, most: int = MAX_TRIED
) -> Iterator[tuple[Block, Size, Decoded]]:
    """Yield as blocks those of the first items whose images have one size, a wanted one, and can be read."""
    for item in range(min(len(plan), most)):
        paths = [plan.path(image) for image in plan.items[item]]
        try:
            sizes = {pixel_size(path) for path in paths}
        except ImageError:
            continue
        if len(sizes) == 1 and wanted(size := sizes.pop()):
            decoded = Decoder(0).read_all(paths)
            if all(decoded.traces):
                yield Block(np.array([item]), paths, np.arange(len(paths))[None], {}), size, decoded


def _try_first(plan: Plan, chosen: Sequence[Candidate], device: str) -> tuple[Proven, list[str]]:
    """Measure the first readable item; if a distance does not accept its size, the first item of another size.

    Raises before the work begins if a distance accepts no size in the data. Returns the sizes that each distance is
    known to accept, and a note for each that is a similarity.
    """
    untested, tried, proven, notes = list(chosen), list[Size](), set[tuple[str, Size]](), list[str]()
    refused: dict[str, tuple[str, Size]] = {}
    for block, size, decoded in _readable_items(plan, lambda size: size not in tried, len(plan)):
        tried.append(size)
        for candidate in untested:
            reason, similarity = _try_item(candidate, device, block, decoded)
            notes += similarity
            if reason:
                refused.setdefault(candidate.name, (reason, size))
            else:
                proven.add((candidate.name, size))
        untested = [candidate for candidate in untested if (candidate.name, size) not in proven]
        if not untested:
            break
    if refused and untested:
        reason, size = refused[untested[0].name]
        raise ValueError(reason + _hint(untested[0].name, size))
    return frozenset(proven), notes


def _try_item(candidate: Candidate, device: str, block: Block, decoded: Decoded) -> tuple[str | None, list[str]]:
    """Measure one item; return why the distance does not accept its size, or None, and a note on a similarity.

    The note is for a value that is larger for the first image and itself than for the images that are compared.
    """
    name, measurer = candidate.name, Measurer({candidate.name: candidate.distance}, device)
    block = replace(block, wanted={name: np.array([0])})
    try:
        compared = measurer.measure(block, decoded.on(device))
    except DistanceError as error:
        raise ValueError(f"{error.message}, on {' and '.join(block.images)}") from error
    if compared.failures or (candidate.text and ":" not in candidate.text):
        return compared.failures[0].reason if compared.failures else None, []
    try:
        same = measurer.measure(replace(block, places=np.zeros((1, 2), dtype=np.int64)), decoded.on(device))
    except DistanceError:
        return None, []
    own, most = (one.values[name].max() for one in (same, compared))
    note = (
        f"{name} looks like a similarity: it is {own:.4g} for {block.images[0]} and itself, and at most {most:.4g} for "
        "the images beside it; a distance is 0 there: return 1 - similarity, for example"
    )
    return None, [note] * bool(own > most)


def _hint(name: str, size: Size) -> str:
    """Name the variants of a distance that accept a size."""
    black = [np.zeros((1, 3, *size), dtype=np.float32)] * 2
    variants = [other for other in DISTANCES if other.startswith(name) and other != name]
    able = [other for other in variants if cannot_take(other, DISTANCES[other], black) is None]
    return f"; {', '.join(able)} can" if able else ""


def _try_twice(journal: Journal, executor: Executor, names: Sequence[str], proven: Proven, allow_random: bool) -> None:
    """Measure the first few items twice, the second time in reverse order, in two batches; no value is kept.

    Refuses distances whose values differ, or notes it in the journal if they are allowed.
    """
    trials = _trials(journal.plan, names, proven)
    outcomes = dict(executor.measure(chain(*trials)))
    for first, *halves in trials:
        for name, values in outcomes[first].values.items():
            before, other = values[::-1], np.concatenate([outcomes[half].values[name] for half in halves])
            share, scale = ROUNDING if executor.device == "cpu" else GPU_ROUNDING, np.nanmax(abs(values), initial=0)
            one, two = np.nan_to_num([before.ravel(), other.ravel()])
            at = most_unlike(one, two, max(NEGLIGIBLE, share * float(scale)))
            if at is None:
                continue
            row, slot = (int(place) for place in np.unravel_index(at, values.shape)[:2])
            where = journal.plan.named(first.items[::-1][[row]], slot + 1)
            seen = f"{name} gave {before.flat[at]:.6g}, then {other.flat[at]:.6g} in another batch, on {where}"
            if not allow_random:
                raise ValueError(
                    f"a distance must give the same value in any batch and every time; {seen}; leave training mode, "
                    "fix its seed, use nothing of the other images, or allow it: --allow-random (in Python "
                    "allow_random=True)"
                )
            journal.mark_random(name, seen)


def _trials(plan: Plan, names: Sequence[str], proven: Proven) -> list[list[Block]]:
    """Return for each image size a block of items, and blocks of the two halves of the items in reverse order."""
    trials = []
    for size in sorted({size for name, size in proven if name in names}):
        some = [int(block.items[0]) for block, _, _ in islice(_readable_items(plan, size.__eq__), FEW)]
        tried = [name for name in names if (name, size) in proven]
        # In halves: if a distance uses the extreme image of a batch, values of the half without it differ.
        back, half = some[::-1], (len(some) + 1) // 2
        orders = [np.array(order) for order in (some, back[:half], back[half:]) if order]
        if orders:
            trials.append([plan.block(order, {name: np.arange(len(order)) for name in tried}) for order in orders])
    return trials


# --- measuring --------------------------------------------------------------------------------------------------------


def _measure_missing(
    journal: Journal, executor: Executor, mine: BoolArray, step: int, progress: Progress | None
) -> None:
    """Measure values that the journal does not have, in blocks."""
    plan, missing = journal.plan, journal.missing()
    wanted = {name: mask & mine for name, mask in missing.items()}
    done = len(plan) - int(np.any(list(missing.values()), axis=0).sum())
    if progress:
        progress(done, len(plan), plan.kind)
    try:
        with closing(executor.measure(plan.blocks(step, wanted))) as outcomes:
            for block, outcome in outcomes:
                journal.add(block, outcome)
                done += len(block.items)
                if progress:
                    progress(done, len(plan), plan.kind)
    finally:
        journal.flush()


@contextmanager
def _described(plan: Plan) -> Iterator[None]:
    """Add to an error which triplets the distance or the worker had."""
    try:
        yield
    except BlockError as failed:
        block, error = failed.block, failed.error
        if isinstance(error, DistanceError) and block is not None:
            where = plan.named(block.items[error.items], error.image)
            raise ValueError(f"{error.message}, on {where}; values finished before it are kept") from failed
        had = "" if block is None else f", while it had {plan.named(block.items)}"
        message = f"{error}{had}; finished values are kept, and the same command resumes the run"
        raise type(error)(message) from failed


# --- the table --------------------------------------------------------------------------------------------------------


def _finish(out: Path, journal: Journal, columns: list[str], channels: Candidate | None) -> Measured:
    """Write the table, or the channels, and the list of failures; remove the parts that are no longer needed."""
    plan, values = journal.plan, {name: journal.of(name) for name in columns}
    rows = complete_rows(plan, values)
    failures = _failures(plan, ~rows, journal.failures, out)
    listed = beside(out, "failures.csv")
    if failures:
        names = {name: [getattr(failure, name) for failure in failures] for name in ("triplet", "file", "reason")}
        write_frame(pl.DataFrame(names, schema=dict.fromkeys(names, pl.String)), listed)
    else:
        listed.unlink(missing_ok=True)
    notes = _notes(journal)
    if not rows.any():
        notes.append(f"no row could be measured; {out} is not written")
        return Measured(None, failures, notes, {}, journal.measured, plan.kind)
    table = table_of(plan, {} if channels else values, rows)
    traces = traces_of(plan, journal.traces.known, rows)
    about = {name: journal.distances[name] for name in columns}
    # No date: the same measurement gives the same card.
    data = {"layout": plan.data.name, "fingerprint": plan.data.fingerprint(), "rows": len(plan.data)}
    data |= {"in_table": len(table), "images": digest_of_traces(traces)}
    card = {"format": FORMAT, "twoafc": twoafc.__version__, "data": data, "distances": about}
    if journal.changed and channels:
        write_channels(out, plan, channels, values[channels.name], rows, card, traces)
    elif journal.changed:
        write_table(table, out, card, traces)
    if journal.finish(columns, rows):
        notes.append(f"{beside(out, 'parts')} keeps the known values of rows or distances that are not in the table")
    return Measured(table, failures, notes, card, journal.measured, plan.kind)


def _finish_shard(out: Path, journal: Journal, others: BoolArray, step: int) -> Measured:
    """Count the blocks that other shards have still to measure; they may have written since this one began."""
    plan, failed = journal.plan, np.zeros(len(journal.plan.data), dtype=np.bool_)
    for item, _, _ in journal.failures:
        failed[plan.rows_of(item)] = True
    failures = _failures(plan, failed, journal.failures, out)
    journal.read()
    missing = np.any(list(journal.missing().values()), axis=0) & others
    remaining = len(np.unique(np.flatnonzero(missing) // step))
    return Measured(None, failures, _notes(journal), {}, journal.measured, plan.kind, remaining)


def _failures(plan: Plan, rows: BoolArray, items: Sequence[ItemFailure], out: Path) -> list[Failure]:
    """Return why some rows are not in the table."""
    reasons: dict[int, tuple[str, str]] = {}
    for item, file, reason in items:
        for row in plan.rows_of(item).tolist():
            reasons.setdefault(row, (file, reason))
    other = ("", f"not all distances of {out.name} are known of it; name all of them to bring it back")
    names = plan.data.table["triplet"]
    return [Failure(str(names[row]), *reasons.get(row, other)) for row in np.flatnonzero(rows).tolist()]


def _notes(journal: Journal) -> list[str]:
    rounded = "{} gave {} values just below 0, by rounding; they are set to 0"
    counts = [rounded.format(name, count) for name, count in journal.rounded.items() if count]
    return [*journal.plan.data.notes, *journal.notes, *counts]
