"""What tests of counting share: counts by the obvious loop, the text of a refusal, and CSV as people write it."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

import polars as pl
import pytest

from twoafc import Counts, count
from twoafc.errors import DataError
from twoafc.scale import Lattice
from twoafc.table import Triplets

LOCAL = pytest.mark.parametrize("name", ["polars", "duckdb", "dask"])
"""The engines that start at once."""
ODD = pytest.mark.parametrize("name", ["polars", "duckdb", pytest.param("dask", marks=pytest.mark.slow)])
"""The same, for odd files and tables, of which Dask's plans take the longest."""
KINDS = {"group": pl.Int32, "bin0": pl.Int32, "bin1": pl.Int32, "sign": pl.Int8, "n": pl.Int32, "M": pl.Int32}


def plainly(source: pl.DataFrame | Triplets, *, per_octave: int = 128, keep_refs: bool = False) -> dict[str, Counts]:
    """Count a table in memory by the obvious loop, which every engine must agree with."""
    table = source if isinstance(source, Triplets) else Triplets.from_frame(source)
    return {name: _counted(table[name], name, Lattice(per_octave), keep_refs) for name in table.distances}


def tally(table: Triplets, **options: Any) -> Counts:
    """Count a table with one distance in the same way."""
    (counts,) = plainly(table, **options).values()
    return counts


def _counted(table: Triplets, name: str, lattice: Lattice, keep_refs: bool) -> Counts:
    groups, group = table.groups or ([], [0] * len(table))
    columns = [lattice.index(table.d0), lattice.index(table.d1), table.d0, table.d1, table.n, table.M]
    cells: Counter[tuple[int, ...]] = Counter()
    for t, (bin0, bin1, d0, d1, n, M) in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        key = (int(group[t]), bin0, bin1, (d0 > d1) - (d0 < d1), n, M)
        if keep_refs:
            digest = hashlib.sha256(table.labels["ref"][t].encode()).digest()[:8]
            key = (int.from_bytes(digest, "little"), *key)
        cells[key] += 1
    kinds = {**({"ref": pl.UInt64} if keep_refs else {}), **KINDS, "count": pl.Int64}
    rows = [(*key, times) for key, times in sorted(cells.items())]
    pooled = [*table.d0.tolist(), *table.d1.tolist()]
    fine = Counter(Lattice(4096).index(pooled).tolist())
    histogram = pl.DataFrame(sorted(fine.items()), {"bin": pl.Int32, "count": pl.Int64}, orient="row")
    ends = (min(pooled) + 0.0, max(pooled) + 0.0)
    return Counts(name, lattice, pl.DataFrame(rows, kinds, orient="row"), histogram, ends, tuple(groups))


def refusal(source: Any, kind: type[Exception] = DataError, **options: Any) -> str:
    """Return the message of a table that is not counted."""
    with pytest.raises(kind) as caught:
        count(source, **options)
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
