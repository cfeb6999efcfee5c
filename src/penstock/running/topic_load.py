# SPDX-License-Identifier: Apache-2.0
"""What arrives at a pipeline through a topic, sent by a producer of the run or by others."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import ConfigurationError
from penstock.ports import ArrivalTimes, FloatArray
from penstock.running.arrival_load import ReplayLoad
from penstock.running.checkpoint_files import committed_offsets, newest_offsets

if TYPE_CHECKING:
    from penstock.adaptors.produce.sent_records import SentRecords
    from penstock.arrivals.due import ReplayArrivals


class ProducedLoad(ReplayLoad):
    """Arrivals that a producer of the run sends into a topic."""

    def read(self, checkpoint: Path) -> int | None:
        """By the newest batch planned."""
        return records_before(newest_offsets(checkpoint))

    def done(self, checkpoint: Path) -> int | None:
        """By the newest batch done."""
        return records_before(committed_offsets(checkpoint))


class TopicLoad:
    """Arrivals that others send into a topic, without an end."""

    def __init__(self, arrivals: Callable[[], ArrivalTimes], clock: Callable[[], float]) -> None:
        self._arrivals = arrivals
        self._began = clock()
        self.total: int | None = None

    def span(self) -> tuple[float, float] | None:
        """For ever."""
        return self._began, math.inf

    def arrived_by(self, at: float) -> int | None:
        """By the tap."""
        return self._arrivals().arrived_by(at)

    def waiting(self, done: int, at: float) -> FloatArray | None:  # noqa: ARG002
        """Not known: only the query knows which records of which partition are not done."""
        return None

    def read(self, checkpoint: Path) -> int | None:
        """By the newest batch planned."""
        return records_before(newest_offsets(checkpoint))

    def done(self, checkpoint: Path) -> int | None:
        """By the newest batch done."""
        return records_before(committed_offsets(checkpoint))


def epoch_of(sent: SentRecords, replay: ReplayArrivals) -> float:
    """Time zero of a load, in seconds since 1970, from when one of its records was due."""
    number = sent.newest.number
    if number >= replay.arrivals.total:
        raise ConfigurationError(
            f"resume: the topic holds record {number:,}, but the arrivals have {replay.arrivals.total:,}; give the "
            "settings and trace that the run was started with",
            field="resume",
        )
    after = float(replay.arrivals.times(number, number + 1)[0]) / replay.speed
    return (sent.newest.due_us - round(after * 1e6)) / 1e6


def parts_left(sent: SentRecords, total: int) -> tuple[tuple[int, int], ...]:
    """The stretches of records that are still to be sent."""
    return tuple((part.start, part.stop) for part in sent.missing(total))


def records_before(text: str | None) -> int | None:
    """How many records of its topics lie before offsets of a query's checkpoint."""
    from penstock.adaptors.kafka.offsets import parse_offsets

    offsets = parse_offsets(text)
    return None if offsets is None else sum(offsets.values())
