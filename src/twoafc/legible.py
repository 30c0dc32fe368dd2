"""Text from tables as it can be shown: without signs that steer a terminal or that no page may hold."""

from __future__ import annotations

import re

# Control characters (C0, DEL, C1), halves of characters, and the two codes that are never characters.
STEERING = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
BREAKS = "\t\n\r"


def legible(text: str, keep: str = "") -> str:
    r"""Put a replacement sign in the place of everything that is not to be seen, but for some signs to keep.

    Examples
    --------
    >>> legible("ssim\x1b[31m\n"), legible("ssim\x07\n", keep=BREAKS)
    ('ssim�[31m�', 'ssim�\n')
    """
    return STEERING.sub(lambda found: found[0] if found[0] in keep else "\ufffd", text)
