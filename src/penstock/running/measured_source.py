# SPDX-License-Identifier: Apache-2.0
"""What a measured application reads: a replay with everything due at once, or a topic that is filled already."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import numpy as np

from penstock.errors import ConfigurationError
from penstock.measuring.plan import MeasurePlan
from penstock.running.operator_job import JobInput, TopicEnd

_SLICES, _SLICE_ROWS = 10, 1000
"""The records whose text is measured, spread over those that were read."""


class MeasuredSource(Protocol):
    """Gives an application records as fast as it takes them."""

    @property
    def spark(self) -> Mapping[str, str]:
        """What the application's Spark configuration needs to read it."""
        ...

    @property
    def can_change_cap(self) -> bool:
        """Whether a running application can be given another cap; otherwise it has to be started again."""
        ...

    def reads(self, partitions: int, cap: int, cap_file: Path) -> JobInput:
        """The input of an application that reads with so many tasks, and at most so many records in a batch.

        `cap_file` holds the cap where it can be changed.
        """
        ...

    def bytes_per_record(self, records: int) -> float | None:
        """The mean length of the text of the first `records` records, in UTF-8; None: it is not known."""
        ...


class ReplayedAtOnce:
    """A replay whose time zero lies so far back that every record is due.

    Parameters
    ----------
    options
        Of the replay source, without its partitions, its cap and its time zero.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        from penstock.adaptors.replay.options import ReplayOptions, open_arrivals

        for name in ("partitions", "maxRowsPerBatch", "maxRowsFile", "startAt"):
            if name.lower() in {option.lower() for option in options}:
                raise ConfigurationError(
                    f"--source-option {name}: is set by the measurement; leave it out", field="--source-option"
                )
        parsed = ReplayOptions.parse(options)
        seconds = open_arrivals(parsed).duration_seconds / parsed.speed
        # A second more: the last record is due at the end, and clocks of other hosts may be a little behind.
        self._options = {**options, "startAt": f"{time.time() - seconds - 1.0:.0f}"}
        self._parsed = ReplayOptions.parse(self._options)
        self.spark: Mapping[str, str] = {}
        self.can_change_cap = True

    def reads(self, partitions: int, cap: int, cap_file: Path) -> JobInput:
        """The replay, split evenly over the tasks."""
        from penstock.adaptors.replay.max_rows_file import write_max_rows

        write_max_rows(cap_file, cap)
        return JobInput(replay={**self._options, "partitions": str(partitions), "maxRowsFile": str(cap_file)})

    def bytes_per_record(self, records: int) -> float | None:
        """By making some of them again."""
        import pyarrow.compute as pc

        from penstock.adaptors.replay.options import open_arrivals
        from penstock.adaptors.replay.payloads import open_payload

        if self._parsed.payload == "none" or records < 1:
            return None
        arrivals, payload = open_arrivals(self._parsed), open_payload(self._parsed)
        lengths = []
        for start in np.linspace(0, max(0, records - _SLICE_ROWS), _SLICES).astype(int).tolist():
            stop = min(start + _SLICE_ROWS, records, arrivals.total)
            us = (self._parsed.epoch_us or 0) + np.rint(arrivals.times(start, stop) * (1e6 / self._parsed.speed))
            column = payload.column(start, us.astype(np.int64))
            lengths.append(pc.mean(pc.binary_length(column)).as_py())
        return float(np.mean(lengths))


class FilledTopic:
    """A topic that somebody has filled before; it is read from its beginning for every sample.

    Parameters
    ----------
    topic, servers, options
        The topic, its broker and how that is reached.
    say
        Takes what is being done: the connector may have to be fetched.
    stop
        Ends the fetching.
    """

    def __init__(
        self,
        topic: str,
        servers: str,
        options: Mapping[str, str],
        say: Callable[[str], None] = lambda _: None,
        stop: threading.Event | None = None,
    ) -> None:
        from penstock.adaptors.kafka.connector import connector_settings
        from penstock.adaptors.kafka.known_brokers import connection_to
        from penstock.adaptors.kafka.topics import Topics

        self._connection = connection_to(servers, options)
        self._end = TopicEnd(servers, dict(self._connection.options), topic)
        self._partitions = Topics(self._connection).check([topic])[0].partitions
        self.spark: Mapping[str, str] = connector_settings(say, stop=stop)
        self.can_change_cap = False

    def reads(self, partitions: int, cap: int, cap_file: Path) -> JobInput:  # noqa: ARG002 - the cap is Kafka's own
        """The topic; with fewer partitions than tasks, its partitions are split."""
        options = {"maxOffsetsPerTrigger": str(cap), "startingOffsets": "earliest"}
        if partitions > self._partitions:
            options["minPartitions"] = str(partitions)
        return JobInput(topic=self._end, partitions=self._partitions, options=options)

    def bytes_per_record(self, records: int) -> float | None:  # noqa: ARG002 - the first ones stand for all
        """Of the first records of each partition."""
        from penstock.adaptors.kafka.value_bytes import mean_value_bytes

        return mean_value_bytes(self._connection, self._end.topic, self._partitions)


def source_of(
    plan: MeasurePlan, broker: Mapping[str, str], say: Callable[[str], None], stop: threading.Event | None = None
) -> MeasuredSource:
    """The source that the plan names; `broker` has the options of the connection. `stop` ends a fetch."""
    if plan.topic is not None and plan.servers is not None:
        return FilledTopic(plan.topic, plan.servers, broker, say, stop)
    return ReplayedAtOnce(plan.source)
