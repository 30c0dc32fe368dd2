"""Measuring on the workers of a Dask cluster ends in the same file as measuring here, whatever becomes of a worker."""

from __future__ import annotations

import asyncio
import functools
import importlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import commands
import trees
import twoafc
from measuring import Interrupt
from twoafc.cli import main
from twoafc.measurement import cluster, run
from twoafc.measurement.block import BlockError
from twoafc.measurement.cluster import ClusterExecutor, Packed
from twoafc.measurement.executors import Job, Processes, Ready
from twoafc.measurement.plan import plan_items

distributed = pytest.importorskip("distributed")

OWN = """
import glob, os, time
import numpy as np

def slow(ref, x):
    time.sleep(0.01 * len(ref))
    return abs(ref - x).mean(axis=(1, 2, 3), dtype=np.float64)

def held(ref, x):
    time.sleep(0.5 if glob.glob(os.path.join(os.path.dirname(__file__), "t.parquet.parts", "*.parquet")) else 0.0)
    return abs(ref - x).mean(axis=(1, 2, 3), dtype=np.float64)

def scaled(ref, x, k=1.0):
    return k * abs(ref - x).mean(axis=(1, 2, 3), dtype=np.float64)

def trapped(ref, x):
    if len(ref) > 1 and x.mean() > 0:
        raise RuntimeError("a trap")
    return scaled(ref, x)

def dying(ref, x):
    if len(ref) > 1:
        os.kill(os.getpid(), 9)
    return scaled(ref, x)

def normalised(ref, x):
    return scaled(ref, x) / scaled(ref, x).max()

normalised.takes = slow.takes = held.takes = scaled.takes = trapped.takes = dying.takes = "numpy"
"""
KEPT = "finished values are kept, and the same command resumes the run"


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two workers, each a process, that stand in a folder of their own."""
    start = os.getcwd()
    os.chdir(tmp_path_factory.mktemp("cluster"))
    try:
        with (
            distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as workers,
            distributed.Client(workers, set_as_default=False) as client,
        ):
            os.chdir(start)
            yield client
    finally:
        os.chdir(start)


@pytest.fixture
def client(two_workers: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """They look nowhere for modules but where libraries are; one that was started anew looks where tests had them."""
    tests = str(tmp_path_factory.getbasetemp())
    two_workers.run(lambda: sys.path.__setitem__(slice(None), [path for path in sys.path if tests not in path]))
    return two_workers


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "dask_distances", raising=False)
    (tmp_path / "dask_distances.py").write_text(OWN)
    trees.write_table(tmp_path, 24, sizes=(24, 24, 32))
    return tmp_path


def measure(distances: Any, out: str = "t.parquet", **options: Any) -> Any:
    if "client" not in options:
        options = {"workers": 1} | options
    return twoafc.measure("table.csv", distances, out, **({"device": "cpu", "batch_size": 4} | options))


def refused(*arguments: Any, **options: Any) -> str:
    with pytest.raises((ValueError, OSError, ImportError)) as caught:
        measure(*arguments, **options)
    said = re.sub(r"tcp://127\.0\.0\.1:\d+", "WORKER", str(caught.value))
    return re.sub(r"triplets t\d+ to t\d+", "SOME", said)  # whichever block was the first


def processes(client: Any) -> list[int]:
    """How many processes of ours each worker has."""
    return [*client.run(lambda: len(importlib.import_module("twoafc.measurement.cluster")._PROCESSES)).values()]


# --- the same file ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_worker_is_killed_in_the_middle(client: Any) -> None:
    trees.write_table(Path(), 100, sizes=(24, 24, 32))
    names = ["dask_distances:slow", "euclidean", "ssim"]
    measure(names, "here.parquet")
    workers = client.run(os.getpid)
    told: list[int] = []

    def progress(done: int, total: int, what: str) -> None:
        if done >= 20 and told[-1] < 20:
            os.kill(next(iter(workers.values())), signal.SIGKILL)
        told.append(done)

    found = measure(names, client=client, progress=progress)
    assert Path("t.parquet").read_bytes() == Path("here.parquet").read_bytes()
    assert not Path("t.parquet.parts").exists()
    assert (told[0], told[-1], found.items) == (0, 100, 100)
    assert told == sorted(told)
    wait_until(lambda: len({*client.run(os.getpid, on_error="ignore").values()} - {*workers.values()}) == 1)
    assert processes(client) == [0, 0]


def test_what_a_cluster_has_begun_is_finished_here_and_the_other_way_round(client: Any) -> None:
    measure(["ssim", "rmse"], "here.parquet")
    measure(["ssim", "rmse"], shard=(1, 2), client=client)
    assert measure(["ssim", "rmse"]).items == 12
    assert Path("t.parquet").read_bytes() == Path("here.parquet").read_bytes()
    measure(["ssim"], "u.parquet")
    assert measure(["ssim", "rmse"], "u.parquet", client=client).items == 24
    assert Path("u.parquet").read_bytes() == Path("here.parquet").read_bytes()


def test_images_that_cannot_be_used_are_listed_alike(client: Any) -> None:
    Path("images/5-x0.png").unlink()
    Path("images/9-ref.png").write_bytes(Path("images/9-ref.png").read_bytes()[:100])
    trees.save(trees.picture(np.random.default_rng(0), 16), Path("images/11-x1.png"))
    first, second = measure(["rmse"], "here.parquet"), measure(["rmse"], client=client)
    assert second.failures == sorted(first.failures, key=second.failures.index)
    assert len(second.failures) == 3
    assert Path("t.parquet.failures.csv").read_bytes() == Path("here.parquet.failures.csv").read_bytes()
    assert second.table.equals(first.table)


def test_callables_that_only_this_process_has(client: Any) -> None:
    sys.path.append(os.getcwd())
    asked = {
        "twice": functools.partial(importlib.import_module("dask_distances").scaled, k=2.0),
        "most": lambda ref, x: abs(ref - x).max(axis=(1, 2, 3)),
    }
    here = measure(asked, "here.parquet").table
    assert measure(asked, client=client).table.equals(here)
    assert Path("t.parquet").read_bytes() == Path("here.parquet").read_bytes()


def test_a_users_module_that_has_changed_is_not_remembered(client: Any) -> None:
    before = measure(["dask_distances:scaled"], client=client).table["scaled_d0"]
    Path("dask_distances.py").write_text(OWN.replace("k=1.0", "k=3.0"))
    sys.modules.pop("dask_distances")
    after = measure(["dask_distances:scaled"], "u.parquet", client=client).table["scaled_d0"]
    np.testing.assert_allclose(after, 3 * before)


def test_the_command(client: Any, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["measure", "table.csv", "--distance", "ssim", "--device", "cpu", "--batch-size", "4", "--out"]
    main([*asked, "here.parquet"])
    capsys.readouterr()
    main([*asked, "t.parquet", "--scheduler", client.scheduler.address])
    said = capsys.readouterr()
    assert said.out.startswith("Measured 24 triplets in ")
    assert said.err == ""
    assert Path("t.parquet").read_bytes() == Path("here.parquet").read_bytes()
    Path("scheduler.json").write_text(f'{{"address": "{client.scheduler.address}"}}')
    main([*asked, "u.parquet", "--scheduler", "scheduler.json"])
    assert Path("u.parquet").read_bytes() == Path("here.parquet").read_bytes()


# --- what a distance or its process does ------------------------------------------------------------------------------


def test_a_distance_that_raises_is_told_as_it_is_here(client: Any) -> None:
    said = refused(["dask_distances:trapped"], client=client, batch_size=24)
    assert said == refused(["dask_distances:trapped"], batch_size=24)
    assert said == "trapped raised RuntimeError: a trap, on SOME; values finished before it are kept"
    assert processes(client) == [0, 0]


def test_a_distance_that_depends_on_the_batch(client: Any) -> None:
    said = refused(["dask_distances:normalised"], client=client)
    assert said == refused(["dask_distances:normalised"])
    assert said.startswith("a distance must give the same value in any batch and every time; normalised gave ")
    found = measure(["dask_distances:normalised"], client=client, allow_random=True)
    assert found.card["distances"]["normalised"]["made"][0]["random"] == "values depend on the batch or on chance"


def test_a_block_that_kills_its_process_every_time(client: Any) -> None:
    assert refused(["dask_distances:dying"], client=client, batch_size=24) == (
        "a process of worker WORKER was killed (signal 9), perhaps for lack of memory (fewer workers need less), "
        f"while it had SOME; {KEPT}"
    )
    assert len(client.run(os.getpid)) == 2


def test_a_block_that_takes_its_worker_along_every_time(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client.cluster.scheduler, "allowed_failures", 0)
    monkeypatch.setattr(cluster, "measure_on_worker", lambda run, block: os.kill(os.getpid(), 9))
    said = refused(["rmse"], client=client, batch_size=24)
    assert said.startswith("the cluster at WORKER gave up a block (KilledWorker: Attempted to run task ")
    assert said.endswith(f", while it had SOME; {KEPT}")
    client.wait_for_workers(2, timeout=30)


@pytest.mark.parametrize(
    ("error", "shown"),
    [(RuntimeError("broken"), "RuntimeError: broken"), (RuntimeError(), "RuntimeError"), (OSError(), "OSError")],
)
def test_a_block_that_cannot_even_be_begun(
    client: Any, monkeypatch: pytest.MonkeyPatch, error: Exception, shown: str
) -> None:
    def broken(run: str, block: Any) -> None:
        raise error

    monkeypatch.setattr(cluster, "measure_on_worker", broken)
    assert refused(["rmse"], client=client, batch_size=24) == (
        f"the cluster at WORKER gave up a block ({shown}), while it had SOME; {KEPT}"
    )


def test_a_process_that_cannot_start_and_does_not_say_why(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Processes) -> None:
        raise AssertionError

    worker = SimpleNamespace(address="tcp://a:1", state=SimpleNamespace(nthreads=1))
    monkeypatch.setattr(cluster, "_PROCESSES", {})
    monkeypatch.setattr(Processes, "start", broken)
    assert asyncio.run(cluster.prepare_worker("run", Job({}), [], worker)) == "AssertionError"
    monkeypatch.setattr(
        ClusterExecutor,
        "_run_on",
        lambda _, workers, function, *rest: (
            {"tcp://a:1": twoafc.__version__ if function is cluster.version else MemoryError()}
        ),
    )
    assert refused(["rmse"], client=client) == "worker tcp://a:1: MemoryError"


def test_workers_that_do_not_stay(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClusterExecutor, "_run_on", lambda *_: {})
    assert refused(["rmse"], client=client) == "the workers at WORKER leave as soon as they are asked for something"


def test_workers_that_come_and_go(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ask, gone = ClusterExecutor._run_on, iter([True] * 4)  # twice, since each trial asks for two things
    monkeypatch.setattr(ClusterExecutor, "_run_on", lambda *given: {} if next(gone, False) else ask(*given))
    assert len(measure(["rmse"], client=client).table) == 24


def test_a_callable_that_cannot_be_unpacked() -> None:
    with pytest.raises(ValueError, match=r"^UnpicklingError: "):
        Processes(Job({"mine": Packed("mine", b"no pickle", {})}, idle=60)).start()


def test_a_callable_that_cannot_be_sent(client: Any) -> None:
    lock = threading.Lock()
    told = refused({"locked": lambda ref, x: abs(ref - x).mean(axis=(1, 2, 3)) + lock.locked()}, client=client)
    assert told == (
        "locked cannot be sent to workers (TypeError: cannot pickle '_thread.lock' object); "
        "give it as package.module:function"
    )


# --- workers that are not alike ---------------------------------------------------------------------------------------


def test_another_version_on_a_worker(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    there = twoafc.__version__
    monkeypatch.setattr(twoafc, "__version__", "99.0")
    assert refused(["rmse"], client=client) == (
        f"all machines need the same version of twoafc; worker WORKER has {there}, this machine 99.0"
    )


def test_another_file_on_a_worker(client: Any, here: Path) -> None:
    (here / "other").mkdir()
    (here / "other" / "dask_distances.py").write_text(OWN + "# changed\n")
    client.run(lambda: sys.path.insert(0, str(here / "other")))
    sys.path.append(str(here))
    scaled = importlib.import_module("dask_distances").scaled
    try:
        assert refused(["dask_distances:scaled"], client=client) == (
            "scaled must be the same on all machines; on worker WORKER it has another source than here"
        )
        assert refused({"twice": functools.partial(scaled, k=2.0)}, client=client) == (
            "worker WORKER: twice needs the same files on all machines; dask_distances is another file there "
            f"({here}/other/dask_distances.py)"
        )
    finally:
        client.run(lambda: sys.path.pop(0))


def test_workers_without_the_images(client: Any, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = "images must lie under one path on all machines"
    sample = ("/nowhere/0.png", 1)
    monkeypatch.setattr(run, "Job", lambda *given: replace(Job(*given), sample=sample))
    assert refused(["rmse"], client=client) == f"worker WORKER: {rule}; /nowhere/0.png: no such file"
    sample = (str(here / "images/0-ref.png"), 1)
    assert refused(["rmse"], client=client) == (f"worker WORKER: {rule}; {here}/images/0-ref.png is another file there")


def test_an_image_that_one_worker_alone_cannot_read(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("images/17-x1.png").unlink()
    here = SimpleNamespace(read=lambda path: ("pixels", 1))
    monkeypatch.setattr(cluster, "Decoder", lambda _: here)
    assert refused(["rmse"], client=client) == (
        "images must lie under one path on all machines; worker WORKER cannot use images/17-x1.png (no such file), "
        f"and this machine can; {KEPT}"
    )


def test_workers_with_and_without_a_gpu(client: Any) -> None:
    found = ClusterExecutor(client, Job({}), [])
    found.ready["tcp://a:1"] = Ready("cuda", {}, {})
    with pytest.raises(ValueError, match="one kind") as caught:
        found._check_agreement("tcp://b:2", Ready("cpu", {}, {}))
    assert str(caught.value) == (
        "all workers must measure on one kind of device; tcp://a:1 has cuda, tcp://b:2 has cpu; name one that all have"
    )


def test_a_device_that_a_worker_has_not() -> None:
    with pytest.raises(ValueError, match=r"^torch cannot use the device 'cuda' \("):
        Processes(Job({"rmse": "rmse"}, device="cuda", idle=60)).start()


# --- a cluster that is not there --------------------------------------------------------------------------------------


def failure(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    return commands.refused(capsys, "measure", "table.csv", "--distance", "rmse", "--out", "t.parquet", *arguments)


def test_no_scheduler(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "CONNECT", 1)
    remedy = "give its address, such as tcp://10.0.0.1:8786, or its scheduler file"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        said = failure(capsys, "--scheduler", address)
        assert said.startswith(f"cannot reach the scheduler at {address} (")
        assert said.endswith(f"; {remedy}")
    assert failure(capsys, "--scheduler", "nonsense") == (
        f"cannot reach the scheduler at nonsense (missing port number in address 'nonsense'); {remedy}"
    )
    said = failure(capsys, "--scheduler", "scheduler.json")
    assert said.startswith("cannot reach the scheduler at scheduler.json (missing port number in address")
    Path("scheduler.json").write_text("{}")
    assert (
        failure(capsys, "--scheduler", "scheduler.json") == "scheduler.json is not a scheduler file: it has no address"
    )
    assert not Path("t.parquet.parts").exists()


def web(server: socket.socket) -> None:
    connection, _ = server.accept()
    with connection:
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n")


def test_what_is_no_scheduler(client: Any, capsys: pytest.CaptureFixture[str]) -> None:
    worker = next(iter(client.nthreads()))
    assert failure(capsys, "--scheduler", worker) == (
        f"--scheduler is the address of a scheduler; at {worker} is a worker"
    )
    with socket.create_server(("127.0.0.1", 0)) as other:
        threading.Thread(target=web, args=(other,)).start()
        address = f"tcp://127.0.0.1:{other.getsockname()[1]}"
        assert failure(capsys, "--scheduler", address).startswith(f"cannot reach the scheduler at {address} (")


def test_no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "PATIENCE", 1.0)
    told: list[str] = []
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=":0") as empty,
        distributed.Client(empty, set_as_default=False) as client,
    ):
        said = refused(
            ["rmse"], client=client, progress=lambda done, total, what: told.append(f"{done}/{total} {what}")
        )
    assert said == "there has been no worker at WORKER for 1 s; start some"
    assert told[0].startswith("0/1 seconds without a worker at tcp://127.0.0.1:")


async def asynchronous(address: str) -> None:
    async with distributed.Client(address, asynchronous=True, set_as_default=False) as client:
        ClusterExecutor(client, Job({}), []).__enter__()


def test_arguments_that_do_not_fit(client: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(["rmse"], client=client, workers=3) == (
        "a cluster has workers of its own; found workers=3: leave it out"
    )
    with pytest.raises(ValueError, match=r"^measuring waits for its workers; give a client that is not asynchronous$"):
        asyncio.run(asynchronous(client.scheduler.address))
    with pytest.raises(TypeError, match=r"^client must be a dask\.distributed\.Client; found str$"):
        measure(["rmse"], client="tcp://127.0.0.1:8786")
    assert failure(capsys, "--scheduler", "tcp://127.0.0.1:1", "--workers", "2") == (
        "--workers is for this machine; a cluster has workers of its own: leave one of the two out"
    )


def test_without_dask(client: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert failure(capsys, "--scheduler", "tcp://127.0.0.1:1") == (
        "distributed is not installed; run: pip install 'twoafc[cluster]'"
    )


# --- the end of a run, by whatever it comes ---------------------------------------------------------------------------


def command(client: Any, *, distance: str = "slow", before: str = "") -> subprocess.Popen[str]:
    asked = [
        "measure",
        "table.csv",
        "--distance",
        f"dask_distances:{distance}",
        "--out",
        "t.parquet",
        "--device",
        "cpu",
    ]
    asked += ["--batch-size", "2", "--scheduler", client.scheduler.address]
    code = f"from twoafc.cli import main\n{before}\nmain({asked})"
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_until(there: Any) -> None:
    until = time.monotonic() + 20
    while not there():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.slow
def test_interrupted_by_hand(client: Any, here: Path) -> None:
    trees.write_table(here, 100, sizes=(16,))
    run = command(client)
    wait_until(lambda: list(here.glob("t.parquet.parts/*.parquet")))
    run.send_signal(signal.SIGINT)
    out, said = run.communicate(timeout=20)
    assert (run.returncode, out, said) == (130, "", f"twoafc: interrupted; {KEPT}\n")
    assert processes(client) == [0, 0]
    assert 0 < measure(["dask_distances:slow"], batch_size=2, client=client).items < 100
    measure(["dask_distances:slow"], "here.parquet", batch_size=2, workers=2)
    assert Path("t.parquet").read_bytes() == Path("here.parquet").read_bytes()


def test_an_interruption_between_two_blocks(client: Any) -> None:
    interrupt = Interrupt()
    with pytest.raises(KeyboardInterrupt):
        measure(["rmse"], client=client, progress=interrupt)
    assert interrupt.done == [0, 4, 8]
    assert processes(client) == [0, 0]
    assert measure(["rmse"], client=client).items == 16


@pytest.mark.slow
def test_a_full_disk(client: Any, here: Path) -> None:
    run = command(client, before="import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))")
    out, said = run.communicate(timeout=30)
    assert (run.returncode, out) == (2, "")
    assert said.startswith("twoafc: ")
    assert said.count("\n") == 1
    assert "too large" in said.lower()
    assert not [path for path in here.rglob("*.part") if path.is_file()]
    assert processes(client) == [0, 0]
    assert len(measure(["dask_distances:slow"], client=client).table) == 24


def test_the_scheduler_goes(here: Path) -> None:
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as workers,
        distributed.Client(workers, set_as_default=False) as client,
    ):
        run = command(client, distance="held")  # from its first block on, each of the others takes seconds
        wait_until(lambda: list(here.glob("t.parquet.parts/*.parquet")))
        address = client.scheduler.address
    out, said = run.communicate(timeout=30)
    assert (run.returncode, out, said) == (2, "", f"twoafc: the scheduler at {address} is gone; {KEPT}\n")


def test_processes_end_that_are_asked_for_nothing() -> None:
    processes = Processes(Job({"rmse": "rmse"}, idle=0.2))
    ready = processes.start()
    assert ready is not None
    assert ready.makers.keys() == {"rmse"}
    wait_until(processes.ended)
    processes.close()


def test_a_worker_may_have_several_threads() -> None:
    todo = plan_items(twoafc.datasets.open_dataset("table.csv"))
    blocks = [*todo.blocks(4, {"rmse": np.ones(len(todo), dtype=np.bool_)})]
    processes = Processes(Job({"rmse": "rmse"}, idle=60))
    with ThreadPoolExecutor(3) as pool:
        outcomes = [*pool.map(processes.ask, blocks)]
    assert 1 <= len(processes.all) <= 3
    processes.close()
    values = np.concatenate([outcome.values["rmse"] for outcome in outcomes])
    here = measure(["rmse"]).table
    assert {*values[:, 0]} == {*here["rmse_d0"].to_numpy()}
    with pytest.raises(BlockError) as caught:
        processes.ask(blocks[0])
    assert str(caught.value.error) == "the run has ended"


# --- the page ---------------------------------------------------------------------------------------------------------

PAGE = (Path(__file__).parents[2] / "docs" / "clusters.md").read_text(encoding="utf-8")


def recipes(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)


def test_the_recipes_are_well_formed() -> None:
    yaml = pytest.importorskip("yaml")
    scripts, programs, manifests = recipes("bash"), recipes("py"), recipes("yaml")
    assert (len(scripts), len(programs), len(manifests)) == (2, 2, 1)
    for script in scripts:
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    for program in programs:
        compile(program, "recipe", "exec")
    (job,) = map(yaml.safe_load, manifests)
    (shell,) = job["spec"]["template"]["spec"]["containers"][0]["args"]
    assert f"/{job['spec']['completions']}" in shell
    subprocess.run(["bash", "-n"], input=shell, text=True, check=True)


def test_a_job_array_measures_all(here: Path) -> None:
    trees.write_bapps(here / "bapps", 6)
    (script,) = [each for each in recipes("bash") if "--array" in each]
    (here / "bin").mkdir()
    (here / "bin" / "twoafc").symlink_to(Path(sys.executable).with_name("twoafc"))
    path = f"{here / 'bin'}:{os.environ['PATH']}"
    for task in (1, 2):
        environment = os.environ | {"SLURM_ARRAY_TASK_ID": str(task), "SLURM_ARRAY_TASK_COUNT": "2", "PATH": path}
        subprocess.run(["bash"], input=script, text=True, check=True, env=environment, capture_output=True)
    found = twoafc.measure("bapps", ["rmse", "ssim"], "val.parquet", device="cpu", workers=1)
    assert (found.items, len(found.table)) == (0, 12)
