"""Array types that every part of the package shares."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Arrays = dict[str, NDArray[Any]]
"""Arrays by name, as a saved file holds them."""
