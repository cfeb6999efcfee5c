# SPDX-License-Identifier: Apache-2.0
"""Who leads, step by step, on a clock that is moved by hand."""

from __future__ import annotations

import pytest

from penstock.errors import AdaptorError
from penstock.knowledge.leases import MemoryLeases
from penstock.ports import Lease
from penstock.service.leadership import LEADER, Leadership


class Time:
    """A monotonic clock."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """The instant."""
        return self.now


class Candidate:
    """A master as far as leading goes."""

    def __init__(self, name: str, leases: MemoryLeases, clock: Time) -> None:
        self.said: list[str] = []
        self.agents = 1
        self.part = Leadership(
            leases,
            name,
            on_lead=lambda fence: self.said.append(f"leads {fence}"),
            on_lost=lambda: self.said.append("lost"),
            count_agents=lambda: self.agents,
            monotonic=clock,
        )


def pair() -> tuple[Time, MemoryLeases, Candidate, Candidate]:
    """Two candidates of whom the first leads."""
    clock = Time()
    leases = MemoryLeases(clock)
    first, second = Candidate("first", leases, clock), Candidate("second", leases, clock)
    first.part.step()
    second.part.step()
    return clock, leases, first, second


def test_one_leads_for_as_long_as_it_renews() -> None:
    """The other one waits, however long that is."""
    clock, _, first, second = pair()
    for _ in range(20):
        clock.now += 1.0
        first.part.step()
        second.part.step()
    assert (first.said, second.said) == (["leads 1"], [])
    assert first.part.is_leading
    assert not second.part.is_leading


def test_a_master_that_waits_says_once_for_whom(caplog: pytest.LogCaptureFixture) -> None:
    """Who starts a second one sees that it works, and which one leads."""
    clock, _, first, second = pair()
    first.part.step()
    clock.now += 1.0
    second.part.step()
    said = [record.getMessage() for record in caplog.records if "second" in record.getMessage()]
    assert said == ["second waits: first leads"]


def test_masters_of_one_address_do_not_lead_together() -> None:
    """On two hosts both may listen at 0.0.0.0:7071: the second waits, and has a fencing number of its own."""
    clock = Time()
    leases = MemoryLeases(clock)
    first, second = (Candidate("0.0.0.0:7071", leases, clock) for _ in range(2))
    for candidate in (first, second, first, second):
        candidate.part.step()
    assert (first.said, second.said) == (["leads 1"], [])
    leader = second.part.leader()
    assert leader is not None
    assert (leader.holder, leader.fence) == ("0.0.0.0:7071", 1)
    clock.now += 4.1
    second.part.step()
    assert second.said == ["leads 2"]


def test_a_leader_that_was_stopped_knows_at_once_that_its_time_is_over() -> None:
    """It does not lead by its own clock, before it has asked anybody; then it says so once."""
    clock, _, first, second = pair()
    clock.now += 4.1
    assert not first.part.is_leading
    second.part.step()
    assert second.said == ["leads 2"]
    first.part.step()
    assert first.said == ["leads 1", "lost"]
    assert (first.part.fence, second.part.fence) == (0, 2)


def test_a_leader_without_its_store_gives_up_when_the_lease_is_over(caplog: pytest.LogCaptureFixture) -> None:
    """Until then it leads; it says why, once; it comes back with another number."""
    clock = Time()

    class Broken(MemoryLeases):
        """A store that can be out of reach."""

        is_broken = False

        def take_lease(self, name: str, holder: str, seconds: float) -> Lease | None:
            """Fail, or not."""
            if self.is_broken:
                raise AdaptorError("no way to the store", target="store")
            return super().take_lease(name, holder, seconds)

    leases = Broken(clock)
    only = Candidate("only", leases, clock)
    only.part.step()
    leases.is_broken = True
    clock.now += 3.0
    only.part.step()
    assert only.part.is_leading
    clock.now += 1.5
    only.part.step()
    assert only.said == ["leads 1", "lost"]
    assert only.part.why_not == "this master cannot lead: no way to the store"  # and not that another one does
    for _ in range(10):
        only.part.step()
    assert caplog.text.count("no way to the store") == 1  # not once a second, for as long as it lasts
    leases.is_broken = False
    only.part.step()
    assert only.said == ["leads 1", "lost", "leads 2"]
    assert only.part.trouble is None
    assert "again" in caplog.text


def test_a_leader_that_no_agent_reaches_steps_back_for_one_that_they_knock_at() -> None:
    """Without a knock it stays, for there may be no agents at all."""
    clock, _, first, second = pair()
    first.agents = 0
    for _ in range(6):
        clock.now += 1.0
        first.part.step()
        second.part.step()
    assert first.part.is_leading
    second.part.knock()
    second.part.step()
    clock.now += 1.0
    first.part.step()
    assert first.said == ["leads 1", "lost"]
    second.part.step()
    assert second.said == ["leads 2"]
    clock.now += 1.0
    first.part.step()
    held = first.part.leader()
    assert held is not None
    assert held.holder == "second"


def test_ending_gives_the_lease_back() -> None:
    """The next one need not wait."""
    _, leases, first, second = pair()
    first.part.__exit__()
    assert leases.lease(LEADER) is None
    second.part.step()
    assert second.said == ["leads 2"]
