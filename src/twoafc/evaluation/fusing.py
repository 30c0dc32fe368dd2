"""Learn a distance from votes: a sum of functions of the table's distances, or heads of LPIPS from its channels.

Either is tested on votes that it has not seen, against what it was made of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from twoafc.arrays import BoolArray, Progress
from twoafc.errors import DataError
from twoafc.estimators import Fusion, FusionFit, Heads, Spline
from twoafc.evaluation.evaluation import changed_settings, evaluate_tables
from twoafc.evaluation.loop import Data, Task, crossed, joined, shared_distances
from twoafc.evaluation.records import score
from twoafc.evaluation.settings import Settings
from twoafc.inference import COMPARED, Clustering, Values, clustering_of, compare, places
from twoafc.measurement import MeasuredChannels, identities_of, is_channels, lasting_differences, read_channels
from twoafc.results import Result, Run
from twoafc.table import Triplets, Votes, as_votes, assign_folds, most_folds, native_kind, require_single

LABEL = "auto"
"""The estimator of the parts, and the name under which the fused distance is compared with them."""
SHARES = (0.25, 0.5)
"""Shares of the training table that the learning curve is fitted to, beside all of it."""
REPEATS = 2
SEEN_IMAGES = (
    "the heads that predict a triplet were fitted to other triplets with its images: on new images they may gain less; "
    "a test set of other images shows how much (--test)"
)
"""The caution where images recur."""


def fuse(
    train: Any,
    test: Any = None,
    *,
    distances: str | Sequence[str] | None = None,
    name: str | None = None,
    identities: Mapping[str, Mapping[str, Any]] | None = None,
    settings: Settings | None = None,
    progress: Progress | None = None,
    **changes: Any,
) -> Result:
    """Fuse distances into one that explains the votes best, and test it against every one of them.

    From a file of channels, which ``twoafc measure --channels`` writes, it fits the heads of LPIPS instead, and tests
    them against the published ones.

    The fused distance is a sum of smooth increasing functions of the distances: see `twoafc.Fusion`. Everything about
    it is chosen inside the training table, or inside the folds that are fitted, so that its scores are those of votes
    that it has not seen.

    Parameters
    ----------
    train, test : Triplets, a path or a frame of them; or paths of channels, .npz
        As for `twoafc.evaluate`; without `test` the training table is cross-validated by reference.
    distances : names, default all that both tables have
        The parts; two at least.
    name : str, optional
        Name of the new distance; "fused" or, of heads, "heads" by default.
    identities : mapping of part to what it was measured with, optional
        By default as the card of the training table says, where that is a file that `twoafc.measure` wrote.
    settings, **changes
        As for `twoafc.evaluate`.

    Returns
    -------
    Result
        Scores of the fused distance and its parts; ``result.fused`` is the distance itself, fitted to all of the
        training table, and ``result.card["fusion"]`` has what each part is worth and the learning curve. Of heads,
        ``result.fused`` has them by layer, and ``result.card["heads"]`` what they weigh.

    Examples
    --------
    >>> import twoafc
    >>> rng = np.random.default_rng(0)
    >>> blur, noise = rng.lognormal(size=(2, 2, 600))
    >>> P = 1 / (1 + np.exp(-2 * np.log((blur + noise)[0] / (blur + noise)[1])))
    >>> columns = {"blur_d0": blur[0], "blur_d1": blur[1], "noise_d0": noise[0], "noise_d1": noise[1]}
    >>> result = twoafc.fuse({"n": rng.binomial(5, P), "M": [5] * 600, **columns}, folds=2, error_bars="fixed")
    >>> result.fused.parts
    ('blur', 'noise')
    >>> result.fused({"blur": [0.0, 1.0], "noise": [0.0, 1.0]}).round(1)
    array([0. , 2.9])
    """
    settings = changed_settings("fuse", settings, changes)
    if is_channels(train) or is_channels(test):
        if not is_channels(train) or not (test is None or is_channels(test)):
            raise DataError("train and test must both be channels (.npz), or both tables")
        if distances is not None:
            raise DataError("channels are those of one distance; leave distances out")
        return fit_heads(train, test, name or "heads", settings, progress)
    name = name or "fused"
    tables = as_votes(train), None if test is None else as_votes(test)
    parts, notes = _parts(*tables, distances, name)
    fusion = Fusion(tuple(parts), seed=settings.seed)
    whole, other = (None if table is None else stacked(table, name, parts) for table in tables)
    assert whole is not None
    result = evaluate_tables(
        whole, other, parts, {LABEL: Spline()}, settings, progress, baseline=name, learned={name: fusion}
    )
    if identities is None:
        identities = identities_of(train) if isinstance(train, str | Path) else {}
    known = {part: identities[part] for part in parts if part in identities}
    fit, runs = _with_card(result, name, identities=known)
    notes += _separated(fit, whole[name])
    settings = replace(settings, folds=result.card["settings"]["folds"])
    about = {"name": name, "of": parts, **fit.summary(), **_study(name, fit, *tables, settings, progress)}
    about["sentences"] = sentences(result, about)
    card = {**result.card, "fusion": about, "frames": native_kind(train)}
    return result.replace(runs=runs, notes=[*notes, *result.notes], card=card)


def stacked(table: Votes, name: str, parts: Sequence[str]) -> Votes:
    """Add some distances of a table to it as the columns of one, of shape (T, parts)."""
    columns = tuple(np.stack([table.distances[part][end] for part in parts], axis=1) for end in range(table.k))
    return replace(table, distances={**table.distances, name: columns})


def _parts(
    train: Votes, test: Votes | None, asked: str | Sequence[str] | None, name: str
) -> tuple[list[str], list[str]]:
    """Choose the distances to fuse; refuse what cannot be fused, and leave out constants and repeats."""
    tables = {"train": train} | ({} if test is None else {"test": test})
    for role, table in tables.items():
        require_single(table, "fuse")
        if table.k == 1:
            raise DataError(f"distances are fused by votes on triplets; {role} has pairs")
    names, notes = shared_distances(train.distances, None if test is None else test.distances, asked)
    if name in names:
        raise DataError(f"the table has a distance {name} already; give the new one another name (--name)")
    for role, table in tables.items():
        for part in names:
            least = np.min(table.distances[part])
            if least < 0:
                raise DataError(f"a distance to be fused must be at least 0; {part} in {role} has {least:g}")
    order: dict[bytes, str] = {}
    kept = []
    for part in names:
        columns = np.concatenate(train.distances[part])
        ranks = np.unique(columns, return_inverse=True)[1]
        first = order.setdefault(ranks.tobytes(), part)
        if not ranks.any():
            notes.append(f"{part} is left out: it has one value, {columns[0]:g}")
        elif first != part:
            notes.append(f"{part} is left out: it orders all images as {first} does")
        else:
            kept.append(part)
    if len(kept) < 2:
        why = "" if len(kept) == len(names) else f" ({'; '.join(notes)})"
        raise DataError(f"fusing needs two distances at least; the table has {', '.join(kept) or 'none'}{why}")
    return kept, notes


def _with_card(result: Result, name: str, **known: Any) -> tuple[Any, list[Run]]:
    """The fit of a learned distance with what it was made from and tested on, and all runs with it."""
    tested = next(r for r in result.scores if (r["distance"], r["split"], r["group"]) == (name, "test", "all"))
    card = {
        "twoafc": result.card["versions"]["twoafc"],
        "created": result.card["created"],
        "data": result.card["data"],
        "folds": result.card["settings"]["folds"],
        "scores": {key: tested[key] for key in ("triplets", "votes", "nll", "nll_se", "score_2afc", "score_2afc_se")},
        "licence": "made from votes and distances whose licences may apply to it",
    }
    own = next(run for run in result.runs if run.distance == name)
    fit = replace(cast(Any, own.fit), card=card, **known)
    return fit, [replace(run, fit=fit) if run is own else run for run in result.runs]


def _separated(fit: FusionFit, train: Votes) -> list[str]:
    """Note that the scale of a distance is arbitrary if it separates all votes."""
    farther = np.sign(np.subtract(*map(fit.reduce, train.columns)))
    if (farther == np.where(train.n == train.M, 1, np.where(train.n == 0, -1, 0))).all():
        return ["the fused distance separates all training votes: they fix the order of images, not its scale"]
    return []


def _study(
    name: str, fit: FusionFit, train: Votes, test: Votes | None, settings: Settings, progress: Progress | None
) -> dict[str, Any]:
    """Estimate what each part and more votes would gain, by further fits; empty if one part is left alone."""
    if fit.settings.alone is not None:
        return {"without": [], "learning": []}
    fold = assign_folds(train, settings.folds or 0, seed=settings.seed) if test is None else None
    clustering = clustering_of(train if test is None else test)
    fusion, parts, done = replace(fit.settings, folds=0, choose=True), fit.fused.parts, 0

    def step(what: str) -> None:
        nonlocal done
        if progress:
            progress(done, len(parts) + 1 + len(SHARES), what)
        done += 1

    def values(fusion: Fusion, kept: BoolArray | None = None) -> Values:
        """Score rows that are predicted by fits of some settings to some rows of the training table."""
        other = None if test is None else stacked(test, name, fusion.parts)
        data = Data(stacked(train, name, fusion.parts), other, fold, kept).of(name)
        task = Task(name, LABEL, None, fusion)
        scored = score(joined(crossed(task.run, data), data.tested), settings, clustering).values
        assert scored is not None
        return scored

    step("all parts")
    whole = values(fusion)
    without: list[dict[str, Any]] = []
    for part in parts if len(fusion.parts) > 2 else ():
        step(f"without {part}")
        without.append({"part": part, **_paired(values(fusion.without(part)), whole, clustering)})
    learning = []
    for share in SHARES:
        step(f"{share:.0%} of the training table")
        groups = round(1 / share)
        if most_folds(train) >= 2 * groups:
            seeds = np.random.SeedSequence(settings.seed).generate_state(REPEATS)
            kept = [assign_folds(train, groups, seed=int(seed)) == 0 for seed in seeds]
            # Without a start, as a fit to so few votes would be made.
            drawn = [values(replace(fusion, start=None), rows) for rows in kept]
            mean = replace(drawn[0], columns=np.mean([each.columns for each in drawn], axis=0))
            learning.append({"share": share, **_paired(mean, whole, clustering)})
    without.sort(key=lambda record: -record["difference"])
    return {"without": without, "learning": learning}


def _paired(other: Values, whole: Values, clustering: Clustering) -> dict[str, float]:
    """NLL of other fits minus that of the fits to all: difference, standard error and 95 % interval."""
    measure = {"nll": COMPARED[2]["nll"]}
    (record,) = compare({"other": other, "whole": whole}, clustering, estimator=LABEL, measures=measure)
    sign = 1.0 if record["a"] == "other" else -1.0
    low, high = sorted((sign * record["low"], sign * record["high"]))
    return {"difference": sign * record["difference"], "se": record["se"], "low": low, "high": high}


def sentences(result: Result, fusion: Mapping[str, Any]) -> list[str]:
    """Sentences on what the fused distance gains, its parts, which of them matter, and the gain of more votes."""
    name, all_parts, rise = fusion["name"], fusion["of"], fusion["parts"]
    parts = sorted(rise, key=lambda part: -rise[part])
    if fusion["alone"]:
        return [
            f"{name} is {parts[0]}: all {len(all_parts)} distances together do not predict votes that were left out "
            "within the training table better than it does alone."
        ]
    idle = [part for part in all_parts if part not in parts]
    added = f"; {_listed(idle)} {'add' if len(idle) > 1 else 'adds'} nothing to them" if idle else ""
    tested = [r for r in result.scores if (r["split"], r["group"], r["distance"] != name) == ("test", "all", True)]
    best = min(tested, key=lambda record: float(record["nll"]))["distance"]
    pair = [r for r in result.comparisons if {r["a"], r["b"]} == {name, best} and r["measure"] != "score_2afc"]
    gain, *also = (f"{record['sentence']}." for record in pair)
    lines = [gain, f"{name} is made of {_listed(parts)}{added}.", *also]
    if fusion["without"]:
        first, *others = (f"without {record['part']} {_nats(record)}" for record in fusion["without"][:3])
        lines.append(f"NLL that a part saves, nats per triplet: {'; '.join([first, *others])}.")
    half = next((record for record in fusion["learning"] if record["share"] == 0.5), None)
    if half is not None:
        twice = {key: half[key] / 2 for key in ("difference", "low", "high")}
        lines.append(
            f"Half of the training table costs {_nats(half)} nats per triplet; twice as much would bring about "
            f"{_nats(twice)}, if the cost falls with its size."
        )
    return lines


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _nats(record: Mapping[str, float]) -> str:
    """A difference with its interval, with as many digits as that justifies."""
    decimals = max(places((record["high"] - record["low"]) / 10), 2)
    value, low, high = (f"{record[key]:.{decimals}f}" for key in ("difference", "low", "high"))
    return f"{value} ({low} to {high})"


# --- heads of LPIPS ---------------------------------------------------------------------------------------------------


def fit_heads(
    train: str | Path, test: str | Path | None, name: str, settings: Settings, progress: Progress | None
) -> Result:
    """Fit heads to the votes of a file of channels: see `twoafc.fuse`."""
    paths = [path for path in (train, test) if path is not None]
    files = [read_channels(path) for path in paths]
    network = files[0].network
    for path, file in zip(paths, files, strict=True):
        changed = lasting_differences(file.identity, files[0].identity)
        if changed:
            raise DataError(f"train and test must have channels of one network; {path} has other ones: {changed}")
    if name == network:
        raise DataError(f"the table has a distance {name} already; give the new one another name (--name)")
    starts = np.cumsum([0, *(len(file.means) for file in files)])
    tables = [with_places(file, name, int(first)) for file, first in zip(files, starts, strict=False)]
    means = np.concatenate([file.means for file in files]) if len(files) > 1 else files[0].means
    heads = Heads(network, tuple(files[0].heads), files[0].identity["weights"], means, seed=settings.seed)
    result = evaluate_tables(
        tables[0],
        tables[1] if len(tables) > 1 else None,
        [network],
        {LABEL: Spline()},
        settings,
        progress,
        baseline=name,
        learned={name: heads},
    )
    fit, runs = _with_card(result, name)
    about = {"name": name, **fit.summary()}
    about["sentences"] = heads_sentences(result, about)
    recur = [SEEN_IMAGES] if any("images recur" in note for note in result.notes) else []
    card = {**result.card, "heads": about, "caveats": [*result.card["caveats"], *recur]}
    return result.replace(runs=runs, card=card)


def with_places(file: MeasuredChannels, name: str, first: int) -> Votes:
    """The votes, with the published distance, and as a learned one the places of each row's pairs."""
    table = file.votes()
    if not isinstance(table, Triplets):
        raise DataError(f"heads are fitted to votes on triplets; the file has {table.row}s")
    columns = tuple(first + place[:, None] for place in file.places.T)
    return replace(table, distances={**table.distances, name: columns})


def heads_sentences(result: Result, heads: Mapping[str, Any]) -> list[str]:
    """Sentences on the gain of the fitted heads, and how they differ from the published ones."""
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
