# SPDX-License-Identifier: Apache-2.0
"""The log of a run has the clock of `penstock explain`."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.log_file import logging_to
from penstock.clock import VirtualClock
from penstock.execute import Reconciler
from penstock.knowledge import SqliteStore
from penstock.loop import Cycle, Runner
from penstock.monitor import Monitor
from penstock.policies.schedule import ENTRY
from penstock.ports import OperatorSite, PolicyContext
from penstock.records import Allocation, BatchProgress, CpuReading, ExecutorState, Limits, Mode, Objective, Telemetry
from penstock.testing import FakeActuator
from penstock.topology import Topology

LIMITS = Limits(1, 4)


class BusyQuery:
    """Telemetry of a query with a batch a second, on what the actuator has."""

    def __init__(self, clock: VirtualClock, actuator: FakeActuator) -> None:
        self.clock, self.actuator = clock, actuator

    def collect(self) -> Telemetry:
        """So many executors, one batch, half of a core used."""
        now, there = self.clock.now(), range(self.actuator.observed.executors)
        batch = BatchProgress("op", "q", "r", int(now), now - 0.5, now, 10, {}, ())
        executors = tuple(ExecutorState(str(i), "h", 1, True, 0, 0.0) for i in there)
        return Telemetry("op", now, (batch,), executors, CpuReading(now, now / 2, 0.0, None, 1))


def test_log_and_explain_have_the_same_time_for_the_same_decision(invoke: Callable[..., Any], here: Path) -> None:
    """Local time and time since the first look are those that the store keeps, whenever the line was written."""
    clock = VirtualClock(3665 * 464_000 + 0.25)  # the timetable begins anew
    actuator = FakeActuator(Allocation(1), clock=clock, lateness_seconds=3.0)
    site = OperatorSite(LIMITS)
    context = PolicyContext(Topology.of_one("op"), {"op": site}, {("op",): Objective()})
    store = SqliteStore(here / "knowledge.sqlite")
    with logging_to(here / "controller.log"):
        logging.getLogger("penstock.before").info("no look yet")
        cycle = Cycle(
            source=BusyQuery(clock, actuator), monitor=Monitor("op"), guards=(),
            policy=ENTRY.make(context, {"steps": "65s@1,1h@3"}), reconciler=Reconciler("op", actuator, LIMITS),
            store=store, limits=LIMITS, objective=Objective(), mode=Mode.ACT,
        )  # fmt: skip
        Runner([cycle], clock).run(until=clock.now() + 90.0)
    store.close()
    found = json.loads(invoke("explain", str(here), "--json").stdout)
    (change,) = found["decisions"]
    log = (here / "controller.log").read_text().splitlines()
    (line,) = [line for line in log if "scale out" in line]
    shown = invoke("explain", str(here)).stdout
    moment = line.split(" ", 1)[1].split(" INFO ")[0]  # "HH:MM:SS (+m:ss)", after the date
    assert f"\n{moment}  op: scale out" in shown
    assert moment.endswith(
        f"(+{int(change['seconds_since_start']) // 60}:{int(change['seconds_since_start']) % 60:02d})"
    )
    assert change["seconds_since_start"] >= 65.0
    assert "(+" not in log[0]
    assert log[1].endswith("(+0:00) INFO penstock.loop.cycle: op: first look")


def test_a_log_whose_disk_is_full_says_later_what_is_missing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is printed across the view, the run goes on, and the log goes on with the first line that fits."""
    path, logger = here / "controller.log", logging.getLogger("penstock.running")
    path.symlink_to("/dev/full")
    with logging_to(path):
        for _ in range(3):
            logger.warning("a record waits to be kept")
        path.unlink()
        logger.warning("the disk has room again")
        logger.warning("and again")
    assert capsys.readouterr() == ("", "")
    lines = [line.split(" ", 2)[2] for line in path.read_text().splitlines()]
    assert lines == [
        "WARNING penstock.cli.log_file: 3 lines of this log could not be written: [Errno 28] No space left on device",
        "WARNING penstock.running: the disk has room again",
        "WARNING penstock.running: and again",
    ]


def test_a_log_whose_disk_is_full_at_the_end_ends_nothing(here: Path) -> None:
    """What was buffered is not tried again when the log is closed."""
    path = here / "controller.log"
    path.symlink_to("/dev/full")
    with logging_to(path):
        logging.getLogger("penstock.running").warning("a record waits to be kept")
