from __future__ import annotations

import pytest

from mistakes import Frames
from twoafc import Triplets


@pytest.fixture(scope="module")
def frames(material: tuple[Triplets, Triplets]) -> Frames:
    """Real votes as frames."""
    return dict(zip(("train", "test"), (table.to_frame() for table in material), strict=True))
