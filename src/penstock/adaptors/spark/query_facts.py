# SPDX-License-Identifier: Apache-2.0
"""What a running query says about itself: its trigger, and what it reads with which options.

Spark's Python API has no call for that, so it is read from the query's Java object (seen with Spark 4.3.0). Reading has
no effect on the query: the trigger and the analysed plan are there from the query's start and do not change. What
cannot be read is not known; nothing is raised.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.secrets import shown

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_log = logging.getLogger(__name__)

_TRIGGER = re.compile(r"(\w+)Trigger(?:\((\d+)\))?")
_PASSING = re.compile(r"#\d+L?|@[0-9a-f]+|\b[0-9a-f]{8}-[0-9a-f-]{27}\b|/[^\s,\]]*")
"""Ids of columns, of objects and of queries, and paths: what differs between two starts of one query."""
_AT_ONCE = ("AvailableNow", "OneTime")
"""Triggers of queries that read what is there and end."""
_CAPS = {
    "kafka": "maxoffsetspertrigger",
    "penstock_replay": "maxrowsperbatch",
    "penstock_rabbitmq": "maxrowsperbatch",
    "rate-micro-batch": "rowsperbatch",
}
"""By source: the option that bounds the records of a batch."""
_OTHER_CAPS = ("maxFilesPerTrigger", "maxBytesPerTrigger")
"""Options that bound a batch, but do not count records."""


@dataclass(frozen=True, slots=True)
class QuerySource:
    """A source of a query: the name of its format, and the options it was given, with their names in lower case."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        options = {name: shown(name, value) for name, value in self.options.items()}
        return f"QuerySource({self.name!r}, {options!r})"


@dataclass(frozen=True, slots=True)
class QueryFacts:
    """A query as it was started.

    Attributes
    ----------
    trigger_seconds
        The interval of its trigger; None: it starts a batch as soon as it can, or the interval is not known.
    is_real_time
        Whether it runs in Spark's real-time mode.
    cap
        The most records of a batch; None: there is no such bound, or it is not known.
    sources
        What it reads; None: not known.
    plan
        Stands for the query's plan: the same for each start of the same query. Empty: it is not known.
    notes
        What could not be read, a line each.
    """

    trigger_seconds: float | None = None
    is_real_time: bool = False
    cap: int | None = None
    sources: tuple[QuerySource, ...] | None = None
    notes: tuple[str, ...] = ()
    plan: str = ""


def read_query_facts(query: StreamingQuery) -> QueryFacts:
    """Return what the query says about its trigger and its sources."""
    notes: list[str] = []
    trigger_seconds, is_real_time = _read_trigger(query, notes)
    sources = _read_sources(query, notes)
    cap = None if sources is None else _cap(sources, notes)
    return QueryFacts(trigger_seconds, is_real_time, cap, sources, tuple(notes), _read_plan(query))


def _read_plan(query: StreamingQuery) -> str:
    """A digest of the plan's tree, without numbers that differ from start to start (ids of columns and objects)."""
    try:
        text = str(_execution(query).analyzedPlan().toString())
    except Exception:
        _log.debug("the plan cannot be read", exc_info=True)
        return ""
    return hashlib.sha256(_PASSING.sub("", text).encode()).hexdigest()[:16]


def _read_trigger(query: StreamingQuery, notes: list[str]) -> tuple[float | None, bool]:
    try:
        text = str(_execution(query).trigger().toString())
        found = _TRIGGER.fullmatch(text)
        kind, length_ms = (None, None) if found is None else found.groups()
        if kind == "ProcessingTime" and length_ms is not None:
            return (int(length_ms) / 1e3 or None), False
        if kind == "RealTime":
            return None, True
        if kind in _AT_ONCE:
            return None, False
        why = f"{text} is not known here"
    except Exception as fault:  # whatever another Spark answers, the user's job goes on
        _log.debug("the trigger cannot be read", exc_info=True)
        why = _first_line(fault)
    notes.append(f"the trigger of the query is not known, and plans go without it: {why}")
    return None, False


def _read_sources(query: StreamingQuery, notes: list[str]) -> tuple[QuerySource, ...] | None:
    try:
        leaves = _each(_execution(query).analyzedPlan().collectLeaves())
        return tuple(_source(leaf) for leaf in leaves if leaf.isStreaming())
    except Exception as fault:
        _log.debug("the plan cannot be read", exc_info=True)
        notes.append(f"what the query reads is not known, nor the most records of a batch: {_first_line(fault)}")
        return None


def _source(leaf: Any) -> QuerySource:
    if str(leaf.getClass().getSimpleName()) == "StreamingRelationV2":
        return _named(leaf.sourceName(), dict(leaf.extraOptions().asCaseSensitiveMap()))
    relation = leaf.dataSource()  # of the first API: files, and what other packages provide
    return _named(relation.className(), {pair._1(): pair._2() for pair in _each(relation.options())})


def _named(name: Any, options: Mapping[Any, Any]) -> QuerySource:
    return QuerySource(str(name), {str(option).lower(): str(value) for option, value in options.items()})


def _cap(sources: tuple[QuerySource, ...], notes: list[str]) -> int | None:
    """Return the most records of a batch. A query of several sources is bounded if all of them are."""
    caps: list[int | None] = []
    for source in sources:
        value = source.options.get(_CAPS.get(source.name.lower(), ""))
        caps.append(int(value) if value is not None and value.isdigit() and int(value) > 0 else None)
        other = next((option for option in _OTHER_CAPS if option.lower() in source.options), None)
        if other is not None and caps[-1] is None:
            notes.append(f"{other} of {source.name} bounds a batch, but not in records; plans go without it")
    known = [cap for cap in caps if cap is not None]
    return sum(known) if known and len(known) == len(caps) else None


def _execution(query: StreamingQuery) -> Any:
    return query._jsq.streamingQuery()


def _each(collection: Any) -> Iterator[Any]:
    """Iterate over a Scala collection."""
    iterator = collection.iterator()
    while iterator.hasNext():
        yield iterator.next()


def _first_line(fault: BaseException) -> str:
    lines = str(fault).strip().splitlines()
    return f"{type(fault).__name__}: {lines[0]}" if lines else type(fault).__name__
