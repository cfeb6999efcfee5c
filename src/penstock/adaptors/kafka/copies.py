# SPDX-License-Identifier: Apache-2.0
"""Drops copies of records from a stream: by time where the query has no watermark of its own, else for its whole life.

Both forms are a stateful operator of Spark's own. Spark forgets state only by a watermark, and allows one watermark on
the way from a source to the sink. So a query that defines its own leaves none for the copies. Decision 9 has the rest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_TAKEN_AT = "_taken_at"


def without_copies(frame: DataFrame, topic: str, unique: Sequence[str], within_seconds: float | None) -> DataFrame:
    """Return the stream without copies.

    Parameters
    ----------
    frame, topic
        The stream, and the topic that it reads, for messages.
    unique
        Columns that together identify a record. A record with null in all of them fails the query.
    within_seconds
        How long a record is remembered, on this query's clock. None: always, and without a watermark.

    Raises
    ------
    ConfigurationError
        A column is missing or cannot be compared, or the time is not a positive number.
    """
    from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

    names = list(dict.fromkeys(unique))
    _check_unique(frame, topic, names, within_seconds)
    # Nulls equal one another: without an identity all records would be copies of the first.
    is_nameless = F.lit(True)
    for name in names:
        is_nameless = is_nameless & frame[_quoted(name)].isNull()
    failure = F.raise_error(
        F.lit(f"topic '{topic}': a record has null in {', '.join(names)}, which should identify it")
    )
    first = F.when(is_nameless, failure).otherwise(frame[_quoted(names[0])])
    named = frame.withColumn(names[0], first)
    if within_seconds is None:
        return named.dropDuplicates(names)
    return (
        named.withColumn(_TAKEN_AT, F.current_timestamp())
        .withWatermark(_TAKEN_AT, f"{math.ceil(within_seconds * 1e3)} milliseconds")
        .dropDuplicatesWithinWatermark(names)
        .drop(_TAKEN_AT)
    )


def has_own_watermark(result: DataFrame | DataStreamWriter) -> bool:
    """Whether a query defines a watermark besides the one that `without_copies` may have given its source."""
    frame: Any = getattr(result, "_df", result)
    todo = [frame._jdf.queryExecution().analyzed()]
    while todo:
        node = todo.pop()
        if node.nodeName() == "EventTimeWatermark" and node.eventTime().name() != _TAKEN_AT:
            return True
        children = node.children()
        todo += [children.apply(number) for number in range(children.size())]
    return False


def _check_unique(frame: DataFrame, topic: str, names: Sequence[str], within_seconds: float | None) -> None:
    from pyspark.sql.types import MapType, VariantType

    if within_seconds is not None and not (math.isfinite(within_seconds) and within_seconds > 0):
        raise ConfigurationError(
            f"unique_within_seconds: {within_seconds} is not a positive number; give the seconds to remember a record",
            field="unique_within_seconds",
        )
    there = {field.name: field.dataType for field in frame.schema.fields}
    faults = []
    for name in names:
        if name not in there:
            faults.append(f"topic {topic!r} has no column {name!r}; there: {', '.join(there)}")
        elif isinstance(there[name], MapType | VariantType):
            faults.append(f"column {name!r} is a {there[name].typeName()}, which cannot be compared; name another")
    if _TAKEN_AT in there:
        faults.append(f"column {_TAKEN_AT!r} is reserved for the time a record was read; give yours another name")
    if faults:
        raise ConfigurationError.of_all("unique", faults)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
