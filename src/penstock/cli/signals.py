# SPDX-License-Identifier: Apache-2.0
"""Handles Ctrl-C, SIGTERM and a terminal that is closed (SIGHUP) as a request to stop in order.

Otherwise they would be an exception in the middle of something. Ctrl-C is a person who wants the work to end. SIGTERM
and SIGHUP come from a machine that wants this process to end (docs/how-to/stop-a-run.md).
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_TURN_SECONDS = 0.5


@contextmanager
def stopping_on_signals(
    stop: threading.Event, tell: Callable[[bool], None], leave: threading.Event | None = None
) -> Iterator[None]:
    """Set `stop` on Ctrl-C, SIGTERM or SIGHUP, and call `tell`: with False for the first signal, True for later ones.

    `leave` is set too where the first signal is another than Ctrl-C.
    A signal that is ignored stays so: `nohup` lets a run outlive its terminal.
    """

    def on_signal(number: int, _frame: FrameType | None) -> None:
        again = stop.is_set()
        if leave is not None and not again and number != signal.SIGINT:
            leave.set()  # before `stop`: who waits for that looks at this
        stop.set()
        with suppress(OSError):  # the terminal may be what is gone
            tell(again)

    wanted = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, on_signal) for number in wanted}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def wait_for(stop: threading.Event) -> None:
    """Wait for `stop` in the main thread, in turns.

    The kernel may hand a signal to any thread, and Python calls its handler in the main one, which a signal elsewhere
    does not wake: without turns a master was seen to sleep through a SIGTERM.
    """
    while not stop.wait(_TURN_SECONDS):
        continue
