# SPDX-License-Identifier: Apache-2.0
"""Sends the metrics that somebody has subscribed to, at the wanted period, and keeps them while nobody is there."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from penstock.adaptors.agent.channel import Channel
from penstock.adaptors.agent.meters import Meters, add_own_metrics
from penstock.adaptors.agent.wire import Advertise, Report, Reports, Subscribe
from penstock.clock import Clock, SystemClock

_log = logging.getLogger(__name__)
_REPORTS_PER_MESSAGE = 100


class Reporter:
    """One subscription at a time: the newest. While its connection is away, reports are kept within a bound.

    Parameters
    ----------
    meters
        What can be read.
    most_kept
        How many reports wait; beyond it the oldest are given up and counted, which the next message says.
    """

    def __init__(
        self,
        meters: Meters,
        *,
        most_kept: int = 600,
        clock: Clock | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.meters = meters
        self._clock, self._monotonic = clock or SystemClock(), monotonic
        self._lock = threading.Lock()
        self._waiting: deque[Report] = deque()
        self._most_kept = most_kept
        self._dropped = 0
        self._channel: Channel[Any] | None = None
        self._wanted: Subscribe | None = None
        self._due = 0.0
        self._changed, self._end = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def subscribe(self, wanted: Subscribe, channel: Channel[Any]) -> None:
        """Send what is wanted to `channel` from now on; begins with what has waited."""
        with self._lock:
            self._channel = channel
            self._wanted = wanted if wanted.metrics else None
            self._due = self._monotonic()
            if self._thread is None and not self._end.is_set():
                self._thread = threading.Thread(target=self._run, name="penstock-agent-reports", daemon=True)
                self._thread.start()
        self._changed.set()

    def away(self, channel: Channel[Any]) -> None:
        """The connection has gone: what is wanted is kept until there is another."""
        with self._lock:
            if self._channel is channel:
                self._channel = None

    def close(self) -> None:
        """End; what waits is lost."""
        self._end.set()
        self._changed.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(2.0)

    def step(self) -> float:
        """Measure and send if it is time; returns the seconds until it is time again."""
        with self._lock:
            wanted, due = self._wanted, self._due
        if wanted is None:
            return 3600.0
        now = self._monotonic()
        if now < due:
            return due - now
        if add_own_metrics(self.meters):
            self._send(Advertise(self.meters.offers))
        places = {offer.name: place for place, offer in enumerate(self.meters.offers)}
        values = {places[name]: value for name, value in self.meters.sample(wanted.metrics).items()}
        with self._lock:
            self._waiting.append(Report(self._clock.now(), values))
            while len(self._waiting) > self._most_kept:
                self._waiting.popleft()
                self._dropped += 1
            # Late ones are not made up for.
            self._due = max(due + wanted.every_seconds, now)
        self._flush()
        return max(0.0, self._due - self._monotonic())

    def _flush(self) -> None:
        while True:
            with self._lock:
                batch = list(self._waiting)[:_REPORTS_PER_MESSAGE]
                dropped = self._dropped
            if not batch or not self._send(Reports(batch, dropped)):
                return
            with self._lock:
                self._dropped -= dropped
                for report in batch:
                    if self._waiting and self._waiting[0] is report:
                        self._waiting.popleft()

    def _send(self, message: Reports | Advertise) -> bool:
        channel = self._channel
        if channel is None:
            return False
        try:
            channel.send(message)
        except OSError as fault:  # it has gone, or takes nothing: what was not sent waits for the next connection
            _log.info("reports wait: %s", fault)
            self.away(channel)
            channel.close()
            return False
        return True

    def _run(self) -> None:
        while not self._end.is_set():
            try:
                wait = self.step()
            except Exception:  # the query's process goes on without reports
                _log.exception("a report failed")
                wait = 1.0
            self._changed.wait(wait)
            self._changed.clear()
