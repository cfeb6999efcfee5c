# SPDX-License-Identifier: Apache-2.0
"""A request to stop, wherever a run is, and however the request comes."""

from __future__ import annotations

import errno
import os
import signal
import threading

import pytest

from penstock.cli.signals import stopping_on_signals, wait_for


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_asks_to_stop_and_the_handlers_before_come_back(number: signal.Signals) -> None:
    """Also that of a terminal which is closed."""
    stop, told, before = threading.Event(), list[bool](), signal.getsignal(number)
    with stopping_on_signals(stop, told.append):
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)
    assert stop.is_set()
    assert told == [False, True]
    assert signal.getsignal(number) is before


@pytest.mark.parametrize(("number", "leaves"), [(signal.SIGINT, False), (signal.SIGTERM, True), (signal.SIGHUP, True)])
def test_a_machine_asks_to_leave_and_a_person_to_end(number: signal.Signals, leaves: bool) -> None:
    """The first signal counts: a Ctrl-C after a SIGTERM does not end what is being left, nor the other way round."""
    stop, leave = threading.Event(), threading.Event()
    with stopping_on_signals(stop, lambda _: None, leave):
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), signal.SIGTERM if number == signal.SIGINT else signal.SIGINT)
    assert stop.is_set()
    assert leave.is_set() is leaves


def test_an_ignored_hangup_stays_ignored() -> None:
    """So that nohup lets a run outlive its terminal."""
    stop, before = threading.Event(), signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stopping_on_signals(stop, lambda _: None):
            os.kill(os.getpid(), signal.SIGHUP)
        assert not stop.is_set()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_terminal_that_is_gone_does_not_get_in_the_way() -> None:
    """What cannot be shown is not raised into whatever runs just then."""

    def tell(_: bool) -> None:
        raise OSError(errno.EIO, "Input/output error")

    stop = threading.Event()
    with stopping_on_signals(stop, tell):
        os.kill(os.getpid(), signal.SIGTERM)
    assert stop.is_set()


def test_a_signal_that_another_thread_got_ends_the_waiting() -> None:
    """Python calls handlers in the main thread, which the kernel does not wake where another thread took the signal."""
    stop, is_over, late = threading.Event(), threading.Event(), list[bool]()

    def rescue() -> None:
        if not is_over.wait(30.0):
            late.append(True)
            stop.set()

    taker, rescuer = threading.Thread(target=is_over.wait, args=(60.0,)), threading.Thread(target=rescue)
    sender = threading.Timer(0.2, lambda: signal.pthread_kill(taker.ident or 0, signal.SIGTERM))
    with stopping_on_signals(stop, lambda _: None):
        for thread in (taker, rescuer, sender):
            thread.start()
        wait_for(stop)
        is_over.set()
        for thread in (taker, rescuer, sender):
            thread.join()
    assert not late
