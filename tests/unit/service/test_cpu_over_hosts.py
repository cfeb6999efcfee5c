# SPDX-License-Identifier: Apache-2.0
"""CPU over many hosts: a sum where all is known, unknown where a host is silent, and no shares where none holds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.records import CpuReading, ExecutorShare, ExecutorState, HeldOnHost, Telemetry
from penstock.service.cpu_over_hosts import CpuOverHosts
from penstock.service.host_agents import Said


def look(*executors: str, held: tuple[str, ...] = (), cpu: CpuReading | None = None, at: float = 100.0) -> Telemetry:
    """A driver's look: its executors, which have been there for long, and those that it holds itself."""
    there = tuple(ExecutorState(one, f"w{one}", 1, True, 0, 0.0, added_at=10.0) for one in executors)
    share = ExecutorShare("app", 0.5, "driver's" if held else "", held)
    return Telemetry("a", at, executors=there, cpu=cpu, share=share)


def reading(used: float, quota: float | None, executors: int, *, at: float = 0.0) -> CpuReading:
    """The counters of a group."""
    return CpuReading(at, used, used / 10, quota, executors, None, executors)


def said(*executors: str, cpu: CpuReading | None, at: float = 100.0, faults: tuple[str, ...] = ()) -> Said:
    """What the agent of a host says."""
    return Said(at, "host w", HeldOnHost("app", executors, cpu, faults))


@pytest.fixture
def moment() -> list[float]:
    """What the clock shows."""
    return [0.0]


@pytest.fixture
def cpu(moment: list[float]) -> CpuOverHosts:
    """Nothing was seen yet."""
    return CpuOverHosts(lambda: moment[0])


def test_hosts_and_driver_are_added_up(cpu: CpuOverHosts) -> None:
    """Counters by what they rose, caps and executors as they are; the instant lies between those of the readings."""
    before = cpu.complete(
        look("1", "2", held=("1",), cpu=reading(7.0, 0.5, 1, at=100.0)),
        {"x": said("2", cpu=reading(1000.0, 0.5, 1), at=99.0), "y": said(cpu=reading(5.0, None, 0), at=98.0)},
    )
    after = cpu.complete(
        look("1", "2", held=("1",), cpu=reading(8.0, 0.5, 1, at=101.0), at=101.0),
        {"x": said("2", cpu=reading(1000.5, 0.5, 1), at=101.0), "y": said(cpu=reading(5.0, None, 0), at=101.0)},
    )
    assert before.cpu is not None
    assert after.cpu is not None
    assert (before.cpu.at, after.cpu.at) == (99.0, 101.0)
    assert (before.cpu.used_seconds, after.cpu.used_seconds) == (0.0, 1.5)
    assert after.cpu.throttled_seconds == pytest.approx(0.15)
    assert (after.cpu.quota_cores, after.cpu.executors, after.cpu.processes) == (1.0, 2, 2)
    assert (after.faults, after.why_no_shares) == ((), None)


def test_one_host_without_a_cap_means_no_cap(cpu: CpuOverHosts) -> None:
    """It is not left out of the sum, which would be a cap that is too small."""
    both = {"x": said("1", cpu=reading(1.0, 0.5, 1)), "y": said("2", cpu=reading(1.0, None, 1))}
    found = cpu.complete(look("1", "2"), both)
    assert found.cpu is not None
    assert found.cpu.quota_cores is None


def test_a_silent_host_makes_the_sum_unknown_and_never_smaller(cpu: CpuOverHosts, moment: list[float]) -> None:
    """Its executor is named; when it is back, the sum goes on from where it was."""
    both = {"x": said("1", cpu=reading(1.0, 0.5, 1)), "y": said("2", cpu=reading(1.0, 0.5, 1))}
    cpu.complete(look("1", "2"), both)
    moment[0] = 19.0
    silent = cpu.complete(look("1", "2"), {"x": said("1", cpu=reading(3.0, 0.5, 1))})
    assert (silent.cpu, silent.why_no_shares) == (None, None)
    assert silent.faults == ("the CPU of executors 2 (on w2) is not known: no agent of their hosts says it now",)
    back = cpu.complete(
        look("1", "2"), {"x": said("1", cpu=reading(4.0, 0.5, 1)), "y": said("2", cpu=reading(2.0, 0.5, 1))}
    )
    assert back.cpu is not None
    assert (back.cpu.used_seconds, back.cpu.quota_cores) == (4.0, 1.0)
    restarted = cpu.complete(
        look("1", "2"), {"x": said("1", cpu=reading(5.0, 0.5, 1)), "z": said("2", cpu=reading(0.1, 0.5, 1))}
    )
    assert restarted.cpu is not None
    assert restarted.cpu.used_seconds == 5.0  # a group that was made anew takes nothing away


def test_an_executor_that_nobody_holds_for_long_takes_shares_out_of_the_plan(
    cpu: CpuOverHosts, moment: list[float]
) -> None:
    """After twenty seconds, with its host; as soon as somebody holds it, shares are planned with again."""
    alone = {"x": said("1", cpu=reading(1.0, 0.5, 1))}
    assert cpu.complete(look("1", "2"), alone).why_no_shares is None
    moment[0] = 20.0
    found = cpu.complete(look("1", "2"), alone)
    assert found.why_no_shares is not None
    assert found.why_no_shares.startswith("executors 2 (on w2) have no CPU share: no `penstock agent` says")
    assert found.faults == (found.why_no_shares,)
    assert found.cpu is None
    held = cpu.complete(look("1", "2"), {**alone, "y": said("2", cpu=reading(0.0, 0.5, 1))})
    assert held.why_no_shares is None
    assert held.cpu is not None
    moment[0] = 30.0
    assert cpu.complete(look("1", "2"), alone).why_no_shares is None  # it counts from anew


def test_an_executor_that_has_just_come_is_waited_for(cpu: CpuOverHosts, moment: list[float]) -> None:
    """Its agent looks for it twice a second: until it is held, what the others use is known."""
    telemetry = look("1", "2")
    assert telemetry.executors is not None
    young = replace(telemetry, executors=(telemetry.executors[0], replace(telemetry.executors[1], added_at=95.0)))
    alone = {"x": said("1", cpu=reading(1.0, 0.5, 1))}
    found = cpu.complete(young, alone)
    assert found.cpu is not None
    assert found.faults == ()


def test_a_clock_that_was_set_back_makes_no_executor_young(cpu: CpuOverHosts) -> None:
    """One from the future is not waited for: until it is held, the sum is unknown, and not too small."""
    found = cpu.complete(look("1", "2", at=-3600.0), {"x": said("1", cpu=reading(1.0, 0.5, 1))})
    assert found.cpu is None
    assert found.faults == ("the CPU of executors 2 (on w2) is not known: no agent of their hosts says it now",)


def test_what_the_driver_holds_and_cannot_read_is_unknown(cpu: CpuOverHosts) -> None:
    """Also where all other hosts are known; and so is everything where the executors are not known."""
    alone = {"x": said("1", cpu=reading(1.0, 0.5, 1))}
    assert cpu.complete(look("1", "2", held=("2",)), alone).cpu is None
    assert cpu.complete(replace(look("1"), executors=None), alone).cpu is None
    assert cpu.complete(look("1"), {}).cpu is None


def test_faults_of_hosts_are_among_those_of_a_look(cpu: CpuOverHosts) -> None:
    """With the name of the host."""
    found = cpu.complete(look("1"), {"x": said("1", cpu=reading(1.0, 0.5, 1), faults=("no guard",))})
    assert found.faults == ("host w: no guard",)


def test_without_a_share_to_pass_on_nothing_changes(cpu: CpuOverHosts) -> None:
    """A query whose CPU is left alone, or whose executors are pods."""
    telemetry = replace(look("1"), share=None, cpu=reading(1.0, 0.5, 1))
    assert cpu.complete(telemetry, {}) is telemetry
