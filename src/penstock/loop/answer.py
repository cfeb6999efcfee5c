# SPDX-License-Identifier: Apache-2.0
"""One question to a driver that may hang, asked in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar, cast

_T = TypeVar("_T")


class Answer(Generic[_T]):
    """What somebody says to one question, once they do.

    Parameters
    ----------
    ask
        Asks, and returns or raises the answer; called at once, in a thread that never keeps the process alive.
    name
        What the thread is called.
    asked_at
        When it was asked, by the clock of whoever asks.
    """

    def __init__(self, ask: Callable[[], _T], name: str, asked_at: float = 0.0) -> None:
        self.asked_at = asked_at
        self.is_there = threading.Event()
        self._value: _T | None = None
        self._fault: Exception | None = None
        threading.Thread(target=self._ask, args=(ask,), name=name, daemon=True).start()

    def result(self) -> _T:
        """Return the answer, or raise it; only once it is there."""
        if self._fault is not None:
            raise self._fault
        return cast("_T", self._value)

    def _ask(self, ask: Callable[[], _T]) -> None:
        try:
            self._value = ask()
        except Exception as fault:  # raised again where the answer is taken
            self._fault = fault
        finally:
            self.is_there.set()
