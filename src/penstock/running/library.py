# SPDX-License-Identifier: Apache-2.0
"""A pipeline run from Python, as `penstock run` does from the command line."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from typing import Any

from penstock.account import RunSummary
from penstock.loop import CycleReport
from penstock.ports import Policy
from penstock.running.checks import load_checked
from penstock.running.modules_beside import modules_beside
from penstock.running.pipeline_run import run_pipeline
from penstock.running.run_listener import RunListener
from penstock.settings import parse_settings

_LOG = logging.getLogger(__name__)


class LoggingListener:
    """Writes what happens to the log of this module."""

    def __init__(self) -> None:
        self._phase = ""

    def phase(self, text: str, fraction: float | None = None) -> None:  # noqa: ARG002
        """Log each phase once."""
        if text != self._phase:
            self._phase = text
            _LOG.info("%s", text)

    def report(self, report: CycleReport) -> None:
        """Log nothing: the loop logs changes and their outcomes itself."""

    def fault(self, operator: str, text: str) -> None:
        """Log it as a warning."""
        _LOG.warning("%s: %s", operator, text)


def run(
    pipeline: Mapping[str, Any] | str | PathLike[str],
    *,
    folder: str | PathLike[str],
    listener: RunListener | None = None,
    stop: threading.Event | None = None,
    resume: bool = False,
    policy: Policy | None = None,
) -> RunSummary:
    """Run a pipeline and keep it inside its bounds, until its arrivals are done or `stop` is set.

    Parameters
    ----------
    pipeline
        A settings file, or the same as a mapping. Applications beside the file are found.
    folder
        Gets everything of the run: decisions and observations, logs, outputs.
    listener
        Sees the run go by; by default it is logged.
    stop
        Set by another thread to end the run in good order.
    resume
        Take over operators that outlived their controller in that folder.
    policy
        An object that decides in place of the policy that the settings name (docs/how-to/write-a-policy.md).

    Raises
    ------
    ConfigurationError
        With every mistake; nothing was started.
    ClusterError
        Something could not be started, or an operator died too often; nothing is left.
    """
    with ExitStack() as during:
        if isinstance(pipeline, Mapping):
            settings = parse_settings(pipeline, "pipeline")
        else:
            during.enter_context(modules_beside(Path(pipeline)))
            settings = load_checked(Path(pipeline))
        return run_pipeline(
            settings,
            Path(folder),
            listener=listener or LoggingListener(),
            stop=stop or threading.Event(),
            resume=resume,
            policy=policy,
        )
