# SPDX-License-Identifier: Apache-2.0
"""Finds out by itself when the records of a running query arrived, from what the query says that it reads."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.adaptors.spark.query_facts import QuerySource
from penstock.errors import ConfigurationError, PenstockError
from penstock.ports import ArrivalTimes

_log = logging.getLogger(__name__)

KAFKA, REPLAY = "kafka", "penstock_replay"


def _nothing() -> None:
    """Nothing was started."""


@dataclass(frozen=True, slots=True)
class FoundArrivals:
    """When records arrive, as far as that could be found out.

    Attributes
    ----------
    times
        Who knows it; None: nobody, so that arrival times are interpolated between batches.
    note
        What the user should know about that, in one line.
    close
        Ends what was started. May be called twice.
    """

    times: ArrivalTimes | None = None
    note: str | None = None
    close: Callable[[], None] = _nothing


def find_arrivals(sources: Sequence[QuerySource] | None) -> FoundArrivals:
    """Return who knows the arrival times of these sources. Nothing is raised: what fails is noted.

    The replay source is known exactly. Kafka's topics are tapped: a client of our own reads beside the query. All
    other sources do not say when their records arrived.
    """
    if not sources:
        return FoundArrivals(note="arrival times are interpolated between batches: what the query reads is not known")
    named = ", ".join(dict.fromkeys(source.name for source in sources))
    interpolated = f"arrival times of {named} are interpolated between batches"
    try:
        if {source.name for source in sources} == {KAFKA}:
            return _tapped(sources)
        if [source.name for source in sources] == [REPLAY]:
            return _replayed(sources[0])
    except PenstockError as fault:
        return FoundArrivals(note=f"{interpolated}: {_one_line(fault)}")
    except Exception as fault:  # whatever it was, the query runs and can be watched without it
        _log.exception("arrival times of %s cannot be found", named)
        return FoundArrivals(note=f"{interpolated}: {type(fault).__name__}: {_one_line(fault)}")
    return FoundArrivals(note=interpolated)


def _replayed(source: QuerySource) -> FoundArrivals:
    from penstock.adaptors.replay.options import replay_arrivals

    return FoundArrivals(replay_arrivals(source.options))


def _tapped(sources: Sequence[QuerySource]) -> FoundArrivals:
    from penstock.adaptors.kafka.arrival_times import KafkaArrivals
    from penstock.adaptors.kafka.spark_source import connection_of, topics_of
    from penstock.adaptors.kafka.topic_tap import TopicTap

    connection = connection_of(sources[0].options)
    topics = [topic for source in sources for topic in topics_of(source.options)]
    if any(connection_of(source.options) != connection for source in sources):
        raise ConfigurationError("the query reads from several brokers")
    if len(set(topics)) < len(topics):
        raise ConfigurationError("the query reads a topic twice")
    tap = TopicTap(connection, topics)
    try:
        tap.start()
    except BaseException:
        tap.close()
        raise
    return FoundArrivals(KafkaArrivals(tap), close=tap.close)


def _one_line(fault: BaseException) -> str:
    return " ".join(str(fault).split())
