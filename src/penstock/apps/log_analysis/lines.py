# SPDX-License-Identifier: Apache-2.0
"""The parser's line formats: one regular expression each, and the format of its time.

Expressions use only syntax that Java and Python read alike: Spark runs them, and tests check them without Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class LineFormat:
    """The line format of one kind of log. The numbers are the groups of `regex` that hold each field.

    Parameters
    ----------
    regex
        Matches a whole well-formed line. Every field stands between literal separators, so that a line that
        matches never equals its fields written one after the other.
    timestamp, level, component, message
        Group numbers. `level` is None if the format has none.
    time_pattern
        Spark's pattern for the time. None: ISO 8601.
    has_year
        If the line has no year (syslog), the year of the line's arrival is used.
    """

    name: str
    regex: str
    timestamp: int = 1
    level: int | None = 2
    component: int = 3
    message: int = 4
    time_pattern: str | None = None
    has_year: bool = True


FORMATS: Mapping[str, LineFormat] = {
    line_format.name: line_format
    for line_format in (
        # 2026-01-31T12:34:56.789 INFO storage.BlockManager: message text
        LineFormat(
            "penstock",
            r"(?s)^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}) ([A-Z]+) ([\w.$/-]+): (.*)$",
        ),
        # 081109 203615 148 INFO dfs.DataNode$PacketResponder: message text
        LineFormat(
            "hdfs",
            r"(?s)^(\d{6} \d{6}) \d+ ([A-Z]+) ([\w.$-]+): (.*)$",
            time_pattern="yyMMdd HHmmss",
        ),
        # 17/06/09 20:10:40 INFO executor.Executor: message text
        LineFormat(
            "spark",
            r"(?s)^(\d\d/\d\d/\d\d \d\d:\d\d:\d\d) ([A-Z]+) ([\w.$-]+): (.*)$",
            time_pattern="yy/MM/dd HH:mm:ss",
        ),
        # 2015-07-29 17:41:44,747 - INFO  [QuorumPeer[myid=1]/0:0:0:0:0:0:0:0:2181:FastLeaderElection@774] - text
        LineFormat(
            "zookeeper",
            r"(?s)^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) - ([A-Z]+) +\[.{0,500}?([\w$]{1,200})@\d+\] - (.*)$",
            time_pattern="yyyy-MM-dd HH:mm:ss,SSS",
        ),
        # Dec 10 06:55:46 LabSZ sshd[24200]: message text
        LineFormat(
            "openssh",
            r"(?s)^([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) \S+ ([\w.-]+)\[\d+\]: (.*)$",
            level=None,
            component=2,
            message=3,
            time_pattern="yyyy MMM [ ]d HH:mm:ss",
            has_year=False,
        ),
        # [Sun Dec 04 04:47:44 2005] [notice] workerEnv.init() ok; a line about a request has component "client"
        LineFormat(
            "apache",
            r"(?s)^\[[A-Z][a-z]{2} ([A-Z][a-z]{2} \d\d \d\d:\d\d:\d\d \d{4})\] \[(\w+)\] (\[?([\w.]+).*)$",
            component=4,
            message=3,
            time_pattern="MMM dd HH:mm:ss yyyy",
        ),
        # 83.149.9.216 - - [17/May/2015:10:05:03 +0000] "GET /a/b HTTP/1.1" 200 203023 "referrer" "agent":
        # the level is the status, the component the first part of the path
        LineFormat(
            "combined",
            r'(?s)^\S+ \S+ \S+ \[(\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\] '
            r'("[A-Z]+ (/[^/?"\s]*)[^"]*" (\d{3}) (?:\d+|-).*)$',
            level=4,
            component=3,
            message=2,
            time_pattern="dd/MMM/yyyy:HH:mm:ss Z",
        ),
    )
}  # fmt: skip


def line_format(name: str) -> LineFormat:
    """Return the format called `name`.

    Raises
    ------
    ConfigurationError
        No format has that name.
    """
    if name not in FORMATS:
        raise ConfigurationError(f"format: unknown line format {name!r}; known: {', '.join(FORMATS)}", field="format")
    return FORMATS[name]
