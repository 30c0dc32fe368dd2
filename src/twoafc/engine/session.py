"""The Spark session that tables are counted in: the one that is open, or a local one that keeps its talk to itself."""

from __future__ import annotations

import logging
import os
import tempfile
from typing import Any

from twoafc.errors import require


def spark_session() -> Any:
    """Give the open session, or start a local one."""
    sql = require("pyspark.sql", extra="spark")
    held = sql.SparkSession.getActiveSession()
    return _started(sql) if held is None else held


def _started(sql: Any) -> Any:
    """Start a session whose virtual machine writes to a file that nobody sees: its errors come as exceptions anyway."""
    builder = sql.SparkSession.builder.appName("twoafc").config("spark.ui.showConsoleProgress", "false")
    # Spark prints what it raises, too.
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)
    shown = os.dup(2)
    with tempfile.TemporaryFile() as unseen:
        os.dup2(unseen.fileno(), 2)
        try:
            return builder.getOrCreate()
        # Whatever it is, no Java most often, Spark has said it before it ended.
        except Exception as error:
            unseen.seek(0)
            said = unseen.read().decode(errors="replace").strip().splitlines() or [str(error)]
            raise OSError(f"spark did not start: {said[0].strip()}") from error
        finally:
            os.dup2(shown, 2)
            os.close(shown)
