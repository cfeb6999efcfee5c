# SPDX-License-Identifier: Apache-2.0
"""Spark's side of the states: takes them out of the store, hands them a batch, and puts them back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from penstock.apps.google_cluster.cluster_state import COLUMNS, ClusterState, result_columns
from penstock.apps.google_cluster.machine_states import MachineState, MachineStates, TaskEvent
from penstock.apps.one_value_state import OneValueProcessor


class MachinesProcessor(OneValueProcessor):
    """The machines of a group."""

    def handleInputRows(  # type: ignore[override]  # noqa: N802 - Spark's name, and its rows as pandas
        self, _key: Any, rows: Iterator[pd.DataFrame], _timers: Any
    ) -> Iterator[pd.DataFrame]:
        """Apply the events of a batch."""
        machines = MachineStates(self._kept())
        events = [
            TaskEvent(*values)
            for frame in rows
            for values in zip(*(frame[name].tolist() for name in TaskEvent._fields), strict=True)
        ]
        states = machines.apply(events)
        self._keep(machines.to_bytes())
        yield pd.DataFrame(states, columns=list(MachineState._fields))


class ClusterProcessor(OneValueProcessor):
    """The whole cluster."""

    def __init__(self, every_us: int, lateness_us: int) -> None:
        self._every_us = every_us
        self._lateness_us = lateness_us

    def handleInputRows(  # type: ignore[override]  # noqa: N802 - Spark's name, and its rows as pandas
        self, _key: Any, rows: Iterator[pd.DataFrame], _timers: Any
    ) -> Iterator[pd.DataFrame]:
        """Take in the machines' rows of a batch; yield the results that are complete."""
        cluster = ClusterState(self._every_us, self._lateness_us, self._kept())
        frames = list(rows)
        taken = [frame[list(COLUMNS)].to_numpy(dtype=np.int64).T for frame in frames]
        late = sum(int(frame["is_late"].sum()) for frame in frames)
        results = cluster.take(np.concatenate(taken, axis=1), late)
        self._keep(cluster.to_bytes())
        yield pd.DataFrame(results, columns=result_columns())
