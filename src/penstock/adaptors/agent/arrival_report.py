# SPDX-License-Identifier: Apache-2.0
"""The agent's side of arrival times: what of them goes with a reply, for a controller that cannot read the source."""

from __future__ import annotations

import logging
from enum import StrEnum

from penstock.adaptors.agent.instants import packed
from penstock.adaptors.agent.wire import MOST_INSTANTS, Arrived, BatchArrived, Instants
from penstock.ports import ArrivalTimes, FloatArray, SampledArrivalTimes, TimedArrivalTimes
from penstock.records import SourceProgress, Telemetry

_log = logging.getLogger(__name__)
_BEHIND_SECONDS = 0.5
"""How long ago arrivals must be to be reported as they come: whoever watches them is a little behind."""
_FIRST_SECONDS = 2.0
"""How far back the first report to a controller goes."""
_LONGEST_SECONDS = 60.0
"""How far back a report goes at most, where no controller has asked for a while."""


_FEWEST = 20
"""So many of a batch are sent also where the reply is full."""


class Reported(StrEnum):
    """What an agent says about when records arrived."""

    NOTHING = "nothing"
    BATCHES = "batches"
    """The records of its batches."""
    AS_THEY_COME = "as they come"
    """Those, and all records before a batch has carried them."""

    @classmethod
    def by(cls, times: ArrivalTimes | None) -> Reported:
        """What is said where this is known."""
        if times is None:
            return cls.NOTHING
        return cls.AS_THEY_COME if isinstance(times, TimedArrivalTimes) else cls.BATCHES


class ArrivalReport:
    """Adds to replies when records arrived: those of their batches, and all since the last reply that was received.

    Nothing is raised: what cannot be found out is left out, and the controller interpolates it.

    Parameters
    ----------
    times
        Who knows it.
    """

    def __init__(self, times: ArrivalTimes) -> None:
        self._times = times
        self._sampled = times if isinstance(times, SampledArrivalTimes) else None
        self._timed = times if isinstance(times, TimedArrivalTimes) else None
        self._received_to: float | None = None
        self._sent_to: float | None = None
        self._room = 0
        self._has_failed = False

    def of(self, telemetry: Telemetry, *, was_received: bool) -> Arrived:
        """What goes with these measurements; `was_received`: the reply before was."""
        if was_received:
            self._received_to = self._sent_to
        self._room = MOST_INSTANTS
        end = telemetry.at - _BEHIND_SECONDS
        begin = end - _FIRST_SECONDS if self._received_to is None else self._received_to
        if not was_received or begin > end:  # the clock was set back: what is reported goes on from its new time
            begin = min(begin, end - _FIRST_SECONDS)  # it may be another controller, which knows nothing yet
        start = max(begin, end - _LONGEST_SECONDS)
        try:
            total = self._times.arrived_by(telemetry.at)
            came = None if self._timed is None or start >= end else self._packed(self._timed.between(start, end))
        except Exception as fault:
            self._failed(fault)
            total, came = None, None
        self._sent_to = start if came is None else end  # what is not known yet may be later
        batches = [
            self._carried(place, number, source)
            for place, batch in enumerate(telemetry.batches)
            for number, source in enumerate(batch.sources)
        ]
        return Arrived(batches, total, start, end, came)

    def _carried(self, batch: int, place: int, source: SourceProgress) -> BatchArrived:
        try:
            return BatchArrived(batch, place, self._packed(self._times.of(source)), self._times.done_index(source))
        except Exception as fault:
            self._failed(fault)
            return BatchArrived(batch, place, None, None)

    def _packed(self, times: FloatArray | None) -> Instants | None:
        """As many of them as there is room for in this reply."""
        if times is None:
            return None
        most = max(_FEWEST, self._room)
        self._room -= min(most, len(times))
        return packed(times, is_exact=self._sampled is None or self._sampled.is_exact, most=most)

    def _failed(self, fault: Exception) -> None:
        if not self._has_failed:  # it comes again with every look
            _log.warning("arrival times cannot be found: %s", fault)
        self._has_failed = True
