# SPDX-License-Identifier: Apache-2.0
"""The controller's side of arrival times: those that an agent has reported, by its clock or by ours."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from penstock.adaptors.agent.arrival_report import Reported
from penstock.adaptors.agent.instants import unpacked
from penstock.adaptors.agent.wire import Collected
from penstock.ports import FloatArray
from penstock.records import SourceProgress

_MOST_BATCHES, _MOST_TIMES, _MOST_COUNTS = 2000, 1_000_000, 4000
_KEPT_SECONDS = 300.0
_OLD_SECONDS = 10.0
"""After so long without a report it is not known any more how many have arrived."""
_EDGE_SECONDS = 1e-3
"""By so much two stretches may seem to be apart: clocks are added to and taken off again."""


@dataclass(frozen=True, slots=True, eq=False)
class _Carried:
    times: FloatArray | None
    is_exact: bool
    done_index: int | None


@dataclass(frozen=True, slots=True, eq=False)
class _Stretch:
    start: float
    end: float
    times: FloatArray
    is_exact: bool


class ReportedArrivals:
    """Arrival times of one operator as its agent reports them (a `ports.SampledArrivalTimes`).

    Parameters
    ----------
    shift
        What is added to the agent's instants to have them by our clock, in seconds.
    """

    def __init__(self, shift: Callable[[], float] = lambda: 0.0) -> None:
        self._shift = shift
        self._lock = threading.Lock()
        self._carried: OrderedDict[SourceProgress, _Carried] = OrderedDict()
        self._times_kept = 0
        self._at = float("-inf")
        """The instant of the newest reply, by the agent's clock."""
        self._counts: deque[tuple[float, int]] = deque(maxlen=_MOST_COUNTS)
        self._stretches: deque[_Stretch] = deque()
        self.is_exact = True
        """Whether every time in the newest answer was that of its record."""

    def take(self, reply: Collected) -> None:
        """Take in what came with a reply; raises MalformedMessageError."""
        arrived, telemetry = reply.arrived, reply.telemetry
        if arrived is None:
            return
        batches = []
        for one in arrived.batches:
            if one.batch < len(telemetry.batches) and one.source < len(telemetry.batches[one.batch].sources):
                times = None if one.times is None else unpacked(one.times)
                is_exact = one.times is not None and one.times.is_exact
                source = telemetry.batches[one.batch].sources[one.source]
                batches.append((source, _Carried(times, is_exact, one.done_index)))
        came = arrived.came
        stretch = None if came is None else _Stretch(arrived.start, arrived.end, unpacked(came), came.is_exact)
        with self._lock:
            for source, carried in batches:
                self._keep(source, carried)
            if self._at > telemetry.at:  # the agent's clock was set back: what was by the old one says nothing now
                self._counts.clear()
                self._stretches.clear()
            self._at = telemetry.at
            if arrived.total is not None and not (self._counts and telemetry.at == self._counts[-1][0]):
                self._counts.append((telemetry.at, arrived.total))
            if stretch is not None:
                self._stretches.append(stretch)
                while self._stretches[0].end < stretch.end - _KEPT_SECONDS:
                    self._stretches.popleft()

    def of(self, source: SourceProgress) -> FloatArray | None:
        """Return the arrival times of a batch's records; None where the agent did not know them."""
        with self._lock:
            found = self._carried.get(source)
            if found is None or found.times is None:
                return None
            self.is_exact = found.is_exact
            return found.times + self._shift()

    def arrived_by(self, at: float) -> int | None:
        """Return how many records have arrived up to `at`, evenly between two reports; None: that is not known."""
        there = at - self._shift()
        with self._lock:
            counts = list(self._counts)
        place = bisect_right(counts, (there, np.inf))
        if place == 0 or there - counts[-1][0] > _OLD_SECONDS:
            return None
        before, first = counts[place - 1]
        if place == len(counts):
            return first
        after, last = counts[place]
        return round(first + (last - first) * (there - before) / (after - before))

    def done_index(self, source: SourceProgress) -> int | None:
        """Return how many records are done when this batch is; None where the agent did not know it."""
        with self._lock:
            found = self._carried.get(source)
        return None if found is None else found.done_index

    def _keep(self, source: SourceProgress, carried: _Carried) -> None:
        replaced = self._carried.pop(source, None)
        self._times_kept += _size(carried) - _size(replaced)
        self._carried[source] = carried
        while len(self._carried) > _MOST_BATCHES or (self._times_kept > _MOST_TIMES and len(self._carried) > 1):
            _, oldest = self._carried.popitem(last=False)
            self._times_kept -= _size(oldest)

    def _since(self, start: float, end: float) -> FloatArray | None:
        shift = self._shift()
        low, high = start - shift, end - shift
        with self._lock:
            parts = [one for one in self._stretches if one.end > low and one.start < high]
        covered_to, is_exact, found = low, True, []
        for part in parts:
            if part.start > covered_to + _EDGE_SECONDS:
                return None
            is_exact = is_exact and part.is_exact
            fresh = part.times[part.times > covered_to]  # a reply that was lost comes again, with more after it
            found.append(fresh[fresh <= high])
            covered_to = max(covered_to, part.end)
        if covered_to < high - _EDGE_SECONDS:
            return None
        self.is_exact = is_exact
        return np.concatenate(found) + shift if found else np.empty(0)


class TimedReportedArrivals(ReportedArrivals):
    """The same of a source whose arrivals are known as they come (a `ports.TimedArrivalTimes`)."""

    def between(self, start: float, end: float) -> FloatArray | None:
        """Return the arrival times after `start` and up to `end`; None where some were not reported."""
        return self._since(start, end)


def reported_arrivals(what: Reported, shift: Callable[[], float]) -> ReportedArrivals | None:
    """Where the arrival times go that an agent reports; None where it reports none."""
    if what is Reported.NOTHING:
        return None
    return TimedReportedArrivals(shift) if what is Reported.AS_THEY_COME else ReportedArrivals(shift)


def _size(carried: _Carried | None) -> int:
    return 0 if carried is None or carried.times is None else len(carried.times)
