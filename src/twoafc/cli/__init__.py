"""The command line: one file per command, each a typed function that parses, calls and prints."""

from __future__ import annotations

import os
import re
import sys
import threading
from contextlib import suppress

from cyclopts import App, CycloptsError, Parameter
from cyclopts.exceptions import UnusedCliTokensError

import twoafc
from twoafc.cli.show import unread
from twoafc.files import legible

app = App(
    name="twoafc",
    help="Score perceptual distances on two-alternative forced-choice (2AFC) votes, by likelihood.",
    version=twoafc.__version__,
    default_parameter=Parameter(negative=""),  # no --no-json beside --json
    suppress_keyboard_interrupt=False,  # `main` reports it, in one line
)
# In the order of the work; a command is imported when it is used, and imports what it needs when it runs.
COMMANDS = (
    "demo", "plan", "fetch", "measure", "check", "evaluate", "fuse", "compare", "gate", "report", "explore", "failures",
    "query", "sweep", "count", "merge", "simulate", "reproduce",
)  # fmt: skip
LONGEST = 300
"""Characters of a path or a word that are shown in an error; a folder that links to itself gives thousands."""
for place, command in enumerate(COMMANDS):
    app.command(f"twoafc.cli.{command}:{command}", name=command, sort_key=place)


def main(arguments: list[str] | None = None) -> None:
    """Run a command; a mistake gets one line on standard error and exit code 2."""
    _open_streams()
    # A terminal that has no arrows gets question marks instead of an error.
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        with unread():  # flushes here, where a full disk is reported, and not at exit
            given = sys.argv[1:] if arguments is None else arguments
            _require_text(given)
            if not given or given[0].startswith("-"):
                app.resolved_commands()  # the help lists what all commands do
            app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    except KeyboardInterrupt as error:
        _fail("; ".join(["interrupted", *map(str, error.args)]), code=130)
    except UnusedCliTokensError as error:
        _fail(
            f"{' '.join(error.unused_tokens or [])}: not expected here; several names have commas between them "
            "(--distance a,b), numbers the option each (--votes 1 --votes 3)"
        )
    except (CycloptsError, ValueError, OSError, ImportError) as error:
        _fail(" ".join(str(error).split()))
    finally:
        if arguments is None:
            _end_threads()


def _end_threads() -> None:
    """End the program if a user's code has left threads running: Python would wait for them, maybe for ever."""
    if all(thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        return
    error = sys.exception()
    code = error.code if isinstance(error, SystemExit) else int(error is not None)
    if error is not None and not isinstance(error, SystemExit):
        sys.excepthook(type(error), error, error.__traceback__)  # as Python does at its end
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


def _require_text(arguments: list[str]) -> None:
    """Refuse file names that are not text: no table or card could contain them."""
    for argument in arguments:
        if argument != argument.encode(errors="replace").decode():
            raise ValueError(f"names must be text in UTF-8; {os.fsencode(argument)!r} is not: rename the file")


def _open_streams() -> None:
    """Open standard streams that the caller has closed, so that no other file takes their place."""
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(handle)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)


def _fail(message: str, code: int = 2) -> None:
    half = LONGEST // 2
    shown = re.sub(rf"\S{{{LONGEST},}}", lambda long: f"{long[0][:half]}...{long[0][-half:]}", message)
    with suppress(OSError):  # where it cannot be written, the exit code says it
        print(f"twoafc: {legible(shown)}", file=sys.stderr, flush=True)
    raise SystemExit(code)
