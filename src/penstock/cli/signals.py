# SPDX-License-Identifier: Apache-2.0
"""Handles Ctrl-C and SIGTERM as a request to stop in order, instead of an exception in the middle of something."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stopping_on_signals(stop: threading.Event, tell: Callable[[bool], None]) -> Iterator[None]:
    """Set `stop` on Ctrl-C or SIGTERM, and call `tell`: with False for the first signal, True for later ones."""

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        again = stop.is_set()
        stop.set()
        tell(again)

    before = {number: signal.signal(number, on_signal) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
