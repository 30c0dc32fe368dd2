"""Write the expected values anew, where they change on purpose; then look at the diff.

From the root of the repository, with the folder of real votes in TWOAFC_SHARED:

    OMP_NUM_THREADS=1 PYTHONPATH=src:tests python -m outside.freeze [NAME ...]
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from outside import commanding, comparing, names, numbers

CASES: dict[str, Callable[[], Any]] = {
    "names": names.modules,
    "objects": names.objects,
    "options": lambda: {command: commanding.options(command) for command in commanding.commands()},
    "files": lambda: {name: commanding.case(name)["shape"] for name in commanding.CASES},
    "distances": numbers.distances,
    **numbers.SIMULATED,
    **numbers.MATERIAL,
    **{f"command_{name}": compute for name, compute in numbers.COMMANDS.items()},
}


def main() -> None:
    chosen = sys.argv[1:] or list(CASES)
    if not os.environ.get("TWOAFC_SHARED"):
        sys.exit("set TWOAFC_SHARED to the folder of real votes")
    for name in chosen:
        comparing.write(name, CASES[name]())
        print(comparing.EXPECTED / f"{name}.json")


if __name__ == "__main__":
    main()
