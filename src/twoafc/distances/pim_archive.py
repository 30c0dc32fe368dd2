"""PIM's published archives: a zip with a TensorFlow checkpoint of variables, which have known names and shapes."""

from __future__ import annotations

import io
import json
import re
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twoafc.distances.tf_checkpoint import variables
from twoafc.errors import DataError

Variables = dict[str, NDArray[np.float32]]

# What the shapes of variables cannot tell, as the published settings name it.
SETTINGS = {"multiscale": "Steerable", "steerable_filter_type": 1, "cnn": "Conv", "padding": "same"}
LARGEST = 64 * 2**20
KERNEL = 5


@dataclass(frozen=True)
class Architecture:
    """The size of a PIM network; by default that of the published ones.

    Parameters
    ----------
    mixtures : int
        Gaussians at each pixel: 1 for PIM-1, 5 for PIM-5.
    levels : int
        Levels of the steerable pyramid, which has 2 levels + 2 bands.
    filters : tuple of int
        Channels after each convolution of a band's network.
    latent : int
        Hidden numbers at each pixel.
    """

    mixtures: int = 1
    levels: int = 3
    filters: tuple[int, ...] = (64, 64, 64, 3)
    latent: int = 10

    @property
    def bands(self) -> int:
        """Number of bands of the pyramid."""
        return 2 * self.levels + 2

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the variables that a distance needs.

        Examples
        --------
        >>> len(Architecture().shapes()), len(Architecture(mixtures=5).shapes())
        (96, 144)
        >>> Architecture(mixtures=5).shapes()["marginal_encoder/encoders/7/base/1/kernel"]
        (50, 50)
        """
        found: dict[str, tuple[int, ...]] = {}
        for band in range(self.bands):
            for layer, (before, after) in enumerate(zip((3, *self.filters), self.filters, strict=False)):
                name = f"frontend/cnns/{band}/layer_with_weights-{layer}"
                found |= {f"{name}/kernel": (KERNEL, KERNEL, before, after), f"{name}/bias": (after,)}
            for name, before, after in self._dense():
                name = f"marginal_encoder/encoders/{band}/{name}"
                found |= {f"{name}/kernel": (before, after), f"{name}/bias": (after,)}
        return found

    def _dense(self) -> list[tuple[str, int, int]]:
        """Names and sizes of the layers that act on single pixels."""
        last, means, mixtures = self.filters[-1], self.latent * self.mixtures, self.mixtures
        layers = [("base/0", last, means), ("base/1", means, means)]
        if mixtures > 1:
            layers += [("mix/0", last, mixtures), ("mix/1", mixtures, mixtures), ("logit_layer", mixtures, mixtures)]
        return layers


def read(content: bytes, name: str, architecture: Architecture) -> Variables:
    """Read the variables of an archive in the published layout: ``NAME/config.json``, ``NAME/weights.index``, data.

    Parameters
    ----------
    content : bytes
        The zip file. That it is the published one is for the caller to check, before.
    name : str
        The folder in it, such as ``"pim-1"``.
    architecture : Architecture
        What the variables must fit.
    """
    members = _members(content, name)
    if missing := {"config.json", "weights.index"} - members.keys():
        raise DataError(f"the archive of {name} has no {' and no '.join(sorted(missing))}")
    try:
        config = dict(json.loads(members["config.json"]))
    except (ValueError, TypeError) as error:
        raise DataError(f"the archive of {name} has a config.json that cannot be read: {error}") from error
    for key, expected in SETTINGS.items():
        if str(config.get(key, expected)).lower() != str(expected).lower():
            raise DataError(f"the archive of {name} must have {key} {expected!r}; it has {config[key]!r}")
    shards = [members[key] for key in sorted(members) if key.startswith("weights.data-")]
    found = variables(members["weights.index"], shards, architecture.shapes())
    require_shapes(found, architecture)
    return found


def require_shapes(found: Mapping[str, NDArray[np.float32]], architecture: Architecture) -> None:
    """Raise DataError unless all variables of an architecture are there, with its shapes."""
    for name, shape in architecture.shapes().items():
        if name not in found:
            raise DataError(f"the variable {name} is missing")
        if found[name].shape != shape:
            raise DataError(f"the variable {name} must have shape {shape}; it has {found[name].shape}")


def _members(content: bytes, name: str) -> dict[str, bytes]:
    """Read a zip's members into memory: expected names alone, once each, and no more than a network can need."""
    expected = re.compile(rf"{re.escape(name)}/(config\.json|checkpoint|weights\.(index|data-\d{{5}}-of-\d{{5}}))?")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            infos = archive.infolist()
            names = [info.filename for info in infos]
            if strange := [member for member in names if not expected.fullmatch(member)]:
                raise DataError(f"the archive of {name} has an unexpected member {strange[0]!r}")
            if len(set(names)) < len(names) or sum(info.file_size for info in infos) > LARGEST:
                raise DataError(f"the archive of {name} has a member twice, or more than {LARGEST} bytes")
            return {info.filename.removeprefix(f"{name}/"): archive.read(info) for info in infos}
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise DataError(f"the archive of {name} is damaged: {error}") from error
