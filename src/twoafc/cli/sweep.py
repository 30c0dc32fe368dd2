"""`twoafc sweep`: how much the kernel's width and the number of nodes matter."""

from __future__ import annotations

from pathlib import Path

from twoafc.cli.options import Distances, Folds, Json, Quiet, Rename, listed
from twoafc.cli.show import print_table, progress, say
from twoafc.cli.tables import by_role, changed_tables, read_tables, refuse_folds


def sweep(
    *,
    train: Path,
    test: Path | None = None,
    rename: Rename = None,
    distance: Distances = None,
    sigma: tuple[float, ...] | None = None,
    grid_size: tuple[int, ...] | None = None,
    folds: Folds = None,
    seed: int = 0,
    workers: int | None = None,
    out: Path = Path("sweep"),
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Score the density estimator under many kernel widths and grid sizes, and write tables and figures.

    Parameters
    ----------
    train
        Table (.csv, .parquet) with n, M (or choice) and NAME_d0, NAME_d1 for each distance; NAME_d for pairs.
    test
        Table to score on; without it the training table is cross-validated.
    sigma
        Kernel width to try, with 100 nodes per axis; once for each. Default: 16 widths in [0.0037, 1], or none if only
        --grid-size is given. The paper's 1/44 and the automatic width are added.
    grid_size
        Nodes along each axis to try with the paper's sigma, once for each; default 10 in [5, 100]. Where --sigma alone
        is given, none.
    seed
        Seed of the folds.
    workers
        Settings tried at a time; default one for each core.
    out
        Folder to write; an earlier sweep there is replaced.
    """
    from dataclasses import asdict

    from twoafc.estimators import Density
    from twoafc.evaluation import SWEEP_FOLDER, Settings, sweep_remarks, sweep_table, write_sweep
    from twoafc.evaluation import sweep as run
    from twoafc.results import describe_table, make_card

    refuse_folds(test, folds)
    folds = 5 if folds is None else folds
    settings = Settings(folds=folds, seed=seed)
    paths = by_role(train, test)
    SWEEP_FOLDER.check(out, [path for files in paths.values() for path in files])
    tables = read_tables(paths, rename)
    alone = sigma is None and grid_size is None
    with progress(quiet) as show:
        swept = run(
            tables["train"],
            tables.get("test"),
            distances=listed(distance),
            sigmas=sigma if sigma or alone else (),
            grid_sizes=grid_size if grid_size or alone else (),
            folds=folds,
            seed=seed,
            workers=workers,
            progress=show,
        )
    data = {role: describe_table(table, *paths[role]) for role, table in tables.items()}
    card = make_card(data, {"density": Density()}, asdict(settings), [])
    write_sweep(swept, out, {"kind": "sweep", **card})
    if json:
        print((out / SWEEP_FOLDER.name).read_text(encoding="utf-8"))
    elif not quiet:
        for parameter in swept.parameters:
            shown = sweep_table(swept, parameter)
            print_table(shown.caption, shown.header, shown.rows)
        say(*sweep_remarks(swept), *map(str, changed_tables(paths)))
        print(f"Sweep: {out}")
