# SPDX-License-Identifier: Apache-2.0
"""Passes that stay away open the CPU shares, once for each silence."""

from __future__ import annotations

from penstock._pass_watch import PassWatch
from penstock.clock import VirtualClock


def test_a_pass_that_succeeds_while_shares_are_opened_begins_a_new_silence() -> None:
    """It may have set a cap, and where none follows it, that cap is lifted in its turn."""
    clock, opened = VirtualClock(), []

    def open_shares() -> None:
        opened.append(clock.now())
        if len(opened) == 1:
            watch.passed()

    watch = PassWatch("counts", 1.0, open_shares, monotonic=clock.monotonic)
    for advance, count in ((61.0, 1), (60.0, 1), (1.5, 2), (90.0, 2)):
        clock.advance(advance)
        watch.look()
        assert len(opened) == count
