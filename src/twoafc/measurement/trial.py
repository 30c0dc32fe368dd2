"""Try distances on the first items, before any value is kept.

A user's distance is first tried in a process of its own, which it may crash; then each distance in this process, on one
item; then all where they will work, on a few items, twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from twoafc.distances import DISTANCES, LIBRARIES
from twoafc.images import ImageError, pixel_size
from twoafc.measurement.block import (
    NEGLIGIBLE,
    ROUNDING,
    Block,
    Decoded,
    Decoder,
    DistanceError,
    Measurer,
    Proven,
    Size,
    cannot_take,
    most_unlike,
)
from twoafc.measurement.candidates import Candidate, Requested
from twoafc.measurement.cluster import ClusterExecutor
from twoafc.measurement.executors import LocalExecutor, rehearse
from twoafc.measurement.journal import Journal
from twoafc.measurement.plan import Plan

MAX_TRIED = 1000
"""Items that are searched for the first readable one."""
FEW = 4
"""Items that are measured twice."""
GPU_ROUNDING = 1e-2
"""Share of the largest value by which a value may depend on the batch on a GPU. By default networks round factors to
11 bits there, differently for each batch size: ours then differ by up to 1.5e-3 (in single precision 2e-5)."""


def rehearse_all(requested: Sequence[Requested] | Mapping[str, Requested], trial: Block | None) -> None:
    """Try users' distances in another process first, since they may crash it."""
    given = requested.values() if isinstance(requested, Mapping) else requested
    texts = [text for text in given if isinstance(text, str)] if isinstance(requested, Sequence | Mapping) else []
    own = [text for text in texts if ":" in text.strip(":") and text.partition(":")[0] not in LIBRARIES]
    if trial is not None:
        for text in own:
            rehearse(text, trial)


def readable_items(
    plan: Plan, wanted: Callable[[Size], bool] = lambda size: True, most: int = MAX_TRIED
) -> Iterator[tuple[Block, Size, Decoded]]:
    """Yield as blocks those of the first items whose images have one size, a wanted one, and can be read."""
    for item in range(min(len(plan), most)):
        paths = [plan.path(image) for image in plan.items[item]]
        try:
            sizes = {pixel_size(path) for path in paths}
        except ImageError:
            continue
        if len(sizes) == 1 and wanted(size := sizes.pop()):
            decoded = Decoder(0).read_all(paths)
            if all(decoded.traces):
                yield Block(np.array([item]), paths, np.arange(len(paths))[None], {}), size, decoded


def try_first(plan: Plan, chosen: Sequence[Candidate], device: str) -> tuple[Size, Proven, list[str]]:
    """Measure the first readable item; if a distance does not accept its size, the first item of another size.

    Raises before the work begins if a distance accepts no size in the data. Returns the size of the first item's
    images, the sizes that each distance is known to accept, and a warning for each distance that is a similarity.
    """
    untested, tried, proven, similar = list(chosen), list[Size](), set[tuple[str, Size]](), list[str]()
    refused: dict[str, tuple[str, Size]] = {}
    for block, size, decoded in readable_items(plan, lambda size: size not in tried, len(plan)):
        tried.append(size)
        for candidate in untested:
            name, least = candidate.name, getattr(candidate.distance, "least", None)
            reason = None
            if least is None:
                reason, warnings = _try_item(candidate, device, replace(block, wanted={name: np.array([0])}), decoded)
                similar += warnings
            elif min(size) < least:  # networks know their smallest size and need not be run
                pixels = f"{size[0]} x {size[1]} pixels"
                reason = f"{name} cannot measure images of {pixels} (at least {least} x {least} are needed)"
            if reason:
                refused.setdefault(name, (reason, size))
            else:
                proven.add((name, size))
        untested = [candidate for candidate in untested if (candidate.name, size) not in proven]
        if not untested:
            break
    if untested:
        reason, size = refused[untested[0].name]
        raise ValueError(reason + _hint(untested[0].name, size))
    return tried[0], frozenset(proven), similar


def _try_item(candidate: Candidate, device: str, block: Block, decoded: Decoded) -> tuple[str | None, list[str]]:
    """Measure one item; return why the distance does not accept its size, or None, and warnings.

    The warning is for a value that is larger for a reference and itself than for the images compared with it.
    """
    name, decoded = candidate.name, decoded.on(device)
    measurer = Measurer({name: candidate.distance}, device)
    try:
        outcome = measurer.measure(block, decoded)
    except DistanceError as error:
        raise ValueError(f"{error.message}, on {' and '.join(block.images)}") from error
    if outcome.failures:
        return outcome.failures[0].reason, []
    try:
        alike = measurer.measure(replace(block, places=np.zeros((1, 2), dtype=np.int64)), decoded)
    except DistanceError:
        return None, []
    own, most = float(alike.values[name].max(initial=0)), float(outcome.values[name].max())
    if alike.failures or own <= most:
        return None, []
    return None, [
        f"{name} looks like a similarity: it is {own:.4g} for {block.images[0]} and itself, and at most {most:.4g} for "
        "the images beside it; a distance is 0 there: return 1 - similarity, for example"
    ]


def _hint(name: str, size: Size) -> str:
    """Name the variants of a distance that accept a size."""
    black = [np.zeros((1, 3, *size), dtype=np.float32)] * 2
    variants = [other for other in DISTANCES if other.startswith(name) and other != name]
    able = [other for other in variants if cannot_take(other, DISTANCES[other], black) is None]
    return f"; {', '.join(able)} can" if able else ""


def try_twice(
    journal: Journal,
    executor: LocalExecutor | ClusterExecutor,
    names: Sequence[str],
    proven: Proven,
    allow_random: bool,
) -> None:
    """Measure the first few items twice, the second time in reverse order, in two batches; no value is kept.

    Refuses distances whose values differ, or notes it in the journal if they are allowed.
    """
    trials = _trials(journal.plan, names, proven)
    outcomes = dict(executor.measure(chain(*trials)))
    for first, *halves in trials:
        for name, values in outcomes[first].values.items():
            before, other = values[::-1], np.concatenate([outcomes[half].values[name] for half in halves])
            share, scale = ROUNDING if executor.device == "cpu" else GPU_ROUNDING, np.nanmax(abs(values), initial=0)
            one, two = np.nan_to_num([before.ravel(), other.ravel()])
            at = most_unlike(one, two, max(NEGLIGIBLE, share * float(scale)))
            if at is None:
                continue
            row, slot = (int(place) for place in np.unravel_index(at, values.shape)[:2])
            where = journal.plan.named(first.items[::-1][[row]], slot + 1)
            seen = f"{name} gave {before.flat[at]:.6g}, then {other.flat[at]:.6g} in another batch, on {where}"
            if not allow_random:
                raise ValueError(
                    f"a distance must give the same value in any batch and every time; {seen}; leave training mode, "
                    "fix its seed, use nothing of the other images, or allow it: --allow-random (in Python "
                    "allow_random=True)"
                )
            journal.mark_random(name, seen)


def _trials(plan: Plan, names: Sequence[str], proven: Proven) -> list[list[Block]]:
    """Return for each image size a block of items, and blocks of the two halves of the items in reverse order."""
    items = {size: list[int]() for name, size in sorted(proven) if name in names}
    readable = readable_items(plan, lambda size: size in items and len(items[size]) < FEW)
    for block, size, _ in readable if items else ():
        items[size].append(int(block.items[0]))
        if min(map(len, items.values())) == FEW:
            break
    trials = []
    for size, some in ((size, some) for size, some in items.items() if some):
        tried = [name for name in names if (name, size) in proven]
        # In halves: if a distance uses the extreme image of a batch, values of the half without it differ.
        back, half = some[::-1], (len(some) + 1) // 2
        orders = [np.array(order) for order in (some, back[:half], back[half:]) if order]
        trials.append([plan.block(order, {name: np.arange(len(order)) for name in tried}) for order in orders])
    return trials
