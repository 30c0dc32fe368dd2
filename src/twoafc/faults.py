"""Each promise of a distance, and in words how a callable breaks it: functions of a `Trial`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from twoafc.distances import as_array
from twoafc.trial import DISTORTIONS, Raised, Subject, Trial, Values
from twoafc.worlds import Images

# Relative to how much spoiling changes a value: less than SAME is rounding; less than ZERO is rounding that a root or
# an angle has made larger.
SAME, ZERO = 1e-4, 1e-3

Findings = Iterator[str]


def leaves_images_alone(trial: Trial) -> Findings:
    """Images must not be changed in place: other distances are measured on them next."""
    kept: dict[str, tuple[Any, Any]] = {}

    def watched(ref: Images, x: Images) -> object:
        kept.update(ref=(ref, as_array(ref).copy()), x=(x, as_array(x).copy()))
        return trial.subject.function(ref, x)

    replace(trial.subject, function=watched).raw(trial.ref, trial.mixed)
    changed = [name for name, (after, before) in kept.items() if not np.array_equal(as_array(after), before)]
    if changed:
        yield f"it changes its images: {' and '.join(changed)} was not the same after the call; work on a copy"


def finite(trial: Trial) -> Findings:
    """Values must be finite, for flat images too."""
    flat = np.broadcast_to(np.array([0, 0, 0.5, 1], dtype=np.float32)[:, None, None, None], trial.ref.shape)
    found = {"equal images": trial.equal, "images of one colour": trial.subject(flat, flat[::-1])}
    found |= {f"photographs spoiled by {name}": d for name, d in zip(DISTORTIONS, trial.d, strict=True)}
    for where, values in found.items():
        wrong = values[~np.isfinite(values)]
        if wrong.size:
            count = f"{wrong.size} of {values.size}"
            yield f"not finite: it is {wrong[0]} for {where} ({count}); a table takes no such value"


def is_similarity(trial: Trial) -> bool:
    """Whether values fall as photographs are spoiled, from a highest one for equal images."""
    steps = np.diff(trial.d, axis=1)
    falling = np.mean(steps < -SAME * trial.usual) - np.mean(steps > SAME * trial.usual)
    return bool(falling > 0.5 and np.mean(trial.d < trial.equal) > 0.9)


def direction(trial: Trial) -> Findings:
    """Smaller must mean closer, and equal images must be at 0."""
    equal, worst = float(np.median(trial.equal)), float(np.median(trial.d[:, -1]))
    if trial.usual == 0 and not [*input_range(trial)]:
        yield f"it says nothing: it is {equal:.3g} for equal photographs and for spoiled ones alike"
    elif is_similarity(trial):
        remedy = "return 1 - similarity, or its like" if np.isfinite(equal) else "return what grows instead"
        fall = f"it is {equal:.3g} for equal images and falls to {worst:.3g} for spoiled ones"
        yield f"larger means closer: {fall}; {remedy}"
    elif np.isfinite(equal) and abs(trial.equal).max() > ZERO * trial.usual:
        value = trial.equal[abs(trial.equal).argmax()]
        found = f"it is {value:.3g} for a photograph and itself, and {worst:.3g} for a spoiled one"
        yield f"d(x, x) is not 0: {found}; a distance starts at 0"


def at_least_0(trial: Trial) -> Findings:
    """No value may be negative; a similarity has been told of already."""
    low = float(np.nanmin([trial.equal.min(), trial.d.min()]))
    if low < -SAME * trial.usual and not is_similarity(trial):
        yield f"negative values: down to {low:.3g}; a distance is at least 0"


def repeatable(trial: Trial) -> Findings:
    """Equal calls must give equal values; where they do not, nothing else can be told."""
    first, again = (trial.subject(trial.ref, trial.mixed) for _ in range(2))
    if abs(first - again).max() > SAME * trial.usual:
        at = abs(first - again).argmax()
        told = f"{first[at]:.6g}, then {again[at]:.6g} for the same images"
        yield f"not repeatable: {told}; fix its seed, or leave training mode; nothing else was tried"


def independent(trial: Trial) -> Findings:
    """An image's value must be the same in any order of the batch, and alone."""
    ref, x, subject = trial.ref, trial.mixed, trial.subject
    first, turned = subject(ref, x), subject(ref[::-1], x[::-1])[::-1]
    alone = np.concatenate([subject(ref[i : i + 1], x[i : i + 1]) for i in range(len(ref))])
    for values, how in ((turned, "with the batch in reverse order"), (alone, "alone")):
        if abs(values - first).max() > SAME * trial.usual:
            at = abs(values - first).argmax()
            told = f"{first[at]:.6g} in a batch of {len(ref)}, {values[at]:.6g} {how}"
            yield f"depends on the batch: an image has {told}; use nothing of the other images, or leave training mode"
            return


def input_range(trial: Trial) -> Findings:
    """Images come in [0, 1]: a callable meant for [0, 255] gives itself away by what it makes of either."""
    x = trial.x[:, 2].reshape(-1, *trial.ref.shape[1:])
    ref = np.tile(trial.ref, (len(DISTORTIONS), 1, 1, 1))
    near, wide, wider = (changes(trial.subject, ref, x, scale) for scale in (1, 255, 510))
    if wide is None or near is None:  # what refuses another range has not mistaken its own
        return
    (spoilt, contrast), (spoilt_255, contrast_255) = near, wide
    usual, usual_255 = float(np.median(spoilt)), float(np.median(spoilt_255))
    ratios = spoilt_255 / np.where(spoilt > 0, spoilt, np.inf)
    # A bounded distance that is near its bound on [0, 255], and far below it on [0, 1].
    bounded = usual == 0 or wider is None or np.median(wider[0]) < 1.3 * usual_255
    if ratios.min() > 100 and np.ptp(ratios) < 0.02 * ratios.max() and abs(contrast_255 - 1) < 0.1:
        found = f"black and white are {contrast:.3g} apart, and {contrast_255:.3g} if both are multiplied by 255"
        yield f"input range mistaken: {found}; images come in [0, 1]: do not divide by 255 again"
    elif usual < 0.05 * usual_255 and bounded and contrast < 0.3 * contrast_255:
        found = f"spoiling a photograph changes it by {usual:.3g}, and by {usual_255:.3g} on [0, 255]"
        yield f"input range mistaken: {found}; images come in [0, 1]: multiply them by 255, or adapt its constants"


def changes(subject: Subject, ref: Images, x: Images, scale: float) -> tuple[Values, float] | None:
    """How far spoiled images, and white from black, are from equal ones on another scale; None where it cannot tell."""
    ref, x = np.float32(scale) * ref, np.float32(scale) * x
    black = np.zeros_like(ref[:1])
    try:
        spoilt = abs(subject(ref, x) - subject(ref, ref))
        contrast = abs(subject(black, black + np.float32(scale)) - subject(black, black))[0]
    except Raised:
        return None
    return (spoilt, float(contrast)) if np.isfinite([*spoilt, contrast]).all() else None


def symmetric(trial: Trial) -> Findings:
    """A distance need not be symmetric."""
    there, back = trial.subject(trial.ref, trial.mixed), trial.subject(trial.mixed, trial.ref)
    if abs(there - back).max() > ZERO * trial.usual:
        at = abs(there - back).argmax()
        yield f"not symmetric: d(ref, x) = {there[at]:.3g}, d(x, ref) = {back[at]:.3g}; the reference comes first"


def nearly_0(trial: Trial) -> Findings:
    """Rounding at 0 is allowed, and may matter to whoever divides by a distance."""
    largest = abs(trial.equal).max()
    if SAME / 10 * trial.usual < largest <= ZERO * trial.usual:
        yield f"d(x, x) is {largest:.1g}, not quite 0, as rounding would have it"


def half_range(trial: Trial) -> Findings:
    """What is 1 between -1 and 1 may be made for images in [-1, 1]."""
    black = np.zeros_like(trial.ref[:1])
    if trial.subject.works(black - 1, black + 1):
        ours, wider = (float(trial.subject(low, black + 1)[0]) for low in (black, black - 1))
        if abs(wider - 1) < 1e-3 and (abs(ours - 1 / 2) < 1e-3 or abs(ours - 1 / 4) < 1e-3):
            yield f"black and white are {ours:.3g} apart, and 1 if black is -1; does it take images in [-1, 1]?"
