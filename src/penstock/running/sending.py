# SPDX-License-Identifier: Apache-2.0
"""The start of a run's own producer, wherever it sends to: from the first record, or from where another one stopped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.adaptors.process.children import Warden
from penstock.adaptors.produce.sent_load import SentRecords
from penstock.crash_points import crash_point
from penstock.running.producer import ProducerJob, ProducerProcess
from penstock.running.topic_load import epoch_of, left_text, parts_left

if TYPE_CHECKING:
    from penstock.arrivals.due import ReplayArrivals


def begin_sending(
    job: ProducerJob,
    sent: SentRecords | None,
    replay: ReplayArrivals,
    start: tuple[Path, Warden],
    say: Callable[[str], None],
) -> ProducerProcess | None:
    """Start the producer, and say since when records are due; None: all of them were sent before.

    Parameters
    ----------
    job
        What is sent, and to where.
    sent
        What a producer before has sent; None: there was none.
    replay
        The arrivals, which begin now.
    start
        The run's folder, and what ends the process with the run.
    say
        What is left to send is said to the user.
    """
    if sent is not None:
        epoch, total = epoch_of(sent, replay), replay.arrivals.total
        job = replace(job, epoch=epoch, parts=parts_left(sent, total))
        replay.begin(epoch)
        say(left_text(job.parts or ()))
        if not job.parts:
            return None
    producer = ProducerProcess(job, *start)
    producer.start()
    crash_point("producer-started")
    replay.begin(producer.await_epoch())
    return producer
