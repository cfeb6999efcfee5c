# SPDX-License-Identifier: Apache-2.0
"""Starts and stops the process of an operator."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.adaptors.process.detached import DetachedProcess
from penstock.adaptors.process.leftovers import end_marked
from penstock.errors import ClusterError, ConfigurationError
from penstock.records import encode
from penstock.running.operator_job import FAILURE_FILE, OperatorJob
from penstock.running.private_file import write_private

if TYPE_CHECKING:
    from penstock.adaptors.process.children import Child, Warden

_MARK = "PENSTOCK_OPERATOR"
"""The environment variable that marks the processes of an operator; its value is the operator's folder."""


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

    def adopt(self, job: OperatorJob) -> DetachedProcess | None:
        """Take over a process that outlived its controller; None: there is none."""
        identity = self._own / "process.json"
        if DetachedProcess.is_elsewhere(identity):
            raise ConfigurationError(
                f"resume: operator {self._name} was started in another container, where it may still run; resume "
                f"there, or end it and remove {identity}",
                field="resume",
            )
        running = DetachedProcess.adopt(self._name, log=self._log, identity=identity)
        if running is not None and (self._own / "job.json").read_text(encoding="utf-8") != encode(job):
            raise ConfigurationError(
                f"resume: operator {self._name} runs with other settings; give those it was started with",
                field="resume",
            )
        return running

    def start(self, job: OperatorJob) -> Child | DetachedProcess:
        """Start it; it goes on from its checkpoint where there is one.

        Raises
        ------
        ClusterError
            It cannot be started: no room for its files, no more processes.
        """
        try:
            return self._start(job)
        except OSError as fault:
            raise ClusterError(f"operator {self._name} cannot be started: {fault}", target=self._name) from fault

    def _start(self, job: OperatorJob) -> Child | DetachedProcess:
        path = self._own / "job.json"
        write_private(path, encode(job))
        (self._own / FAILURE_FILE).unlink(missing_ok=True)
        argv = self._command([sys.executable, "-m", "penstock.running.operator_process", str(path)])
        env = {**os.environ, **self._environment, _MARK: str(self._own)}
        # In the user's folder: relative paths in the options mean there what they mean here.
        if self._warden is not None:
            return self._warden.start(self._name, argv, log=self._log, env=env, cwd=Path.cwd())
        identity = self._own / "process.json"
        return DetachedProcess.start(self._name, argv, log=self._log, env=env, cwd=Path.cwd(), identity=identity)

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
        left = end_marked(str(self._own), variable=_MARK)
        if left:
            raise ClusterError(
                f"operator {self._name}: processes {left} do not end, and two must not write to one checkpoint; "
                "end them, then start the run again",
                target=self._name,
            )
