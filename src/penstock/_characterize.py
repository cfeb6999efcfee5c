# SPDX-License-Identifier: Apache-2.0
"""Runs the characterisation job: starts a cluster if none is named, and a driver process, and returns the table.

``python -m penstock._characterize JOB.json`` is the driver; `CharacterizeJob` describes its work.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.apps.characterize import WindowSettings
from penstock.arrivals import Reading
from penstock.errors import ClusterError, ConfigurationError
from penstock.records import decode, encode
from penstock.units import parse_bytes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROGRESS, _RESULT = "progress.json", "result.json"
_POLL_SECONDS = 0.2
Phase = Callable[[str, float | None], None]


@dataclass(frozen=True, slots=True)
class CharacterizeJob:
    """What the driver does, and where it leaves its result."""

    traces: Mapping[str, str]
    """Path of each stream's file."""
    folder: str
    master: str
    reading: Reading = field(default_factory=Reading)
    settings: WindowSettings = field(default_factory=WindowSettings)
    cache_dir: str | None = None
    spark: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Characterization:
    """The table as rows, by stream and window; the seconds of the job without cluster and session; its slots."""

    rows: tuple[Mapping[str, Any], ...]
    seconds: float
    slots: int


def characterize_traces(
    traces: Mapping[str, Path],
    reading: Reading,
    settings: WindowSettings,
    *,
    master: str = "embedded",
    executors: int | None = None,
    executor_memory: str = "1g",
    on_phase: Phase = lambda _text, _done: None,
) -> Characterization:
    """Describe all windows of the traces on Spark. Everything started ends with the call.

    Parameters
    ----------
    master
        ``embedded`` starts a standalone cluster. Otherwise ``spark://host:port``, ``local[n]``, ``yarn`` or
        ``k8s://...``: its machines must have the files under the same paths and Penstock installed.
    executors
        How many, of one core each (default: two). ``local[n]`` has its n threads instead.
    on_phase
        Receives the current phase, and which part of it is done.

    Raises
    ------
    ConfigurationError
        An argument or a file is wrong.
    ClusterError
        The cluster or the job failed.
    """
    from penstock.adaptors.process.children import Warden
    from penstock.adaptors.spark.master_address import MasterAddress, MasterKind

    address = MasterAddress.parse(master)
    if address.kind is MasterKind.LOCAL and executors is not None:
        raise ConfigurationError(
            f"executors: {master} has threads instead of executors; leave it out, or give local[{executors}]",
            field="executors",
        )
    if executors is not None and executors < 1:
        raise ConfigurationError(f"executors: {executors} is too few; give at least 1", field="executors")
    wanted = executors or 2
    is_here = address.kind in (MasterKind.EMBEDDED, MasterKind.LOCAL)
    if is_here:
        _check_files(traces.values())
    with Warden() as warden:
        folder = warden.temporary_folder()
        on_phase("starting Spark", None)
        url, environment = _cluster(warden, folder, address.url, wanted, executor_memory)
        job = CharacterizeJob(
            traces={name: str(path.absolute()) for name, path in traces.items()},
            folder=str(folder),
            master=url,
            reading=reading,
            settings=settings,
            cache_dir=str(folder / "cache") if is_here else None,
            spark=_configuration(address.kind is MasterKind.LOCAL, wanted, executor_memory, folder),
        )
        (folder / "job.json").write_text(encode(job), encoding="utf-8")
        child = warden.start(
            "characterize",
            [sys.executable, "-m", "penstock._characterize", str(folder / "job.json")],
            log=folder / "driver.log",
            env={**os.environ, **environment},
        )
        while child.wait(_POLL_SECONDS) is None:
            _tell(folder, on_phase)
        return _result(folder, child.returncode, child.tail(30))


def _check_files(paths: Any) -> None:
    from penstock.arrivals.trace_files import check_is_file

    faults = []
    for path in paths:
        try:
            check_is_file(path)
        except ConfigurationError as fault:
            faults.append(str(fault).removeprefix("trace: "))
    if faults:
        raise ConfigurationError.of_all("trace", faults)


def _cluster(warden: Any, folder: Path, url: str | None, executors: int, memory: str) -> tuple[str, Mapping[str, str]]:
    """Return the master and the driver's environment. An embedded cluster is started here and ends with the warden."""
    from penstock.adaptors.spark.cluster import EmbeddedCluster
    from penstock.adaptors.spark.cluster_files import write_cluster_folders
    from penstock.adaptors.spark.installation import SparkInstallation

    if url is None:
        # Spark adds max(384 MiB, 10 %) to every executor's heap. The worker only keeps count of it.
        heap = executors * (parse_bytes(memory, "executor_memory") * 1.1 + (400 << 20))
        cluster = EmbeddedCluster(
            warden, folder / "cluster", cores_per_worker=executors, memory_per_worker=f"{int(heap) >> 20}m"
        )
        cluster.start()
        return cluster.master_url, cluster.spark_environment()
    environment = SparkInstallation.find().environment()
    if url.startswith("local"):
        write_cluster_folders(folder / "spark", "127.0.0.1")
        environment |= {
            "SPARK_CONF_DIR": str(folder / "spark" / "conf"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(folder / "spark" / "local"),
            "SPARK_SUBMIT_OPTS": f"-XX:-UsePerfData -Djava.io.tmpdir={folder / 'spark' / 'tmp'}",
        }
    return url, environment


def _configuration(is_local: bool, executors: int, memory: str, folder: Path) -> dict[str, str]:
    common = {
        "spark.app.name": "penstock-characterize",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.executorEnv.OMP_NUM_THREADS": "1",  # one window per core is all the parallelism there is
    }
    if is_local:
        return common
    return common | {
        "spark.executor.cores": "1",
        "spark.executor.memory": memory,
        "spark.executor.instances": str(executors),
        "spark.cores.max": str(executors),
        "spark.default.parallelism": str(executors),
        # Without these the first tasks all go to whichever executor starts first.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
        "spark.locality.wait": "0s",
    }


def _tell(folder: Path, on_phase: Phase) -> None:
    try:
        progress = json.loads((folder / _PROGRESS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return  # not started yet
    on_phase(progress["phase"], progress["done"])


def _result(folder: Path, returncode: int | None, log: str) -> Characterization:
    try:
        result = json.loads((folder / _RESULT).read_text(encoding="utf-8"))
    except (OSError, ValueError) as fault:
        raise ClusterError(
            f"the job ended with code {returncode} and no result; the end of its log:\n{log}", target="characterize"
        ) from fault
    if "fault" in result:
        raise ConfigurationError(result["fault"], field="trace", faults=result["faults"])
    return Characterization(tuple(result["rows"]), result["seconds"], result["slots"])


# --- the driver ------------------------------------------------------------------------------------------------------


def run_job(job: CharacterizeJob) -> int:
    """Do the job in this process and leave the result in its folder. Return the process's exit code."""
    from penstock.apps.characterize.job import characterize

    folder = Path(job.folder)
    _publish(folder / _PROGRESS, {"phase": "starting the session", "done": None})
    spark = _session(job)
    try:
        _warm_up(spark)
        done = threading.Event()
        watcher = threading.Thread(target=_watch, args=(spark, folder, done), daemon=True)
        watcher.start()
        started = time.monotonic()
        try:
            table = characterize(spark, job.traces, job.reading, job.settings, cache_dir=job.cache_dir)
            rows = table.toArrow().to_pylist()
        except ConfigurationError as fault:
            _publish(folder / _RESULT, {"fault": str(fault), "faults": list(fault.faults)})
            return 2
        finally:
            done.set()
            watcher.join()
        rows.sort(key=lambda row: (row["stream"], row["window"]))
        _publish(
            folder / _RESULT,
            {
                "rows": rows,
                "seconds": time.monotonic() - started,
                "slots": spark.sparkContext.defaultParallelism,
            },
        )
        return 0
    finally:
        spark.stop()


def _session(job: CharacterizeJob) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(job.master)
    for key, value in job.spark.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _warm_up(spark: SparkSession) -> None:
    """Wait until every executor and its Python worker run, so that only the job is timed."""
    slots = spark.sparkContext.defaultParallelism
    spark.range(0, 4 * slots, 1, 4 * slots).mapInArrow(_loaded, "id long").count()


def _loaded(batches: Any) -> Any:
    import penstock.workload  # noqa: F401 - what takes long is loading it

    yield from batches


def _watch(spark: SparkSession, folder: Path, done: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    while not done.wait(0.5):
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        tasks = sum(stage.numTasks for stage in stages if stage is not None)
        ended = sum(stage.numCompletedTasks for stage in stages if stage is not None)
        if tasks:
            _publish(folder / _PROGRESS, {"phase": "describing the windows", "done": ended / tasks})


def _publish(path: Path, document: Mapping[str, Any]) -> None:
    # Whole or not at all: the other process may read at any moment.
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(document), encoding="utf-8")
    draft.replace(path)


def main() -> int:
    """Run the job in the file named on the command line."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    job = decode(CharacterizeJob, Path(sys.argv[1]).read_bytes())
    return run_job(job)


if __name__ == "__main__":
    sys.exit(main())
