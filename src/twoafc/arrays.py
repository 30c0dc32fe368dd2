"""Types that every part of the package shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Arrays = dict[str, NDArray[Any]]
"""Arrays by name, as a saved file holds them."""
Progress = Callable[[int, int, str], None]
"""Called during long work with the number done, the number in all, and a description."""
