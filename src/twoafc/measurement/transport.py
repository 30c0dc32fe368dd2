"""Decoded images on their way from a worker to the process that measures: through memory that both see."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twoafc.arrays import IntArray
from twoafc.images import Pixels, as_float
from twoafc.measurement.calling import Size


class Group(NamedTuple):
    """Images of one size and depth: their numbers in the block, where they lie, or else they themselves."""

    kind: str
    size: Size
    images: list[int]
    start: int
    content: bytes | None


class Decoded(NamedTuple):
    """A decoded block: of each image its size, or why it cannot be read, and its file's trace; and the pixels."""

    found: list[Size | str]
    traces: list[int]
    groups: list[Group]


class Shelf:
    """Memory that two processes share, without a name that could outlive them.

    Parameters
    ----------
    file : int
        Descriptor of the memory's file.
    size : int
        Bytes.
    """

    def __init__(self, file: int, size: int) -> None:
        self.file, self.size = file, size
        self.memory = np.frombuffer(mmap.mmap(file, size), dtype=np.uint8)

    @classmethod
    def make(cls, size: int) -> Shelf | None:
        """Make a shelf; None where the system has no such files, and pixels go through a pipe instead."""
        if hasattr(os, "memfd_create"):
            file = os.memfd_create("twoafc")
        elif os.name == "posix":
            with tempfile.TemporaryFile() as nameless:
                file = os.dup(nameless.fileno())
        else:
            return None
        os.ftruncate(file, size)
        return cls(file, size)

    def close(self) -> None:
        """Give the file up; the memory goes with the last one who looks at it."""
        os.close(self.file)


def pack(pixels: Sequence[Pixels | str], traces: list[int], shelf: Shelf | None) -> Decoded:
    """Lay images on a shelf, those of one size and depth side by side."""
    members: dict[tuple[str, Size], list[int]] = {}
    found: list[Size | str] = []
    for image, each in enumerate(pixels):
        found.append(each if isinstance(each, str) else (each.shape[1], each.shape[2]))
        if not isinstance(each, str):
            members.setdefault((each.dtype.name, (each.shape[1], each.shape[2])), []).append(image)
    groups, start = [], 0
    for (kind, size), images in members.items():
        stack: list[Any] = [pixels[image] for image in images]
        length = sum(each.nbytes for each in stack)
        fits = shelf is not None and start + length <= shelf.size
        if shelf is not None and fits:
            np.stack(stack, out=shelf.memory[start : start + length].view(kind).reshape(-1, 3, *size))
        content = None if fits else np.stack(stack).tobytes()
        groups.append(Group(kind, size, images, start if fits else -1, content))
        start += -(-length // 16) * 16 if fits else 0
    return Decoded(found, traces, groups)


def unpack(group: Group, shelf: Shelf | None) -> NDArray[Any]:
    """Give a group's pixels, (N, 3, H, W); those on a shelf are valid until the worker gets its next block."""
    length = len(group.images) * 3 * group.size[0] * group.size[1] * np.dtype(group.kind).itemsize
    if group.content is not None:
        flat = np.frombuffer(group.content, dtype=np.uint8).copy()  # torch wants what it could write to
    else:
        assert shelf is not None
        flat = shelf.memory[group.start : group.start + length]
    return flat.view(group.kind).reshape(-1, 3, *group.size)


def copies(decoded: Decoded, shelf: Shelf | None) -> list[Pixels | str]:
    """Give a block's pixels as arrays of their own, or the reason why there are none."""
    pixels: list[Any] = list(decoded.found)
    for group in decoded.groups:
        for image, each in zip(group.images, unpack(group, shelf), strict=True):
            pixels[image] = each.copy()
    return pixels


class Tensors:
    """Images on a device: bytes travel there, and become numbers in [0, 1] when they have arrived."""

    def __init__(self, decoded: Decoded, shelf: Shelf | None, device: Any) -> None:
        import torch

        self.device = torch.device(device)
        self.sizes = decoded.found
        self.rows = np.zeros(len(decoded.found), dtype=np.int64)
        self.stacks: dict[Size | str, Any] = {}
        for group in decoded.groups:
            before = self.stacks.get(group.size)
            self.rows[group.images] = np.arange(len(group.images)) + (0 if before is None else len(before))
            here = self._moved(unpack(group, shelf))
            self.stacks[group.size] = here if before is None else torch.cat([before, here])

    def _moved(self, pixels: NDArray[Any]) -> Any:
        import torch

        if pixels.dtype != np.uint8:
            return torch.from_numpy(as_float(pixels)).to(self.device)
        # By a tensor: a GPU divides by a number of Python's by multiplying with its rounded inverse.
        most = torch.tensor([255.0], device=self.device)
        return torch.from_numpy(pixels).to(self.device).to(torch.float32).div_(most)

    def batch(self, images: IntArray) -> Any:
        """Give images of one size as one tensor in [0, 1]."""
        import torch

        rows = torch.from_numpy(self.rows[images]).to(self.device)
        return self.stacks[self.sizes[images[0]]][rows]
