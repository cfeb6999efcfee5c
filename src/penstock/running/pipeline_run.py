# SPDX-License-Identifier: Apache-2.0
"""Runs a pipeline and scales it: the parts are assembled, looked after while they run, and added up."""

from __future__ import annotations

import json
import threading
from pathlib import Path

from penstock.account import RunSummary
from penstock.clock import SystemClock
from penstock.errors import ConfigurationError
from penstock.ports import Policy
from penstock.running.assembly import Assembly
from penstock.running.checks import check_run
from penstock.running.policy_choice import with_policy
from penstock.running.recollection import started_at
from penstock.running.results import summarise
from penstock.running.run_listener import RunListener, SafeListener
from penstock.running.run_lock import run_lock
from penstock.running.supervision import Supervision
from penstock.settings import RunSettings


def run_pipeline(
    settings: RunSettings,
    folder: Path,
    *,
    listener: RunListener,
    stop: threading.Event,
    resume: bool = False,
    policy: Policy | None = None,
) -> RunSummary:
    """Run the pipeline until its arrivals are done (or `stop` is set), then end everything that was started.

    `folder` then holds knowledge.sqlite with every observation and decision, the logs, and each operator's output.
    With `resume` operators that outlived their controller in that folder are taken over instead of started. `policy`
    is an object that decides in place of the policy that the settings name.
    """
    settings = with_policy(settings)
    check_run(settings)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise ConfigurationError(f"folder: {folder} cannot be made: {fault.strerror}", field="folder") from fault
    folder, clock, listener = folder.absolute(), SystemClock(), SafeListener(listener)
    with (
        run_lock(folder),
        Assembly(settings, folder, listener=listener, clock=clock, stop=stop, resume=resume, policy=policy) as parts,
    ):
        began = started_at(parts.store, clock.now())
        parts.start()
        supervision = Supervision(settings, parts, listener=listener, clock=clock, stop=stop)
        supervision.run()
        listener.phase("stopping the operators")
        parts.end_operators()
        summary = summarise(
            settings,
            folder,
            parts.operators,
            {name: cycle.monitor for name, cycle in parts.cycles.items()},
            parts.streams.load,
            started_at=began,
            ended_at=clock.now(),
            faults=supervision.faults,
            missed_turns=supervision.missed_turns,
        )
        parts.store.set_fact("summary", json.dumps(summary.to_json()))
        if supervision.failure is not None:
            raise supervision.failure
        return summary
