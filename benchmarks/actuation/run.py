# SPDX-License-Identifier: Apache-2.0
"""From a decision to its effect: how long a share, an executor up and an executor down take, and the query's pause.

A small query runs on a cluster that is started for it, with Penstock attached. A policy that does as it is told
decides, and the loop, its actuator and the cluster carry it out. What happens is seen from outside of Penstock: the
share in the kernel's quota of the executors, executors in the driver's tables and among this machine's processes, the
pause in the ends of batches. Run: ``python benchmarks/actuation/run.py --cluster standalone``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # run by its path, as all benchmarks are

from benchmarks.actuation.kernel import executor_pids, quota_cores
from benchmarks.actuation.pauses import end_of, longest_pause, quiet_pauses
from benchmarks.actuation.places import PLACES, opened
from benchmarks.actuation.table import RESULTS, table

import penstock as ps
from penstock.adaptors.spark.context_control import ContextControl
from penstock.adaptors.spark.executors_of_driver import ExecutorsOfDriver
from penstock.errors import ConfigurationError
from penstock.records import Allocation, Decision, OutcomeStatus, PlanRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

NAME = "actuation"
PATIENCE_SECONDS = 240.0
WARM_BATCHES = 20
CALM_SECONDS = 12.0
"""Between two decisions; also how long the query is watched for its pause without one."""
QUIET_SECONDS = 60.0
"""Without a decision, in each repeat: pauses are held against those of stretches of it that are as long."""
AFTER_SECONDS = 3.0
"""After an effect batches are still watched for a pause."""
POLL_SECONDS = 0.02
ENDED = (OutcomeStatus.DONE, OutcomeStatus.FAILED)


@dataclass
class Sample:
    """One decision: seconds until its effect, until Penstock says that it is done, and the query's longest pause.

    `effect` is None where nothing was decided.
    """

    kind: str
    effect: float | None
    done: float | None
    pause: float
    steps: dict[str, float]
    """Further instants on the way, in seconds after the decision."""
    seconds: float
    """How long the query was watched for its longest pause."""
    quiet: list[float] = field(default_factory=list)
    """The longest pause of each stretch as long without a decision; empty: none was as long."""


class ObedientPolicy:
    """Decides what it is told."""

    name = "obedient"
    every_seconds = 0.5

    def __init__(self) -> None:
        self.target = Allocation(1, 1.0)

    def plan(self, request: PlanRequest) -> Decision:
        """What it was told."""
        return Decision(request.operator, request.at, self.name, request.current, self.target, "it was told to")


class Measurement:
    """The running query with Penstock attached, and what is seen of it."""

    def __init__(self, spark: SparkSession, query: StreamingQuery, scaler: ps.Scaler, policy: ObedientPolicy) -> None:
        self._context, self._query, self._scaler, self._policy = spark.sparkContext, query, scaler, policy
        self._control = ContextControl(spark.sparkContext)
        self._driver = ExecutorsOfDriver(spark.sparkContext)
        self._application = str(spark.sparkContext.applicationId)
        self._quiet: list[tuple[float, float]] = []

    def warm_up(self) -> None:
        """Wait until the query has ended some batches: the first ones take long."""
        self._until(
            lambda: self._query.lastProgress is not None and self._query.lastProgress["batchId"] >= WARM_BATCHES
        )

    def settle(self, executors: int) -> None:
        """Wait until so many executors run, none is on its way, and the query is calm again."""
        self._until(lambda: len(self._active()) == executors and len(self._pids()) == executors)
        time.sleep(CALM_SECONDS)

    def nothing(self) -> Sample:
        """Watch the query without a decision."""
        begun = time.time()
        time.sleep(QUIET_SECONDS)
        ended = time.time()
        self._quiet.append((begun, ended))
        return Sample("nothing", None, None, self._pause(ended - CALM_SECONDS, ended), {}, CALM_SECONDS)

    def compare(self, samples: list[Sample]) -> None:
        """Hold each pause against those of as long a time without a decision."""
        for sample in samples:
            if sample.effect is not None:
                sample.quiet = quiet_pauses(self._query.recentProgress, self._quiet, sample.seconds)

    def share(self, share: float) -> Sample:
        """Have a share set; the effect is the kernel's quota."""
        pids = list(self._pids().values())
        decision = self._decide(Allocation(len(pids), share))
        # Some clusters take the limit away for a whole share, others set it to all that Spark has asked for.
        wanted = (None, float(len(pids))) if share == 1.0 else (share * len(pids),)

        def is_set() -> bool:
            quota = quota_cores(pids)
            return any(quota == one or (quota and one and abs(quota - one) < 0.01) for one in wanted)

        kind = "share raised" if share > decision.current.cpu_share else "share lowered"
        return self._sample(kind, decision, self._instant(is_set, POLL_SECONDS), {})

    def executor_up(self) -> Sample:
        """Have an executor added; the effect is the end of its first task."""
        before = self._active()
        decision = self._decide(Allocation(len(before) + 1, 1.0))
        process = self._instant(lambda: len(self._pids()) > len(before))
        registered = self._instant(lambda: len(self._active()) > len(before))
        (new,) = self._active() - before
        works = self._instant(lambda: any(e["id"] == new and e["completedTasks"] > 0 for e in self._driver.entries()))
        steps = {"its process runs": process - decision.at, "it is registered": registered - decision.at}
        return self._sample("executor up", decision, works, steps)

    def executor_down(self) -> Sample:
        """Have an executor drained; the effect is the end of its process."""
        before = self._active()
        pids = set(self._pids().values())
        decision = self._decide(Allocation(len(before) - 1, 1.0))
        idle = self._instant(lambda: len(self._active()) < len(before))
        gone = self._instant(lambda: len(pids & set(self._pids().values())) < len(pids))
        return self._sample("executor down", decision, gone, {"it gets no more tasks": idle - decision.at})

    def _decide(self, target: Allocation) -> Decision:
        self._policy.target = target
        known = {decision.decision_id for decision in self._scaler.decisions}

        def newest() -> Decision | None:
            new = [d for d in self._scaler.decisions if d.decision_id not in known]
            return next((d for d in new if d.is_change and d.target.satisfies(target)), None)

        self._until(lambda: newest() is not None, POLL_SECONDS)
        found = newest()
        assert found is not None
        return found

    def _sample(self, kind: str, decision: Decision, effect: float, steps: dict[str, float]) -> Sample:
        self._until(lambda: self._outcome(decision) is not None)
        time.sleep(AFTER_SECONDS)
        ended = effect + AFTER_SECONDS
        pause = self._pause(decision.at, ended)
        return Sample(kind, effect - decision.at, self._outcome(decision), pause, steps, ended - decision.at)

    def _outcome(self, decision: Decision) -> float | None:
        """When Penstock said that it is done, in seconds after the decision."""
        ended = [o for o in self._scaler._store.outcomes(NAME, since=decision.at) if o.status in ENDED]
        if not ended:
            return None
        if ended[0].status is OutcomeStatus.FAILED:
            raise SystemExit(f"{decision.explain()}: failed: {ended[0].detail}")
        return ended[0].at - decision.at

    def _pause(self, begun: float, ended: float) -> float:
        # A time that is not over yet counts too, as it does where nothing was changed.
        self._until(lambda: self._query.lastProgress is not None and end_of(self._query.lastProgress) > ended)
        return longest_pause(self._query.recentProgress, begun, ended)

    def _active(self) -> set[str]:
        return set(self._control.census().active)

    def _pids(self) -> dict[str, int]:
        return executor_pids(self._application)

    def _instant(self, is_so: Callable[[], bool], poll_seconds: float = 0.1) -> float:
        """Wait until it is so, and return when it was."""
        self._until(is_so, poll_seconds)
        return time.time()

    def _until(self, is_so: Callable[[], bool], poll_seconds: float = 0.1) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_so():
            if self._query.exception() is not None or time.monotonic() > deadline:
                faults = () if self._scaler.observation is None else self._scaler.observation.missing
                raise SystemExit(f"it did not get there: {self._query.exception()} {faults} {self._active()}")
            time.sleep(poll_seconds)


@contextmanager
def attached(folder: Path, settings: dict[str, str]) -> Iterator[Measurement]:
    """Run a query that counts, with Penstock attached."""
    from pyspark.sql import SparkSession
    from pyspark.sql.functions import col

    builder = SparkSession.builder.appName(NAME)
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        rows = spark.readStream.format("rate").option("rowsPerSecond", 200).load()
        counts = rows.groupBy((col("value") % 5).alias("key")).count()
        writer = counts.writeStream.outputMode("update").format("noop").queryName(NAME)
        writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
        query = writer.trigger(processingTime="1 second").start()
        policy = ObedientPolicy()
        with ps.attach(
            query,
            executors=(1, 2),
            cpu_shares=(0.5, 1.0),
            mode="act",
            policy=policy,
            guards="none",
            interval_seconds=0.5,
            warm_up_seconds=0.0,
            arrivals="interpolated",
        ) as scaler:
            for note in scaler.notes:
                print(f"note: {note}", file=sys.stderr)
            yield Measurement(spark, query, scaler, policy)
        query.stop()
    finally:
        spark.stop()


def measure(cluster: str, repeats: int) -> list[Sample]:
    """Go through all kinds of decisions, so many times."""
    samples: list[Sample] = []
    with opened(cluster) as (folder, settings), attached(folder, settings) as measurement:
        measurement.warm_up()
        measurement.settle(1)
        for _ in range(repeats):
            for take, executors in (
                (measurement.nothing, 1),
                (lambda: measurement.share(0.5), 1),
                (lambda: measurement.share(1.0), 1),
                (measurement.executor_up, 2),
                (measurement.executor_down, 1),
            ):
                samples.append(take())
                print(json.dumps(asdict(samples[-1])), file=sys.stderr, flush=True)
                measurement.settle(executors)
        measurement.compare(samples)
    return samples


def main() -> int:
    """Measure one cluster, and print the table."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--cluster", choices=sorted(PLACES), default="standalone", help="where the executors are")
    arguments.add_argument("--repeats", type=int, default=5, help="of each kind of decision")
    arguments.add_argument("--keep", action="store_true", help=f"keep the result in {RESULTS.name}, for table.py")
    arguments.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    chosen = arguments.parse_args()
    load = os.getloadavg()[0]
    try:
        samples = measure(chosen.cluster, chosen.repeats)
    except ConfigurationError as fault:
        print(f"left out: {fault}", file=sys.stderr)
        return 0
    result: dict[str, Any] = {
        "cluster": chosen.cluster,
        "on": datetime.now(UTC).date().isoformat(),
        "load_average": [round(load, 1), round(os.getloadavg()[0], 1)],
        "samples": [asdict(sample) for sample in samples],
    }
    if chosen.keep:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{chosen.cluster}.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result) if chosen.json else table([result]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
