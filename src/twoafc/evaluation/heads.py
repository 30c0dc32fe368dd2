"""Fit the heads of LPIPS to votes, from channels that were measured, and test them against the published ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from twoafc.errors import DataError
from twoafc.estimators import Heads, Spline
from twoafc.evaluation.evaluation import evaluate_tables
from twoafc.evaluation.settings import Progress, Settings
from twoafc.measurement import MeasuredChannels, lasting_differences, read_channels
from twoafc.results import Result
from twoafc.table import Triplets, Votes

LABEL = "auto"
SEEN = (
    "the heads that predict a triplet were fitted to other triplets with its images: on new images they may gain less; "
    "a test set of other images shows how much (--test)"
)


def fit_heads(
    train: str | Path, test: str | Path | None, name: str, settings: Settings, progress: Progress | None
) -> Result:
    """Fit heads to the votes of a file of channels: see `twoafc.fuse`."""
    files = [read_channels(path) for path in (train, test) if path is not None]
    for path, file in zip((train, test), files, strict=False):
        changed = lasting_differences(file.identity, files[0].identity)
        if changed:
            raise DataError(f"train and test must have channels of one network; {path} has other ones: {changed}")
        if name == file.network:
            raise DataError(f"the table has a distance {name} already; give the new one another name (--name)")
    network, starts = files[0].network, np.cumsum([0, *(len(file.means) for file in files)])
    tables = [with_places(file, name, int(first)) for file, first in zip(files, starts, strict=False)]
    heads = Heads(
        network,
        tuple(files[0].heads),
        files[0].identity["weights"],
        np.concatenate([file.means for file in files]) if len(files) > 1 else files[0].means,
        seed=settings.seed,
    )
    found = evaluate_tables(
        tables[0],
        tables[1] if len(tables) > 1 else None,
        [network],
        {LABEL: Spline()},
        settings,
        progress,
        baseline=name,
        learned={name: heads},
    )
    fit: Any = next(run.fit for run in found.runs if run.distance == name)
    about = {"name": name, **fit.summary()}
    about["sentences"] = sentences(found, about)
    caveats = [*found.card["caveats"], *([SEEN] if any("images recur" in note for note in found.notes) else [])]
    return found.replace(card={**found.card, "heads": about, "caveats": caveats})


def with_places(file: MeasuredChannels, name: str, first: int) -> Votes:
    """The votes, with the published distance, and as a learned one the places of each row's pairs."""
    table = file.votes()
    if not isinstance(table, Triplets):
        raise DataError(f"heads are fitted to votes on triplets; the file has {table.row}s")
    columns = tuple(first + place[:, None] for place in file.places.T)
    return replace(table, distances={**table.distances, name: columns})


def sentences(result: Result, heads: dict[str, Any]) -> list[str]:
    """Say what the fitted heads gain, and how they differ from the published ones."""
    name, network = heads["name"], heads["network"]
    if heads["published"]:
        return [
            f"{name} is {network}: heads fitted to these votes do not predict votes that were left out within the "
            "training table better than the published ones do."
        ]
    gains = [r["sentence"] for r in result.comparisons if r["measure"] != "score_2afc"]
    ours, theirs = (", ".join(f"{100 * share:.0f}" for share in heads[key]) for key in ("layers", "published_layers"))
    return [
        *(f"{sentence}." for sentence in gains),
        f"{name} weighs {heads['channels']} of {heads['of']} channels; its layers make up {ours} % of the distance, "
        f"those of {network} {theirs} %.",
    ]
