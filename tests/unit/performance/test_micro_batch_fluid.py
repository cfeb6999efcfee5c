# SPDX-License-Identifier: Apache-2.0
"""Backlogs followed as a fluid: growth in a rush, draining after it, the settled batch."""

from __future__ import annotations

import math

import pytest

from penstock.errors import ConfigurationError
from penstock.performance.queueing.micro_batch import MicroBatch, Rates, backlog_after, drain_seconds


def test_rush_grows_and_drains() -> None:
    """A rush above the capped capacity adds the difference of the rates, and goes when the rush is over."""
    server = MicroBatch(1.0, 0.01, cap=100)  # 100 records in 2 s: 50 a second
    found = backlog_after(server, Rates([90.0, 10.0], [100.0, 1.0]), [100.0, 160.0, 400.0])
    assert found[0] == pytest.approx(100 * (90 - 50), rel=0.06)  # a batch's worth of 4,000 either way
    assert found[1] == pytest.approx(4000 - 60 * (50 - 10), rel=0.15)
    assert found[2] < 60


def test_settled_batch_without_rush() -> None:
    """At a steady rate the records in the system stay within two batches of the settled size."""
    server = MicroBatch(0.3, 0.001)
    usual = 500.0 * server.smooth_batch_seconds(500.0)
    assert usual == pytest.approx(300.0)
    assert 0.9 * usual < backlog_after(server, Rates([500.0], [1.0]), [60.0])[0] < 2.1 * usual


def test_drain_time_of_a_capped_server() -> None:
    """A backlog drains at the difference of capacity and rate."""
    server = MicroBatch(1.0, 0.01, cap=100)
    assert drain_seconds(server, 10.0, 4000.0) == pytest.approx(4000 / (50 - 10), rel=0.05)


def test_what_never_drains_takes_for_ever() -> None:
    """At a rate the server cannot keep up with a backlog never drains."""
    assert math.isinf(drain_seconds(MicroBatch(1.0, 0.01, cap=100), 50.0, 10.0))


def test_trigger_sets_the_settled_batch() -> None:
    """With a trigger longer than the batch a batch holds what arrives between triggers."""
    assert MicroBatch(0.3, 0.001, trigger=2.0).smooth_batch_seconds(500.0) == pytest.approx(1.3)


def test_rates_must_be_given_with_their_times() -> None:
    """Rates without as many lengths of time are refused."""
    with pytest.raises(ConfigurationError, match="one rate for each"):
        Rates([1.0, 2.0], [1.0])
