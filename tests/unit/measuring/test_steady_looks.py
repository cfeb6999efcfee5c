# SPDX-License-Identifier: Apache-2.0
"""A measurement during which somebody sets the wall clock."""

from __future__ import annotations

import pytest

from penstock.clock import VirtualClock
from penstock.measuring.placed_turns import CountRules, PlacedTurn, TurnTaking
from penstock.measuring.steady_looks import SteadyLooks
from penstock.measuring.warm_up import WarmUp
from penstock.records import BatchProgress, CpuReading, Telemetry


def look(clock: VirtualClock, number: int = 1, rows: int = 10, ago: float = 0.0) -> Telemetry:
    """A batch of a second that ended a moment ago."""
    end = clock.now() - ago
    batch = BatchProgress("measured", "q", "r", number, end - 1.0, end, rows, {}, ())
    return Telemetry("measured", clock.now(), (batch,), cpu=CpuReading(clock.now(), 1.0, None, None, 1))


@pytest.mark.parametrize("seconds", [-3600.0, 3600.0])
def test_instants_go_on_evenly(seconds: float) -> None:
    """Of looks, of batches before and after, and of CPU counters; a small correction is left as it is."""
    clock = VirtualClock(100.0)
    looks = SteadyLooks(clock)
    clock.advance(9.9)
    clock.set_by(0.1)
    assert looks.steady(look(clock)) == look(clock)
    late = look(clock)
    clock.set_by(seconds)
    clock.advance(2.0)
    seen = looks.steady(Telemetry("measured", clock.now(), (*late.batches, *look(clock, 2, ago=0.5).batches)))
    assert seen.at == looks.now() == pytest.approx(111.9)
    assert [batch.ended_at for batch in seen.batches] == pytest.approx([110.0, 111.4])
    assert [batch.started_at for batch in seen.batches] == pytest.approx([109.0, 110.4])
    moved = looks.steady(look(clock))
    assert moved.cpu is not None
    assert moved.cpu.at == pytest.approx(111.9)


@pytest.mark.parametrize("seconds", [-3600.0, 3600.0])
def test_a_batch_in_which_the_clock_was_set_takes_its_time(seconds: float) -> None:
    """Spark says that it took an hour more or less. So it is when the clock is set right again."""
    clock = VirtualClock(100.0)
    looks = SteadyLooks(clock)
    for number, step in enumerate((seconds, 0.0, -seconds, 0.0)):
        started = clock.now()
        clock.advance(2.0)
        clock.set_by(step)
        clock.advance(3.0)
        batch = BatchProgress("measured", "q", "r", number, started, clock.now(), 10, {}, ())
        (seen,) = looks.steady(Telemetry("measured", clock.now(), (batch,))).batches
        assert (seen.started_at, seen.ended_at) == pytest.approx((100.0 + 5.0 * number, 105.0 + 5.0 * number))


@pytest.mark.parametrize("seconds", [-3600.0, 3600.0])
def test_a_warm_up_and_a_turn_take_their_time(seconds: float) -> None:
    """Neither an hour more nor less, and what is counted is right."""
    clock = VirtualClock(1000.0)
    looks = SteadyLooks(clock)
    warm_up = WarmUp(1, 4.0, 5.0)
    taking = TurnTaking(PlacedTurn(1, 0.0, 10), CountRules(1, 3, 3.0, 0.0), looks.now())
    found = None
    for number in range(1, 9):
        clock.advance(1.0)
        if number == 3:
            clock.set_by(seconds)
        seen = looks.steady(look(clock, number))
        warm_up.see(seen.batches[0].ended_at, 10 * number, None)
        assert warm_up.is_over(looks.now()) is (number >= 6)
        found = found or taking.see(seen.at, seen.batches, 1)
    assert found is not None
    assert found.records_per_second == pytest.approx(10.0)
