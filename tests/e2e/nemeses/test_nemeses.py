# SPDX-License-Identifier: Apache-2.0
"""Numbered records go through a pipeline on real Spark and Kafka under MEAD while everything is harmed, over and over.

Executors, drivers, workers, the broker, the controller and its warden are killed with signal 9, and stopped for some
seconds. The disk of the run folder is full, the controller's clock is set, the network to the broker is cut. A seed
gives the order. Every fault is written to `history.jsonl` beside the run, and `checker` judges what came out. The long
run may be done in pieces, each with a seed of its own; each prints its figures as one line of JSON.

Not imitated: power cuts (what the kernel has not written is not lost), broken packets, two machines that see each other
while neither sees a third, and a wall clock that is set for drivers and executors too.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.e2e.control_history import ControlHistory
from tests.e2e.nemeses.checker import check, read_counts, read_rows
from tests.e2e.nemeses.fault_plan import KINDS, plan_faults, share_of
from tests.e2e.nemeses.history import History, HistoryFile, Load
from tests.e2e.nemeses.nemesis import Nemesis
from tests.e2e.nemeses.numbered_run import (
    KEYS,
    OPERATORS,
    POLICY,
    TRIGGER_SECONDS,
    NumberedRun,
    Sending,
    even,
    surroundings,
    waves,
)
from tests.e2e.nemeses.small_disk import small_disk
from tests.e2e.nemeses.targets import drivers_of

from penstock.evaluation.source_version import source_version

pytestmark = [
    pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka, pytest.mark.cgroups, pytest.mark.kill,
]  # fmt: skip

SEED = int(os.environ.get("PENSTOCK_NEMESIS_SEED", "20261117"))
RECORDS = int(os.environ.get("PENSTOCK_NEMESIS_RECORDS", "1000000"))
TIMES = int(os.environ.get("PENSTOCK_NEMESIS_TIMES", "10"))
PIECES = int(os.environ.get("PENSTOCK_NEMESIS_PIECES", "5"))
"""Consecutive runs with a seed each, which share the records and the times: one that passed counts whatever follows."""
OF_EACH_SORT = (
    "executor killed", "driver killed", "controller killed", "controller stopped", "disk full", "clock stepped",
    "network cut",
)  # fmt: skip
"""Of each sort of fault one that is quick to get over; all kinds are in the long tests."""
SECONDS_PER_FAULT = 20.0
"""How long the load lasts for each fault: where recovery takes no longer, records arrive until the end of the run."""
BATCHES_PER_FAULT = 2
"""Batches are capped: they leave records for the last fault however long operators are away."""
CALM_BATCHES = 40
"""Before the first fault, where MEAD has to change something before it: its first plan needs 28 batches."""
RUSH_CORES = 0.6
"""What the records of a rush take of the CPU: more than half an executor, and less than one."""
CHANGE_SECONDS = 900.0
"""How long MEAD may take for its first change. The bound only ends a failing test."""


@pytest.mark.timeout(1800)
def test_faults_of_each_sort_lose_and_double_nothing(tmp_path: Path) -> None:
    """60,000 numbers, seven kinds of faults: each number comes out once, in its place, and all counts are exact."""
    # Records go on coming out while a clock is set or a disk is full: smaller batches leave some for the last fault.
    check_under_faults(
        tmp_path, OF_EACH_SORT, times=1, records=60_000, seed=SEED, seconds_per_fault=8.0, batches_per_fault=6
    )


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_each_kind_of_fault_once_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """60,000 numbers, every kind of fault once: each number comes out once, in its place, and all counts are exact."""
    check_under_faults(tmp_path, KINDS, times=1, records=60_000, seed=SEED, must_change=True)


@pytest.mark.long
@pytest.mark.timeout(14_400)
@pytest.mark.parametrize("piece", range(PIECES))
def test_each_kind_of_fault_ten_times_loses_and_doubles_nothing(tmp_path: Path, piece: int) -> None:
    """A million numbers, every kind of fault ten times, in pieces: the same."""
    times, records = (share_of(piece, whole, PIECES) for whole in (TIMES, RECORDS))
    check_under_faults(tmp_path, KINDS, times=times, records=records, seed=SEED + piece, must_change=True)


def check_under_faults(
    folder: Path, kinds: Sequence[str], *, times: int, records: int, seed: int,
    seconds_per_fault: float = SECONDS_PER_FAULT, batches_per_fault: int = BATCHES_PER_FAULT,
    must_change: bool = False,
) -> None:  # fmt: skip
    """Run the records through the faults and judge what came out, and what MEAD did.

    With `must_change` the load rises and falls, and no fault comes before MEAD has changed something.
    """
    plan = plan_faults(kinds, times, records, seed)
    sending = what_is_sent(records, len(plan) + 2, seconds_per_fault, batches_per_fault, must_change=must_change)
    records, began = sending.records, time.monotonic()
    run_folder, path = folder / "run", folder / "history.jsonl"
    with surroundings(folder) as around, small_disk(run_folder) as has_small_disk:
        with NumberedRun(run_folder, around, sending) as run:
            run.wait_for_rows(1)
            history = HistoryFile(path, Load(records, KEYS, sending.steps, run.epoch(), seed))
            if must_change:
                run.wait_for("a change by MEAD before the first fault", lambda: has_changed(run_folder), CHANGE_SECONDS)
            nemesis = Nemesis(run, history, has_small_disk=has_small_disk)
            done = [nemesis.do(planned) for planned in plan]
            result = run.result()
            output = run.live.output()
            control = ControlHistory.read(run_folder)
        rows, counts = read_rows(run.kept), read_counts(run.counted)
        left = drivers_of(run_folder)
    verdict = check(History.read(path), rows, counts)
    figures = {
        "date": datetime.now(UTC).date().isoformat(), **source_version(), **verdict.figures(),
        "changes": control.changes(), "steps": sending.steps, "seconds": round(time.monotonic() - began),
        "controllers": run.controllers, "failed_resumes": run.failed_resumes,
        "restarts": {name: one["restarts"] for name, one in result["operators"].items()},
    }  # fmt: skip
    print(json.dumps(figures))
    assert verdict.is_good, f"{verdict.explain()}\n{output}"
    assert result["records_due"] == result["records_done"] == records, output
    assert not left, f"drivers are left: {left}"
    wrong = control.why_not_scaled(POLICY, OPERATORS, must_change=must_change)
    assert not wrong, f"{wrong}\n{output}"
    missing = [fault for fault in done if not fault.is_done and fault.kind != "disk full"]
    assert not missing, f"faults that found nobody: {missing}"


def what_is_sent(
    records: int, parts: int, seconds_of_part: float, batches_of_part: int, *, must_change: bool
) -> Sending:  # fmt: skip
    """The load of a run for which so many faults are planned, and two more parts for its beginning and end."""
    if not must_change:
        return Sending(even(records, seconds_of_part * parts), records // (batches_of_part * parts))
    steps = waves(records, seconds_of_part * parts + CALM_BATCHES * TRIGGER_SECONDS)
    rush = max(rate for _, rate in steps)
    return Sending(steps, records // (batches_of_part * parts + CALM_BATCHES), 1000.0 * RUSH_CORES / rush)


def has_changed(run_folder: Path) -> bool:
    """Whether a change that was decided on has been carried out."""
    return any(action.decision_id is not None for action, _ in ControlHistory.read(run_folder).carried_out())
