# SPDX-License-Identifier: Apache-2.0
"""A state of one value of bytes for each key, in Spark's store: what a stateful application keeps between batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, ValueState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCHEMA = "bytes BINARY"


class OneValueProcessor(StatefulProcessor):
    """Keeps one value of bytes for each key."""

    _state: ValueState

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._state = handle.getValueState("state", _SCHEMA)

    def close(self) -> None:
        """Nothing is open."""

    def _kept(self) -> bytes | None:
        found = self._state.get()
        return None if found is None else bytes(found[0])

    def _keep(self, value: bytes) -> None:
        self._state.update((value,))


def keep_state_in_rocksdb(spark: SparkSession) -> None:
    """Set the store that transformWithState needs; it works with no other."""
    spark.conf.set(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    )
