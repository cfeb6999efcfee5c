# SPDX-License-Identifier: Apache-2.0
"""A query on a real YARN with Penstock attached, steered by the test: what its tests share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import penstock as ps
from penstock.adaptors.cgroups import find_executors
from penstock.adaptors.spark.context_control import ContextControl
from penstock.adaptors.spark.executors_of_driver import ExecutorsOfDriver
from penstock.adaptors.yarn_server.yarn_cluster import YarnCluster
from penstock.records import Allocation, Decision, Outcome, OutcomeStatus, PlanRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE_SECONDS = 240.0
ENDED = (OutcomeStatus.DONE, OutcomeStatus.DRAINING, OutcomeStatus.FAILED)
SETTINGS = {
    "spark.yarn.queue": "streams",
    "spark.executor.instances": "1",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.yarn.am.memory": "256m",
    "spark.yarn.maxAppAttempts": "1",
    "spark.driver.memory": "600m",
    "spark.dynamicAllocation.enabled": "false",
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
    "spark.storage.decommission.shuffleBlocks.enabled": "true",
    "spark.storage.decommission.rddBlocks.enabled": "true",
    "spark.storage.decommission.replicationReattemptInterval": "2s",
    "spark.executor.failuresValidityInterval": "1m",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.port": "0",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


class ObedientPolicy:
    """Decides what the test says, and keeps what it was asked."""

    name = "obedient"
    every_seconds = 1.0

    def __init__(self) -> None:
        self.target = Allocation(1, 1.0)
        self.request: PlanRequest | None = None

    def plan(self, request: PlanRequest) -> Decision:
        """The test's word."""
        self.request = request
        return Decision(request.operator, request.at, self.name, request.current, self.target, "the test says so")


@dataclass
class AttachedQuery:
    """The running application."""

    cluster: YarnCluster
    spark: SparkSession
    query: Any
    scaler: ps.Scaler
    policy: ObedientPolicy
    control: ContextControl

    @property
    def application(self) -> str:
        """Its id."""
        return self.spark.sparkContext.applicationId

    def hosts(self) -> dict[str, str]:
        """The nodes of the executors that take tasks, by executor."""
        active = set(self.control.census().active)
        found = ExecutorsOfDriver(self.spark.sparkContext)()
        return {e.executor_id: e.host for e in found if e.executor_id in active}

    def containers(self) -> int:
        """How many containers the ResourceManager has given the application."""
        return int(self.cluster.ask(f"/apps/{self.application}")["app"]["runningContainers"])

    def preempted(self) -> int:
        """How many of its containers the ResourceManager has taken away for others."""
        return int(self.cluster.ask(f"/apps/{self.application}")["app"]["numNonAMContainerPreempted"])

    def pids(self) -> dict[str, int]:
        """The executors' processes."""
        return find_executors(self.application)

    def quotas(self) -> set[float | None]:
        """The kernel's CPU quotas of all executors' groups, in cores; None: no limit."""
        found = set()
        for pid in self.pids().values():
            with suppress(FileNotFoundError, ProcessLookupError):  # it ended this moment
                found.add(quota_cores(pid))
        return found

    def until(self, is_so: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> None:
        """Wait; the bound only ends a failing test."""
        deadline = time.monotonic() + seconds
        while not is_so():
            census, total = self.control.census(), self.control.requested_total()
            assert time.monotonic() < deadline, (census, total, self.hosts(), self.outcomes()[-3:], self.missing())
            time.sleep(0.3)

    def decide(self, executors: int, share: float) -> None:
        """Have the policy decide, and wait until that is so."""
        before = len(self.outcomes())
        self.policy.target = Allocation(executors, share)
        self.until(lambda: any(outcome.status in ENDED for outcome in self.outcomes()[before:]))
        (ended, *_) = [outcome for outcome in self.outcomes()[before:] if outcome.status in ENDED]
        assert ended.status is not OutcomeStatus.FAILED, ended.detail

    def settle(self, executors: int) -> None:
        """Wait until so many executors take tasks, and no other is there."""
        self.until(lambda: len(self.hosts()) == executors and not self.control.census().leaving)

    def outcomes(self) -> list[Outcome]:
        """What became of actions so far."""
        return self.scaler._store.outcomes("counts")

    def missing(self) -> tuple[str, ...]:
        """What the newest look could not find out, and why."""
        return () if self.scaler.observation is None else self.scaler.observation.missing

    def next_batches(self, count: int) -> None:
        """Wait for so many more batches: the query runs."""
        now = self.query.lastProgress
        first = -1 if now is None else int(now["batchId"])
        self.until(lambda: self.query.lastProgress is not None and self.query.lastProgress["batchId"] >= first + count)


@contextmanager
def attached_query(
    cluster: YarnCluster, folder: Path, *, most: int = 6, settings: dict[str, str] | None = None
) -> Iterator[AttachedQuery]:
    """A query that writes the numbers of its records into files, with one executor, and Penstock attached.

    At the end it has what it had before, and every record is there once.
    """
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("counts")
    for key, value in {**cluster.spark_settings(), **SETTINGS, **(settings or {})}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        rows = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
        query = (
            rows.repartition(2)
            .writeStream.format("parquet")
            .option("path", str(folder / "numbers"))
            .option("checkpointLocation", str(folder / "checkpoints"))
            .queryName("counts")
            .trigger(processingTime="2 seconds")
            .start()
        )
        control = ContextControl(spark.sparkContext)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not control.census().active:
            assert time.monotonic() < deadline, "no executor came"
            time.sleep(0.3)
        before = {quota_cores(pid) for pid in find_executors(spark.sparkContext.applicationId).values()}
        policy = ObedientPolicy()
        with ps.attach(
            query,
            executors=(1, most),
            cpu_shares=(0.25, 0.5, 1.0),
            mode="act",
            policy=policy,
            guards="none",
            warm_up_seconds=0.0,
        ) as scaler:
            made = AttachedQuery(cluster, spark, query, scaler, policy, control)
            yield made
            made.next_batches(2)
        assert query.isActive, query.exception()
        made.settle(1)  # as before it was attached
        assert made.quotas() == before
        query.stop()
        numbers = [row.value for row in spark.read.parquet(str(folder / "numbers")).select("value").collect()]
        assert sorted(numbers) == list(range(len(numbers))), "a record is missing, or came twice"
    finally:
        spark.stop()


def quota_cores(pid: int) -> float | None:
    """The CPU quota of the group that a process is in, in cores, as the kernel has it; None: no limit."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "cpu" in controllers.split(","):
            group = Path("/sys/fs/cgroup/cpu") / path.lstrip("/")
            quota, period = (int((group / f"cpu.cfs_{word}_us").read_text()) for word in ("quota", "period"))
            return None if quota < 0 else quota / period
    group = Path("/sys/fs/cgroup") / Path(f"/proc/{pid}/cgroup").read_text().strip().rpartition(":")[2].lstrip("/")
    quota_text, period_text = (group / "cpu.max").read_text().split()
    return None if quota_text == "max" else int(quota_text) / int(period_text)
