"""Distances of other libraries by their names there: ``pyiqa:NAME``, ``piq:NAME`` and ``torchmetrics:NAME``.

A library is imported when one of its distances is requested. A value that grows with the difference is used as it is;
of a similarity that is 1 for equal images and at most 1 for others, 1 - similarity is used; nothing else is inverted on
a guess, and a function that is not known to be a distance is refused. Networks come with the library's own weights,
which the library looks for, or downloads, itself.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, NamedTuple

from twoafc.distances.batches import Batch, Distance
from twoafc.distances.custom import OneByOne, Own
from twoafc.errors import first_line


class Rule(NamedTuple):
    """How a function of a library becomes a distance."""

    similarity: bool = False  # 1 - its value is the distance
    one_by_one: bool = False  # it returns one value for a whole batch, so it is called image by image
    settings: Mapping[str, Any] = {"reduction": "none", "data_range": 1.0}


@dataclass(frozen=True, eq=False)
class LibraryDistance:
    """A library's function of (x, ref), with its settings, as a distance of (ref, x)."""

    function: Callable[..., Batch]
    similarity: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, ref: Batch, x: Batch) -> Batch:
        """Distance of each pair of images."""
        values = self.function(x, ref, **self.settings)
        return 1 - values if self.similarity else values


LIBRARIES = ("pyiqa", "piq", "torchmetrics")
# Of two libraries the module with the functions, and those that are distances or similarities of two images.
MODULES = {"piq": "piq", "torchmetrics": "torchmetrics.functional.image"}
RULES: dict[str, dict[str, Rule]] = {
    "piq": {
        **dict.fromkeys(
            ("ssim", "multi_scale_ssim", "information_weighted_ssim", "fsim", "vsi", "haarpsi", "dss"),
            Rule(similarity=True),
        ),
        # It divides its saliency by the largest of the batch.
        "srsim": Rule(similarity=True, one_by_one=True),
        **dict.fromkeys(("gmsd", "multi_scale_gmsd", "mdsi"), Rule()),
        **dict.fromkeys(("LPIPS", "DISTS"), Rule(settings={"reduction": "none"})),
    },
    "torchmetrics": {
        "structural_similarity_index_measure": Rule(similarity=True),
        "multiscale_structural_similarity_index_measure": Rule(similarity=True),
        "root_mean_squared_error_using_sliding_window": Rule(one_by_one=True, settings={}),
        "spectral_distortion_index": Rule(one_by_one=True, settings={}),
    },
}
INSTEAD = {
    "psnr": "it grows without bound as images become equal; rmse orders images alike",
    "peak_signal_noise_ratio": "it grows without bound as images become equal; rmse orders images alike",
    "learned_perceptual_image_patch_similarity": "it reads its network for each batch; lpips_alex is the same distance",
    "deep_image_structure_and_texture_similarity": "it reads its network for each batch; dists is the same distance",
}
"""Functions of piq and torchmetrics that are often asked for, why they cannot be used, and what to use."""
# The similarities of pyiqa that are 1 for equal images; it reports itself which metrics are distances.
PYIQA = ("ssim", "ssimc", "ms_ssim", "cw_ssim", "fsim", "vsi")


def library_distance(name: str, *, device: str = "cpu", **settings: Any) -> Own:
    """Make a distance ``LIBRARY:NAME`` of another library, with settings of the library such as ``kernel_size``."""
    library, _, metric = name.partition(":")
    try:
        made = _pyiqa(metric, device, settings) if library == "pyiqa" else _ruled(library, metric, device, settings)
    except OSError as error:
        raise OSError(f"{name} cannot be made; {library} did not get its weights: {error}") from error
    return Own(name, made, "torch", device)


def _ruled(library: str, metric: str, device: str, settings: dict[str, Any]) -> Distance:
    """Make a distance of piq or torchmetrics from a function or a network, by its name or that of its class."""
    module, rules = _import(library, MODULES[library]), RULES[library]
    plain = {name.replace("_", "").lower(): name for name in rules}
    full = plain.get(metric.replace("_", "").lower())
    if full is None and metric in INSTEAD:
        raise ValueError(f"{library}:{metric} cannot be used; {INSTEAD[metric]}")
    if full is None:
        raise _refusal(f"{library}:{metric}", f"the names are: {', '.join(rules)}")
    rule, function = rules[full], getattr(module, full)
    settings = {**rule.settings, **settings}
    if isinstance(function, type):  # a network
        return LibraryDistance(function(**settings).to(device).eval())
    adapted = LibraryDistance(function, rule.similarity, settings)
    return OneByOne(adapted) if rule.one_by_one else adapted


def _pyiqa(metric: str, device: str, settings: dict[str, Any]) -> Distance:
    """Make a distance from one of pyiqa, which reports whether smaller is better, and the range."""
    library = _import("pyiqa", "pyiqa")
    names = library.list_models(metric_mode="FR")
    if metric not in names:
        raise _refusal(f"pyiqa:{metric}", f"the names are: {', '.join(names)}")
    made = library.create_metric(metric, as_loss=False, device=device, **settings)
    known = str(made.score_range).startswith("0") if made.lower_better else metric in PYIQA
    if not known:
        raise _refusal(f"pyiqa:{metric}", "it is not known which value equal images have")
    return LibraryDistance(made, similarity=not made.lower_better)


def _refusal(name: str, reason: str) -> ValueError:
    instead = "to turn it into a distance yourself, write a function and name it as package.module:function"
    return ValueError(f"{name} is not known to be a distance; {reason}; {instead}")


def _import(library: str, module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = "" if error.name == library else f"{library} cannot be imported: "
        raise ImportError(f"{missing}{error.name} is not installed; run: pip install {error.name}") from error
    except Exception as error:  # importing a library may raise anything
        raise ImportError(f"{library} cannot be imported: {type(error).__name__}: {first_line(error)}") from error
