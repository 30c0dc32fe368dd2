"""A fused distance in a measurement: its parts are measured, each once, and its columns computed from theirs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from twoafc.arrays import FloatArray
from twoafc.errors import DataError
from twoafc.estimators import FusionFit, HeadsFit, load
from twoafc.measurement.candidates import Candidate, Requested, make_candidates, short_name
from twoafc.measurement.identity import Identity, differences

CHANGEABLE = ("precision", "device", "twoafc")
"""What may differ between the measurement that a fused distance was fitted to and one that uses it."""


@dataclass(frozen=True, eq=False)
class FusedFile:
    """A fused distance that is asked for by its file."""

    name: str
    path: Path
    fit: FusionFit

    @property
    def identity(self) -> dict[str, Any]:
        """What its values depend on beside those of its parts."""
        return {"variant": "fused", "parts": list(self.fit.fused.parts), "model": self.fit.digest}

    def values(self, parts: Mapping[str, FloatArray]) -> FloatArray:
        """Fused values of all items, from those of the parts; NaN where one of them is not known."""
        known = np.all([~np.isnan(parts[name]) for name in self.fit.fused.parts], axis=0)
        fused = np.full(known.shape, np.nan)
        fused[known] = self.fit.fused({name: parts[name][known] for name in self.fit.fused.parts})
        return fused

    def text(self, part: str) -> str:
        """The text that makes a part: that of the measurement that it was fitted to or, if unknown, its name."""
        return str(self.fit.identities.get(part, {}).get("variant", part))

    def check(self, candidates: Sequence[Candidate]) -> None:
        """Refuse parts that differ from those that the distance was fitted to."""
        for candidate in candidates:
            before = self.fit.identities.get(candidate.name)
            if before is None or candidate.name not in self.fit.fused.parts:
                continue
            changed = lasting_differences(candidate.identity, before)
            if changed:
                raise DataError(f"{self.path} was fitted to another {candidate.name}: {changed}")


def lasting_differences(now: Identity, before: Identity) -> str:
    """Say in words what differs between two identities that must not; nothing where they agree."""
    kept = ({key: value for key, value in each.items() if key not in CHANGEABLE} for each in (now, before))
    return differences(*kept)


def split_fused(
    requested: Sequence[Requested] | Mapping[str, Requested], device: str, precision: str
) -> tuple[Sequence[Requested] | Mapping[str, Requested], list[FusedFile]]:
    """Replace fused distances, asked for as NAME.npz, by those of their parts that are not asked for themselves."""
    if isinstance(requested, str) or not isinstance(requested, Sequence | Mapping):
        return requested, []  # refused by `make_candidates`
    named = requested.items() if isinstance(requested, Mapping) else [(None, each) for each in requested]
    plain: dict[str, Requested] = {}
    files: list[FusedFile] = []
    for name, each in named:
        fit = load(each) if isinstance(each, str | Path) and str(each).endswith(".npz") else None
        if isinstance(fit, HeadsFit):
            plain[name or short_name(str(each))] = str(each)
        elif fit is not None:
            if not isinstance(fit, FusionFit):
                raise DataError(f"{each} is a model of P for one distance, not a distance; twoafc fuse makes distances")
            files.append(FusedFile(name or Path(str(each)).stem, Path(str(each)), fit))
        else:
            plain[name or short_name(each)] = each
    if not files:
        return requested, []
    for file in files:
        for part in file.fit.fused.parts:
            if part not in plain:
                plain[part] = _made(file, part, device, precision)
    return plain, files


def _made(file: FusedFile, part: str, device: str, precision: str) -> str:
    """The text of a part, once it is known that this makes a distance."""
    text = file.text(part)
    try:
        make_candidates({part: text}, device, precision)
    except ValueError as error:
        raise DataError(f"{file.path} needs {part}: {error}") from error
    return text
