"""Distances of other libraries by their names there: ``pyiqa:NAME``, ``piq:NAME`` and ``torchmetrics:NAME``.

A library is imported when one of its distances is asked for. What grows with the difference is taken as it is; of a
similarity that is 1 for equal images and at most 1 for others, 1 - similarity is taken; nothing else is turned round on
a guess, and what cannot be a distance is refused with the reason. Networks come with the library's own weights, and it
is the library that looks for them, or fetches them.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, NamedTuple

from twoafc.distances.batches import Batch, Distance
from twoafc.distances.own import OneByOne, Own


class Rule(NamedTuple):
    """How a function of a library becomes a distance."""

    similarity: bool = False
    """Whether 1 - its value is the distance."""
    each: bool = False
    """Whether it is called image by image, because it knows no values for each image of a batch."""
    settings: Mapping[str, Any] = {"reduction": "none"}


@dataclass(frozen=True, eq=False)
class Foreign:
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
ANEW = "it reads its network anew for each batch"
SCALED: dict[str, Any] = {"reduction": "none", "data_range": 1.0}

PIQ: dict[str, Rule | str] = {
    "ssim": Rule(similarity=True, settings=SCALED),
    "multi_scale_ssim": Rule(similarity=True, settings=SCALED),
    "information_weighted_ssim": Rule(similarity=True, settings=SCALED),
    "fsim": Rule(similarity=True, settings=SCALED),
    "vsi": Rule(similarity=True, settings=SCALED),
    # Its saliency is divided by the batch's largest.
    "srsim": Rule(similarity=True, each=True, settings=SCALED),
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
    "root_mean_squared_error_using_sliding_window": Rule(each=True, settings={}),
    "spectral_distortion_index": Rule(each=True, settings={}),
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
# Of pyiqa's similarities, those that are 1 for equal images; what is a distance there it says itself.
PYIQA = ("ssim", "ssimc", "ms_ssim", "cw_ssim", "fsim", "vsi")
INSTEAD = "to turn it into a distance yourself, write a function and name it as package.module:function"


def foreign(name: str, *, device: str = "cpu", **settings: Any) -> Own:
    """Make a distance of another library's.

    Parameters
    ----------
    name : str
        ``LIBRARY:NAME``, such as ``"piq:gmsd"``, ``"pyiqa:nlpd"`` or
        ``"torchmetrics:structural_similarity_index_measure"``; torchmetrics' names of classes do too.
    device : str
        Where arrays are worked on.
    **settings
        The library's own, such as ``kernel_size``.
    """
    library, _, metric = name.partition(":")
    try:
        function = LIBRARIES[library](metric, device, settings)
    except OSError as error:
        raise OSError(f"{name} cannot be made; {library} did not get its weights: {error}") from error
    return Own(name, function, "torch", device)


def piq(metric: str, device: str, settings: dict[str, Any]) -> Distance:
    """Make a distance of piq's: a function of its, or a network in a class."""
    library, rule = _import("piq"), _rule("piq", PIQ, metric)
    found, settings = getattr(library, metric), {**rule.settings, **settings}
    if isinstance(found, type):
        return Foreign(found(**settings).to(device).eval())
    function = Foreign(found, rule.similarity, settings)
    return OneByOne(function) if rule.each else function


def torchmetrics(metric: str, device: str, settings: dict[str, Any]) -> Distance:
    """Make a distance of torchmetrics'; only its functions are used, which keep nothing from call to call."""
    plain = {name.replace("_", ""): name for name in TORCHMETRICS}
    full = plain.get(metric.replace("_", "").lower(), metric)
    library, rule = _import("torchmetrics", "torchmetrics.functional.image"), _rule("torchmetrics", TORCHMETRICS, full)
    function = Foreign(getattr(library, full), rule.similarity, {**rule.settings, **settings})
    return OneByOne(function) if rule.each else function


def pyiqa(metric: str, device: str, settings: dict[str, Any]) -> Distance:
    """Make a distance of pyiqa's, which says of each of its metrics whether smaller is better, and its range."""
    library = _import("pyiqa")
    names = library.list_models(metric_mode="FR")
    if metric not in names:
        reason = ALONE if metric in library.list_models() else "there is none of that name"
        raise ValueError(f"pyiqa:{metric} cannot be used; {reason}; the names are: {', '.join(names)}")
    made = library.create_metric(metric, as_loss=False, device=device, **settings)
    if not made.lower_better and metric not in PYIQA:
        reason = "larger is better there, and it is not known to be 1 for equal images"
        raise ValueError(f"pyiqa:{metric} cannot be used; {reason}; {INSTEAD}")
    if made.lower_better and not str(made.score_range).startswith("0"):
        reason = f"its values do not start at 0 (pyiqa says: {made.score_range})"
        raise ValueError(f"pyiqa:{metric} cannot be used; {reason}; {INSTEAD}")
    return Foreign(made, similarity=not made.lower_better)


LIBRARIES: dict[str, Callable[[str, str, dict[str, Any]], Distance]] = {
    "pyiqa": pyiqa,
    "piq": piq,
    "torchmetrics": torchmetrics,
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
    except Exception as error:  # what a library meets on import may raise anything
        told = " ".join(f"{type(error).__name__}: {error}".split())
        remedy = "; install the torchvision that fits this torch" if "torchvision" in told else ""
        raise ImportError(f"{library} cannot be imported: {told}{remedy}") from error
