"""Processor time to import the package and to print the help.

Run: python benchmarks/startup.py (a few seconds)
"""

from __future__ import annotations

import resource
import subprocess
import sys

COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "import numpy": ["-c", "import numpy"],
    "import twoafc": ["-c", "import twoafc"],
    "import twoafc; twoafc.Density": ["-c", "import twoafc; twoafc.Density"],
    "twoafc --help": ["-m", "twoafc", "--help"],
}


def cpu_seconds(arguments: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    print(f"{'command':32s} {'CPU s':>6s}   (least of 10)")
    for name, arguments in COMMANDS.items():
        print(f"{name:32s} {min(cpu_seconds(arguments) for _ in range(10)):6.3f}")


if __name__ == "__main__":
    main()
