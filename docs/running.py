"""Commands in the tutorials: ``!command`` prints what it printed, and fails its page where it fails."""

from __future__ import annotations

import os
import subprocess

from IPython.core.getipython import get_ipython

# A kernel asks for colours, which a page does not show.
PLAIN = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "CLICOLOR_FORCE")}
shell = get_ipython()
assert shell is not None, "to be imported by a page that is run"


def run(command: str) -> None:
    """Run a command, with {names} replaced by their values, print its output, and raise where it fails."""
    expanded = shell.var_expand(command)
    done = subprocess.run(expanded, shell=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=PLAIN)
    print(done.stdout, end="")
    if done.returncode:
        raise RuntimeError(f"{expanded} ended with code {done.returncode}")


shell.system = run
