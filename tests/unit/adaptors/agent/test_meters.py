# SPDX-License-Identifier: Apache-2.0
"""Metrics that are read where somebody wants them: of the user's own, of executors, of state and of a host."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.adaptors.agent import meters as own
from penstock.adaptors.agent.metered_source import MeteredSource
from penstock.adaptors.agent.meters import Meters, add_own_metrics
from penstock.adaptors.host_meters import GroupUse, HostUse, host_meters
from penstock.adaptors.spark.meters import TaskMeters, state_of
from penstock.errors import ConfigurationError
from penstock.measuring.disturbance import HostReading
from penstock.records import Telemetry
from penstock.testing.fakes import FakeMetricSource


@pytest.fixture(autouse=True)
def nobodys_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test begins without metrics of the user's own."""
    monkeypatch.setattr(own, "_own", {})


def test_a_metric_of_the_users_own_is_offered_once_and_may_be_replaced() -> None:
    """Its name gets a prefix; the newest function counts."""
    meters = Meters()
    penstock.metric("sessions", lambda: 1, unit="sessions")
    assert add_own_metrics(meters)
    assert not add_own_metrics(meters)
    penstock.metric("sessions", lambda: 2)
    assert meters.sample(["own_sessions"]) == {"own_sessions": 2.0}
    assert [(offer.name, offer.unit) for offer in meters.offers] == [("own_sessions", "sessions")]


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), "7", True, [1]])
def test_what_is_no_number_is_none(value: Any) -> None:
    """Never zero, and never an error."""
    meters = Meters()
    meters.add_own("odd", "", lambda: value)
    assert meters.sample(["own_odd"]) == {"own_odd": None}


@pytest.mark.parametrize("name", ["", "Sessions", "a b", "a-b", "ä", "x" * 101, 7])
def test_names_that_rules_could_not_write_are_refused(name: Any) -> None:
    """The error names the field and the fix."""
    with pytest.raises(ConfigurationError, match="lower-case"):
        penstock.metric(name, lambda: 1)
    with pytest.raises(ConfigurationError, match="cannot be called"):
        penstock.metric("fine", 7)  # type: ignore[arg-type]


def test_only_what_is_wanted_is_read() -> None:
    """A metric that nobody has subscribed to costs nothing."""
    called: list[str] = []
    meters = Meters()
    meters.add_known(["heap_used"], lambda: called.append("heap") or {"heap_used": 1.0})  # type: ignore[func-returns-value]
    meters.add_known(["state_rows", "state_memory"], lambda: {"state_rows": 5.0, "state_memory": None})
    assert meters.sample(["state_rows"]) == {"state_rows": 5.0}
    assert called == []
    with pytest.raises(ConfigurationError, match="already"):
        meters.add_known(["heap_used"], dict)


def test_a_local_source_brings_what_is_subscribed_to_at_its_period() -> None:
    """Between two periods the newest value stands."""
    moment, reads = [0.0], [0]

    def read() -> float:
        reads[0] += 1
        return float(reads[0])

    meters = Meters()
    meters.add_own("depth", "", read)
    source = MeteredSource(FakeMetricSource([Telemetry("a", 1.0)] * 4), meters, monotonic=lambda: moment[0])
    assert source.collect().metrics == {}
    source.subscribe(["own_depth"], 5.0)
    assert source.collect().metrics == {"own_depth": 1.0}
    assert source.collect().metrics == {"own_depth": 1.0}
    moment[0] = 5.0
    assert source.collect().metrics == {"own_depth": 2.0}


def an_executor(name: str, tasks_ms: int, gc_ms: int, heap: int = 0) -> dict[str, Any]:
    """An executor as Spark's REST interface lists it."""
    return {
        "id": name, "totalCores": 0 if name == "driver" else 2, "totalDuration": tasks_ms, "totalGCTime": gc_ms,
        "peakMemoryMetrics": {"JVMHeapMemory": heap},
    }  # fmt: skip


def test_tasks_are_compared_since_the_last_reading() -> None:
    """3 s and 1 s of tasks: the busiest has 1.5 times the mean; 0.4 s of 4 s went into garbage collection."""
    looks = [
        [an_executor("driver", 9, 9), an_executor("1", 1000, 100, 50), an_executor("2", 1000, 0, 70)],
        [an_executor("driver", 9, 9), an_executor("1", 4000, 400, 60), an_executor("2", 2000, 100, 70)],
        [an_executor("1", 4000, 400, 60), an_executor("2", 2000, 100, 70)],
    ]
    meters = TaskMeters(lambda: looks.pop(0))
    assert meters.read() == {"executor_heap_peak": 70.0, "gc_time": None, "task_skew": None}
    assert meters.read() == {"executor_heap_peak": 70.0, "gc_time": pytest.approx(0.1), "task_skew": pytest.approx(1.5)}
    assert meters.read() == {"executor_heap_peak": 70.0, "gc_time": None, "task_skew": None}


def test_state_is_summed_over_operators_and_none_without() -> None:
    """A query without state has no number, not zero."""
    progress = {
        "stateOperators": [{"numRowsTotal": 3, "memoryUsedBytes": 10}, {"numRowsTotal": 4, "memoryUsedBytes": 5}]
    }
    assert state_of(progress) == {"state_rows": 7.0, "state_memory": 15.0}
    assert state_of({"stateOperators": []}) == state_of(None) == {"state_rows": None, "state_memory": None}


def test_the_hosts_cpu_is_what_was_used_since_the_last_reading() -> None:
    """6 s busy, 3 s idle and 1 s stolen of ten."""
    readings = [HostReading(0.0, 2, 10.0, 10.0, 0.0, 3, None), HostReading(5.0, 2, 16.0, 13.0, 1.0, 4, None)]
    use = HostUse(lambda: readings.pop(0))
    assert use.read() == {"host_busy": None, "host_steal": None, "host_runnable": 3.0}
    assert use.read() == {"host_busy": 0.6, "host_steal": 0.1, "host_runnable": 4.0}


@pytest.mark.parametrize("version", [1, 2])
def test_control_groups_of_penstock_are_found_wherever_they_lie(tmp_path: Path, version: int) -> None:
    """One core used, and held back for a tenth of the time; other groups do not count."""
    moment = [0.0]

    def write(used: float, throttled: float) -> None:
        for parent, name in ((tmp_path / "user.slice" / "penstock", "run-op"), (tmp_path / "other", "run-op")):
            folder = parent / name
            folder.mkdir(parents=True, exist_ok=True)
            if version == 2:
                text = f"usage_usec {int(used * 1e6)}\nthrottled_usec {int(throttled * 1e6)}\n"
            else:
                text = f"nr_periods 1\nthrottled_time {int(throttled * 1e9)}\n"
                (folder / "cpuacct.usage").write_text(str(int(used * 1e9)))
            (folder / "cpu.stat").write_text(text)

    use = GroupUse(tmp_path, monotonic=lambda: moment[0])
    write(5.0, 1.0)
    assert use.read() == {"groups_cpu_used": None, "groups_throttled": None}
    write(15.0, 2.0)
    moment[0] = 10.0
    assert use.read() == {"groups_cpu_used": pytest.approx(1.0), "groups_throttled": pytest.approx(0.1)}


def test_groups_that_were_made_anew_give_no_value(tmp_path: Path) -> None:
    """Counters that begin again say nothing of the time since the last look: not zero, and not less than that."""
    moment = [0.0]
    use = GroupUse(tmp_path, monotonic=lambda: moment[0])

    def read(name: str, used: float) -> dict[str, float | None]:
        moment[0] += 10.0
        (tmp_path / "penstock" / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / "penstock" / name / "cpu.stat").write_text(f"usage_usec {int(used * 1e6)}\nthrottled_usec 0\n")
        return use.read()

    unknown = {"groups_cpu_used": None, "groups_throttled": None}
    assert read("one", 50.0) == unknown
    assert read("one", 1.0) == unknown
    shutil.rmtree(tmp_path / "penstock" / "one")
    assert read("other", 2.0) == unknown
    assert read("other", 7.0) == {"groups_cpu_used": pytest.approx(0.5), "groups_throttled": 0.0}


def test_cpu_that_is_counted_in_a_tree_of_its_own_is_found(tmp_path: Path) -> None:
    """With cgroup v1 the controllers may be mounted apart, and a group be at another place in each tree."""
    moment = [0.0]
    use = GroupUse(tmp_path, monotonic=lambda: moment[0])
    capped, counting = tmp_path / "cpu/service/penstock/run-op", tmp_path / "cpuacct/penstock/run-op"
    for folder in (capped, counting):
        folder.mkdir(parents=True)
    for now in (0.0, 10.0):
        moment[0] = now
        (capped / "cpu.stat").write_text(f"nr_periods 1\nthrottled_time {int(0.2 * now * 1e9)}\n")
        (counting / "cpuacct.usage").write_text(str(int(0.5 * now * 1e9)))
        found = use.read()
    assert found == {"groups_cpu_used": pytest.approx(0.5), "groups_throttled": pytest.approx(0.2)}


def test_all_parts_of_a_control_group_count(tmp_path: Path) -> None:
    """With cgroup v2 a group has a part of the same name in each cgroup that holds executors: their CPU adds up."""
    moment = [0.0]
    use = GroupUse(tmp_path, monotonic=lambda: moment[0])
    for now, used in ((0.0, (1.0, 2.0)), (10.0, (6.0, 22.0))):
        moment[0] = now
        for service, seconds in zip(("a.service", "b.service"), used, strict=True):
            folder = tmp_path / service / "penstock" / "run-op"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "cpu.stat").write_text(f"usage_usec {int(seconds * 1e6)}\nthrottled_usec 0\n")
        found = use.read()
    assert found["groups_cpu_used"] == pytest.approx(2.5)


def test_this_host_can_be_measured() -> None:
    """The real kernel answers."""
    meters = host_meters()
    names = [offer.name for offer in meters.offers]
    meters.sample(names)
    found = meters.sample(names)
    assert found["host_runnable"] is not None
    assert found["host_memory_available"]
