"""The journal of a run: values in memory, parts on disk from which a run resumes, and the finished table.

A part is a small Parquet file in ``TABLE.parts`` with the values of some items: the column ``item``, for each distance
and slot ``NAME_0``, ``NAME_1``, and in ``traces`` the traces of the items' images. Its header has the fingerprint of
the data, and what each distance was measured with. Its name has the digest of the file, so that no damaged part is
read.

A table has a card with what it was measured with, and a digest of the table: in the metadata of a Parquet file, or in a
JSON file beside a CSV file.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from twoafc.arrays import BoolArray, FloatArray, IntArray
from twoafc.errors import DataError
from twoafc.files import (
    PARTIAL,
    durable_file,
    open_file,
    open_locked,
    reading_parquet,
    require_file,
    require_format,
    write_text,
)
from twoafc.measurement.block import Block, Outcome
from twoafc.measurement.candidates import Candidate, Maker
from twoafc.measurement.identity import Identity, require_identified, require_same
from twoafc.measurement.plan import Plan, Shard, TraceArray, Traces
from twoafc.table import read_frame, write_frame

Values = dict[str, FloatArray]
"""By distance an array (items, slots), or (items, slots, channels); NaN where a value is not known."""
Card = dict[str, Any]
ItemFailure = tuple[int, str, str]
"""An item that could not be measured: its number, the faulty image if any, and the reason."""

FORMAT = 1
"""Version of the format of a card and of a part; those written before it was stated have it too."""
KEY, TRACES = "twoafc", "twoafc.traces"
"""Metadata of a Parquet file: the card of a table or the header of a part, and the traces of a table's images."""
PART = re.compile(r"\d{9,}-[0-9a-f]{12,32}\.parquet")
OURS = re.compile(rf"{PART.pattern}|\.{PART.pattern}{PARTIAL}|\.lock(-\d+-\d+)?")
"""All files of runs in a folder of parts."""
PAUSE, SHORTEST, LONGEST = 0.01, 0.05, 10.0
"""Between two parts: a hundredth of the time since the start, within these bounds in seconds. A run that is killed
loses no more than that, and a long run does not write thousands of files."""


# --- files ------------------------------------------------------------------------------------------------------------


def beside(path: Path, ending: str) -> Path:
    """Name a file that belongs to a table: ``TABLE.parts``, for example."""
    return path.with_name(f"{path.name}.{ending}")


@contextlib.contextmanager
def locked(folder: Path, shard: Shard | None = None) -> Iterator[None]:
    """Lock a folder of parts, which is made if needed, until this process ends, however it ends.

    Several shards may work at once, but no shard twice; a run without a shard works alone, and removes the folder at
    the end if there is no part in it.
    """
    names = {".lock": shard is None} | ({f".lock-{shard[0]}-{shard[1]}": True} if shard else {})
    with contextlib.ExitStack() as stack:
        for name, exclusive in names.items():
            try:
                handle = open_locked(folder / name, exclusive=exclusive)
            except OSError as error:
                rule = "finished values are kept in a folder beside the table"
                raise OSError(f"{rule}; {folder} cannot be written ({error.strerror}); name another table") from error
            if handle is None:
                raise OSError(f"another run is using {folder}; wait for it, or name another table")
            stack.callback(os.close, handle)
        try:
            yield
        finally:
            if shard is None and not _parts_in(folder):
                _clear(folder)


def _parts_in(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*.parquet")) if PART.fullmatch(path.name)]


def _part_name(item: int, content: bytes) -> str:
    """Name a part by its first item and by the digest of the whole file."""
    return f"{item:09d}-{hashlib.sha256(content).hexdigest()[:32]}.parquet"


def _clear(folder: Path) -> None:
    """Remove the files of runs from a folder of parts, and the folder if it is then empty."""
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if OURS.fullmatch(path.name):
                _remove(path)
        folder.rmdir()


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


# --- tables -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Earlier:
    """An earlier table, its card, and the traces of the image files that were measured."""

    frame: pl.DataFrame
    card: Card
    traces: TraceArray

    @property
    def identities(self) -> dict[str, Identity]:
        """The identity of each distance."""
        return {name: about["identity"] for name, about in self.card["distances"].items()}

    def values(self, plan: Plan) -> Values:
        """Return the values of the items of a plan."""
        rows = pl.DataFrame({"triplet": plan.data.table["triplet"], "row": np.arange(len(plan.data))})
        joined = self.frame.select("triplet").join(rows, on="triplet", how="left", maintain_order="left")
        row = joined["row"].to_numpy()
        values: Values = {}
        for name in self.identities:
            values[name] = np.full(plan.shape, np.nan)
            for column, (item, slot) in columns(plan, name).items():
                values[name][item[row], slot] = self.frame[column].cast(pl.Float64).to_numpy()
        return values


NOTHING = Earlier(pl.DataFrame(schema={"triplet": pl.String}), {"distances": {}}, np.zeros(0, dtype=np.uint64))
"""What there is before the first run."""


def check_name(path: Path, *, channels: bool = False) -> None:
    """Raise before any work is done if a table, or a file of channels, could not be written."""
    if channels and path.suffix != ".npz":
        raise ValueError(f"channels are written as .npz; found {path.name}")
    if not channels and path.suffix not in (".csv", ".parquet"):
        raise ValueError(f"a table is written as .csv or .parquet; found {path.name}")
    for written in (path, beside(path, "json"), beside(path, "failures.csv")):
        if written.is_dir():
            raise DataError(f"{written} is a folder; name a table, .csv or .parquet")
    if path.exists():
        require_file(path)
    folder = Path(os.path.realpath(path)).parent  # of a link, where it leads to
    if not folder.is_dir():
        raise OSError(f"no such folder: {folder if path.is_symlink() else path.parent}")


def read_table(path: Path, fingerprint: str) -> Earlier:
    """Read an earlier table of the data with that fingerprint; `NOTHING` if there is no table."""
    if not path.exists():
        return NOTHING
    remedy, read = "name another file, or remove it", _card(path)
    if read is None:
        raise DataError(f"{path} has no card that describes it; {remedy}")
    card, digest = read
    if card["data"]["fingerprint"] != fingerprint:
        raise DataError(f"{path} was measured on other data than these; {remedy}")
    if card["sha256"] != digest:
        raise DataError(f"{path} was changed since it was measured; {remedy}")
    return Earlier(read_frame(path)[0], card, traces_from_text(card["traces"]))


def is_changed(path: str | Path) -> bool:
    """Whether a table has a card, and was changed since it was measured."""
    read = _card(Path(path))
    return read is not None and read[0]["sha256"] != read[1]


def identities_of(path: str | Path) -> dict[str, Identity]:
    """Return what the distances of a table were measured with, by its card; empty if it has none."""
    read = _card(Path(path))
    return {} if read is None else {name: about["identity"] for name, about in read[0]["distances"].items()}


def write_table(frame: pl.DataFrame, path: Path, card: Card, traces: TraceArray) -> None:
    """Write a table with its card; after an interruption the old or the new table is there with its own card."""
    card, text = {**card, "sha256": _digest_of_table(frame)}, traces_as_text(traces)
    if path.suffix == ".parquet":
        write_frame(frame, path, metadata={KEY: json.dumps(card), TRACES: text})
        return
    card["traces"] = text
    old, _ = (_card(path) if path.exists() else None) or (None, "")
    # The new card is written before its table, and includes the old one until the table is written.
    write_text(_json(card | {"before": old}), beside(path, "json"))
    write_frame(frame, path)
    write_text(_json(card), beside(path, "json"))


def _digest_of_table(frame: pl.DataFrame) -> str:
    """Return the digest of a table: that of its CSV file, whatever its format on disk."""
    return hashlib.sha256(frame.write_csv().encode()).hexdigest()


def _card(path: Path) -> tuple[Card, str] | None:
    """Read the card of a table, with the traces, and compute its present digest; None if it has no valid card."""
    try:
        if path.suffix == ".parquet":
            with reading_parquet(path):
                metadata = pl.read_parquet_metadata(path)
            card = json.loads(metadata[KEY]) | {"traces": metadata[TRACES]}
            digest = _digest_of_table(read_frame(path)[0])
        else:
            with open_file(beside(path, "json")) as file, open_file(path) as table:
                card, digest = json.loads(file.read()), hashlib.sha256(table.read()).hexdigest()
            before = card.pop("before", None)
            card = before if before and before["sha256"] == digest else card
        number = card.get("format", FORMAT) if "twoafc" in card else FORMAT  # files of others may have the name
    except (pl.exceptions.PolarsError, OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    require_format(number, FORMAT, str(path), "measure again, into another file")
    try:
        if not isinstance(card["data"]["fingerprint"], str) or not isinstance(card["sha256"], str):
            return None
        for about in card["distances"].values():
            dict(about["identity"]), list(about["made"])
        if digest_of_traces(traces_from_text(card["traces"])) != card["data"].get("images"):
            return None
        return card, digest
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _json(card: Mapping[str, Any]) -> str:
    return json.dumps(card, indent=1, ensure_ascii=False) + "\n"


def columns(plan: Plan, name: str) -> dict[str, tuple[IntArray, int]]:
    """Return the columns of a distance, each with the items of its rows and their slot."""
    return {f"{name}_{suffix}": place for suffix, place in plan.places.items()}


def check_columns(plan: Plan, names: Iterable[str]) -> None:
    """Raise if the data set already has a column of a distance."""
    for name in names:
        for column in columns(plan, name):
            if column in plan.data.table.columns:
                raise DataError(f"the data set has a column {column} already; measure {name} by another name")


def complete_rows(plan: Plan, values: Values) -> BoolArray:
    """Return which rows have all their distances."""
    complete = np.ones(len(plan.data), dtype=np.bool_)
    for known in values.values():
        for item, slot in plan.places.values():
            complete &= np.asarray(~np.isnan(known[:, slot].reshape(len(known), -1)).any(axis=1))[item]
    return complete


def table_of(plan: Plan, values: Values, rows: BoolArray) -> pl.DataFrame:
    """Make the table of some rows, in the order of the data set."""
    distances = [
        pl.Series(column, values[name][item[rows], slot])
        for name in values
        for column, (item, slot) in columns(plan, name).items()
    ]
    return plan.data.table.filter(pl.Series(rows)).hstack(distances)


def traces_as_text(traces: TraceArray) -> str:
    """Write traces as text."""
    return base64.b64encode(traces.astype("<u8").tobytes()).decode()


def traces_from_text(text: str) -> TraceArray:
    """Read traces from text."""
    return np.frombuffer(base64.b64decode(text, validate=True), dtype="<u8").astype(np.uint64)


def digest_of_traces(traces: TraceArray) -> str:
    """Return one digest of all traces, in order, for a card."""
    return f"sha256 {hashlib.sha256(traces.astype('<u8').tobytes()).hexdigest()}"


def traces_of(plan: Plan, traces: TraceArray, rows: BoolArray) -> TraceArray:
    """Return the traces of the images of some rows; 0 for other images."""
    result = np.zeros_like(traces)
    for item, _ in plan.places.values():
        images = plan.items[item[rows]]
        result[images] = traces[images]
    return result


def left_over(plan: Plan, values: Values, names: Iterable[str], rows: BoolArray) -> tuple[IntArray, Values]:
    """Return the items and values that are not in the table: of rows that are left out, and of other distances."""
    in_table = np.zeros(len(plan), dtype=np.bool_)
    for item, _ in plan.places.values():
        in_table[item[rows]] = True
    kept = {name: some_known(known) & ~(in_table & (name in names)) for name, known in values.items()}
    kept = {name: mask for name, mask in kept.items() if mask.any()}
    items = np.flatnonzero(np.any(list(kept.values()), axis=0)) if kept else np.zeros(0, dtype=np.int64)
    others = {name: values[name][items] for name in kept}
    for name, mask in kept.items():
        others[name][~mask[items]] = np.nan
    return items, others


def some_known(values: FloatArray) -> BoolArray:
    """Return which items have a known value."""
    return np.asarray(~np.isnan(values).all(axis=tuple(range(1, values.ndim))))


# --- the journal ------------------------------------------------------------------------------------------------------


class Journal:
    """The values of a run, in memory and in parts on disk."""

    def __init__(
        self,
        out: Path,
        plan: Plan,
        candidates: Sequence[Candidate],
        makers: Mapping[str, list[Maker]],  # by distance, who measures it; the lists may grow during the run
        earlier: Earlier,
    ) -> None:
        self.folder, self.plan, self.measuring = beside(out, "parts"), plan, makers
        # As on the card: by distance its identity, and the machines and libraries that have measured it.
        self.distances = {name: about | {"made": [*about["made"]]} for name, about in earlier.card["distances"].items()}
        for one in candidates:
            made = self.distances[one.name]["made"] if one.name in self.distances else []
            self.distances[one.name] = {"identity": one.identity, "made": made}
        self.widths = {candidate.name: getattr(candidate.distance, "width", ()) for candidate in candidates}
        self.traces = Traces(plan, out, earlier.traces)
        self.values = earlier.values(plan)
        self.failures: list[ItemFailure] = []
        self.rounded: dict[str, int] = {}
        self.notes: list[str] = []
        self.random: dict[str, Maker] = {}
        self.measured = 0
        self.changed = earlier is NOTHING
        self._pending: list[Block] = []
        self._started, self._written = time.monotonic(), -np.inf

    @property
    def _data(self) -> str:
        """The data and the kind of items that the items' numbers belong to."""
        return f"{self.plan.data.fingerprint()} {self.plan.kind}"

    def of(self, name: str) -> FloatArray:
        """Return the values of a distance, as in `Values`; those of channels are float32."""
        if name not in self.values:
            width = self.widths.get(name, ())
            self.values[name] = np.full((*self.plan.shape, *width), np.nan, dtype=np.float32 if width else np.float64)
        return self.values[name]

    def missing(self) -> dict[str, BoolArray]:
        """Return by distance which items are still to be measured."""
        unknown = {name: np.isnan(self.of(name)) for name in self.measuring}
        return {name: np.asarray(mask.any(axis=tuple(range(1, mask.ndim)))) for name, mask in unknown.items()}

    def add(self, block: Block, outcome: Outcome) -> None:
        """Add the outcome of a block, and write a part if the last one is old enough."""
        measured = np.zeros(len(block.items), dtype=np.bool_)
        for name, values in outcome.values.items():
            measured[block.wanted[name][some_known(values)]] = True
        # Only of files that gave a value: those of failed items may be replaced.
        traces = np.array(outcome.traces, dtype=np.uint64)[block.places]
        self.traces.add(block.items[measured], traces[measured])
        for name, values in outcome.values.items():
            self.of(name)[block.items[block.wanted[name]]] = values
        for item, image, reason in outcome.failures:
            file = os.path.normpath(block.images[image]) if image >= 0 else ""
            self.failures.append((int(block.items[item]), file, reason))
        for name, count in outcome.rounded.items():
            self.rounded[name] = self.rounded.get(name, 0) + count
        self.measured += len(block.items) - len({failure.item for failure in outcome.failures})
        self.changed = True
        self._pending.append(block)
        now = time.monotonic()
        if now - self._written >= min(LONGEST, max(SHORTEST, PAUSE * (now - self._started))):
            self.flush()

    def derive(self, name: str, values: FloatArray, identity: Identity) -> None:
        """Add a distance that was computed from others."""
        self.changed = self.changed or name not in self.distances
        self.distances.setdefault(name, {"identity": identity, "made": []})
        self.values[name] = values

    def mark_random(self, name: str, seen: str) -> None:
        """Note, and write on the card, that the values of a distance depend on the batch or on chance."""
        self.random[name] = {"random": "values depend on the batch or on chance"}
        self.notes.append(f"values of {name} depend on the batch or on chance, which is allowed: {seen}")

    def flush(self) -> None:
        """Write the values that are not yet on disk as one part."""
        if not self._pending:
            return
        items = np.concatenate([block.items for block in self._pending])
        names = sorted({name for block in self._pending for name in block.wanted})
        values = {name: self.of(name)[items] for name in names}
        some = np.any([some_known(known) for known in values.values()], axis=0)
        if some.any():
            for name in names:
                self._add_makers(name, [maker | self.random.get(name, {}) for maker in self.measuring[name]])
            self._write_part(items[some], {name: known[some] for name, known in values.items()})
        self._pending.clear()
        self._written = time.monotonic()

    def read(self) -> None:
        """Read all parts, also of distances that are not requested now; a damaged part is reported and removed."""
        for path in _parts_in(self.folder):
            try:
                header, items, traces, values = self._read_part(path)
            except OSError as error:
                if path.exists():  # otherwise a run on another machine has just finished the table
                    self._note(path, f"could not be read ({error.strerror})")
                continue
            except DataError:
                raise
            except (pl.exceptions.PolarsError, ValueError, KeyError, TypeError, AttributeError):
                self._note(path, "was damaged")
                _remove(path)
                continue
            if header["data"] != self._data:
                raise DataError(
                    f"{self.folder} has parts of other data than these; finish that run, or remove the folder"
                )
            self.traces.add(items, traces)
            for name, about in header["distances"].items():
                if name in self.measuring:
                    require_identified(name, self.folder, about["identity"])
                known = self.distances.setdefault(name, {"identity": about["identity"], "made": []})
                require_same(name, self.folder, known["identity"], about["identity"])
                self._add_makers(name, about["made"])
                before = self.of(name)[items]
                self.values[name][items] = np.where(np.isnan(before), values[name], before)
                self.changed = True

    def _note(self, path: Path, what: str) -> None:
        note = f"{path.name} in {self.folder} {what}; its values are measured again"
        self.notes += [note] * (note not in self.notes)

    def finish(self, names: Iterable[str], rows: BoolArray) -> bool:
        """Remove the parts after the table is written; return whether values remain that it does not have."""
        items, values = left_over(self.plan, self.values, names, rows)
        old = _parts_in(self.folder)
        if len(items):
            self._write_part(items, values)
        for path in old:
            _remove(path)
        if not len(items):
            _clear(self.folder)
        return bool(len(items))

    def _write_part(self, items: IntArray, values: Values) -> None:
        columns = {"item": pl.Series(items), "traces": pl.Series(self.traces.known[self.plan.items[items]])}
        for name, known in values.items():
            columns |= {f"{name}_{slot}": pl.Series(known[:, slot]) for slot in range(known.shape[1])}
        frame = pl.DataFrame(columns)
        about = {name: self.distances[name] for name in values}
        header = {"format": FORMAT, "data": self._data, "distances": about}
        content = io.BytesIO()
        frame.write_parquet(content, metadata={KEY: json.dumps(header)})
        with durable_file(self.folder / _part_name(int(items[0]), content.getvalue())) as partial:
            partial.write_bytes(content.getvalue())

    def _read_part(self, path: Path) -> tuple[dict[str, Any], IntArray, TraceArray, Values]:
        """Read a part; raise ValueError if it is not the file that was written, DataError if it has another format."""
        with open_file(path) as file:
            content = file.read()
        if path.name != _part_name(int(path.name.partition("-")[0]), content):
            raise ValueError("not the file that was written")
        header = json.loads(pl.read_parquet_metadata(io.BytesIO(content))[KEY])
        remedy = "finish that run with the version that began it, or remove the folder"
        require_format(header.get("format", FORMAT), FORMAT, str(path), remedy)
        frame = pl.read_parquet(io.BytesIO(content))
        items, traces, slots = frame["item"].to_numpy(), frame["traces"].to_numpy(), range(self.plan.shape[1])
        values = {
            name: np.stack([frame[f"{name}_{slot}"].to_numpy() for slot in slots], axis=1)
            for name in header["distances"]
            if header["data"] == self._data
        }
        return header, items, traces, values

    def _add_makers(self, name: str, makers: list[Maker]) -> None:
        known = self.distances[name]["made"]
        known += [maker for maker in makers if maker not in known]
