# SPDX-License-Identifier: Apache-2.0
"""The log analysis where each line costs some CPU more, so that the executors' limits say how many they can do.

What the analysis itself takes differs by factors: between a young JVM and an old one, and with what else the machine
does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def analyse_costly_lines(stream: DataFrame, options: Mapping[str, str]) -> DataStreamWriter:
    """Spend `milliseconds` of CPU for each line, whatever share of a core there is, and then analyse it."""
    from penstock.apps.log_analysis import log_analysis

    costly, others = made_costly(stream, options)
    return log_analysis(costly, others)


def number_costly_lines(stream: DataFrame, options: Mapping[str, str]) -> DataStreamWriter:
    """Spend `milliseconds` of CPU for each line, whatever share of a core there is, and then keep its number."""
    from tests.e2e.number_keeper import keep_numbers

    costly, others = made_costly(stream, options)
    return keep_numbers(costly, others)


def parse_costly_lines(stream: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """Spend `milliseconds` of CPU for each line, whatever share of a core there is, and then parse it."""
    from penstock.apps.log_analysis import parser

    costly, others = made_costly(stream, options)
    return parser(costly, others)


def made_costly(stream: DataFrame, options: Mapping[str, str]) -> tuple[DataFrame, dict[str, str]]:
    """The stream whose lines, or records, cost so much, and the other options."""
    others = dict(options)
    seconds = float(others.pop("milliseconds")) / 1000.0

    def spend(batches: Iterator[Any]) -> Iterator[Any]:
        import time

        for batch in batches:
            until = time.process_time() + seconds * batch.num_rows
            while time.process_time() < until:
                pass
            yield batch

    return stream.mapInArrow(spend, stream.schema), others
