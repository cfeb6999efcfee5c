# SPDX-License-Identifier: Apache-2.0
"""Latency along a path from an agent to a controller: nothing lost, nothing twice."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest

from penstock.adaptors.agent.followed_path import PathReport, ReportedPath
from penstock.adaptors.agent.wire import (
    MOST_INSTANTS,
    CameThrough,
    Collected,
    MalformedMessageError,
    frame_of,
    read_from_agent,
)
from penstock.monitor.latency import LatencyTracker
from penstock.ports import DoneRecords
from penstock.records import Telemetry

WINDOW_SECONDS = 60.0


def done(ended_at: float, *arrived: float) -> DoneRecords:
    """Records of one batch."""
    times = np.array(arrived)
    return DoneRecords(times, ended_at - times)


def taken(path: ReportedPath, came: list[CameThrough]) -> DoneRecords | None:
    """What a controller has after a reply, which went over the wire."""
    read = read_from_agent(frame_of(Collected(1, Telemetry("a", 0.0), None, came))[4:])
    assert isinstance(read, Collected)
    path.take(read)
    return path.since_last()


def test_latencies_come_as_they_were() -> None:
    """Of several batches in one look, each with its end; by the controller's clock where that differs."""
    report, path = PathReport(), ReportedPath(LatencyTracker(WINDOW_SECONDS), lambda: 100.0)
    report.add(DoneRecords.joined([done(50.0, 47.0, 48.0), done(52.5, 49.0)]))
    found = taken(path, report.next(was_received=True))
    assert found is not None
    assert found.arrived == pytest.approx([147.0, 148.0, 149.0], abs=0.001)
    assert found.seconds == pytest.approx([3.0, 2.0, 3.5], abs=0.001)
    window = path.window(153.0)
    assert window is not None
    assert (window.records, window.is_exact) == (3, True)
    assert window.mean_seconds == pytest.approx(8.5 / 3, abs=0.002)
    assert path.whole() == window
    assert path.since_last() is None


def test_a_reply_that_was_lost_comes_again_once() -> None:
    """With what has come since; what was received is not sent again."""
    report = PathReport()
    report.add(done(10.0, 9.0))
    first = report.next(was_received=True)
    report.add(done(11.0, 10.5))
    second = report.next(was_received=False)
    assert [one.ended_at for one in second] == [10.0, 11.0]
    assert second[: len(first)] == first
    assert report.next(was_received=True) == []
    report.add(None)
    assert report.next(was_received=True) == []


def test_a_reply_holds_only_so_much() -> None:
    """The rest waits for the next one; of a batch with very many records a sample is sent, and it says so."""
    report, path = PathReport(), ReportedPath(LatencyTracker(WINDOW_SECONDS))
    many = np.linspace(0.0, 5.0, MOST_INSTANTS + 10)
    report.add(DoneRecords(many, 20.0 - many))
    report.add(done(21.0, 20.0))
    first = report.next(was_received=True)
    assert [one.ended_at for one in first] == [20.0]
    found = taken(path, first)
    assert found is not None
    assert len(found.arrived) == len(many)
    summary = path.whole()
    assert summary is not None
    assert not summary.is_exact
    assert [one.ended_at for one in report.next(was_received=True)] == [21.0]


def test_while_nobody_asks_the_oldest_go() -> None:
    """What is kept is bounded by its records, not only by its batches."""
    report = PathReport()
    many = np.linspace(0.0, 1.0, MOST_INSTANTS)
    for batch in range(30):
        report.add(DoneRecords(many, 10.0 + batch - many))
    ends = []
    while came := report.next(was_received=True):
        ends += [one.ended_at for one in came]
    assert ends == [10.0 + batch for batch in range(10, 30)]


def test_instants_that_are_no_numbers_are_refused() -> None:
    """An agent that sends them disturbs nothing."""
    report = PathReport()
    report.add(done(10.0, 9.0))
    wrong = [msgspec.structs.replace(one, ended_at=math.nan) for one in report.next(was_received=True)]
    with pytest.raises(MalformedMessageError, match="numbers"):
        taken(ReportedPath(LatencyTracker(WINDOW_SECONDS)), wrong)


def test_agents_of_before_send_nothing_of_it() -> None:
    """Their replies are read as before."""
    short = msgspec.msgpack.encode(["collected", 3, msgspec.to_builtins(Telemetry("a", 0.0))])
    read = read_from_agent(short)
    assert isinstance(read, Collected)
    assert read.came == []
