# SPDX-License-Identifier: Apache-2.0
"""What flows into the pipeline and between its operators: the near side for their jobs, the far side for the loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from penstock.monitor.path import PathMonitor
from penstock.ports import ArrivalTimes, FloatArray, RecordLatencies
from penstock.running.operator import JobInput, JobOutput
from penstock.settings import OperatorSettings, RunSettings
from penstock.topology import ARRIVALS

if TYPE_CHECKING:
    from penstock.arrivals.due import ReplayArrivals


@dataclass(frozen=True, slots=True)
class Flow:
    """What the loop knows of an operator's input: when records arrive there, and when they first arrived."""

    arrivals: ArrivalTimes
    path: PathMonitor
    latencies: RecordLatencies | None = None
    """The latency of its records as its output tells it; None: its batches do."""


class Load(Protocol):
    """What arrives at the pipeline, as a whole."""

    def span(self) -> tuple[float, float] | None:
        """When the first record arrives and when the last one has (infinite: never); None: not begun."""
        ...

    @property
    def total(self) -> int | None:
        """How many records arrive in all; None: nobody knows."""
        ...

    def arrived_by(self, at: float) -> int | None:
        """How many have arrived by then."""
        ...

    def waiting(self, done: int, at: float) -> FloatArray | None:
        """When the records arrived that are not done; None where that cannot be told."""
        ...

    def read(self, checkpoint: Path) -> int | None:
        """How many records a query has taken in, by its checkpoint, the batch under way included."""
        ...


class Streams(Protocol):
    """Joins the operators of a run.

    Promises: `start` is called before any operator is, `close` in any case; jobs may be asked for in the pipeline's
    order alone, each flow after its job.
    """

    @property
    def load(self) -> Load:
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

    def flow(self, operator: OperatorSettings, checkpoint: str) -> Flow:
        """The far side of an operator's input."""
        ...

    def begin(self) -> None:
        """Let records arrive: every operator is there."""
        ...

    def faults(self) -> tuple[str, ...]:
        """What the user should know of the streams now."""
        ...

    def close(self) -> None:
        """End what was started; may be called twice."""
        ...


class ReplayLoad:
    """Arrivals replayed by the pipeline's own source."""

    def __init__(self, replay: ReplayArrivals) -> None:
        self._replay = replay

    def span(self) -> tuple[float, float] | None:
        """From time zero of the trace, once the first batch has told it."""
        if self._replay.epoch_us is None:
            return None
        start = self._replay.epoch_us / 1e6
        return start, start + self._replay.arrivals.duration_seconds / self._replay.speed

    @property
    def total(self) -> int | None:
        """The length of the trace."""
        return self._replay.arrivals.total

    def arrived_by(self, at: float) -> int | None:
        """How many are due."""
        return self._replay.arrived_by(at)

    def waiting(self, done: int, at: float) -> FloatArray | None:
        """When those were due that are not done."""
        due = self._replay.arrived_by(at)
        if due is None or due <= done or self._replay.epoch_us is None:
            return None
        times: FloatArray = self._replay.epoch_us / 1e6 + self._replay.arrivals.times(done, due) / self._replay.speed
        return times

    def read(self, checkpoint: Path) -> int | None:
        """By the newest batch planned."""
        from penstock.arrivals.due import ReplayOffset

        offset = ReplayOffset.parse(newest_offsets(checkpoint))
        return None if offset is None else offset.index


def newest_offsets(checkpoint: Path) -> str | None:
    """Where the newest batch ends that a query has planned, in its source's words; None before the first."""
    numbers = [int(p.name) for p in (checkpoint / "offsets").glob("[0-9]*")]
    if not numbers:
        return None
    return (checkpoint / "offsets" / str(max(numbers))).read_text(encoding="utf-8").splitlines()[-1]


class FolderStreams:
    """The replay source feeds the first operators; each of the others reads the parquet folder of the one above.

    Parameters
    ----------
    settings
        Of the run.
    folder_of
        Each operator's own folder.
    """

    def __init__(self, settings: RunSettings, folder_of: Mapping[str, Path]) -> None:
        from penstock.adaptors.spark.replay_options import replay_arrivals

        self._settings = settings
        self._folder_of = folder_of
        self._replay = replay_arrivals(settings.arrivals.replay_options())
        self._paths: dict[str, PathMonitor] = {}
        self.load: Load = ReplayLoad(self._replay)
        self.spark: Mapping[str, str] = {}

    def start(self) -> None:
        """Nothing: folders are made by who writes to them."""

    def begin(self) -> None:
        """Nothing: the source begins with its query."""

    def ends(self, operator: OperatorSettings) -> tuple[JobInput, JobOutput]:
        """The replay or the folder above, and its own folder."""
        if operator.input == ARRIVALS:
            return JobInput(replay=self._settings.arrivals.replay_options()), JobOutput()
        return JobInput(above=str(self._folder_of[operator.input])), JobOutput()

    def flow(self, operator: OperatorSettings, checkpoint: str) -> Flow:
        """The replay, or what the sink's log of the operator above says."""
        from penstock.adaptors.spark.file_stream import FileStreamArrivals
        from penstock.running.operator import output_folder

        window = self._settings.window
        if operator.input == ARRIVALS:
            flow = Flow(self._replay, PathMonitor(self._replay, window_seconds=window))
        else:
            files = FileStreamArrivals(checkpoint, folder=output_folder(self._folder_of[operator.input]))
            above = self._paths[operator.input]
            flow = Flow(files, PathMonitor(above=above, lineage=files, window_seconds=window))
        self._paths[operator.name] = flow.path
        return flow

    def faults(self) -> tuple[str, ...]:
        """None: files do not go away."""
        return ()

    def close(self) -> None:
        """Nothing was started."""
