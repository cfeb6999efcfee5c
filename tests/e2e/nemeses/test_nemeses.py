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
from pathlib import Path

import pytest
from tests.e2e.nemeses.checker import check, read_counts, read_rows
from tests.e2e.nemeses.fault_plan import KINDS, plan_faults, share_of
from tests.e2e.nemeses.history import History, HistoryFile, Load
from tests.e2e.nemeses.nemesis import Nemesis
from tests.e2e.nemeses.numbered_run import KEYS, NumberedRun, surroundings
from tests.e2e.nemeses.small_disk import small_disk
from tests.e2e.nemeses.targets import drivers_of

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
    check_under_faults(tmp_path, KINDS, times=1, records=60_000, seed=SEED)


@pytest.mark.long
@pytest.mark.timeout(14_400)
@pytest.mark.parametrize("piece", range(PIECES))
def test_each_kind_of_fault_ten_times_loses_and_doubles_nothing(tmp_path: Path, piece: int) -> None:
    """A million numbers, every kind of fault ten times, in pieces: the same."""
    times, records = (share_of(piece, whole, PIECES) for whole in (TIMES, RECORDS))
    check_under_faults(tmp_path, KINDS, times=times, records=records, seed=SEED + piece)


def check_under_faults(
    folder: Path, kinds: Sequence[str], *, times: int, records: int, seed: int,
    seconds_per_fault: float = SECONDS_PER_FAULT, batches_per_fault: int = BATCHES_PER_FAULT,
) -> None:  # fmt: skip
    """Run the records through the faults and judge what came out."""
    plan = plan_faults(kinds, times, records, seed)
    most_in_batch = records // (batches_per_fault * (len(plan) + 2))
    rate = max(1, int(records / (seconds_per_fault * (len(plan) + 2))))
    records += -records % rate  # a whole number of seconds
    began = time.monotonic()
    run_folder, path = folder / "run", folder / "history.jsonl"
    with surroundings(folder) as around, small_disk(run_folder) as has_small_disk:
        with NumberedRun(run_folder, around, records, rate, most_in_batch) as run:
            run.wait_for_rows(1)
            history = HistoryFile(path, Load(records, KEYS, rate, run.epoch(), seed))
            nemesis = Nemesis(run, history, has_small_disk=has_small_disk)
            done = [nemesis.do(planned) for planned in plan]
            result = run.result()
            output = run.live.output()
        rows, counts = read_rows(run.kept), read_counts(run.counted)
        left = drivers_of(run_folder)
    verdict = check(History.read(path), rows, counts)
    print(json.dumps({**verdict.figures(), "rate": rate, "seconds": round(time.monotonic() - began),
                      "controllers": run.controllers, "failed_resumes": run.failed_resumes,
                      "restarts": {name: one["restarts"] for name, one in result["operators"].items()}}))  # fmt: skip
    assert verdict.is_good, f"{verdict.explain()}\n{output}"
    assert result["records_due"] == result["records_done"] == records, output
    assert not left, f"drivers are left: {left}"
    missing = [fault for fault in done if not fault.is_done and fault.kind != "disk full"]
    assert not missing, f"faults that found nobody: {missing}"
