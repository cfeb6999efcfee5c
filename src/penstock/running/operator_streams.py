# SPDX-License-Identifier: Apache-2.0
"""How the operators of a run are joined: what their jobs read and write, and how the loop follows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from penstock.monitor.path import PathMonitor
from penstock.ports import ArrivalTimes, RecordLatencies
from penstock.running.arrival_load import ArrivalLoad
from penstock.running.operator_job import JobInput, JobOutput
from penstock.settings import OperatorSettings


@dataclass(frozen=True, slots=True)
class OperatorInput:
    """What the loop is wired with to follow an operator's records: when they arrive there, and when they first did."""

    arrivals: ArrivalTimes
    path: PathMonitor
    latencies: RecordLatencies | None = None
    """The latency of its records, measured at its output; None: it follows from its batches."""


class OperatorStreams(Protocol):
    """Joins the operators of a run.

    Promises: `start` is called before any operator is, `close` in any case; operators are asked about in the
    pipeline's order.
    """

    @property
    def load(self) -> ArrivalLoad:
        """What arrives."""
        ...

    @property
    def spark(self) -> Mapping[str, str]:
        """What the operators' Spark configuration needs."""
        ...

    def start(self) -> None:
        """Make ready what operators read from and write to."""
        ...

    def ends(self, operator: OperatorSettings) -> tuple[JobInput, JobOutput]:
        """Where an operator reads and writes."""
        ...

    def input_of(self, operator: OperatorSettings, checkpoint: str) -> OperatorInput:
        """How the loop follows what an operator reads."""
        ...

    def begin(self) -> None:
        """Let records arrive; called when every operator runs."""
        ...

    def faults(self) -> tuple[str, ...]:
        """What the user should know of the streams now."""
        ...

    def close(self, *, is_left: bool = False) -> None:
        """End what was started; may be called twice. `is_left`: operators go on, so what they read and write stays."""
        ...
