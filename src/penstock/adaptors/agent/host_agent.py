# SPDX-License-Identifier: Apache-2.0
"""The agent of a host: measures it, and holds executors there to CPU shares as the leading master wants it."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Protocol

from penstock.adaptors.agent.meter_agent import MeterAgent
from penstock.adaptors.agent.meters import Meters
from penstock.adaptors.agent.wire import HoldShares, Message, Refusal, SharesHeld, ToAgent
from penstock.records import ExecutorShare, HeldOnHost

_log = logging.getLogger(__name__)


class Holder(Protocol):
    """Who holds executors of this host, as `adaptors.cgroups.host_shares.HostShares` does."""

    def hold(self, shares: Collection[ExecutorShare]) -> list[HeldOnHost]:
        """Hold the executors of these applications, and of no others. Raises ValueError where a share is none."""
        ...


class HostAgent(MeterAgent):
    """Does what the master with the largest fencing number wants, and refuses all others for ever.

    Parameters
    ----------
    meters
        What can be read.
    holder
        Holds the executors. It opens all caps by itself when it is told nothing for some seconds.
    """

    def __init__(self, meters: Meters, holder: Holder) -> None:
        super().__init__(meters)
        self._holder = holder

    def _answer(self, message: ToAgent) -> Message:
        if not isinstance(message, HoldShares):
            return super()._answer(message)
        if message.fence < self._fence:
            text = f"fencing number {message.fence} is older than {self._fence}: another leads"
            _log.warning("an order was refused: %s", text)
            return Refusal("deposed", text)
        self._fence = message.fence
        try:
            return SharesHeld(self._holder.hold(message.shares))
        except ValueError as fault:
            return Refusal("malformed", str(fault))
        except Exception as fault:  # a defect of ours: the host is still measured, and its caps open by themselves
            _log.exception("executors could not be held")
            return Refusal("actuation", f"{type(fault).__name__}: {fault}"[:1000])
