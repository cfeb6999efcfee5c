# SPDX-License-Identifier: Apache-2.0
"""CPU shares on hosts that are not the driver's: real masters, real agents and the real kernel, in namespaces.

The executors are busy processes with an executor's command line. Each test leaves the world as it found it: a master
leads, both hosts have their agent, and every executor has a tenth of a core.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.geo_root import needs_namespaces
from tests.integration.hosts_in_namespaces import AGENT_PORTS, OPEN, HostWorld, until

from penstock.adaptors.agent.wire import HoldShares, Refusal, SharesHeld
from penstock.adaptors.cgroups import CgroupsUnavailableError, find_hierarchy
from penstock.records import ExecutorShare

pytestmark = [pytest.mark.namespaces, pytest.mark.cgroups, needs_namespaces]

HELD = {"one": 0.1, "two": 0.1}
LEASE_SECONDS = 5.0
SLACK_SECONDS = 5.0
"""A word comes every second, and a busy machine is no fault of the code."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostWorld]:
    """A world with an executor on each host, held to their shares."""
    try:
        find_hierarchy()
    except CgroupsUnavailableError as fault:
        pytest.skip(fault.reason)
    with HostWorld(tmp_path_factory.mktemp("hosts")) as world:
        world.start_master(AGENT_PORTS[0])
        until(lambda: world.leading_port == AGENT_PORTS[0], "the lead")
        world.start_master(AGENT_PORTS[1])
        for number, host in enumerate(world.hosts.values(), start=1):
            host.start_executor(str(number))
            host.start_agent()
        world.start_driver()
        yield world
        groups = [group for host in world.hosts.values() for group in host.groups]
        guards = [host.guard_pid for host in world.hosts.values()]
    assert groups
    assert not [group for group in groups if group.exists()], "agents that end in order leave groups behind"
    assert not [guard for guard in guards if Path(f"/proc/{guard}").exists()]


@pytest.fixture
def world(made: HostWorld) -> HostWorld:
    """The same, once all executors are held."""
    until(lambda: made.caps == HELD, f"the shares of all executors (there are {made.caps})")
    return made


def test_a_share_is_set_on_both_hosts_and_their_cpu_is_one_sum(world: HostWorld) -> None:
    """The kernel throttles on both, the master sees the use of both together, and metrics of both hosts come in."""
    until(lambda: len(busy := measured(world, "host_busy")) == 2 and None not in busy, "the load of both hosts")
    assert all(0.0 <= busy <= 1.0 for busy in measured(world, "host_busy") if busy is not None)
    until(lambda: all((used or 0.0) > 0.0 for used in measured(world, "groups_cpu_used")), "the CPU of their groups")
    held = [one["shares"]["held"][world.application] for one in hosts_seen(world)]
    assert [(one["executors"], one["quota_cores"]) for one in held] == [(["1"], 0.1), (["2"], 0.1)]
    for host in world.hosts.values():
        (group,) = host.groups
        stat = group / "cpu.stat"
        before = stat.read_text()
        until(lambda stat=stat, before=before: stat.read_text() != before, "throttling")  # type: ignore[misc]
    until(lambda: 0.1 < (world.observed().get("cpu_used") or 0.0) < 0.25, "the CPU of both")
    assert world.observed().get("cpu_share") == 0.1


def test_an_executor_that_comes_to_a_host_is_held_there(world: HostWorld) -> None:
    """Nobody tells the host of it; its quota is that of two then, and of one again when it has ended."""
    two = world.hosts["two"]
    two.start_executor("3")
    try:
        until(lambda: world.caps == {"one": 0.1, "two": 0.2}, "the quota of two executors")
        pid = next(pid for pid in group_pids(two.groups[0]) if "\0003\0" in command_line(pid))
        assert pid
    finally:
        two.end_executor("3")
    until(lambda: world.caps == HELD, "the quota of one")


@pytest.mark.kill
def test_caps_open_within_the_lease_when_no_master_is_left(world: HostWorld) -> None:
    """Both are killed: both hosts lift their caps and keep their groups; the next leader sets them again."""
    for port in AGENT_PORTS:
        world.kill_master(port)
    took = until(lambda: world.caps == {"one": OPEN, "two": OPEN}, "open caps")
    assert took < LEASE_SECONDS + SLACK_SECONDS
    for port in AGENT_PORTS:
        world.start_master(port)
    until(lambda: world.caps == HELD, "the shares, by a new leader")


@pytest.mark.kill
def test_the_other_master_takes_the_hosts_over(world: HostWorld) -> None:
    """The leader is killed: the other one, with a larger fencing number, holds the executors to the same shares."""
    before, port = world.leader(), world.leading_port
    assert before is not None
    assert port is not None
    world.kill_master(port)
    until(lambda: (now := world.leader()) is not None and now.fence > before.fence, "another leader")
    until(lambda: world.caps == HELD and held_by_leader(world), "the shares, by the other master")
    world.start_master(port)


@pytest.mark.kill
def test_a_killed_agent_is_cleaned_up_by_its_guard_and_the_sum_is_unknown(world: HostWorld) -> None:
    """The group of its host is gone and the other host's stays; nothing is planned until the CPU is known again."""
    two = world.hosts["two"]
    two.kill_agent()
    took = until(lambda: two.cap is None, "the work of the guard")
    assert took < LEASE_SECONDS + SLACK_SECONDS
    assert world.hosts["one"].cap == 0.1
    until(lambda: "the CPU of executors 2 (on two) is not known" in str(world.query().get("missing")), "an unknown CPU")
    assert world.observed().get("cpu_share") is None
    two.start_agent()
    until(lambda: world.caps == HELD, "the shares, by the next agent")
    until(lambda: world.observed().get("cpu_share") == 0.1, "a known CPU")


@pytest.mark.kill
def test_what_a_killed_agent_and_its_killed_guard_leave_is_swept_by_the_next_agent(world: HostWorld) -> None:
    """The group stays capped with nobody to lift it, until the next `penstock agent` of that host begins."""
    one = world.hosts["one"]
    (left,), agent, guard = one.groups, one.agent_pid, one.guard_pid
    os.kill(agent, signal.SIGSTOP)  # so that it cannot start another guard
    os.kill(guard, signal.SIGKILL)
    one.kill_agent()
    time.sleep(1.0)
    assert one.cap == 0.1
    said = one.start_agent()
    until(lambda: not left.exists(), "the sweep")
    until(lambda: world.caps == HELD, "the shares")
    assert "that a dead one left behind" in said.log.read_text()


@pytest.mark.kill
def test_a_hung_agent_loses_its_caps_and_takes_them_up_again(world: HostWorld) -> None:
    """Its guard lifts the cap of its host while it is stopped."""
    one = world.hosts["one"]
    os.kill(one.agent_pid, signal.SIGSTOP)
    try:
        took = until(lambda: one.cap == OPEN, "the work of the guard")
    finally:
        os.kill(one.agent_pid, signal.SIGCONT)
    assert took < LEASE_SECONDS + SLACK_SECONDS
    until(lambda: world.caps == HELD, "the shares")


@pytest.mark.kill
def test_caps_open_when_the_driver_is_killed(world: HostWorld) -> None:
    """Nobody is left who could say what its executors should have; a driver that comes back has them held again."""
    world.kill_driver()
    took = until(lambda: world.caps == {"one": OPEN, "two": OPEN}, "open caps")
    assert took < LEASE_SECONDS + SLACK_SECONDS
    world.start_driver()
    until(lambda: world.caps == HELD, "the shares")


@pytest.mark.kill
def test_orders_of_a_deposed_master_are_refused(world: HostWorld) -> None:
    """One that knows the token and has an older number is not served; with a lie at first it gets no further."""
    leader = world.leader()
    assert leader is not None
    for port in AGENT_PORTS:
        world.kill_master(port)
    for host in world.hosts.values():
        refused = world.pretend_to_lead(host, accept_with=leader.fence - 1)
        assert refused.receive() is None
        refused.close()
        lying = world.pretend_to_lead(host, accept_with=leader.fence)
        lying.send(HoldShares(leader.fence - 1, [ExecutorShare(world.application, 0.02)]))
        answer = lying.receive()
        assert isinstance(answer, Refusal)
        assert answer.kind == "deposed"
        assert host.cap in (0.1, OPEN)
        lying.send(HoldShares(leader.fence, [ExecutorShare(world.application, 0.02)]))  # that number is still in force
        assert isinstance(lying.receive(), SharesHeld)
        assert host.cap == 0.02
        lying.close()
    for port in AGENT_PORTS:
        world.start_master(port)
    until(lambda: world.caps == HELD, "the shares, by a leader")


def hosts_seen(world: HostWorld) -> list[dict[str, Any]]:
    """The agents of hosts that the leader has."""
    found = world.agents()
    return [found[name] for name in sorted(found) if name.startswith("host ")]


def measured(world: HostWorld, metric: str) -> list[float | None]:
    """A metric of the hosts, as the leader has it."""
    return [one["metrics"].get(metric, {}).get("value") for one in hosts_seen(world)]


def held_by_leader(world: HostWorld) -> bool:
    """Whether the leader knows that both hosts hold an executor."""
    held = [one["shares"]["held"].get(world.application, {}) for one in hosts_seen(world)]
    return [one.get("quota_cores") for one in held] == [0.1, 0.1]


def group_pids(group: Path) -> list[int]:
    """The processes in a group."""
    return [int(pid) for pid in (group / "cgroup.procs").read_text().split()]


def command_line(pid: int) -> str:
    """The words of a process, each with a zero byte behind it."""
    return Path(f"/proc/{pid}/cmdline").read_text()
