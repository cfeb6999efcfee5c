# SPDX-License-Identifier: Apache-2.0
"""Web access logs: ``TIME VISITOR SITE PATH STATUS``, as the replay source's payload ``web-log`` has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FIELDS = ("time", "visitor", "site", "path", "status")


class Visit(NamedTuple):
    """A line of the log, read without Spark."""

    time: str
    visitor: str
    site: str
    path: str
    status: str


def visits_of(stream: DataFrame) -> DataFrame:
    """Return (index, arrival, time, visitor, site, path, status), all fields as text. Other lines are dropped."""
    from pyspark.sql import functions as sf

    fields = stream.select("index", "arrival", sf.split("value", " ").alias("fields"))
    fields = fields.where(sf.size("fields") == len(_FIELDS))
    return fields.select("index", "arrival", *(sf.col("fields")[i].alias(name) for i, name in enumerate(_FIELDS)))


def read_visits(lines: Iterable[str | None]) -> Iterator[Visit | None]:
    """Read the same lines without Spark. None: the line is dropped."""
    for line in lines:
        fields = (line or "").split(" ")
        yield Visit(*fields) if len(fields) == len(_FIELDS) else None
