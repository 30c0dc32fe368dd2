"""`twoafc fuse`: the distances of a table to one that explains its votes better."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from twoafc.cli.evaluate import DATA, METHOD, OUTPUT
from twoafc.cli.options import Distances, Folds, Json, Quiet, Rename, listed
from twoafc.cli.show import present, progress
from twoafc.cli.tables import by_role, changed_tables, read_tables, refuse_folds, with_files


def fuse(
    *,
    train: Annotated[Path, DATA],
    test: Annotated[Path | None, DATA] = None,
    rename: Annotated[Rename, DATA] = None,
    distance: Annotated[Distances, DATA] = None,
    images: Annotated[Path | None, DATA] = None,
    name: Annotated[str | None, METHOD] = None,
    folds: Annotated[Folds, METHOD] = None,
    seed: Annotated[int, METHOD] = 0,
    error_bars: Annotated[Literal["analytic", "fixed"], METHOD] = "analytic",
    out: Annotated[Path, OUTPUT] = Path("fused"),
    json: Annotated[Json, OUTPUT] = False,
    quiet: Annotated[Quiet, OUTPUT] = False,
) -> None:
    """Fuse the distances of a table into one by the likelihood of its votes, and test it against every one of them.

    The fused distance is a sum of smooth increasing functions of the distances. It is fitted and chosen inside the
    training table, or inside the folds, and tested on other votes. Where it is no better than its best part, it is that
    part. From channels that twoafc measure --channels has written, the heads of LPIPS are fitted in the same way, and
    tested against the published ones.

    Parameters
    ----------
    train
        Table (.csv, .parquet) with n, M (or choice) and NAME_d0, NAME_d1 for two distances at least; or channels, .npz.
    test
        Table to score on; without it the training table is cross-validated by reference.
    images
        Folder of the images that the table names, for the report.
    name
        Name of the new distance, and of its file; default fused or, of channels, heads.
    seed
        Seed of the folds.
    error_bars
        analytic: for new test triplets and a new training table. fixed: for new test triplets only.
    out
        Folder of results to write, with NAME.npz, which twoafc measure takes as a distance, and NAME.parquet, the
        tested table with columns of the fused distance.
    """
    from twoafc.evaluation import fuse as run
    from twoafc.measurement import identities_of, is_channels
    from twoafc.results import check_folder, plain

    refuse_folds(test, folds)
    check_folder(out)
    paths = by_role(train, test)
    heads = is_channels(train)
    if heads and (rename or distance):
        raise ValueError(f"{'--rename' if rename else '--distance'} is for tables; channels have their names")
    changed = changed_tables(paths)
    tables: Any = {role: path for role, (path,) in paths.items()} if heads else read_tables(paths, rename)
    with progress(quiet or json) as show:
        result = run(
            **tables,
            distances=listed(distance),
            name=name,
            identities=None if heads else identities_of(train),
            folds=folds,
            seed=seed,
            error_bars=error_bars,
            progress=show,
        )
    result = with_files(result, paths, changed)
    name = result.card["heads" if heads else "fusion"]["name"]
    made = f"{'Heads' if heads else 'Fused distance'}: {out / f'{plain(name)}.npz'}"
    present(result, out, images=images, json=json, quiet=quiet, made=made)
