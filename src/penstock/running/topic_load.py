# SPDX-License-Identifier: Apache-2.0
"""What arrives at a pipeline through a broker, sent by a producer of the run or by others."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import ConfigurationError
from penstock.ports import ArrivalTimes, FloatArray
from penstock.running.arrival_load import ReplayLoad
from penstock.running.checkpoint_files import committed_offsets, newest_offsets

if TYPE_CHECKING:
    from penstock.adaptors.produce.sent_load import SentRecords
    from penstock.arrivals.due import ReplayArrivals


Counting = Callable[[Path, str | None], int | None]
"""How many records lie before the offsets of a query's checkpoint, from where that is and their text."""


def records_before(text: str | None) -> int | None:
    """How many records of its topics lie before offsets of a query's checkpoint."""
    from penstock.adaptors.kafka.offsets import parse_offsets

    offsets = parse_offsets(text)
    return None if offsets is None else sum(offsets.values())


def _in_topics(_: Path, text: str | None) -> int | None:
    return records_before(text)


class ProducedLoad(ReplayLoad):
    """Arrivals that a producer of the run sends to a broker."""

    def __init__(self, replay: ReplayArrivals, count: Counting = _in_topics) -> None:
        super().__init__(replay)
        self._count = count

    def read(self, checkpoint: Path) -> int | None:
        """By the newest batch planned."""
        return self._count(checkpoint, newest_offsets(checkpoint))

    def done(self, checkpoint: Path) -> int | None:
        """By the newest batch done."""
        return self._count(checkpoint, committed_offsets(checkpoint))


class TopicLoad:
    """Arrivals that others send to a topic or exchange, without an end."""

    def __init__(
        self, arrivals: Callable[[], ArrivalTimes], clock: Callable[[], float], count: Counting = _in_topics
    ) -> None:
        self._arrivals, self._count = arrivals, count
        self._began = clock()
        self.total: int | None = None

    def span(self) -> tuple[float, float] | None:
        """For ever."""
        return self._began, math.inf

    def arrived_by(self, at: float) -> int | None:
        """By the tap."""
        return self._arrivals().arrived_by(at)

    def waiting(self, done: int, at: float) -> FloatArray | None:  # noqa: ARG002
        """Not known: only the query knows which records are not done."""
        return None

    def read(self, checkpoint: Path) -> int | None:
        """By the newest batch planned."""
        return self._count(checkpoint, newest_offsets(checkpoint))

    def done(self, checkpoint: Path) -> int | None:
        """By the newest batch done."""
        return self._count(checkpoint, committed_offsets(checkpoint))


def epoch_of(sent: SentRecords, replay: ReplayArrivals) -> float:
    """Time zero of a load, in seconds since 1970, from when one of its records was due."""
    number = sent.newest.number
    if number >= replay.arrivals.total:
        raise ConfigurationError(
            f"resume: the broker holds record {number:,}, but the arrivals have {replay.arrivals.total:,}; give the "
            "settings and trace that the run was started with",
            field="resume",
        )
    after = float(replay.arrivals.times(number, number + 1)[0]) / replay.speed
    return (sent.newest.due_us - round(after * 1e6)) / 1e6


def parts_left(sent: SentRecords, total: int) -> tuple[tuple[int, int], ...]:
    """The stretches of records that are still to be sent."""
    return tuple((part.start, part.stop) for part in sent.missing(total))


def left_text(parts: Sequence[tuple[int, int]]) -> str:
    """What a run that is resumed says of its load."""
    return f"the load goes on: {sum(b - a for a, b in parts):,} records are left to send"
