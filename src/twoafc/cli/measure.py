"""`twoafc measure`: a data set's images and a list of distances to a table of votes and distances."""

from __future__ import annotations

import faulthandler
import sys
import time
import warnings
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from twoafc.cli.options import Json, Rename, listed, renaming
from twoafc.cli.show import printed, rate

if TYPE_CHECKING:
    from twoafc.measurement import Failure, Measured

MOST_SHOWN = 20


def measure(
    data: Path,
    *,
    distance: tuple[str, ...],
    out: Path,
    images: Path | None = None,
    rename: Rename = None,
    split: str | None = None,
    M: Annotated[int | None, Parameter(name="--M")] = None,
    without_anchors: bool = False,
    device: str | None = None,
    precision: Literal["fp32", "tf32"] = "fp32",
    workers: int | None = None,
    batch_size: int | None = None,
    shard: str | None = None,
    scheduler: str | None = None,
    allow_random: bool = False,
    channels: bool = False,
    json: Json = False,
    quiet: bool = False,
) -> None:
    """Measure distances on the images of a data set, and write a table that `twoafc evaluate` reads.

    A run that was stopped is resumed by the same command; distances that the table has are not measured again. Exit
    code 1 says that some rows could not be measured and are not in the table.

    Parameters
    ----------
    data
        Data set: a BAPPS or NIGHTS folder, a CLIC CSV, or a table of paths (.csv, .parquet) with ref, x0, x1.
    distance
        A distance, once for each or with commas between them: a name, package.module:function of your own, or
        pyiqa:NAME, piq:NAME, torchmetrics:NAME.
    out
        Table to write, .parquet or .csv.
    images
        Folder of the images, where they do not lie beside their CSV.
    split
        Part of a BAPPS or NIGHTS folder, such as val; default all.
    M
        How many people judged each triplet of a BAPPS folder; default 2 in train, 5 in val (pairs: 3).
    without_anchors
        Leave out triplets in which a choice has the same pixels as its reference.
    device
        Such as cpu or cuda; default a GPU where torch can use one.
    precision
        Of networks on a GPU; tf32 is several times as fast, and rounds factors to 11 bits.
    workers
        Processes that decode images and, on the CPU, measure; default one for each core.
    batch_size
        Triplets that are measured together.
    shard
        i/n: measure the i-th of n shares only, for job arrays; when all are done, run once without it.
    scheduler
        Measure on the workers of a Dask cluster: its scheduler's address, such as tcp://10.0.0.1:8786, or its file.
    allow_random
        Measure distances whose values depend on the batch or on chance, too, and say so on the card.
    channels
        Of one LPIPS distance, write what its heads weigh to OUT, .npz, from which twoafc fuse fits heads of your own.
    quiet
        Print nothing but errors and failures, and JSON where it is asked for.
    """
    from twoafc.datasets import open_dataset
    from twoafc.datasets import without_anchors as remove_anchors
    from twoafc.measurement import connect, ending_processes
    from twoafc.measurement import measure as run

    if scheduler is not None and workers is not None:  # before a cluster is looked for
        raise ValueError("--workers is for this machine; a cluster has workers of its own: leave one of the two out")
    with suppress(OSError, ValueError):  # where standard error is no file
        faulthandler.enable()  # a crash in somebody's distance then says where it was
    start = time.monotonic()
    bar, silent = rate(quiet or json), warnings.catch_warnings()
    cluster: AbstractContextManager[Any] = nullcontext() if scheduler is None else connect(scheduler)
    try:
        with ending_processes(), silent, bar as show, cluster as client:
            warnings.filterwarnings("ignore", module=r"PIL\b")  # the list of failures reports the same
            _check_options(data, {"images": images, "rename": rename, "split": split, "M": M})
            opened = open_dataset(data, folder=images, rename=renaming(rename) or None, split=split, M=M, progress=show)
            result = run(
                remove_anchors(opened, progress=show) if without_anchors else opened,
                listed(distance) or (),
                out,
                device=device,
                precision=precision,
                workers=workers,
                batch_size=batch_size,
                shard=None if shard is None else _share(shard),
                client=client,
                allow_random=allow_random,
                channels=channels,
                progress=show,
            )
    except KeyboardInterrupt:
        raise KeyboardInterrupt("finished values are kept, and the same command resumes the run") from None
    seconds = time.monotonic() - start
    if json:
        printed(_summary(result, out, seconds), json)
    elif not quiet:
        _print_result(result, out, shard, seconds)
    if result.failures:
        _print_failures(result.failures, Path(f"{out}.failures.csv") if shard is None else None)
        raise SystemExit(1)


def _check_options(data: Path, given: dict[str, object]) -> None:
    """Refuse an option that means nothing for the data's layout, by its name on the command line."""
    from twoafc.datasets import options_of

    known = ["images" if name == "folder" else name for name in options_of(data)]
    wrong = next((name for name, value in given.items() if value is not None and name not in known), None)
    if wrong is not None:
        allowed = ", ".join(f"--{name}" for name in given if name in known)
        raise ValueError(f"--{wrong} is not for data of this layout: {data} takes {allowed}")


def _share(text: str) -> tuple[int, int]:
    i, _, n = text.partition("/")
    if not (i.isdecimal() and n.isdecimal()):
        raise ValueError(f"--shard is i/n, such as 2/8; found {text!r}")
    return int(i), int(n)


def _summary(result: Measured, out: Path, seconds: float) -> dict[str, Any]:
    return {
        "out": None if result.table is None else str(out),
        "rows": None if result.table is None else len(result.table),
        "measured": result.items,
        "kind": result.kind,
        "seconds": round(seconds, 3),
        "remaining_blocks": result.remaining,
        "failures": [asdict(failure) for failure in result.failures],
        "notes": result.notes,
        "card": result.card,
    }


def _print_result(result: Measured, out: Path, shard: str | None, seconds: float) -> None:
    for note in result.notes:
        print(f"note: {note}")
    speed = f" in {seconds:.1f} s ({result.items / seconds:,.0f} a second)" if result.items else ""
    print(f"Measured {result.items:,} {result.kind}{speed}")
    if shard is not None:
        others = f"{result.remaining} blocks of other shards are still to be measured"
        left = others if result.remaining else "all is there"
        print(f"Shard {shard}: {left}; when all shards are done, the same command without --shard writes {out}")
    elif result.table is not None:
        print(f"{'Channels' if out.suffix == '.npz' else 'Table'}: {out} ({len(result.table):,} rows)")


def _print_failures(failures: list[Failure], written: Path | None) -> None:
    rows, are = ("1 row", "is") if len(failures) == 1 else (f"{len(failures)} rows", "are")
    print(f"twoafc: {rows} could not be measured and {are} not in the table:", file=sys.stderr)
    for failure in failures[:MOST_SHOWN]:
        print(f"  {failure}", file=sys.stderr)
    more = f"  and {len(failures) - MOST_SHOWN} more\n" if len(failures) > MOST_SHOWN else ""
    listed = f"  all of them: {written}\n" if written else ""
    sys.stderr.write(more + listed)
