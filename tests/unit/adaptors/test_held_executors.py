# SPDX-License-Identifier: Apache-2.0
"""Which way an application's executors are held."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.adaptors.kubernetes.test_pod_memory import MIB, cluster, run_out

from penstock.adaptors import cgroups, cpu_shares
from penstock.adaptors.cgroups import CgroupsUnavailableError
from penstock.adaptors.cpu_shares import HeldExecutors, SharedApplication, hold_executors
from penstock.adaptors.kubernetes.api import ClusterAccess
from penstock.adaptors.kubernetes.pod_memory import MEMORY_SETTING
from penstock.adaptors.kubernetes.pod_watch import PodFollower, PodsSeen
from penstock.errors import ConfigurationError
from penstock.records import Limits

SHARES = Limits(1, 2, (0.5, 1.0))


def held(master: str, limits: Limits, cores: int | None = 1) -> HeldExecutors:
    """The executors of an application on this master."""
    return hold_executors(SharedApplication("app", master, {}, cores), "counts", limits, lambda: None)


def test_where_no_shares_are_wanted_the_host_is_left_alone() -> None:
    """Nothing is opened, and closing does nothing."""
    found = held("spark://h:7077", Limits(1, 2))
    assert found == HeldExecutors(why_no_shares="no CPU shares are among the limits")
    found.close()


def test_without_the_number_of_cores_there_are_no_shares() -> None:
    """The note names the setting."""
    (note,) = held("spark://h:7077", SHARES, cores=None).notes
    assert note.startswith("CPU shares are not used, executors alone are scaled: ")
    assert "set spark.executor.cores" in note


def test_why_control_groups_cannot_be_used_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors alone are scaled then."""

    def refuse() -> Any:
        raise CgroupsUnavailableError("no rights here")

    monkeypatch.setattr(cgroups, "find_hierarchy", refuse)
    found = held("spark://h:7077", SHARES)
    assert found.shares is None
    assert found.notes == ("CPU shares are not used, executors alone are scaled: no rights here",)


@pytest.mark.parametrize(
    ("limits", "begin"), [(SHARES, "CPU shares are not used"), (Limits(1, 2), "executors' pods are not seen")]
)
def test_pods_that_cannot_be_seen_are_a_note_and_control_groups_are_no_way_out(
    monkeypatch: pytest.MonkeyPatch, limits: Limits, begin: str
) -> None:
    """On Kubernetes the driver's host has no executors: its control groups are not touched."""

    def refuse(_: ClusterAccess) -> Any:
        raise ConfigurationError("no login for the Kubernetes API was found", field="kubernetes")

    monkeypatch.setattr(ClusterAccess, "connect", refuse)
    monkeypatch.setattr(cgroups, "find_hierarchy", lambda: pytest.fail("control groups were asked for"))
    found = held("k8s://https://h:6443", limits)
    (note,) = found.notes
    assert note.startswith(begin)
    assert "no login for the Kubernetes API" in note
    assert (found.shares, found.watch) == (None, None)


def test_pods_are_looked_at_no_more_where_their_shares_cannot_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has the watch then to stop it."""
    watches: list[RecordingWatch] = []

    def pods(*_: object) -> RecordingWatch:
        watches.append(RecordingWatch())
        return watches[-1]

    def fail(*_: object) -> Any:
        raise ConfigurationError("cpu: '1X' is no amount of CPU", field="cpu")

    monkeypatch.setattr(cpu_shares, "_pods", pods)
    monkeypatch.setattr(cpu_shares, "_of_pods", fail)
    with pytest.raises(ConfigurationError, match="1X"):
        held("k8s://https://h:6443", SHARES)
    assert [watch.is_stopped for watch in watches] == [True]


def test_memory_is_raised_where_the_job_says_how_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """The setting among those of Spark is enough: after an executor ran out of memory others get more, up to that."""
    pods = cluster("1", "2")
    run_out(pods, "2")
    monkeypatch.setattr(cpu_shares, "executor_pods", lambda _: pods)

    def follower_of(conf: dict[str, str]) -> PodFollower | None:
        application = SharedApplication("app", "k8s://https://h:6443", conf, 1)
        found = hold_executors(application, "counts", Limits(1, 2), lambda: None)
        found.close()  # so that no thread looks beside the test
        assert found.watch is not None
        return found.watch._follower

    assert follower_of({}) is None
    memory = follower_of({MEMORY_SETTING: "900m"})
    assert memory is not None
    memory.see(PodsSeen(0.0, 0.0, pods.all()))
    assert pods.memories == [("1", 900 * MIB)]


class RecordingWatch:
    """Notes whether it was stopped."""

    is_stopped = False

    def stop(self) -> None:
        """Look no more."""
        self.is_stopped = True
