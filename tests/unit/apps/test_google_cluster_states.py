# SPDX-License-Identifier: Apache-2.0
"""The Google cluster's states without Spark: what runs, what it asks for, and the statistics over machines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.apps.google_cluster.check import differences, expected_results
from penstock.apps.google_cluster.cluster_state import COLUMNS, ClusterState, result_columns
from penstock.apps.google_cluster.events import AFTER_THE_TRACE_US, TRACE_START_US, UNITS, Event
from penstock.apps.google_cluster.generated_trace import generated_rows, write_generated
from penstock.apps.google_cluster.machine_states import MachineState, MachineStates, TaskEvent
from penstock.apps.google_cluster.results import ClusterResults
from penstock.apps.google_cluster.statistics import spread

HOUR_US = 3_600_000_000


def event(time: int, row: int, kind: Event, *, machine: int = 7, task: int = 0, cpu: int = 5) -> TaskEvent:
    """An event of a task of job 1, whose memory and disk are twice and three times its CPU."""
    return TaskEvent(time, row, machine, 1, task, int(kind), cpu, 2 * cpu, 3 * cpu)


def sums(states: list[MachineState]) -> list[tuple[int, int, int, int]]:
    """Tasks, CPU, memory and disk after each event."""
    return [(state.tasks, state.cpu, state.memory, state.disk) for state in states]


def test_a_task_runs_from_its_schedule_to_its_end() -> None:
    """SCHEDULE adds a task with its request, each kind of end takes it away, and an update replaces the request."""
    for end in (Event.EVICT, Event.FAIL, Event.FINISH, Event.KILL, Event.LOST):
        states = MachineStates().apply(
            [
                event(1, 0, Event.SCHEDULE, cpu=5),
                event(2, 1, Event.SCHEDULE, task=1, cpu=1),
                event(3, 2, Event.UPDATE_RUNNING, cpu=7),
                event(4, 3, end, cpu=7),
            ]
        )
        assert sums(states) == [(1, 5, 10, 15), (2, 6, 12, 18), (2, 8, 16, 24), (1, 1, 2, 3)]


def test_incomplete_lives_of_tasks_do_not_make_negative_sums() -> None:
    """An end without a start changes nothing, a second start replaces the first, an update shows that a task runs."""
    states = MachineStates().apply(
        [
            event(1, 0, Event.FINISH),
            event(2, 1, Event.SCHEDULE, cpu=5),
            event(3, 2, Event.SCHEDULE, cpu=6),
            event(4, 3, Event.UPDATE_RUNNING, task=1, cpu=1),
        ]
    )
    assert sums(states) == [(0, 0, 0, 0), (1, 5, 10, 15), (1, 6, 12, 18), (2, 7, 14, 21)]


def test_what_refers_to_no_running_task_changes_nothing() -> None:
    """SUBMIT, UPDATE_PENDING, rows without a machine and rows after the trace leave no trace in the state."""
    assert not MachineStates().apply(
        [
            event(1, 0, Event.SUBMIT),
            event(1, 1, Event.UPDATE_PENDING),
            event(1, 2, Event.KILL, machine=-1),
            event(AFTER_THE_TRACE_US, 3, Event.SCHEDULE),
        ]
    )


def test_events_of_one_time_count_in_the_order_of_the_file() -> None:
    """A batch may bring its events in any order; time decides, then the place in the file."""
    states = MachineStates().apply([event(5, 9, Event.FINISH), event(5, 8, Event.SCHEDULE)])
    assert [(state.row, state.tasks) for state in states] == [(8, 1), (9, 0)]


def test_a_state_goes_on_from_its_bytes_and_marks_what_comes_late() -> None:
    """What is kept between batches is enough to go on; an event older than a batch before is applied and marked."""
    first = MachineStates()
    first.apply([event(5, 2, Event.SCHEDULE)])
    states = MachineStates(first.to_bytes()).apply([event(5, 1, Event.SCHEDULE, task=1), event(6, 3, Event.FINISH)])
    assert [(state.tasks, state.is_late) for state in states] == [(2, True), (1, False)]


def rows_of(states: list[tuple[int, int, int, int]]) -> Any:
    """Rows of (time, row, machine, tasks) with requests of as many units as tasks."""
    return np.array([(*state, *(state[3],) * 3) for state in states], dtype=np.int64).reshape(-1, len(COLUMNS)).T


def test_a_result_covers_the_events_before_its_time() -> None:
    """An event at the time of a result belongs to the next; a result waits for an event of its time or later."""
    cluster = ClusterState(HOUR_US)
    assert cluster.take(rows_of([(0, 0, 1, 10), (0, 1, 2, 20)])) == []
    (first,) = cluster.take(rows_of([(TRACE_START_US, 2, 1, 11)]))
    assert (first["time_seconds"], first["machines"], first["tasks_total"]) == (0.0, 2, 30.0)
    again = ClusterState(HOUR_US, kept=cluster.to_bytes())
    second, third = again.take(rows_of([(TRACE_START_US + 2 * HOUR_US, 3, 3, 1)]))
    assert (second["time_seconds"], second["machines"], second["tasks_total"]) == (3600.0, 2, 31.0)
    assert (third["time_seconds"], third["tasks_total"], third["late_events"]) == (7200.0, 31.0, 0)


def test_lateness_waits_for_rows_out_of_order() -> None:
    """With lateness a row may come after newer ones and still be counted; without it, it is late and said to be."""
    newer, older = rows_of([(TRACE_START_US + 5, 1, 1, 1)]), rows_of([(TRACE_START_US - 5, 0, 2, 2)])
    patient = ClusterState(HOUR_US, lateness_us=10)
    assert patient.take(newer) == []
    patient.take(older)
    (result,) = patient.take(rows_of([(TRACE_START_US + 10, 2, 1, 1)]))
    assert (result["tasks_total"], result["late_events"]) == (2.0, 0)

    hasty = ClusterState(HOUR_US)
    (result,) = hasty.take(newer)
    assert result["tasks_total"] == 0.0
    hasty.take(older)
    (result,) = hasty.take(rows_of([(TRACE_START_US + HOUR_US, 2, 1, 1)]))
    assert (result["tasks_total"], result["late_events"]) == (3.0, 1)


def test_rows_in_any_order_and_copies_of_rows_give_the_same() -> None:
    """The newest row of a machine counts, whichever comes first and however often."""
    rows = rows_of([(1, 0, 1, 1), (1, 1, 1, 2), (3, 5, 1, 3), (2, 2, 2, 9), (TRACE_START_US, 9, 3, 1)])
    straight, mixed = ClusterState(HOUR_US), ClusterState(HOUR_US)
    order = [4, 1, 2, 2, 0, 3, 0]
    assert mixed.take(rows[:, order]) == straight.take(rows)


def test_statistics_are_exact() -> None:
    """Sums of requests do not depend on binary fractions; percentiles lie between the two machines next to them."""
    tenth = UNITS // 10
    found = spread(np.array([tenth, 2 * tenth, 3 * tenth]), UNITS)
    assert (found.total, found.mean, found.percentiles["median"]) == (
        0.6,
        0.2,
        0.2,
    )  # 0.1 + 0.2 + 0.3 is not, in floats
    # n = 3: rank of p75 is 1 + 0.75 x 2 = 2.5, halfway from 0.2 to 0.3; p90 2.8; p95 2.9.
    assert (found.percentiles["p75"], found.percentiles["p90"], found.percentiles["p95"]) == (0.25, 0.28, 0.29)
    assert spread(np.array([4])).percentiles == dict.fromkeys(("median", "p75", "p90", "p95"), 4.0)


def events_in(trace: list[str]) -> list[TaskEvent]:
    """The rows of a generated trace, read without the application's own reader."""
    found = []
    for row, line in enumerate(trace):
        time, _, job, task, machine, kind, _, _, _, *requests, _ = line.split(",")
        units = [round(float(text) * UNITS) if text else 0 for text in requests]
        found.append(TaskEvent(int(time), row, int(machine or -1), int(job), int(task), int(kind), *units))
    return found


@pytest.mark.parametrize("batch", [57, 1000, 100_000])
def test_whatever_the_batches_the_results_are_those_of_pandas(tmp_path: Path, batch: int) -> None:
    """Both states over a generated trace give exactly what pandas computes from the file, in batches of any size."""
    trace = write_generated(tmp_path / "trace.csv.gz", machines=20, tasks=800, seconds=4000, seed=3)
    events = events_in(generated_rows(20, 800, 4000, seed=3))
    machines, cluster = MachineStates(), ClusterState(900_000_000)
    results: list[Any] = []
    for start in range(0, len(events), batch):
        states = machines.apply(events[start : start + batch])
        rows = np.array([[getattr(s, name) for name in COLUMNS] for s in states], dtype=np.int64)
        results += cluster.take(rows.reshape(-1, len(COLUMNS)).T)
    expected = expected_results(trace)
    assert len(expected) == 5  # at 0, 900, 1800, 2700 and 3600 s
    assert not differences(ClusterResults(tuple(results)), expected)
    assert list(results[0]) == result_columns() == list(expected[0])
    assert min(result["tasks_total"] for result in results) > 100


def test_a_generated_trace_has_what_makes_the_real_one_awkward() -> None:
    """Every kind of event, missing machines and requests, exponents, equal times, machines of the snapshot; seeded."""
    rows = generated_rows(20, 800, 4000, seed=3)
    assert rows == generated_rows(20, 800, 4000, seed=3) != generated_rows(20, 800, 4000, seed=4)
    fields = [row.split(",") for row in rows]
    assert {len(row) for row in fields} == {13}
    assert {int(row[5]) for row in fields} == set(Event)
    times = [int(row[0]) for row in fields]
    assert times == sorted(times)
    assert 0 < times.count(0) < len(times)
    assert len(set(times)) < len(times) - times.count(0)
    assert any(not row[4] for row in fields)
    assert any(row[9:12] == ["", "", ""] and row[1] == "2" for row in fields)
    assert any("e-" in row[11] for row in fields)


def test_a_difference_is_named() -> None:
    """A missing result and a wrong figure are said, with the time and both values."""
    expected = [{"time_seconds": 0.0, "tasks_total": 3.0}, {"time_seconds": 900.0, "tasks_total": 4.0}]
    found = ClusterResults(({"time_seconds": 0.0, "tasks_total": 2.0},))
    assert differences(found, expected) == [
        "1 results instead of 2",
        "at 0 s: tasks_total is 2.0 instead of 3.0",
    ]
    assert differences(None, expected) == ["0 results instead of 2"]
