"""Commands in the tutorials: ``!command`` prints what it printed, and fails its page where it fails."""

from __future__ import annotations

import subprocess

from IPython.core.getipython import get_ipython


def run(command: str) -> None:
    """Run a command, print its output, and raise where its exit code is not 0."""
    done = subprocess.run(command, shell=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(done.stdout, end="")
    if done.returncode:
        raise RuntimeError(f"{command} ended with code {done.returncode}")


shell = get_ipython()
if shell is not None:
    shell.system = run
