# SPDX-License-Identifier: Apache-2.0
"""Keeps the lease on operators alive between two passes, however far apart these are.

An operator's agent lifts the CPU cap when its controller is silent for a few seconds. The passes of a loop may be an
hour apart, and one that waits for a driver that hangs is late. So each operator has a thread of its own that beats, for
as long as the operator's passes succeed: a controller that lives but no longer decides must not keep a cap in force.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from time import monotonic as system_monotonic
from typing import Protocol

from penstock.errors import AdaptorError

_LOG = logging.getLogger(__name__)

BEAT_SECONDS = 1.0
"""A fifth of an agent's lease."""
_PASSES = 3
_LEAST_SECONDS = 60.0


class Leased(Protocol):
    """What is kept alive by beats, as `adaptors.agent.client.RemoteOperator` is."""

    def beat(self) -> None:
        """Renew the lease."""
        ...


class LeaseBeats:
    """Beats for every operator. Use as a context manager.

    Parameters
    ----------
    remotes
        The operators' agents, by name.
    interval_seconds
        From one pass to the next: after three without success, and a minute at least, the beats of an operator stop.
    beat_seconds, monotonic
        How often it beats, and a clock that nobody sets.
    """

    def __init__(
        self,
        remotes: Mapping[str, Leased],
        interval_seconds: float,
        *,
        beat_seconds: float = BEAT_SECONDS,
        monotonic: Callable[[], float] = system_monotonic,
    ) -> None:
        self._remotes = remotes
        self._most_silent = max(_LEAST_SECONDS, _PASSES * interval_seconds)
        self._beat_seconds = beat_seconds
        self._monotonic = monotonic
        self._passed = dict.fromkeys(remotes, monotonic())
        self._end = threading.Event()

    def passed(self, operator: str) -> None:
        """Take note that a pass of an operator succeeded."""
        self._passed[operator] = self._monotonic()

    def is_in_control(self, operator: str) -> bool:
        """Whether the operator's passes succeed."""
        return self._monotonic() - self._passed[operator] <= self._most_silent

    def __enter__(self) -> LeaseBeats:
        for name, remote in self._remotes.items():
            threading.Thread(target=self._run, args=(name, remote), name="penstock-lease-beats", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()

    def _run(self, name: str, remote: Leased) -> None:
        while not self._end.wait(self._beat_seconds):
            if not self.is_in_control(name):
                continue
            try:
                remote.beat()
            except AdaptorError as fault:  # it is being restarted, or died: the passes find out
                _LOG.debug("%s: no beat: %s", name, fault)
            except Exception:  # a defect of ours: the next beat may succeed, and without any the cap is lifted
                _LOG.exception("%s: no beat", name)
