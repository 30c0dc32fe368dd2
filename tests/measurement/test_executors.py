"""Worker processes: what ends one is reported."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import trees
import twoafc
from twoafc.measurement.block import BlockError
from twoafc.measurement.executors import Job, Processes
from twoafc.measurement.plan import plan_items


def test_a_process_that_ends_is_not_used_again(tmp_path: Path) -> None:
    trees.write_table(tmp_path, 4)
    plan = plan_items(twoafc.datasets.open_dataset(tmp_path / "table.csv"))
    (block,) = plan.blocks(4, {"rmse": np.ones(len(plan), dtype=np.bool_)})
    processes = Processes(Job({"rmse": "rmse"}))
    first = processes.ask(block)
    processes.free[0].program.kill()
    processes.free[0].program.wait()
    np.testing.assert_array_equal(processes.ask(block).values["rmse"], first.values["rmse"])
    process = processes.free[0]
    process.program.kill()
    with pytest.raises(
        ChildProcessError, match=r"^a worker process was killed \(signal 9\), perhaps for lack of memory"
    ):
        process.ask(block)
    processes.close()
    with pytest.raises(BlockError) as caught:
        processes.ask(block)
    assert caught.value.block is None
    assert str(caught.value.error) == "the run has ended"


def test_a_distance_that_a_process_cannot_make(tmp_path: Path) -> None:
    trees.write_table(tmp_path, 2)
    plan = plan_items(twoafc.datasets.open_dataset(tmp_path / "table.csv"))
    (block,) = plan.blocks(2, {"none": np.ones(len(plan), dtype=np.bool_)})
    processes = Processes(Job({"none": "no_such_module:none"}))
    with pytest.raises(BlockError) as caught:
        processes.ask(block)
    assert caught.value.block is None
    assert str(caught.value.error).startswith("there is no distance 'no_such_module:none'")
    processes.close()
