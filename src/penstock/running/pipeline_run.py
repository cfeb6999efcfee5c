# SPDX-License-Identifier: Apache-2.0
"""Runs a pipeline and scales it: the parts are assembled, looked after while they run, and added up."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from penstock.account import RunSummary
from penstock.adaptors.machine import root_note
from penstock.adaptors.private_file import make_private_folder
from penstock.clock import SystemClock
from penstock.crash_points import crash_point, plan_crash
from penstock.errors import ConfigurationError
from penstock.loop import Cycle, Helm
from penstock.ports import KnowledgeStore, Policy
from penstock.running.assembly import Assembly
from penstock.running.checks import check_run
from penstock.running.policy_choice import with_policy
from penstock.running.recollection import started_at
from penstock.running.results import summarise
from penstock.running.run_listener import RunListener, SafeListener
from penstock.running.run_lock import run_lock
from penstock.running.supervision import Supervision
from penstock.settings import RunSettings

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A run whose operators are there, as those get it who want to watch and steer it.

    Attributes
    ----------
    settings, folder, started_at
        What runs, where everything of it is, and since when.
    helm
        Where it is steered.
    cycles
        Its operators' cycles, by their names.
    store
        Where its knowledge is kept.
    tasks
        How many tasks read each operator's records; None: that is not known.
    """

    settings: RunSettings
    folder: Path
    started_at: float
    helm: Helm
    cycles: dict[str, Cycle]
    store: KnowledgeStore
    tasks: dict[str, int | None] = field(default_factory=dict)


def run_pipeline(
    settings: RunSettings,
    folder: Path,
    *,
    listener: RunListener,
    stop: threading.Event,
    resume: bool = False,
    policy: Policy | None = None,
    leave: threading.Event | None = None,
    on_started: Callable[[StartedRun], None] | None = None,
) -> RunSummary:
    """Run the pipeline until its arrivals are done (or `stop` is set), then end everything that was started.

    With `leave` set before `stop`, a pipeline on a cluster and a broker of the user's own goes on without a controller:
    CPU caps are lifted, topics and queues stay, and it can be resumed.

    `folder` then holds knowledge.sqlite with every observation and decision, the logs, and each operator's output.
    With `resume` operators that outlived their controller in that folder are taken over instead of started. `policy`
    is an object that decides in place of the policy that the settings name. `on_started` is called when all operators
    run, before the first look.
    """
    plan_crash()
    settings = with_policy(settings)
    check_run(settings, has_own_policy=policy is not None)
    try:
        is_private = make_private_folder(folder)
    except OSError as fault:
        raise ConfigurationError(f"folder: {folder} cannot be made: {fault.strerror}", field="folder") from fault
    folder, clock, listener = folder.absolute(), SystemClock(), SafeListener(listener)
    if not is_private:
        listener.fault("run", f"other users can enter {folder}, which holds data of the pipeline; chmod 700 closes it")
    if (note := root_note()) is not None:
        _LOG.warning(note)
    with (
        run_lock(folder),
        Assembly(settings, folder, listener=listener, clock=clock, stop=stop, resume=resume, policy=policy) as parts,
    ):
        began = started_at(parts.store, clock.now())
        parts.start()
        supervision = Supervision(settings, parts, listener=parts.listener, clock=clock, stop=stop, leave=leave)
        helm = Helm(parts.cycles, supervision.runner, parts.orders, parts.store, clock, build=parts.build_policy)
        supervision.on_pass = helm.end_sizes
        if on_started is not None and parts.cycles:
            tasks = {name: operator.job.reads.tasks for name, operator in parts.operators.items()}
            on_started(StartedRun(settings, folder, began, helm, parts.cycles, parts.store, tasks))
        supervision.run()
        crash_point("loop-ended")
        if leave is not None and leave.is_set() and supervision.failure is None and parts.is_left:
            listener.phase("leaving the operators, which go on")
            parts.leave()
        else:
            listener.phase("stopping the operators")
            parts.end_operators()
        crash_point("operators-ended")
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
            is_left=parts.is_left,
        )
        if not parts.is_left:  # a run with a summary has come to its end
            parts.store.set_fact("summary", json.dumps(summary.to_json()))
        if supervision.failure is not None:
            raise supervision.failure
        return summary
