"""Measure distances on a data set: in blocks, by several processes, so that a run can be killed and resumed."""

from __future__ import annotations

import os
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

import twoafc
from twoafc.arrays import BoolArray, FloatArray
from twoafc.datasets import Dataset, open_dataset, require_images
from twoafc.distances import DISTANCES, LIBRARIES
from twoafc.errors import DataError
from twoafc.files import clear_partial
from twoafc.images import ImageError, pixel_size, read_bytes, trace
from twoafc.measurement import cluster
from twoafc.measurement.block import (
    LEAST,
    ROUNDING,
    Batches,
    Block,
    BlockError,
    Decoded,
    Decoder,
    DistanceError,
    Measurer,
    Outcome,
    Proven,
    Size,
    cannot_take,
    most_unlike,
)
from twoafc.measurement.candidates import Candidate, Requested, make_candidates, resolve_device, split_fused
from twoafc.measurement.channels import channels_of, earlier_channels, write_channels
from twoafc.measurement.executors import Executor, Job, LocalExecutor, Outcomes, rehearse
from twoafc.measurement.identity import Progress, digest_of_traces, require_identified, require_same
from twoafc.measurement.interruption import interruptible, raise_interruption
from twoafc.measurement.journal import (
    Earlier,
    ItemFailure,
    Journal,
    beside,
    check_columns,
    check_name,
    complete_rows,
    locked,
    read_table,
    table_of,
    traces_of,
    write_table,
)
from twoafc.measurement.plan import Plan, Shard, block_size, in_shard, plan_items
from twoafc.table import write_durably

if TYPE_CHECKING:
    from distributed import Client

MAX_TRIED = 1000
"""Items, or images, among which the first readable one is looked for."""
FEW = 4
"""Items that are measured twice."""
GPU_ROUNDING = 1e-2
"""How much of the largest value the batch may change on a GPU. Networks round factors to 11 bits there unless they are
kept from it, for each size of a batch in another way: ours then differ by up to 1.5e-3 (in single precision 2e-5)."""


@dataclass(frozen=True)
class Failure:
    """A row that is not in the table: its name, the faulty image (empty where there is none), and the reason."""

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
        The table as it is on disk; None after a shard, or where no row could be measured.
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


@interruptible()
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
        Such as ``"cpu"`` or ``"cuda"``; by default a GPU where torch can use one, of a cluster all or none.
    precision : {"fp32", "tf32"}
        Of networks on a GPU; see `twoafc.distances.deep.Deep`.
    workers : int, optional
        Processes that decode images and, on the CPU, measure; by default one for each core.
    batch_size : int, optional
        Items that are measured together; by default as many as memory takes with ease.
    shard : pair of int, optional
        (i, n) measures the i-th of n shares, counted from 1, and writes no table: the call without it does, when all
        shares are measured.
    client : dask.distributed.Client, optional
        Of a cluster whose workers measure, each on its own device where none is named; see `docs/clusters.md`.
    allow_random : bool
        Measure distances whose values depend on the batch or on chance, too, and say so on the card.
    channels : bool
        Of one LPIPS distance, write what its heads weigh, channel by channel, to a file .npz from which `twoafc.fuse`
        fits heads of your own.
    progress : callable, optional
        Called with the items done, the items in all, and what they are.
    """
    out = Path(out)
    check_name(out, channels=channels)
    _check_options(workers, batch_size, shard, client)
    # Workers of a cluster have their own devices; here their distances are only identified and tried.
    here, precision_here = (resolve_device(device, precision), precision) if client is None else ("cpu", "fp32")
    dataset = data if isinstance(data, Dataset) else open_dataset(data, progress=progress)
    if not len(dataset):
        raise DataError("the data set has no rows")
    plan = plan_items(dataset)
    earlier = (earlier_channels if channels else read_table)(out, dataset.fingerprint())
    _rehearse(plan, distances)
    distances, fused = (channels_of(distances), []) if channels else split_fused(distances, here, precision_here)
    chosen = make_candidates(distances, here, precision_here, earlier.identities if earlier else {})
    check_columns(plan, [*(candidate.name for candidate in chosen), *(file.name for file in fused)])
    for file in fused:
        file.check(chosen)
    size, proven, similar = try_first(plan, chosen, here)
    if size is None:
        require_images(dataset)
    executor: AbstractContextManager[Executor]
    if client is None:
        workers = cores() if workers is None else workers
        height, width = size or (64, 64)
        memory = (batch_size or block_size(here, size)) * plan.items.shape[1] * 3 * height * width
        local = LocalExecutor(chosen, here, workers=workers, proven=proven, cache=plan.cache, memory=memory)
        executor = nullcontext(local)
    else:
        sources = {one.name: one.text or cluster.pack(one.name, one.distance) for one in chosen}
        job = Job(sources, proven, plan.cache, device, precision, sample_image(plan), cluster.IDLE)
        executor = cluster.ClusterExecutor(client, job, chosen, progress)
    with executor as ready:
        _check_reusable(out, ready.candidates, earlier, shard)
        for file in fused:
            if earlier is not None and file.name in earlier.identities:
                require_same(file.name, out, file.identity, earlier.identities[file.name])
        step, names = batch_size or block_size(ready.device, size), [candidate.name for candidate in chosen]
        mine = in_shard(len(plan), step, shard)
        with locked(beside(out, "parts"), shard):
            journal = Journal(out, plan, ready.candidates, ready.makers, earlier)
            journal.read()
            journal.notes += similar
            twice = Twice(journal, proven, ready.device, allow_random)
            if shard is not None:
                _measure_missing(plan, journal, ready, names, mine, step, twice, progress)
                return _finish_shard(out, plan, journal, names, ~mine, step)
            clear_partial(out.parent, [f"{out.name}{ending}" for ending in ("", ".json", ".failures.csv")])
            # Shards check the images that they read; the run that makes the table reads all images again.
            journal.traces.check(progress)
            _measure_missing(plan, journal, ready, names, mine, step, twice, progress)
            for file in fused:
                journal.derive(file.name, file.values({name: journal.of(name) for name in names}), file.identity)
            derived = (file.name for file in fused)
            columns = [*dict.fromkeys([*(earlier.identities if earlier else ()), *names, *derived])]
            return _finish(out, plan, journal, columns, chosen[0] if channels else None)


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _check_options(workers: int | None, batch_size: int | None, shard: Shard | None, client: Any) -> None:
    if client is not None and workers is not None:
        raise ValueError(f"a cluster has workers of its own; found workers={workers}: leave it out")
    for name, value in (("workers", workers), ("batch_size", batch_size)):
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1; found {value}")
    if shard is not None and not 1 <= shard[0] <= shard[1]:
        raise ValueError(f"a shard is i of n, from 1 to n; found {shard[0]}/{shard[1]}")


def _check_reusable(out: Path, chosen: Sequence[Candidate], earlier: Earlier | None, shard: Shard | None) -> None:
    """Refuse distances whose values could not be combined with those of the table, or of other shards."""
    for candidate in chosen:
        before = earlier.identities.get(candidate.name) if earlier else None
        if before is not None or shard is not None:
            require_identified(candidate.name, out, candidate.identity)
        if before is not None:
            require_same(candidate.name, out, candidate.identity, before)


# --- the first items --------------------------------------------------------------------------------------------------


def _rehearse(plan: Plan, requested: Sequence[Requested] | Mapping[str, Requested]) -> None:
    """Have users' distances tried in another process first, which they may crash."""
    given = requested.values() if isinstance(requested, Mapping) else requested
    texts = [text for text in given if isinstance(text, str)] if isinstance(requested, Sequence | Mapping) else []
    own = [text for text in texts if ":" in text.strip(":") and text.partition(":")[0] not in LIBRARIES]
    item = next((item for item in range(min(len(plan), MAX_TRIED)) if _readable(plan, item)), None) if own else None
    for text in own if item is not None else ():
        rehearse(text, plan.block(np.array([item]), {}))


def _readable(plan: Plan, item: int, sizes: Container[Size | None] | None = None) -> Size | None:
    """Return the size of an item's images, if it is one of some sizes and the images can be read."""
    paths = [plan.path(image) for image in plan.items[item]]
    size = _common_size(paths)
    wanted = size is not None and (sizes is None or size in sizes)
    return size if wanted and all(Decoder(0).read_all(paths).traces) else None


def try_first(plan: Plan, chosen: Sequence[Candidate], device: str) -> tuple[Size | None, Proven, list[str]]:
    """Measure the first readable item, and where a distance cannot take its size, the first of another size.

    What a distance cannot do is best known before the work begins: one that no size in the data suits is refused.
    Returns the size of the first item's images, None where none of the first thousand can be read, the sizes that each
    distance is known to take, and a warning of each that is a similarity.
    """
    similar: list[str] = []
    first: Size | None = None
    untested, tried, proven = list(chosen), set[Size](), set[tuple[str, Size]]()
    refused: dict[str, tuple[str, Size]] = {}
    for item in range(len(plan)):
        if not untested or (first is None and item == MAX_TRIED):
            break
        paths = [plan.path(image) for image in plan.items[item]]
        size = _common_size(paths)
        if size is None or size in tried:
            continue
        decoded = Decoder(0).read_all(paths)
        if not all(decoded.traces):
            continue
        first = first or size
        tried.add(size)
        for candidate in untested:
            name, least = candidate.name, getattr(candidate.distance, "least", None)
            reason = None
            if least is None:
                wanted = {name: np.array([0])}
                block = Block(0, np.array([item]), paths, np.arange(len(paths))[None], wanted)
                try:
                    outcome = Measurer({name: candidate.distance}, device).measure(block, Batches(decoded, device))
                except DistanceError as error:
                    raise ValueError(f"{error.message}, on {' and '.join(paths)}") from error
                reason = next((failure.reason for failure in outcome.failures), None)
                if not reason:
                    similar += _similarity(candidate, device, block, decoded, outcome.values[name])
            elif min(size) < least:  # a network says what it needs without being run
                pixels = f"{size[0]} x {size[1]} pixels"
                reason = f"{name} cannot measure images of {pixels} (at least {least} x {least} are needed)"
            if reason:
                refused.setdefault(name, (reason, size))
            else:
                proven.add((name, size))
        untested = [candidate for candidate in untested if (candidate.name, size) not in proven]
    if first is not None and untested:
        reason, size = refused[untested[0].name]
        raise ValueError(reason + _hint(untested[0].name, size))
    return first, frozenset(proven), similar


def _similarity(candidate: Candidate, device: str, block: Block, decoded: Decoded, values: FloatArray) -> Iterator[str]:
    """Warn of a distance that is larger between a reference and itself than to the images beside it."""
    alike = replace(block, places=np.zeros((1, 2), dtype=np.int64))
    try:
        outcome = Measurer({candidate.name: candidate.distance}, device).measure(alike, Batches(decoded, device))
    except DistanceError:
        return
    own, most = float(outcome.values[candidate.name].max(initial=0)), float(values.max())
    if not outcome.failures and own > most:
        yield (
            f"{candidate.name} looks like a similarity: it is {own:.4g} for {block.images[0]} and itself, and at most "
            f"{most:.4g} for the images beside it; a distance is 0 there: return 1 - similarity, for example"
        )


def _common_size(paths: Sequence[str]) -> Size | None:
    """Return the size of images from their headers; None where one has none, or where they differ."""
    try:
        sizes = {pixel_size(path) for path in paths}
    except ImageError:
        return None
    return sizes.pop() if len(sizes) == 1 else None


def _hint(name: str, size: Size) -> str:
    """Name the variants of a distance that can take a size."""
    black = [np.zeros((1, 3, *size), dtype=np.float32)] * 2
    variants = [other for other in DISTANCES if other.startswith(name) and other != name]
    able = [other for other in variants if cannot_take(other, DISTANCES[other], black) is None]
    return f"; {', '.join(able)} can" if able else ""


def sample_image(plan: Plan) -> tuple[str, int] | None:
    """Return an image, with its trace, by which another machine can tell that it has the same images."""
    for path in map(plan.path, range(min(len(plan.files), MAX_TRIED))):
        with suppress(ImageError):
            return os.path.abspath(path), trace(read_bytes(path))
    return None


@dataclass(frozen=True, eq=False)
class Twice:
    """The first few items, measured twice before any value is kept: the second time in reverse, in two batches.

    Parameters
    ----------
    journal : Journal
        The values of the run.
    proven : frozenset
        Sizes of images that each distance is known to take.
    device : str
        Where the distances work.
    allowed : bool
        Whether values may depend on the batch or on chance; then the card and a note say so.
    """

    journal: Journal
    proven: Proven
    device: str
    allowed: bool

    def blocks(self, names: Collection[str]) -> list[list[Block]]:
        """Return for each size of images on which distances are tried a block, and its items in reverse, in halves."""
        plan, items = self.journal.plan, {size: list[int]() for name, size in sorted(self.proven) if name in names}
        for item in range(min(len(plan), MAX_TRIED)):
            lacking = [size for size, some in items.items() if len(some) < FEW]
            if not lacking:
                break
            size = _readable(plan, item, lacking)
            if size is not None:
                items[size].append(item)
        trials = []
        for size, some in ((size, some) for size, some in items.items() if some):
            tried = [name for name in names if (name, size) in self.proven]
            # In halves: what a distance does with the extreme image of a batch shows in the half that lacks it.
            back, half = some[::-1], (len(some) + 1) // 2
            trials.append([self._block(order, tried) for order in (some, back[:half], back[half:]) if order])
        return trials

    def _block(self, items: list[int], names: list[str]) -> Block:
        return self.journal.plan.block(np.array(items), {name: np.arange(len(items)) for name in names})

    def passed(self, trials: Sequence[Sequence[Block]], outcomes: Outcomes) -> Outcomes:
        """Yield the outcomes of other blocks, once those of the trials are there and agree."""
        left, waiting = {block for trial in trials for block in trial}, dict[Block, Outcome]()
        for block, outcome in outcomes:
            waiting[block] = outcome
            left.discard(block)
            if not left:
                for first, *halves in trials:
                    self._compare(first, waiting.pop(first), [waiting.pop(half) for half in halves])
                trials = ()
                yield from waiting.items()
                waiting.clear()

    def _compare(self, block: Block, first: Outcome, halves: Sequence[Outcome]) -> None:
        for name, values in first.values.items():
            before, other = values[::-1], np.concatenate([half.values[name] for half in halves])
            share, scale = ROUNDING if self.device == "cpu" else GPU_ROUNDING, np.nanmax(abs(values), initial=0)
            one, two = np.nan_to_num([before.ravel(), other.ravel()])
            at = most_unlike(one, two, max(LEAST, share * float(scale)))
            if at is None:
                continue
            row, slot = (int(place) for place in np.unravel_index(at, values.shape)[:2])
            where = self.journal.plan.named(block.items[::-1][[row]], slot + 1)
            seen = f"{name} gave {before.flat[at]:.6g}, then {other.flat[at]:.6g} in another batch, on {where}"
            if not self.allowed:
                remedy = (
                    "leave training mode, fix its seed, use nothing of the other images, or allow it: --allow-random"
                )
                rule = "a distance must give the same value in any batch and every time"
                raise ValueError(f"{rule}; {seen}; {remedy} (in Python allow_random=True)")
            self.journal.mark_random(name, seen)


# --- measuring and writing --------------------------------------------------------------------------------------------


def _measure_missing(
    plan: Plan,
    journal: Journal,
    executor: Executor,
    names: Sequence[str],
    mine: BoolArray,
    step: int,
    twice: Twice,
    progress: Progress | None,
) -> None:
    """Measure what the journal does not have of some items, in blocks; before them a few items twice."""
    missing = journal.missing(names)
    wanted = {name: mask & mine for name, mask in missing.items()}
    done = len(plan) - int(np.any(list(missing.values()), axis=0).sum())
    if progress:
        progress(done, len(plan), plan.kind)
    trials = twice.blocks([name for name, mask in wanted.items() if mask.any()])
    blocks = chain(*trials, plan.blocks(step, wanted))
    try:
        # Closed at once if something fails here, so that no worker goes on.
        with _described(plan), closing(executor.measure(blocks)) as outcomes:
            for block, outcome in twice.passed(trials, outcomes):
                journal.add(block, outcome)
                done += len(block.items)
                if progress:
                    progress(done, len(plan), plan.kind)
                raise_interruption()
    finally:
        journal.flush()


@contextmanager
def _described(plan: Plan) -> Iterator[None]:
    """Say in an error which triplets a distance or a worker had."""
    try:
        yield
    except BlockError as failed:
        block, error = failed.block, failed.error
        if isinstance(error, DistanceError) and block is not None:
            where = plan.named(block.items[error.items], error.image)
            raise ValueError(f"{error.message}, on {where}; finished values are kept") from failed
        had = "" if block is None else f", while it had {plan.named(block.items)}"
        message = f"{error}{had}; finished values are kept, and the same command resumes the run"
        raise type(error)(message) from failed


def _finish(out: Path, plan: Plan, journal: Journal, columns: list[str], channels: Candidate | None = None) -> Measured:
    """Write the table, or the channels, and the list of failures; remove the parts that are no longer needed."""
    values = {name: journal.of(name) for name in columns}
    rows = complete_rows(plan, values)
    failures = _failures(plan, ~rows, journal.failures, out)
    listed = beside(out, "failures.csv")
    if failures:
        names = {name: [getattr(failure, name) for failure in failures] for name in ("triplet", "file", "reason")}
        write_durably(pl.DataFrame(names, schema=dict.fromkeys(names, pl.String)), listed, {})
    else:
        listed.unlink(missing_ok=True)
    notes = _notes(plan, journal)
    if not rows.any():
        notes.append(f"no row could be measured; {out} is not written")
        return Measured(None, failures, notes, {}, journal.measured, plan.kind)
    table = table_of(plan, {} if channels else values, rows)
    traces = traces_of(plan, journal.traces.known, rows)
    about = {name: {"identity": journal.identities[name], "made": journal.makers.get(name, [])} for name in columns}
    # The same measurement gives the same card: it has no date.
    data = {"layout": plan.data.name, "fingerprint": plan.data.fingerprint(), "rows": len(plan.data)}
    data |= {"in_table": len(table), "images": digest_of_traces(traces)}
    card = {"twoafc": twoafc.__version__, "data": data, "distances": about}
    if journal.changed and channels:
        write_channels(out, plan, channels, values[channels.name], rows, card, traces)
    elif journal.changed:
        write_table(table, out, card, traces)
    if journal.finish(columns, rows):
        notes.append(f"{beside(out, 'parts')} keeps what is known of rows or distances that are not in the table")
    return Measured(table, failures, notes, card, journal.measured, plan.kind)


def _finish_shard(
    out: Path, plan: Plan, journal: Journal, names: Sequence[str], others: BoolArray, step: int
) -> Measured:
    """Count what other shards have still to measure; they may have written since this one began."""
    failed = np.zeros(len(plan.data), dtype=np.bool_)
    for item, _, _ in journal.failures:
        failed[plan.rows_of(item)] = True
    failures = _failures(plan, failed, journal.failures, out)
    journal.read()
    missing = np.any(list(journal.missing(names).values()), axis=0) & others
    remaining = len(np.unique(np.flatnonzero(missing) // step))
    return Measured(None, failures, _notes(plan, journal), {}, journal.measured, plan.kind, remaining)


def _failures(plan: Plan, rows: BoolArray, items: Sequence[ItemFailure], out: Path) -> list[Failure]:
    """Say of some rows why they are not in the table."""
    reasons: dict[int, tuple[str, str]] = {}
    for item, file, reason in items:
        for row in plan.rows_of(item).tolist():
            reasons.setdefault(row, (file, reason))
    other = ("", f"not all distances of {out.name} are known of it; name all of them to bring it back")
    names = plan.data.table["triplet"]
    return [Failure(str(names[row]), *reasons.get(row, other)) for row in np.flatnonzero(rows).tolist()]


def _notes(plan: Plan, journal: Journal) -> list[str]:
    rounded = [
        f"{name} gave {count} values just below 0, by rounding; they are taken for 0"
        for name, count in journal.rounded.items()
        if count
    ]
    return [*plan.data.notes, *journal.notes, *rounded]
