"""What tests of engines share: counts by the plain version, what is said of a refusal, and CSV as people write it."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from twoafc import engine
from twoafc.counts import Counts, tally
from twoafc.errors import DataError
from twoafc.table import Triplets

LOCAL = pytest.mark.parametrize("name", ["polars", "duckdb", "dask"])
"""The engines that start at once."""


def plainly(frame: pl.DataFrame, **options: Any) -> dict[str, Counts]:
    """Count a table in memory, row by row."""
    table = Triplets.from_frame(frame)
    return {name: tally(table[name], **options) for name in table.distances}


def refusal(source: Any, kind: type[Exception] = DataError, **options: Any) -> str:
    """Tell what is said of a table that is not counted."""
    with pytest.raises(kind) as caught:
        engine.count(source, **options)
    assert type(caught.value) is kind
    return str(caught.value)


HEAD, ROWS = "n,M,d0,d1\n", "".join(f"{k % 3},2,{0.1 + k / 99},{0.2 + k / 73}\n" for k in range(40))
SHOWN = "".join(f"{['True', 'FALSE', 'false'][k % 3]},r{k // 4},{0.1 + k // 4},{0.2 + k // 4}\n" for k in range(40))
GROUPED = "group,n,M,d0,d1\n"

TAKEN = {
    "plain": HEAD + ROWS,
    "no line end": (HEAD + ROWS)[:-1],
    "spaces after commas": "n, M, d0, d1\n" + ROWS.replace(",", ", "),
    "spaces in the header": "n, M , d0,d1 \n" + ROWS,
    "names in quotes after spaces": 'n, "M", "d0", "d1"\n' + ROWS,
    "words for choices": "choice,triplet,d0,d1\n" + SHOWN,
    "spaces before commas": HEAD + ROWS.replace(",", " ,").replace("\n", "\t\n"),
    "a line of spaces at first": "  \n" + HEAD + ROWS,
    "blank lines": "\n\n" + HEAD + ROWS + "\n" + ROWS + "\n\n",
    "rows of commas": HEAD + ",,,\n" + ROWS + ",,,\n",
    "a comma at the end of each line": "n,M,d0,d1,\n" + ROWS.replace("\n", ",\n"),
    "Windows line ends": (HEAD + ROWS).replace("\n", "\r\n"),
    "a byte order mark": "\ufeff" + HEAD + ROWS,
    "numbers in quotes": HEAD + '"1","2",".3","5."\n',
    "numbers of every form": HEAD + "1.0,+5,3e-1,.4\n2,1e3,1e-400,-0.0\n",
    "all digits": HEAD + "1,2,0.30000000000000004,0.1000000000000000055511151231257827\n",
    "groups like remarks": GROUPED + "#1,1,2,.3,.4\n" * 9 + "# end,1,2,.3,.4\n",
    "groups in quotes": GROUPED + '"a,1",1,2,.3,.4\n"a ""1""",1,2,.3,.4\n"a\n1",1,2,.3,.4\n',
    "groups with spaces and strokes": GROUPED + " a ,1,2,.3,.4\na\\n,1,2,.3,.4\n",
    "groups like nothing or numbers": GROUPED + "NA,1,2,.3,.4\nnull,1,2,.3,.4\n007,1,2,.3,.4\n7,1,2,.3,.4\n",
    "the index of pandas": ",n,M,d0,d1\n" + "".join(f"{k},{row}\n" for k, row in enumerate(ROWS.split())),
    "other columns": "note,n,M,d0,d1,more\n" + "".join(f"x,{row},\n" for row in ROWS.split()),
}
"""CSV that memory takes."""
