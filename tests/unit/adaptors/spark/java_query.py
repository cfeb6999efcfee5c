# SPDX-License-Identifier: Apache-2.0
"""A query's Java side as Spark 4.3.0 was seen to answer, for tests without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any, cast

from pyspark.sql.streaming.query import StreamingQuery


def java_query(
    *leaves: Any, trigger: str = "ProcessingTimeTrigger(0)", run_id: str = "11111111-2222-3333-4444-555555555555"
) -> StreamingQuery:
    """A query whose analysed plan has these leaves."""
    plan = SimpleNamespace(collectLeaves=lambda: _scala(leaves))
    execution = SimpleNamespace(
        trigger=lambda: SimpleNamespace(toString=lambda: trigger), analyzedPlan=lambda: plan, runId=lambda: run_id
    )
    return cast(
        StreamingQuery,
        SimpleNamespace(
            _jsq=SimpleNamespace(streamingQuery=lambda: execution), name="counts", isActive=True, runId=run_id
        ),
    )


def relation_v2(name: str, options: Mapping[str, str] | None = None) -> Any:
    """A source of Spark's second API: rate, Kafka, Python data sources."""
    extra = SimpleNamespace(asCaseSensitiveMap=lambda: dict(options or {}))
    return _leaf("StreamingRelationV2", sourceName=lambda: name, extraOptions=lambda: extra)


def relation_v1(name: str, options: Mapping[str, str] | None = None) -> Any:
    """A source of Spark's first API: files, Delta."""
    pairs = [SimpleNamespace(_1=lambda k=k: k, _2=lambda v=v: v) for k, v in (options or {}).items()]
    relation = SimpleNamespace(className=lambda: name, options=lambda: _scala(pairs))
    return _leaf("StreamingRelation", sourceName=lambda: f"FileSource[{name}]", dataSource=lambda: relation)


def static_relation() -> Any:
    """A table that a stream is joined with."""
    return _leaf("LogicalRelation", is_streaming=False)


def _leaf(kind: str, *, is_streaming: bool = True, **methods: Any) -> Any:
    java_class = SimpleNamespace(getSimpleName=lambda: kind)
    return SimpleNamespace(getClass=lambda: java_class, isStreaming=lambda: is_streaming, **methods)


def _scala(items: Iterable[Any]) -> Any:
    """A Scala collection: only its iterator is used."""
    return SimpleNamespace(iterator=lambda: _ScalaIterator(items))


class _ScalaIterator:
    def __init__(self, items: Iterable[Any]) -> None:
        self._left = list(items)

    def hasNext(self) -> bool:
        return bool(self._left)

    def next(self) -> Any:
        return self._left.pop(0)
