"""Models that carry the counts they were fitted to, so that new votes update them without the old data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from twoafc.counted import CountedTriplets
from twoafc.counts import Counts, merge
from twoafc.errors import DataError

if TYPE_CHECKING:
    from twoafc.estimators import Ours, Surface

PREFIX = "counts_"
CARD = "counts_card"
"""Names, in the file of a model, of the arrays of its counts, and of the card that tells of them."""


@dataclass(frozen=True, eq=False)
class Origin:
    """What a model was fitted to, and the settings that were asked for (a chosen sigma was auto there).

    Parameters
    ----------
    asked : mapping
        Settings of the estimator.
    counts : Counts
    """

    asked: Mapping[str, Any]
    counts: Counts

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays that a saved model holds beside its own."""
        card, arrays = self.counts.stored()
        told = json.dumps({"asked": dict(self.asked), "counts": card}).encode()
        return {CARD: np.frombuffer(told, dtype=np.uint8)} | {f"{PREFIX}{name}": each for name, each in arrays.items()}


def split(arrays: Mapping[str, NDArray[Any]]) -> tuple[dict[str, NDArray[Any]], Origin | None]:
    """Tell the arrays of a saved model from those of the counts that it carries, checking the latter."""
    own = {name: each for name, each in arrays.items() if not name.startswith(PREFIX)}
    if CARD not in arrays:
        return dict(arrays), None
    try:
        told = json.loads(arrays[CARD].tobytes().decode())
        asked, card = told["asked"], told["counts"]
        if not isinstance(asked, dict) or not isinstance(card, dict):
            raise TypeError
    except (ValueError, KeyError, TypeError) as error:
        raise DataError("the card of the model's counts is not readable") from error
    held = {name.removeprefix(PREFIX): each for name, each in arrays.items() if name not in own and name != CARD}
    try:
        return own, Origin(asked, Counts.restore(card, held))
    except DataError as error:
        raise DataError(f"the counts that it carries are not usable: {error}") from error


def carrying(fit: Surface, origin: Origin | None) -> Surface:
    """Give a restored fit its counts, which must be those of its map."""
    if origin is None:
        return fit
    if fit.uniform is not None and fit.uniform.at_most[-1] != 2 * origin.counts.triplets:
        raise DataError("the map must be of the counts that the model carries; it is of another number of triplets")
    type(fit.settings)(**origin.asked)
    return replace(fit, origin=origin)


def fit_counts(estimator: Ours, counts: Counts, table: CountedTriplets | None = None) -> Surface:
    """Fit P to counts; the model carries them, for `refit`.

    Parameters
    ----------
    estimator : Density, Spline, or Network with the solver lbfgs
    counts : Counts
    table : CountedTriplets, optional
        The counts as a table, where it is there already.

    Examples
    --------
    >>> from twoafc import Density, Triplets, worlds
    >>> from twoafc.counts import tally
    >>> counts = tally(Triplets.from_frame(worlds.simulate("weber", triplets=3000, votes=2)))
    >>> fit = fit_counts(Density(sigma=0.1), counts)
    >>> bool(fit.probability(2.0, 1.0) > 0.7), fit.origin.counts == counts
    (True, True)
    """
    fit = estimator.fit(table or CountedTriplets.of(counts))
    return replace(fit, origin=Origin(asdict(estimator), counts))


def refit(models: Sequence[Surface], *, names: Sequence[str] | None = None) -> Surface:
    """Fit one model to the counts of several, as if all their triplets had been counted together.

    Parameters
    ----------
    models : sequence of fits that carry counts
        Of one estimator with the same settings, on counts that add up.
    names : sequence of str, optional
        What errors call them.
    """
    names = list(names or [f"model {place}" for place in range(len(models))])
    return fit_counts(asked(models[0]), merge(carried(models, names), names=names))


def carried(models: Sequence[Surface], names: Sequence[str]) -> list[Counts]:
    """Give the counts that some models carry; models without any, or of unlike settings, are refused by name."""
    found = []
    for name, model in zip(names, models, strict=False):
        if model.origin is None:
            raise DataError(
                f"only models fitted to counts can be merged; {name} carries none: "
                "fit it with twoafc evaluate --engine, or merge the tables"
            )
        found.append(model.origin.counts)
        told, other = (repr(asked(each)) for each in (models[0], model))
        if told != other:
            raise DataError(f"models of one estimator and its settings merge; {names[0]} is {told}, {name} {other}")
    return found


def asked(model: Surface) -> Ours:
    """Give the settings that were asked for of a model that carries counts."""
    assert model.origin is not None
    return type(model.settings)(**model.origin.asked)
