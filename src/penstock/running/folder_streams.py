# SPDX-License-Identifier: Apache-2.0
"""Streams that are folders: a replay feeds the first operators, each other one reads the output of the one above."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from penstock.arrivals.due import ReplayOffset
from penstock.monitor.path import PathMonitor
from penstock.ports import ArrivalTimes
from penstock.running.arrival_load import ArrivalLoad, ReplayLoad
from penstock.running.checkpoint_files import newest_offsets
from penstock.running.operator_job import JobInput, JobOutput, output_folder
from penstock.running.operator_streams import OperatorInput
from penstock.settings import OperatorSettings, RunSettings
from penstock.topology import ARRIVALS


class FolderJoins:
    """Operators joined by folders: each reads the parquet folder of the one above.

    Parameters
    ----------
    settings, folder_of
        Of the run, and each operator's own folder.
    """

    def __init__(self, settings: RunSettings, folder_of: Mapping[str, Path]) -> None:
        self._window, self._folder_of = settings.window, folder_of
        self._paths: dict[str, PathMonitor] = {}

    def reads(self, operator: OperatorSettings) -> JobInput:
        """The folder above."""
        return JobInput(above=str(self._folder_of[operator.input]))

    def entry(self, operator: OperatorSettings, arrivals: ArrivalTimes) -> OperatorInput:
        """How the loop follows an operator that reads what arrives."""
        return self._kept(operator, OperatorInput(arrivals, PathMonitor(window_seconds=self._window)))

    def input_of(self, operator: OperatorSettings, checkpoint: str) -> OperatorInput:
        """How the loop follows one that reads another's folder: by what the sink's log of the one above says."""
        from penstock.adaptors.spark.file_stream import FileStreamArrivals

        files = FileStreamArrivals(checkpoint, folder=output_folder(self._folder_of[operator.input]))
        path = PathMonitor(above=self._paths[operator.input], lineage=files, window_seconds=self._window)
        return self._kept(operator, OperatorInput(files, path))

    def _kept(self, operator: OperatorSettings, found: OperatorInput) -> OperatorInput:
        self._paths[operator.name] = found.path
        return found


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
        from penstock.adaptors.replay.options import replay_arrivals

        self._settings = settings
        self._joins = FolderJoins(settings, folder_of)
        self._replay = replay_arrivals(settings.arrivals.replay_options())
        self._replayed_to: list[Path] = []
        """The checkpoints of the first operators."""
        self.load: ArrivalLoad = ReplayLoad(self._replay)
        self.spark: Mapping[str, str] = {}

    def start(self) -> None:
        """Does nothing: whoever writes to a folder makes it."""

    def begin(self) -> None:
        """Learn time zero where a query has begun before: one that has nothing left to do makes no batch to show it."""
        for checkpoint in self._replayed_to:
            known = ReplayOffset.parse(newest_offsets(checkpoint))
            if known is not None:
                self._replay.begin(known.epoch_us / 1e6)

    def ends(self, operator: OperatorSettings) -> tuple[JobInput, JobOutput]:
        """The replay or the folder above, and its own folder."""
        if operator.input == ARRIVALS:
            return JobInput(replay=self._settings.arrivals.replay_options()), JobOutput()
        return self._joins.reads(operator), JobOutput()

    def input_of(self, operator: OperatorSettings, checkpoint: str) -> OperatorInput:
        """The replay, or what the sink's log of the operator above says."""
        if operator.input == ARRIVALS:
            self._replayed_to.append(Path(checkpoint))
            return self._joins.entry(operator, self._replay)
        return self._joins.input_of(operator, checkpoint)

    def faults(self) -> tuple[str, ...]:
        """None: files do not go away."""
        return ()

    def close(self, *, is_left: bool = False) -> None:
        """Does nothing: nothing was started."""
