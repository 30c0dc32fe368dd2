"""Distances of other libraries by their names there: ``pyiqa:NAME``, ``piq:NAME`` and ``torchmetrics:NAME``.

A library is imported when one of its distances is requested. A value that grows with the difference is used as it is;
of a similarity that is 1 for equal images and at most 1 for others, 1 - similarity is used; nothing else is inverted on
a guess, and a function that is not a distance is refused with the reason. Networks come with the library's own weights,
which the library looks for, or downloads, itself.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, NamedTuple

from twoafc.distances.batches import Batch, Distance
from twoafc.distances.custom import OneByOne, Own


class Rule(NamedTuple):
    """How a function of a library becomes a distance."""

    similarity: bool = False  # 1 - its value is the distance
    one_by_one: bool = False  # it returns one value for a whole batch, so it is called image by image
    settings: Mapping[str, Any] = {"reduction": "none"}


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


UNBOUNDED = "it grows without bound as images become equal; rmse orders images alike"
ABOVE = "it can exceed its value for equal images, which is 1"
ALONE = "it compares no image with its reference"
NOT_ONE = "it is not always 1 for equal images"
NOT_ZERO = "it is not always 0 for equal images"
INFINITE = "it is infinite where a reference is black"
ANEW = "it reads its network again for each batch"
SCALED: dict[str, Any] = {"reduction": "none", "data_range": 1.0}

PIQ: dict[str, Rule | str] = {
    "ssim": Rule(similarity=True, settings=SCALED),
    "multi_scale_ssim": Rule(similarity=True, settings=SCALED),
    "information_weighted_ssim": Rule(similarity=True, settings=SCALED),
    "fsim": Rule(similarity=True, settings=SCALED),
    "vsi": Rule(similarity=True, settings=SCALED),
    # It divides its saliency by the largest of the batch.
    "srsim": Rule(similarity=True, one_by_one=True, settings=SCALED),
    "haarpsi": Rule(similarity=True, settings=SCALED),
    "dss": Rule(similarity=True, settings=SCALED),
    "gmsd": Rule(settings=SCALED),
    "multi_scale_gmsd": Rule(settings=SCALED),
    "mdsi": Rule(settings=SCALED),
    "LPIPS": Rule(),
    "DISTS": Rule(),
    "vif_p": ABOVE,
    "psnr": UNBOUNDED,
    "brisque": ALONE,
    "total_variation": ALONE,
}
TORCHMETRICS: dict[str, Rule | str] = {
    "structural_similarity_index_measure": Rule(similarity=True, settings=SCALED),
    "multiscale_structural_similarity_index_measure": Rule(similarity=True, settings=SCALED),
    "root_mean_squared_error_using_sliding_window": Rule(one_by_one=True, settings={}),
    "spectral_distortion_index": Rule(one_by_one=True, settings={}),
    "learned_perceptual_image_patch_similarity": f"{ANEW}; lpips_alex, lpips_vgg and lpips_squeeze are the same",
    "deep_image_structure_and_texture_similarity": f"{ANEW}; dists is the same",
    "error_relative_global_dimensionless_synthesis": INFINITE,
    "relative_average_spectral_error": INFINITE,
    "spectral_angle_mapper": NOT_ZERO,
    "spatial_correlation_coefficient": NOT_ONE,
    "universal_image_quality_index": NOT_ONE,
    "visual_information_fidelity": ABOVE,
    "peak_signal_noise_ratio": UNBOUNDED,
    "peak_signal_noise_ratio_with_blocked_effect": UNBOUNDED,
    "total_variation": ALONE,
    "quality_with_no_reference": ALONE,
    "arniqa": ALONE,
}
# The similarities of pyiqa that are 1 for equal images; it reports itself which metrics are distances.
PYIQA = ("ssim", "ssimc", "ms_ssim", "cw_ssim", "fsim", "vsi")
INSTEAD = "to turn it into a distance yourself, write a function and name it as package.module:function"


def library_distance(name: str, *, device: str = "cpu", **settings: Any) -> Own:
    """Make a distance ``LIBRARY:NAME`` of another library, with settings of the library such as ``kernel_size``."""
    library, _, metric = name.partition(":")
    try:
        function = LIBRARIES[library](metric, device, settings)
    except OSError as error:
        raise OSError(f"{name} cannot be made; {library} did not get its weights: {error}") from error
    return Own(name, function, "torch", device)


def _piq(metric: str, device: str, settings: dict[str, Any]) -> Distance:
    library, rule = _import("piq"), _rule("piq", PIQ, metric)
    function = getattr(library, metric)
    if isinstance(function, type):  # a network
        return LibraryDistance(function(**{**rule.settings, **settings}).to(device).eval())
    return _adapted(function, rule, settings)


def _torchmetrics(metric: str, device: str, settings: dict[str, Any]) -> Distance:
    """Make a distance from a function of torchmetrics, by its name or that of its class, which has a state."""
    plain = {name.replace("_", ""): name for name in TORCHMETRICS}
    full = plain.get(metric.replace("_", "").lower(), metric)
    library, rule = _import("torchmetrics", "torchmetrics.functional.image"), _rule("torchmetrics", TORCHMETRICS, full)
    return _adapted(getattr(library, full), rule, settings)


def _adapted(function: Callable[..., Batch], rule: Rule, settings: dict[str, Any]) -> Distance:
    adapted = LibraryDistance(function, rule.similarity, {**rule.settings, **settings})
    return OneByOne(adapted) if rule.one_by_one else adapted


def _pyiqa(metric: str, device: str, settings: dict[str, Any]) -> Distance:
    """Make a distance from one of pyiqa, which reports whether smaller is better, and the range."""
    library = _import("pyiqa")
    names = library.list_models(metric_mode="FR")
    if metric not in names:
        reason = ALONE if metric in library.list_models() else "there is no metric of that name"
        raise ValueError(f"pyiqa:{metric} cannot be used; {reason}; the names are: {', '.join(names)}")
    made = library.create_metric(metric, as_loss=False, device=device, **settings)
    if not made.lower_better and metric not in PYIQA:
        reason = "larger is better there, and it is not known to be 1 for equal images"
        raise ValueError(f"pyiqa:{metric} cannot be used; {reason}; {INSTEAD}")
    if made.lower_better and not str(made.score_range).startswith("0"):
        reason = f"its values do not start at 0 (pyiqa says: {made.score_range})"
        raise ValueError(f"pyiqa:{metric} cannot be used; {reason}; {INSTEAD}")
    return LibraryDistance(made, similarity=not made.lower_better)


LIBRARIES: dict[str, Callable[[str, str, dict[str, Any]], Distance]] = {
    "pyiqa": _pyiqa,
    "piq": _piq,
    "torchmetrics": _torchmetrics,
}


def _rule(library: str, rules: Mapping[str, Rule | str], metric: str) -> Rule:
    if metric not in rules:
        names = ", ".join(name for name, rule in rules.items() if isinstance(rule, Rule))
        raise ValueError(f"{library}:{metric} cannot be used; it is not known here; the names are: {names}; {INSTEAD}")
    rule = rules[metric]
    if isinstance(rule, str):
        raise ValueError(f"{library}:{metric} cannot be used; {rule}; {INSTEAD}")
    return rule


def _import(library: str, module: str | None = None) -> ModuleType:
    if importlib.util.find_spec(library) is None:
        raise ImportError(f"{library} is not installed; run: pip install {library}")
    try:
        return importlib.import_module(module or library)
    except ModuleNotFoundError as error:
        raise ImportError(
            f"{library} cannot be imported: it needs {error.name}; run: pip install {error.name}"
        ) from error
    except Exception as error:  # importing a library may raise anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        remedy = "; install the torchvision that fits this torch" if "torchvision" in reason else ""
        raise ImportError(f"{library} cannot be imported: {reason}{remedy}") from error
