# SPDX-License-Identifier: Apache-2.0
"""An application that does nothing with what it reads: how fast it runs is how fast its source can be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def read_only(stream: DataFrame, options: Mapping[str, str]) -> DataStreamWriter:  # noqa: ARG001 - there are none
    """Read every column of every record, and drop it."""
    return stream.writeStream.format("noop")
