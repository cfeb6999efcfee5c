# SPDX-License-Identifier: Apache-2.0
"""An agent whose masters stay away: what it remembers and logs of that is bounded."""

from __future__ import annotations

import logging

import pytest

from penstock.adaptors.agent import link as subject
from penstock.adaptors.agent.link import MasterLink
from penstock.adaptors.agent.master_address import MasterAddress
from penstock.adaptors.agent.meter_agent import MeterAgent
from penstock.adaptors.agent.meters import Meters


def test_faults_that_are_never_the_same_do_not_fill_memory(caplog: pytest.LogCaptureFixture) -> None:
    """Texts may name ports: after weeks without a master as few are remembered as after an hour. One is said once."""
    link = MasterLink(MeterAgent(Meters()), MasterAddress((("127.0.0.1", 1),), b"x" * 32), "toy")
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            link._note(("127.0.0.1", 1), "refused")
        assert len(caplog.records) == 1
        for number in range(10 * subject._MOST_SAID):
            link._note(("127.0.0.1", 1), f"connected from port {number}")
    assert len(link._said) <= subject._MOST_SAID
