# SPDX-License-Identifier: Apache-2.0
"""The metrics that an agent reports, as the controller adds them to telemetry."""

from __future__ import annotations

from collections import deque

from penstock.adaptors.agent.client import RemoteOperator
from penstock.adaptors.agent.wire import Collected, FromAgent, Message, Offer, Report, Reports, Welcome
from penstock.records import Telemetry

HOUR = 3600.0


class FakeChannel:
    """An agent that has prepared its words."""

    def __init__(self, *words: FromAgent) -> None:
        self.words = deque(words)

    def send(self, message: Message) -> None:
        """Whatever it is."""

    def receive(self) -> FromAgent | None:
        """The next word."""
        return self.words.popleft() if self.words else None

    def close(self) -> None:
        """Nothing is open."""


def metrics_at(*instants: float) -> list[dict[str, float | None]]:
    """What telemetry of these instants brings along, after one report of 1,000,000 s."""
    words: list[FromAgent] = [Welcome("q", True, [Offer("own_depth", "", "")])]
    words.append(Reports([Report(1e6, {0: 7.0})], 0))
    words += [Collected(number, Telemetry("q", at)) for number, at in enumerate(instants, 1)]
    channel = FakeChannel(*words)
    remote = RemoteOperator("q", connect=lambda: channel)
    remote.subscribe(["own_depth"], 1.0)
    return [dict(remote.collect().metrics) for _ in instants]


def test_a_metric_that_is_reported_no_more_is_not_known() -> None:
    """After three periods and a little."""
    assert metrics_at(1e6, 1e6 + 4.0, 1e6 + 5.0) == [{"own_depth": 7.0}, {"own_depth": 7.0}, {}]


def test_a_clock_that_is_set_back_keeps_no_old_metric_alive() -> None:
    """It would be the newest until the clock shows its time once more."""
    assert metrics_at(1e6 + 1.0, 1e6 + 2.0 - HOUR) == [{"own_depth": 7.0}, {}]
