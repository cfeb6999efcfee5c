# SPDX-License-Identifier: Apache-2.0
"""Arrival times sent through one operator."""

import math

import numpy as np
import pytest

from penstock.performance.queueing.micro_batch.server import MicroBatch
from penstock.performance.replay import batch_ends, record_ends, statistic


def test_a_record_just_after_a_trigger_takes_the_next_one() -> None:
    """An arrival one rounding step after a multiple of the trigger is not lost between two triggers.

    45 x 2.3 is 103.49999999999999 as it is rounded, and 103.5 / 2.3 is 45: the multiple lies before the arrival.
    """
    came = np.array([103.5])
    assert 2.3 * math.ceil(came[0] / 2.3) < came[0]
    [ended] = batch_ends(came, MicroBatch(0.1, 0.1, trigger=2.3), 0.0)
    assert ended == pytest.approx(46 * 2.3 + 0.2)


@pytest.mark.parametrize("trigger", [0.1, 0.3, 0.7, 1.1, 2.3])
def test_batches_shorter_than_the_trigger_start_at_its_multiples(trigger: float) -> None:
    """With a record before every trigger and short batches, each trigger starts one batch, whatever the rounding."""
    came = np.asarray(trigger * (np.arange(2000) + 0.5), dtype=np.float64)
    ended = batch_ends(came, MicroBatch(0.1 * trigger, 0.1 * trigger, trigger=trigger), 0.0)
    assert np.allclose(ended - came, 0.7 * trigger)


def test_executors_take_records_in_turn() -> None:
    """Of three records at once on two executors the third waits for the first; in order, none overtakes."""
    came, work = np.zeros(3), np.array([3.0, 1.0, 1.0])
    assert record_ends(came, work, 2, in_order=False).tolist() == [3.0, 1.0, 4.0]
    assert record_ends(came, work, 2).tolist() == [3.0, 3.0, 4.0]


def test_statistics_are_by_rank() -> None:
    """The 95th percentile of twenty times is the nineteenth, and of no time zero."""
    times = np.arange(20.0)
    assert statistic(times, 0.95) == 18.0
    assert statistic(times, None) == 9.5
    assert statistic(np.empty(0), 0.95) == 0.0
