# SPDX-License-Identifier: Apache-2.0
"""Acts in the background, so that one operator whose driver hangs does not hold up the passes of the others."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import monotonic as system_monotonic
from typing import Protocol

from penstock.errors import ActuationError, ActuationTimeoutError
from penstock.loop.answer import Answer
from penstock.ports import Actuator
from penstock.records import Action


class OpeningActuator(Actuator, Protocol):
    """An actuator that can lift the CPU cap and keep the executors."""

    def open_shares(self) -> None:
        """Lift the CPU cap; the next request sets it again."""
        ...


class PatientActuator:
    """An actuator that is asked in a thread of its own, and waited for only so long (a `ports.AnsweringActuator`).

    It is asked one thing after the other, in order: what is asked for while an answer is outstanding waits for it.

    Parameters
    ----------
    actuator
        Changes the operator; it is never asked two things at once.
    patience_seconds
        How long a pass waits for an answer. One that comes later belongs to a later pass.
    release_seconds
        How long the end of a run waits: for an answer that is outstanding, and until all is put back.
    monotonic
        A clock that nobody sets.
    """

    def __init__(
        self,
        actuator: OpeningActuator,
        *,
        patience_seconds: float = 1.0,
        release_seconds: float = 60.0,
        monotonic: Callable[[], float] = system_monotonic,
    ) -> None:
        self._actuator = actuator
        self._patience = patience_seconds
        self._release_seconds = release_seconds
        self._monotonic = monotonic
        self._newest: Answer[None] | None = None
        """To whatever was asked last."""
        self._request: Answer[None] | None = None
        """To a request, until it is taken."""

    @property
    def can_set_cpu_share(self) -> bool:
        """Whether CPU shares can be set here."""
        return self._actuator.can_set_cpu_share

    @property
    def outstanding(self) -> str | None:
        """Why nothing can be asked for now, in one line; None: there is an answer to everything."""
        newest = self._newest
        if newest is None or newest.is_there.is_set():
            return None
        waited = self._monotonic() - newest.asked_at
        return f"its driver has not answered the last request for {waited:.0f} s"

    def request(self, action: Action) -> None:
        """Ask for the allocation in `action`; return without an answer where the patience ends before it comes.

        Raises
        ------
        ActuationError
            That is the answer; or another one is outstanding, and nothing was asked for.
        """
        if (why := self.outstanding) is not None:
            raise ActuationError(why, target="driver", request_id=action.request_id, retryable=True)
        self._request = self._begin(partial(self._actuator.request, action))
        self._request.is_there.wait(self._patience)
        self.take_answer()

    def take_answer(self) -> bool:
        """Whether the last request was answered. Raises, once, the ActuationError that it was answered with."""
        answer = self._request
        if answer is None:
            return True
        if not answer.is_there.is_set():
            return False
        self._request = None
        answer.result()
        return True

    def attempt(self, call: Callable[[], None]) -> None:
        """Do something else to the operator, unless an answer is outstanding: then it is not done.

        An error that comes after the patience is not raised: the call has to deal with those that it expects.
        """
        if self.outstanding is None:
            answer = self._begin(call)
            if answer.is_there.wait(self._patience):
                answer.result()

    def settle(self, within_seconds: float) -> None:
        """Wait for the answer that is outstanding, whatever it is, but not for longer than that."""
        if self._newest is not None:
            self._newest.is_there.wait(within_seconds)

    def open_shares(self, within_seconds: float | None = None) -> None:
        """Lift the CPU cap and leave the executors as they are, after what is outstanding.

        It goes on where the time, by default that for a request, is up before.
        """
        self._wait_for(self._begin(self._actuator.open_shares), within_seconds or self._patience)

    def release(self) -> None:
        """Put everything back as it was, after what is outstanding."""
        if self.outstanding is None:
            self._actuator.release()  # as long as it takes: nobody waits for its turn any more
        else:
            self._wait_for(self._begin(self._actuator.release), self._release_seconds)

    def _begin(self, call: Callable[[], None]) -> Answer[None]:
        before = self._newest

        def in_turn() -> None:
            if before is not None:
                before.is_there.wait()
            call()

        try:
            self._newest = Answer(in_turn, "penstock-act", self._monotonic())
        except RuntimeError as fault:  # the machine allows no further thread
            raise ActuationError(f"its driver was not asked: {fault}", target="driver", retryable=True) from fault
        return self._newest

    def _wait_for(self, answer: Answer[None], seconds: float) -> None:
        if not answer.is_there.wait(seconds):
            raise ActuationTimeoutError(
                f"its driver did not answer within {seconds:g} s", target="driver", retryable=True
            )
        answer.result()
