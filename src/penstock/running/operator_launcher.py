# SPDX-License-Identifier: Apache-2.0
"""Starts and stops the process of an operator."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.adaptors.private_file import write_private
from penstock.adaptors.process.detached import DetachedProcess
from penstock.adaptors.process.leftovers import end_marked
from penstock.crash_points import crash_point
from penstock.errors import ClusterError, ConfigurationError
from penstock.records import decode, encode
from penstock.running.operator_job import FAILURE_FILE, OperatorJob

if TYPE_CHECKING:
    from penstock.adaptors.process.children import Child, Warden

_MARK = "PENSTOCK_OPERATOR"
"""The environment variable that marks the processes of an operator; its value is the operator's folder."""

_PROGRAM = "penstock.running.operator_process"


class OperatorLauncher:
    """Starts an operator's process: one that ends with Penstock (`warden`), or one that outlives it.

    Parameters
    ----------
    name, own, logs
        The operator's name and folder, and where its log goes.
    environment
        Of the process.
    warden
        On Penstock's own cluster; None: the operator goes on when Penstock is killed.
    command
        Makes of a command the one that runs it where drivers run.
    """

    def __init__(
        self,
        name: str,
        own: Path,
        logs: Path,
        environment: Mapping[str, str],
        warden: Warden | None,
        *,
        command: Callable[[Sequence[str]], list[str]] = list,
    ) -> None:
        self._command = command
        self._name, self._own, self._environment, self._warden = name, own, environment, warden
        self._log = logs / f"{name}.log"
        logs.mkdir(exist_ok=True)

    def adopt(self, jobs: Sequence[OperatorJob]) -> tuple[DetachedProcess, OperatorJob] | None:
        """Take over a process that outlived its controller, with the one of `jobs` that it does; None: there is none.

        Which one cannot be known from the store: a controller may die when it has started the operator with another
        size, and before it could keep that.
        """
        identity = self._own / "process.json"
        if DetachedProcess.is_elsewhere(identity):
            raise ConfigurationError(
                f"resume: operator {self._name} was started in another container, where it may still run; resume "
                f"there, or end it and remove {identity}",
                field="resume",
            )
        # By its mark where the file names no process that runs: a controller that died at the wrong moment, or a full
        # disk, leaves a driver without a file. A second one must not come to its checkpoint.
        running = DetachedProcess.adopt(self._name, log=self._log, identity=identity) or DetachedProcess.adopt_marked(
            self._name, _PROGRAM, log=self._log, identity=identity, variable=_MARK, mark=str(self._own)
        )
        if running is None:
            return None
        done = self._job_on_disk()
        job = next((job for job in jobs if encode(job) == done), None)
        if job is None:
            raise ConfigurationError(
                f"resume: operator {self._name} runs with other settings; give those it was started with",
                field="resume",
            )
        crash_point("process-adopted")
        return running, job

    def start(self, job: OperatorJob) -> Child | DetachedProcess:
        """Start it; it goes on from its checkpoint where there is one. What is left of another start is ended before.

        Raises
        ------
        ClusterError
            It cannot be started: no room for its files, no more processes, or another one does not end.
        """
        self._end_others()
        try:
            return self._start(job)
        except OSError as fault:
            raise ClusterError(f"operator {self._name} cannot be started: {fault}", target=self._name) from fault

    def _start(self, job: OperatorJob) -> Child | DetachedProcess:
        path = self._own / "job.json"
        write_private(path, encode(job))
        (self._own / FAILURE_FILE).unlink(missing_ok=True)
        crash_point("job-written")
        argv = self._command([sys.executable, "-m", _PROGRAM, str(path)])
        env = {**os.environ, **self._environment, _MARK: str(self._own)}
        # In the user's folder: relative paths in the options mean there what they mean here.
        if self._warden is not None:
            return self._warden.start(self._name, argv, log=self._log, env=env, cwd=Path.cwd())
        identity = self._own / "process.json"
        return DetachedProcess.start(self._name, argv, log=self._log, env=env, cwd=Path.cwd(), identity=identity)

    def _job_on_disk(self) -> str | None:
        """What its process does; what an earlier version did not know has its default there. None: it is not known."""
        try:
            return encode(decode(OperatorJob, (self._own / "job.json").read_bytes()))
        except (OSError, ConfigurationError):
            return None

    def last_words(self) -> str | None:
        """Why the process failed, in its own words; None: it has not said."""
        try:
            return (self._own / FAILURE_FILE).read_text(encoding="utf-8") or None
        except OSError:
            return None

    def stop(self, child: Child | DetachedProcess) -> None:
        """End it, by force if need be, and all that it has started: a driver outlives its Python for a moment."""
        if isinstance(child, DetachedProcess):
            child.stop()
        elif self._warden is not None:
            self._warden.stop(child)
        self._end_others()

    def _end_others(self) -> None:
        left = end_marked(str(self._own), variable=_MARK)
        if left:
            raise ClusterError(
                f"operator {self._name}: processes {left} do not end, and two must not write to one checkpoint; "
                "end them, then start the run again",
                target=self._name,
            )
