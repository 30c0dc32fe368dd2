"""The command line: one function per command that parses, calls and prints."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, CycloptsError, Parameter

import twoafc

if TYPE_CHECKING:
    from twoafc.evaluation import Evaluation, Progress

app = App(
    name="twoafc",
    help="Score perceptual distances on two-alternative forced-choice (2AFC) votes, by likelihood.",
    version=twoafc.__version__,
)

HINT = (
    "hint: density smooths as the paper does, which costs some hundredths of a nat of its own, more for better\n"
    "      distances; --estimator auto chooses its smoothness from the data"
)
Several = Annotated[tuple[str, ...] | None, Parameter(negative="")]
Switch = Annotated[bool, Parameter(negative="")]


def main(arguments: list[str] | None = None) -> None:
    """Run a command; a mistake gets one line on standard error and exit code 2."""
    # A terminal that knows no arrows gets question marks, not an error.
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    except BrokenPipeError:
        # The reader has seen enough (| head); what is left unsaid must not become an error at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        _fail("interrupted", code=130)
    except (CycloptsError, ValueError, OSError, ImportError) as error:
        _fail(" ".join(str(error).split()))


def _fail(message: str, code: int = 2) -> None:
    print(f"twoafc: {message}", file=sys.stderr)
    raise SystemExit(code)


@app.command
def evaluate(
    *,
    train: Path,
    test: Path | None = None,
    distance: Several = None,
    estimator: Annotated[tuple[str, ...], Parameter(negative="")] = ("density",),
    folds: int | None = None,
    seeds: int = 1,
    seed: int = 0,
    sigma: float | None = None,
    grid_size: int | None = None,
    ties: Literal["half", "x0"] = "half",
    simulated_seed: int | None = None,
    out: Path = Path("results"),
    json: Switch = False,
    quiet: Switch = False,
) -> None:
    """Fit P(d0, d1) on one table of votes and distances, score it on another, and write a folder of results.

    Parameters
    ----------
    train: Table (.csv, .parquet) with n, M (or choice) and NAME_d0, NAME_d1 for each distance.
    test: Table to score on; without it the training table is cross-validated.
    distance: A distance to evaluate, once for each; default all.
    estimator: auto, spline, density, network, or your own as package.module:Name; once for each.
    folds: Parts for cross-validation of a single table, whole references at a time where they are known; default 5.
    seeds: Runs of an estimator that has a seed; the mean and spread are reported.
    seed: Seed of the folds and of the first run.
    sigma: Kernel width of the density estimator, on distances uniformised to [0, 1]; default 1/44.
    grid_size: Nodes along each axis of the density estimator; default 20.
    ties: A tie counts one half, as in the field, or as a choice of x0, as in the paper's formula.
    simulated_seed: Draw the simulated scores with this seed instead of giving their exact expectation.
    out: Folder of results; an earlier result there is replaced.
    json: Print scores.json instead of the table.
    quiet: Print nothing but errors, and JSON where it is asked for.
    """
    from twoafc import card, results
    from twoafc.estimators import Density
    from twoafc.estimators import estimator as find
    from twoafc.evaluation import Settings
    from twoafc.evaluation import evaluate as run
    from twoafc.triplets import Triplets

    if test and folds is not None:
        raise ValueError("--folds cross-validates a single table; there is a test table too")
    settings = Settings(
        folds=5 if folds is None else folds, seeds=seeds, seed=seed, ties=ties, simulated_seed=simulated_seed
    )
    chosen = {name: find(name) for name in estimator}
    given = {name: value for name, value in (("sigma", sigma), ("grid_size", grid_size)) if value is not None}
    if given and "density" not in chosen:
        raise ValueError(f"--{next(iter(given)).replace('_', '-')} is a setting of density, which is not asked for")
    if given:
        chosen["density"] = Density(**given)  # type: ignore[arg-type]
    results.check_folder(out, [path for path in (train, test) if path])
    tables = {"train": Triplets.read(train)} | ({"test": Triplets.read(test)} if test else {})
    with _progress(quiet) as progress:
        found = run(**tables, distances=distance, estimators=chosen, settings=settings, progress=progress)
    paths = {"train": train, "test": test}
    data = {role: card.describe(table, paths[role]) for role, table in tables.items()}
    results.write(found, out, card.of_evaluation(data, chosen, settings, found.runs))
    if json:
        print((out / "scores.json").read_text(encoding="utf-8"))
    elif not quiet:
        _tell(found, out)
        if set(chosen) == {"density"} and not given:
            print(HINT)


@app.command
def query(
    model: Path,
    *,
    d0: float,
    d1: float,
    votes: int,
    observed: int | None = None,
    json: Switch = False,
) -> None:
    """Ask a saved model: the chance P that x1 is chosen, and how likely each count j of M votes is.

    Parameters
    ----------
    model: A model of a results folder, models/DISTANCE-ESTIMATOR.npz.
    d0: Distance of x0 from the reference.
    d1: Distance of x1 from the reference.
    votes: Number of votes M.
    observed: Count of votes for x1 to mark.
    json: Print JSON.
    """
    from twoafc.query import ask

    answer = ask(twoafc.load(model), d0, d1, votes, observed)
    if json:
        from twoafc.results import strict_json

        print(strict_json(answer))
        return
    error = "" if answer["standard_error"] is None else f" ± {answer['standard_error']:.4f} (standard error)"
    print(f"P = {answer['P']:.4f}{error}: the chance that x1 is chosen at d0 = {d0:g}, d1 = {d1:g}")
    rows = [
        (str(count["j"]), f"{count['probability']:.4f}", f"{count['nll']:.4f}", "observed" if count["observed"] else "")
        for count in answer["counts"]
    ]
    _print_table(f"Counts of {votes} votes for x1", ("j", "probability", "NLL", ""), rows)


@app.command
def simulate(
    *,
    out: Path,
    world: str = "weber",
    triplets: int = 10_000,
    votes: Annotated[tuple[int, ...], Parameter(negative="")] = (2,),
    lapse: float = 0.0,
    references: int | None = None,
    distances: str = "lognormal",
    seed: int = 0,
) -> None:
    """Write a table of simulated votes with the true chance P of choosing x1 in a column.

    Parameters
    ----------
    out: Table to write, .csv or .parquet.
    world: weber, thurstone, sqrt_noise, saturating, turning or useless.
    triplets: Number of rows, T.
    votes: Votes per triplet, M; given several times, each triplet draws one.
    lapse: Share of votes cast at random.
    references: Number of references that the triplets share; default one each.
    distances: lognormal, uniform, heavy or discrete.
    seed: Seed.
    """
    from twoafc import worlds
    from twoafc.frames import write_frame

    frame = worlds.simulate(
        world,
        triplets=triplets,
        votes=list(votes),
        lapse=lapse,
        references=references,
        distances=distances,
        seed=seed,
    )
    write_frame(frame, out)
    print(f"{len(frame)} simulated triplets of world {world}: {out}")


@app.command
def demo(*, out: Path = Path("demo"), triplets: int = 4000, seed: int = 0) -> None:
    """Score three distances on simulated observers who judge distorted photographs; needs no network.

    Parameters
    ----------
    out: Folder of results, with the two tables beside them; an earlier demonstration there is replaced.
    triplets: Number of triplets, a quarter of them for the test.
    seed: Seed.
    """
    from twoafc.demo import STORY, run

    with _progress(quiet=False) as progress:
        found = run(out, triplets=triplets, seed=seed, progress=progress)
    print(STORY)
    _tell(found, out)
    print(f"The tables themselves: {out / 'train.csv'}, {out / 'test.csv'}. The same again:")
    print(f"  twoafc evaluate --train {out / 'train.csv'} --test {out / 'test.csv'} --out my-results")


def _tell(found: Evaluation, out: Path) -> None:
    from twoafc import tables

    table = tables.summary(found.scores)
    _print_table(table.caption, table.header, table.rows)
    for note in found.notes:
        print(f"note: {note}")
    print(f"Results: {out}")


def _print_table(caption: str, header: Any, rows: Any) -> None:
    """Print a table: in colour on a terminal, plain and whole where the output goes elsewhere."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    table = Table(title=caption, title_justify="left", box=box.SIMPLE_HEAD, title_style="bold")
    for place, name in enumerate(header):
        table.add_column(name, justify="left" if place < 2 and len(header) > 4 else "right")
    for row in rows:
        table.add_row(*row)
    console.print(table)


@contextmanager
def _progress(quiet: bool) -> Iterator[Progress | None]:
    """Show a progress bar on a terminal; nothing where standard error goes elsewhere."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total, what: bar.update(task, completed=done, total=total, description=what)
