# SPDX-License-Identifier: Apache-2.0
"""Collects in the background, so that one operator whose driver hangs does not hold up the passes of the others."""

from __future__ import annotations

from collections.abc import Callable, Collection
from time import monotonic as system_monotonic

from penstock.errors import MetricSourceError
from penstock.loop.answer import Answer
from penstock.ports import MetricSource, SubscribableSource
from penstock.records import Telemetry


class PatientSource:
    """A metric source that is asked in a thread of its own, and waited for only so long (a `ports.MetricSource`).

    Parameters
    ----------
    source
        Measures the operator; it is never asked twice at once.
    patience_seconds
        How long a pass waits for an answer. One that comes later belongs to a later pass.
    monotonic
        A clock that nobody sets.
    """

    def __init__(
        self,
        source: MetricSource,
        *,
        patience_seconds: float = 5.0,
        monotonic: Callable[[], float] = system_monotonic,
    ) -> None:
        self._source = source
        self._patience = patience_seconds
        self._monotonic = monotonic
        self._answer: Answer[Telemetry] | None = None

    def begin(self) -> None:
        """Ask, unless an answer is still outstanding: all operators measure at the same time then."""
        if self._answer is None:
            self._answer = Answer(self._source.collect, "penstock-collect", self._monotonic())

    def subscribe(self, metrics: Collection[str], every_seconds: float) -> None:
        """Pass on what is wanted besides, where the source can measure it."""
        if isinstance(self._source, SubscribableSource):
            self._source.subscribe(metrics, every_seconds)

    def collect(self) -> Telemetry:
        """Return what is new since the last call.

        Raises
        ------
        MetricSourceError
            There is no answer yet (`retryable`: it is waited for), or the answer is this error.
        """
        self.begin()
        answer = self._answer
        assert answer is not None
        waited = self._monotonic() - answer.asked_at
        # An operator that was waited for in an earlier pass has had its time: the others go first.
        if not answer.is_there.wait(max(0.0, self._patience - waited)):
            waited = self._monotonic() - answer.asked_at
            raise MetricSourceError(f"its driver has not answered for {waited:.0f} s", target="driver", retryable=True)
        self._answer = None
        return answer.result()
