# SPDX-License-Identifier: Apache-2.0
"""Streams that are folders: a replay feeds the first operators, each other one reads the output of the one above."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from penstock.arrivals.due import ReplayOffset
from penstock.monitor.path import PathMonitor
from penstock.running.arrival_load import ArrivalLoad, ReplayLoad
from penstock.running.checkpoint_files import newest_offsets
from penstock.running.operator_job import JobInput, JobOutput, output_folder
from penstock.running.operator_streams import OperatorInput
from penstock.settings import OperatorSettings, RunSettings
from penstock.topology import ARRIVALS


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
        self._folder_of = folder_of
        self._replay = replay_arrivals(settings.arrivals.replay_options())
        self._paths: dict[str, PathMonitor] = {}
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
        return JobInput(above=str(self._folder_of[operator.input])), JobOutput()

    def input_of(self, operator: OperatorSettings, checkpoint: str) -> OperatorInput:
        """The replay, or what the sink's log of the operator above says."""
        from penstock.adaptors.spark.file_stream import FileStreamArrivals

        window = self._settings.window
        if operator.input == ARRIVALS:
            self._replayed_to.append(Path(checkpoint))
            found = OperatorInput(self._replay, PathMonitor(window_seconds=window))
        else:
            files = FileStreamArrivals(checkpoint, folder=output_folder(self._folder_of[operator.input]))
            above = self._paths[operator.input]
            found = OperatorInput(files, PathMonitor(above=above, lineage=files, window_seconds=window))
        self._paths[operator.name] = found.path
        return found

    def faults(self) -> tuple[str, ...]:
        """None: files do not go away."""
        return ()

    def close(self) -> None:
        """Does nothing: nothing was started."""
