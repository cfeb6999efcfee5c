# SPDX-License-Identifier: Apache-2.0
"""An agent that only measures: nothing is scaled through it."""

from __future__ import annotations

import logging

from penstock.adaptors.agent.channel import Channel
from penstock.adaptors.agent.meters import Meters, add_own_metrics
from penstock.adaptors.agent.reporter import Reporter
from penstock.adaptors.agent.wire import Hello, Message, Pulse, Refusal, Subscribe, ToAgent

_log = logging.getLogger(__name__)


class MeterAgent:
    """Reports what is subscribed to over connections that it is given (a `link.ServingAgent`).

    Parameters
    ----------
    meters
        What can be read; the user's own metrics come to them.
    most_kept
        How many reports wait while no master is there.
    """

    def __init__(self, meters: Meters, *, most_kept: int = 600) -> None:
        self._reporter = Reporter(meters, most_kept=most_kept)
        add_own_metrics(meters)
        self._fence = 0

    @property
    def meters(self) -> Meters:
        """What can be subscribed to."""
        return self._reporter.meters

    @property
    def fence(self) -> int:
        """The largest fencing number that it has seen."""
        return self._fence

    def serve(self, channel: Channel[ToAgent]) -> None:
        """Serve the connection until it ends."""
        try:
            while (message := channel.receive()) is not None:
                if isinstance(message, Subscribe):
                    self._reporter.subscribe(message, channel)
                elif not isinstance(message, Pulse):
                    channel.send(self._answer(message))
        except (OSError, ValueError) as fault:
            _log.info("the connection to the master is lost: %s", fault)
        finally:
            self._reporter.away(channel)

    def close(self) -> None:
        """End the reports."""
        self._reporter.close()

    def _answer(self, message: ToAgent) -> Message:
        if isinstance(message, Hello):
            self._fence = max(self._fence, message.fence)
            return Refusal("rejected", "this agent only measures: it has no operator to scale")
        return Refusal("malformed", f"{type(message).__name__}: this agent only measures")
