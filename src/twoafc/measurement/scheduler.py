"""The scheduler of a Dask cluster, reached by its address or by the file that it writes."""

from __future__ import annotations

import asyncio
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from twoafc.errors import require

CONNECT = 5
"""Seconds to connect."""
TALKATIVE = ("distributed", "asyncio", "tornado")
"""Loggers that tell of lost workers and connections, whether or not that matters in the end."""


@contextmanager
def connected(scheduler: str) -> Iterator[Any]:
    """Give a client of a scheduler, without its talk; what matters is raised.

    Parameters
    ----------
    scheduler : str
        Its address, such as ``tcp://10.0.0.1:8786``, or the path of the file that ``dask scheduler --scheduler-file``
        writes.
    """
    distributed = require("distributed", extra="cluster")
    address = _address(scheduler)
    with _quiet(), warnings.catch_warnings():
        # It warns of every library that differs somewhere; those that matter to values are checked, or on the card.
        warnings.filterwarnings("ignore", module=r"distributed\b")
        try:
            # Asked first, as a client that could not be made does not go in silence.
            kind = asyncio.run(_kind(address))
        except Exception as error:  # an address may be wrong in many ways
            remedy = "give its address, such as tcp://10.0.0.1:8786, or its scheduler file"
            raise ConnectionError(f"cannot reach the scheduler at {address} ({_reason(error)}); {remedy}") from error
        if kind != "Scheduler":
            raise ConnectionError(f"--scheduler is the address of a scheduler; at {address} is a {kind.lower()}")
        with distributed.Client(address, timeout=CONNECT, set_as_default=False, name="twoafc") as client:
            yield client


def _address(scheduler: str) -> str:
    path = Path(scheduler)
    if not path.is_file():
        if path.suffix == ".json":
            raise ConnectionError(f"no such scheduler file: {path}")
        return scheduler
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["address"])
    except (ValueError, KeyError, TypeError) as error:
        raise ConnectionError(f"{path} is no scheduler file: it tells no address") from error


async def _kind(address: str) -> str:
    """Ask what is at an address."""
    distributed: Any = require("distributed", extra="cluster")
    secrets = distributed.Security().get_connection_args("client")
    async with distributed.rpc(address, timeout=CONNECT, connection_args=secrets) as there:
        told = await asyncio.wait_for(there.identity(), CONNECT)
    return str(told["type"])


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError) or str(error).startswith("Timed out"):
        return f"no answer within {CONNECT} s"
    if isinstance(error, MemoryError):  # the first bytes of other talk, taken for the length of a message
        return "what answers there is no scheduler; is it the port of a dashboard?"
    return (str(error).strip() or type(error).__name__).splitlines()[0]


@contextmanager
def _quiet() -> Iterator[None]:
    known = [logging.getLogger(name) for name in sorted({*TALKATIVE, *logging.root.manager.loggerDict})]
    levels = {logger: logger.level for logger in known if logger.name.partition(".")[0] in TALKATIVE}
    for logger in levels:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)
