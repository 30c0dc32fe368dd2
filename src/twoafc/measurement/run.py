"""Measure distances on a data set: in blocks, by several processes, so that a run can be killed and resumed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from twoafc.datasets import Dataset, open_dataset, require_images
from twoafc.errors import DataError
from twoafc.measurement import assemble, outfile
from twoafc.measurement.candidates import Asked, candidates, require_joinable, require_same
from twoafc.measurement.cluster import Cluster
from twoafc.measurement.device import maker, resolve
from twoafc.measurement.files import clear_partial
from twoafc.measurement.finish import Measured, finish, finish_shard
from twoafc.measurement.first import try_first
from twoafc.measurement.ledger import Ledger
from twoafc.measurement.outcomes import abroad, outcomes
from twoafc.measurement.outfile import beside
from twoafc.measurement.parts import Lock, Parts
from twoafc.measurement.plan import plan
from twoafc.measurement.traces import Traces
from twoafc.measurement.way import Run, Way, cores

if TYPE_CHECKING:
    from distributed import Client

Progress = Callable[[int, int, str], None]
"""Called with the items done, the items in all, and what they are."""


def measure(
    data: Dataset | str | Path,
    distances: Sequence[Asked] | Mapping[str, Asked],
    out: str | Path,
    *,
    device: str | None = None,
    precision: str = "fp32",
    workers: int | None = None,
    batch_size: int | None = None,
    shard: tuple[int, int] | None = None,
    client: Client | None = None,
    progress: Progress | None = None,
) -> Measured:
    """Measure distances on all rows of a data set, and write a table of votes and distances.

    What is finished is kept in ``OUT.parts`` until the table is complete: a run that was killed is resumed by the same
    call. A distance that the table has already is not measured again, one that it has not is added; images that have
    changed since are refused. Rows whose images cannot be read are left out, listed in ``OUT.failures.csv``, and tried
    again by the next call.

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
        Of networks on a GPU; see `twoafc.distances.Deep`.
    workers : int, optional
        Processes that decode images and, on the CPU, measure; by default one for each core.
    batch_size : int, optional
        Items that are measured together; by default as many as memory takes with ease.
    shard : pair of int, optional
        (i, n) measures the i-th of n shares, counted from 1, and writes no table: the call without it does, when all
        shares are there.
    client : dask.distributed.Client, optional
        Of a cluster whose workers measure, each on its own device where none is named; see `docs/clusters.md`.
    progress : callable, optional
        Called with the items done, the items in all, and what they are.
    """
    out = Path(out)
    outfile.check_name(out)
    if client is not None and workers is not None:
        raise ValueError(f"a cluster has workers of its own; found workers={workers}: leave it out")
    # Workers of a cluster have their own devices; here the distances are made to be named and tried.
    near = (resolve(device, precision), precision) if client is None else ("cpu", "fp32")
    way = Way(near[0], cores() if workers is None else workers, batch_size, shard)
    dataset = data if isinstance(data, Dataset) else open_dataset(data, progress=progress)
    if not len(dataset):
        raise DataError("the data set has no rows")
    todo = plan(dataset)
    earlier = outfile.read_earlier(out, dataset.fingerprint())
    chosen = candidates(distances, *near, earlier.identities if earlier else {})
    assemble.check_columns(dataset, todo, (each.name for each in chosen))
    first = try_first(todo, chosen, near[0])
    if first is None:
        require_images(dataset)
    run = Run(out, way, todo, chosen, first, earlier)
    if client is None:
        return _checked(run, progress)
    with Cluster(client, abroad(run, device, precision), chosen, progress) as cluster:
        way = replace(way, device=cluster.device)
        return _checked(replace(run, way=way, chosen=cluster.chosen, cluster=cluster), progress)


def _checked(run: Run, progress: Progress | None) -> Measured:
    """Refuse values that could not be joined with those that are there, and keep other runs out."""
    for each in run.chosen:
        if run.earlier and each.name in run.earlier.identities:
            require_joinable(each.name, run.out, each.identity)
            require_same(each.name, run.out, each.identity, run.earlier.identities[each.name])
        if run.way.shard is not None:
            require_joinable(each.name, run.out, each.identity)
    lock = Lock(beside(run.out, "parts"), "/".join(map(str, run.way.shard)) if run.way.shard else None)
    try:
        return _locked(run, progress)
    finally:
        lock.release()


def _locked(run: Run, progress: Progress | None) -> Measured:
    """Read what is finished, measure what is missing, and put the table together."""
    identities = {
        **(run.earlier.identities if run.earlier else {}),
        **{each.name: each.identity for each in run.chosen},
    }
    parts = Parts(
        beside(run.out, "parts"),
        f"{run.plan.data.fingerprint()} {run.plan.kind}",
        identities,
        {each.name: [maker(each.distance, run.way.device)] for each in run.chosen}
        if run.cluster is None
        else run.cluster.makers,
        run.earlier.makers if run.earlier else {},
        Traces(run.plan, run.out, run.earlier.traces if run.earlier else None),
        run.notes,
    )
    shape = (len(run.plan), run.plan.slots)
    ledger = Ledger(parts, assemble.from_earlier(run.plan, run.earlier) if run.earlier else {}, shape)
    ledger.learn(parts.read(*shape))
    if run.way.shard is None:
        clear_partial(run.out.parent, [f"{run.out.name}{ending}" for ending in ("", ".json", ".failures.csv")])
        # Shards compare what they read; the run that puts them together reads all once more.
        parts.traces.check(progress)
    try:
        _measure(run, ledger, progress)
    finally:
        ledger.flush()
    return finish(run, ledger) if run.way.shard is None else finish_shard(run, ledger)


def _measure(run: Run, ledger: Ledger, progress: Progress | None) -> None:
    size = run.way.block(run.first)
    unknown = ledger.unknown(run.names)
    mine = run.way.share(len(run.plan), size)
    wanted = {name: mask & mine for name, mask in unknown.items()}
    done = len(run.plan) - int(np.any(list(unknown.values()), axis=0).sum())
    if progress:
        progress(done, len(run.plan), run.plan.kind)
    # Closed at once if something fails here, so that no worker goes on.
    with closing(outcomes(run, wanted, size)) as found:
        for block, outcome in found:
            ledger.add(block, outcome)
            done += len(block.items)
            if progress:
                progress(done, len(run.plan), run.plan.kind)
