"""The channels of LPIPS on a data set, in one file, from which `twoafc.fuse` fits heads without the images.

Images often recur, so the file has the means of each distinct pair once, and for each row the numbers of its pairs.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twoafc.arrays import BoolArray, FloatArray, IntArray
from twoafc.distances import ALIASES, DEEP
from twoafc.errors import DataError
from twoafc.files import read_archive, require_format, save_archive
from twoafc.measurement.candidates import CHANNELS, Candidate, Requested
from twoafc.measurement.identity import Identity
from twoafc.measurement.journal import FORMAT, NOTHING, Card, Earlier, Values
from twoafc.measurement.plan import Plan, TraceArray
from twoafc.table import Votes, as_votes

KIND = "channels"
NETWORKS = [name for name, module in DEEP.items() if module == "lpips"]


def channels_of(requested: Sequence[Requested] | Mapping[str, Requested]) -> dict[str, Requested]:
    """Turn the name of an LPIPS distance into the text that makes its channels."""
    names = [*requested]
    network = ALIASES.get(names[0], names[0]) if len(names) == 1 and isinstance(names[0], str) else None
    if network not in NETWORKS:
        found = ", ".join(map(str, names)) or "none"
        raise ValueError(f"channels are those of one distance, {', '.join(NETWORKS)}; found {found}")
    return {network: f"{network}{CHANNELS}"}


@dataclass(frozen=True, eq=False)
class MeasuredChannels(Earlier):
    """A file of channels; `frame` has the names, votes and labels of its T rows."""

    means: NDArray[np.float32]  # (pairs, C), by channel the mean over pixels of the squared difference
    pairs: IntArray  # (pairs,), the number of each pair in the plan: item times slots, plus slot
    places: IntArray  # (T, 2), the row of `means` of each triplet's (ref, x0), and of its (ref, x1)
    heads: list[FloatArray]  # the published heads, one for each layer

    @property
    def network(self) -> str:
        """The distance whose channels these are."""
        return next(iter(self.identities))

    @property
    def identity(self) -> Identity:
        """What the means depend on beside the images."""
        return self.identities[self.network]

    def votes(self) -> Votes:
        """The table of votes with the published distance."""
        d = self.means.astype(np.float64) @ np.concatenate(self.heads)
        ends = ("d0", "d1") if self.places.shape[1] == 2 else ("d",)
        columns = {f"{self.network}_{end}": d[place] for end, place in zip(ends, self.places.T, strict=True)}
        return as_votes(self.frame.with_columns(**{name: pl.Series(values) for name, values in columns.items()}))

    def values(self, plan: Plan) -> Values:
        """Return the means of the items of a plan."""
        values: NDArray[Any] = np.full((len(plan) * plan.shape[1], self.means.shape[1]), np.nan, dtype=np.float32)
        values[self.pairs] = self.means
        return {self.network: values.reshape(*plan.shape, -1)}

    def save(self, path: str | Path) -> None:
        """Write the file, whole; `read_channels` reads it."""
        table = io.BytesIO()
        self.frame.write_parquet(table)
        arrays: dict[str, NDArray[Any]] = {f"head{layer}": head for layer, head in enumerate(self.heads)}
        arrays |= {"means": self.means, "pairs": self.pairs, "places": self.places, "traces": self.traces}
        arrays["table"] = np.frombuffer(table.getvalue(), dtype=np.uint8)
        save_archive(path, KIND, self.card, arrays, packed=False)


def write_channels(
    path: Path, plan: Plan, candidate: Candidate, values: FloatArray, rows: BoolArray, card: Card, traces: TraceArray
) -> None:
    """Write the channels of some rows, with their votes and labels."""
    number = np.stack([item[rows] * plan.shape[1] + slot for item, slot in plan.places.values()], axis=1)
    pairs, places = np.unique(number, return_inverse=True)
    means: NDArray[Any] = values.reshape(-1, values.shape[-1])[pairs]
    heads = candidate.distance.heads  # type: ignore[attr-defined]
    frame = plan.data.table.filter(pl.Series(rows))
    MeasuredChannels(frame, card, traces, means, pairs, places.reshape(number.shape), heads).save(path)


def is_channels(path: Any) -> bool:
    """Whether a path is one of channels, by its ending."""
    return isinstance(path, str | Path) and Path(path).suffix == ".npz"


def read_channels(path: str | Path) -> MeasuredChannels:
    """Read a file that `twoafc measure --channels` has written; raise `DataError` for any other."""
    kind, card, arrays = read_archive(path)
    if kind != KIND:
        raise DataError(f"{path} is a model, not a file of channels; twoafc measure --channels writes those")
    require_format(card.get("format", FORMAT), FORMAT, str(path), "measure again, into another file")
    try:
        heads = [arrays[f"head{layer}"] for layer in range(sum(name.startswith("head") for name in arrays))]
        frame = pl.read_parquet(io.BytesIO(arrays["table"].tobytes()))
        traces, means, pairs, places = (arrays[name] for name in ("traces", "means", "pairs", "places"))
        read = MeasuredChannels(frame, card, traces, means, pairs, places, heads)
        whole = read.identity["weights"] and len(places) == len(frame)
        if whole and means.shape == (len(pairs), sum(map(len, heads))):
            return read
    except (KeyError, TypeError, StopIteration, pl.exceptions.PolarsError):
        pass
    raise DataError(f"{path} is not a whole file of channels; remove it, and measure again")


def earlier_channels(path: Path, fingerprint: str) -> Earlier:
    """Read an earlier file of channels of the data with that fingerprint; `NOTHING` if there is no file."""
    if not path.exists():
        return NOTHING
    earlier = read_channels(path)
    if earlier.card["data"]["fingerprint"] != fingerprint:
        raise DataError(f"{path} was measured on other data than these; name another file, or remove it")
    return earlier
