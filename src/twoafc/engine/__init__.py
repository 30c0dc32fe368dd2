"""Tables larger than memory, or on a cluster, to counts: one pass of polars, DuckDB, Dask or Spark."""

from twoafc.engine.counting import count
from twoafc.engine.parts import Size, size
from twoafc.engine.sources import ENGINES

__all__ = ["ENGINES", "Size", "count", "size"]
