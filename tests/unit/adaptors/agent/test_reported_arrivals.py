# SPDX-License-Identifier: Apache-2.0
"""Arrival times on their way from an agent to a master: as exact as the source knows them, and bounded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.adaptors.agent.arrival_report import ArrivalReport, Reported
from penstock.adaptors.agent.client import RemoteOperator
from penstock.adaptors.agent.instants import packed, unpacked
from penstock.adaptors.agent.reported_arrivals import ReportedArrivals, TimedReportedArrivals, reported_arrivals
from penstock.adaptors.agent.server import OperatorAgent
from penstock.adaptors.agent.wire import (
    MOST_COUNTED,
    MOST_INSTANTS,
    Collected,
    Instants,
    MalformedMessageError,
    frame_of,
    read_from_agent,
)
from penstock.arrivals import ReplayArrivals, parse_shape
from penstock.errors import MetricSourceError
from penstock.monitor.batch_arrivals import ArrivalResolver
from penstock.ports import FloatArray
from penstock.records import BatchProgress, SourceProgress, Telemetry
from penstock.testing.fakes import FakeActuator, FakeMetricSource

EPOCH = 1_790_000_000.0
RATE = 50


class OpenableActuator(FakeActuator):
    """An actuator whose shares can be opened."""

    def open_shares(self) -> None:
        """Nothing to open."""


def replay(rate: float = RATE) -> ReplayArrivals:
    """Records that come at random."""
    return ReplayArrivals(
        parse_shape(f"sampled:constant:rate={rate:g},duration=1m,seed=3"), epoch_us=round(EPOCH * 1e6)
    )


def source_between(first: int, last: int) -> SourceProgress:
    """What a batch took of the replay."""
    text = [f'{{"epoch_us": {round(EPOCH * 1e6)}, "index": {index}}}' for index in (first, last)]
    return SourceProgress("replay", text[0], text[1], None, last - first)


def looks(times: ReplayArrivals, seconds: int) -> list[Telemetry]:
    """A look every second; each batch has what came up to then."""
    found, before = [], 0
    for second in range(1, seconds + 1):
        at = EPOCH + second
        due = times.arrived_by(at)
        assert due is not None
        source = source_between(before, due)
        batch = BatchProgress("a", "q", "r", second, at - 0.2, at - 0.1, due - before, {}, (source,))
        found.append(Telemetry("a", at, (batch,)))
        before = due
    return found


class StampedArrivals:
    """Fifty records a second, each stamped by a clock that may be set."""

    def __init__(self) -> None:
        self.now, self.stamps = EPOCH, list[float]()

    def pass_second(self) -> None:
        """A second goes by."""
        self.stamps += [self.now + (number + 1) / RATE for number in range(RATE)]
        self.now += 1.0

    def arrived_by(self, at: float) -> int | None:
        """All that have come, whatever their stamps."""
        return len(self.stamps) if at >= self.now else None

    def between(self, start: float, end: float) -> FloatArray | None:
        """Those with stamps of that time."""
        return np.array([stamp for stamp in sorted(self.stamps[-20 * RATE :]) if start < stamp <= end])

    def of(self, source: SourceProgress) -> FloatArray | None:
        """Of a batch."""
        return None

    def done_index(self, source: SourceProgress) -> int | None:
        """Of a batch."""
        return None


@given(
    st.lists(st.floats(0.0, 4000.0, allow_nan=False), max_size=300).map(sorted),
    st.floats(0.0, 2e9, allow_nan=False),
)
def test_instants_come_back_to_the_microsecond(times: list[float], first: float) -> None:
    """Whatever the gaps between them; none is lost, and they stay in order."""
    exact = first + np.array(times, dtype=np.float64)
    sent = packed(exact, is_exact=True)
    assert sent is not None
    assert sent.is_exact
    got = unpacked(sent)
    assert len(got) == len(exact)
    assert np.all(np.diff(got) >= 0.0)
    if times:
        unit = max(1e-6, (times[-1] - times[0]) / (2**32 - 1))
        assert np.max(np.abs(got - exact)) <= unit + 1e-6


def test_what_is_too_many_becomes_a_sample_that_says_so() -> None:
    """First and last are right, and those between lie where they would evenly; beyond a bound nothing is said."""
    times = EPOCH + np.linspace(0.0, 10.0, 10_001) ** 2
    sent = packed(times, is_exact=True, most=501)
    assert sent is not None
    assert not sent.is_exact
    assert len(sent.gaps) == 4 * 500
    got = unpacked(sent)
    assert len(got) == len(times)
    assert np.max(np.abs(got - times)) < 0.01
    assert packed(np.zeros(MOST_COUNTED + 1), is_exact=True) is None


@pytest.mark.parametrize(
    "changes", [{"width": 3}, {"gaps": b"123"}, {"unit_seconds": 0.0}, {"first": float("nan")}, {"count": 2}]
)
def test_instants_that_contradict_themselves_are_refused(changes: dict[str, Any]) -> None:
    """They come from another process."""
    sent = Instants(3, 1.0, b"\x01\x00\x02\x00", 2, 1e-6, True)
    assert len(unpacked(sent)) == 3
    with pytest.raises(MalformedMessageError, match="instants"):
        unpacked(msgspec.structs.replace(sent, **changes))


def test_a_master_resolves_arrivals_as_the_driver_would(tmp_path: Path) -> None:
    """Through the real agent: the same batches, counts and arrivals before batches, all marked as exact."""
    times = replay()
    path = tmp_path / "s" / "a.sock"
    there = TimedReportedArrivals()
    near, far = ArrivalResolver(times), ArrivalResolver(there)
    with OperatorAgent(
        "a", FakeMetricSource(looks(times, 20)), OpenableActuator(), path, arrivals=times, on_stop=lambda: None
    ):
        remote = RemoteOperator(path, arrivals=there)
        for _ in range(20):
            telemetry = remote.collect()
            for batch in telemetry.batches:
                ours, theirs = near.resolve(batch), far.resolve(batch)
                assert ours.times is not None
                assert theirs.times is not None
                assert theirs.is_exact
                assert np.allclose(ours.times, theirs.times, rtol=0, atol=2e-6)
                (source,) = batch.sources
                assert there.done_index(source) == times.done_index(source)
            at = telemetry.at
            assert there.arrived_by(at) == times.arrived_by(at)
            exact, got = near.since_last(at), far.since_last(at)
            if at > EPOCH + 3:
                assert exact[0] is not None
                assert got[0] is not None
                assert np.allclose(exact[0], got[0], rtol=0, atol=2e-6)
        remote.close()
    assert far.comes_before_batches
    assert far.is_exact
    expected = times.arrived_by(EPOCH + 15.5)
    assert expected is not None
    assert abs((there.arrived_by(EPOCH + 15.5) or 0) - expected) < RATE / 2
    assert there.arrived_by(EPOCH) is None
    assert there.arrived_by(EPOCH + 60) is None


def test_a_reply_that_was_lost_leaves_no_gap() -> None:
    """What it held comes again with the next one; the master takes both, and counts nothing twice."""
    times, there = replay(), TimedReportedArrivals()
    report = ArrivalReport(times)
    for number, telemetry in enumerate(looks(times, 10)):
        arrived = report.of(telemetry, was_received=number != 5)
        if number != 4:  # this reply does not get through
            there.take(Collected(number, telemetry, arrived))
    got, exact = there.between(EPOCH + 2.0, EPOCH + 9.0), times.between(EPOCH + 2.0, EPOCH + 9.0)
    assert got is not None
    assert exact is not None
    assert np.allclose(got, exact, rtol=0, atol=2e-6)
    assert there.between(EPOCH + 8.0, EPOCH + 20.0) is None  # not heard of yet
    assert there.between(EPOCH - 20.0, EPOCH + 2.0) is None  # before anybody asked


def test_another_controller_is_told_enough_to_begin_at_once() -> None:
    """It begins a second before its first look, as it does where it reads the source itself."""
    times, second = replay(), TimedReportedArrivals()
    report = ArrivalReport(times)
    *before, first, then = looks(times, 8)
    for telemetry in before:
        report.of(telemetry, was_received=True)
    far = ArrivalResolver(second)
    second.take(Collected(1, first, report.of(first, was_received=False)))
    assert far.since_last(first.at) == ()
    second.take(Collected(2, then, report.of(then, was_received=True)))
    (got,) = far.since_last(then.at)
    assert got is not None
    assert len(got) > 0


def test_what_the_source_learns_later_is_reported_later() -> None:
    """A tap that is not there yet when it is first asked loses nothing by it."""

    class Late(ReplayArrivals):
        """Knows nothing before its time."""

        is_there = False

        def between(self, start: float, end: float) -> FloatArray | None:
            """Nothing at first."""
            return super().between(start, end) if self.is_there else None

    times = Late(replay().arrivals, epoch_us=round(EPOCH * 1e6))
    there, report = TimedReportedArrivals(), ArrivalReport(times)
    for number, telemetry in enumerate(looks(times, 9)):
        times.is_there = number >= 4
        there.take(Collected(number, telemetry, report.of(telemetry, was_received=True)))
    got, exact = there.between(EPOCH + 0.1, EPOCH + 8.0), times.between(EPOCH + 0.1, EPOCH + 8.0)
    assert got is not None
    assert exact is not None
    assert np.allclose(got, exact, rtol=0, atol=2e-6)


def test_times_are_given_by_the_masters_clock() -> None:
    """What is added to telemetry is added here too."""
    times, there = replay(), TimedReportedArrivals(lambda: 100.0)
    report = ArrivalReport(times)
    for number, telemetry in enumerate(looks(times, 6)):
        there.take(Collected(number, telemetry, report.of(telemetry, was_received=True)))
    got, exact = there.between(EPOCH + 102.0, EPOCH + 104.0), times.between(EPOCH + 2.0, EPOCH + 4.0)
    assert got is not None
    assert exact is not None
    assert np.allclose(got, exact + 100.0, rtol=0, atol=2e-6)
    (source,) = telemetry.batches[0].sources
    carried, own = there.of(source), times.of(source)
    assert carried is not None
    assert own is not None
    assert np.allclose(carried, own + 100.0, rtol=0, atol=2e-6)
    assert there.arrived_by(EPOCH + 106.0) == times.arrived_by(EPOCH + 6.0)


def test_a_reply_stays_small_however_much_arrives() -> None:
    """At 40,000 records a second some times are a sample, which is marked; the bytes have a bound."""
    times, there = replay(40_000.0), TimedReportedArrivals()
    report = ArrivalReport(times)
    for number, telemetry in enumerate(looks(times, 3)):
        arrived = report.of(telemetry, was_received=True)
        assert len(msgspec.msgpack.encode(arrived)) < 4 * MOST_INSTANTS + 2000
        there.take(Collected(number, telemetry, arrived))
    (source,) = telemetry.batches[0].sources
    carried = there.of(source)
    assert carried is not None
    assert len(carried) == source.rows
    assert not there.is_exact


class Failing:
    """Arrival times that nobody can give."""

    def of(self, source: SourceProgress) -> FloatArray | None:
        """Fail."""
        raise OSError(f"the broker of {source.description} is away")

    def arrived_by(self, at: float) -> int | None:
        """Fail."""
        raise OSError(f"the broker is away at {at}")

    def done_index(self, source: SourceProgress) -> int | None:
        """Fail."""
        raise OSError(f"the broker of {source.description} is away")


def test_a_source_that_fails_costs_its_times_alone() -> None:
    """Batches are reported all the same, and the master interpolates."""
    there, (telemetry,) = ReportedArrivals(), looks(replay(), 1)
    there.take(Collected(1, telemetry, ArrivalReport(Failing()).of(telemetry, was_received=True)))
    (source,) = telemetry.batches[0].sources
    assert (there.of(source), there.done_index(source), there.arrived_by(telemetry.at)) == (None, None, None)


def test_what_an_agent_says_is_named() -> None:
    """By what it can know; where it says nothing nobody takes it."""
    assert [Reported.by(times) for times in (None, Failing(), replay())] == ["nothing", "batches", "as they come"]
    assert reported_arrivals(Reported.NOTHING, lambda: 0.0) is None
    assert type(reported_arrivals(Reported.BATCHES, lambda: 0.0)) is ReportedArrivals
    assert type(reported_arrivals(Reported.AS_THEY_COME, lambda: 0.0)) is TimedReportedArrivals


class _OldCollected(msgspec.Struct, frozen=True, array_like=True, tag="collected"):
    """The reply as it was before arrivals were appended."""

    number: int
    telemetry: Telemetry


def test_agents_and_masters_of_before_understand_each_other() -> None:
    """An old master leaves out what was appended, and a reply of an old agent holds no arrival times."""
    times, there = replay(), ReportedArrivals()
    (telemetry,) = looks(times, 1)
    new = frame_of(Collected(7, telemetry, ArrivalReport(times).of(telemetry, was_received=True)))[4:]
    assert msgspec.msgpack.decode(new, type=_OldCollected).telemetry == telemetry
    old = read_from_agent(msgspec.msgpack.encode(_OldCollected(7, telemetry)))
    assert old == Collected(7, telemetry)
    assert isinstance(old, Collected)
    there.take(old)
    assert there.of(telemetry.batches[0].sources[0]) is None


def test_a_master_says_that_an_agents_times_cannot_be_read(tmp_path: Path) -> None:
    """The fault names the agent; it is one of measuring, so that the loop holds."""

    class Wrong(ReportedArrivals):
        """Takes nothing."""

        def take(self, reply: Collected) -> None:
            """Refuse."""
            raise MalformedMessageError(f"instants: those of reply {reply.number} are odd")

    path = tmp_path / "s" / "a.sock"
    times = replay()
    with OperatorAgent(
        "a", FakeMetricSource(looks(times, 1)), OpenableActuator(), path, arrivals=times, on_stop=lambda: None
    ):
        remote = RemoteOperator(path, arrivals=Wrong())
        with pytest.raises(MetricSourceError, match="arrival times: instants: those of reply 1 are odd"):
            remote.collect()
        remote.close()


@pytest.mark.parametrize("step", [-3600.0, 3600.0])
def test_a_clock_that_is_set_stalls_no_report(step: float) -> None:
    """Ten seconds later as many are known as without, by the new time, and nothing is kept of the old one."""
    times = StampedArrivals()
    report, reported = ArrivalReport(times), TimedReportedArrivals()

    def look() -> None:
        times.pass_second()
        telemetry = Telemetry("a", times.now)
        reported.take(Collected(1, telemetry, report.of(telemetry, was_received=True)))

    for _ in range(20):
        look()
    times.now += step
    for _ in range(10):
        look()
    assert reported.arrived_by(times.now) == 30 * RATE
    came = reported.between(times.now - 6.0, times.now - 1.0)
    assert came is not None
    assert len(came) == 5 * RATE
    assert step > 0 or reported.arrived_by(times.now - 60.0) is None
