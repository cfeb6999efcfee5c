# SPDX-License-Identifier: Apache-2.0
"""Measures the maximum sustainable throughput of an application: turn after turn, each sample kept at once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Protocol

from penstock.clock import Clock, SystemClock
from penstock.errors import ClusterError
from penstock.measuring.batch_cap import CapTrial, next_cap, scaled_cap
from penstock.measuring.plan import MeasurePlan, Turn
from penstock.measuring.sample import Sample
from penstock.measuring.sample_file import SampleFile
from penstock.measuring.summary import caps, source_limits
from penstock.measuring.taking import Phase, SampleTaking
from penstock.running.checks import check_run
from penstock.running.measured_application import MeasuredApplication, Site, operator_data
from penstock.running.measured_source import MeasuredSource, source_of
from penstock.running.starting import embedded_cluster
from penstock.settings import RunSettings, parse_settings

_LOG = logging.getLogger(__name__)
_FIRST_CAP = 2_000
"""Records an executor in the very first trial."""
_CAP_TRIALS = 4
"""Applications that are started to find a cap, where a running one cannot be given another."""
_RESTARTS = 2
"""Of an application that fails before its first sample. On a busy host Spark was seen to give up a Python worker that
took longer than 10 s to start."""


class MeasureListener(Protocol):
    """Sees a measurement go by."""

    def phase(self, text: str, done: float) -> None:
        """What is being done, and how much of all turns is, from 0 to 1."""
        ...

    def sample(self, sample: Sample) -> None:
        """A sample was taken and is on the disk."""
        ...


def check_plan(plan: MeasurePlan) -> None:
    """Raise ConfigurationError with all that is wrong and can be known without starting anything."""
    check_run(_as_run(plan))


def measure(
    plan: MeasurePlan,
    file: SampleFile,
    *,
    listener: MeasureListener,
    stop: threading.Event,
    broker: Mapping[str, str] | None = None,
    clock: Clock | None = None,
) -> None:
    """Take every sample that the file lacks, until all are there or `stop` is set.

    Parameters
    ----------
    plan
        What is measured.
    file
        Has the samples so far and takes each new one.
    listener, stop
        Who sees it go by, and what ends it in order.
    broker
        Options of the connection to the plan's broker.

    Raises
    ------
    ClusterError
        Something could not be started, or cannot be measured. The samples so far are kept.
    """
    from penstock.adaptors.process.children import Warden
    from penstock.adaptors.process.leftovers import remove_leftovers
    from penstock.adaptors.spark.installation import SparkInstallation

    clock = clock or SystemClock()
    left = plan.left(file.samples)
    if not left:
        return
    total = len(plan.turns())
    done = total - len(left)
    remove_leftovers()
    source = source_of(plan, broker or {}, lambda text: listener.phase(text, done / total), stop)
    with Warden() as warden:
        if plan.master == "embedded":
            listener.phase("starting the Spark cluster", done / total)
            run = _as_run(plan)
            cluster = embedded_cluster(run.cluster, run.operators, warden, file.folder / "cluster", stop=stop).start()
            master, environment = cluster.master_url, cluster.spark_environment()
        else:
            master, environment = plan.master, SparkInstallation.find().environment()
        site = Site(
            master, environment, warden, file.folder,
            is_embedded=plan.master == "embedded", clock=clock, stop=stop,
        )  # fmt: skip
        measurement = _Measurement(plan, site, source, file, listener=listener)
        for turn in left:
            if stop.is_set():
                return
            measurement.take(turn, done / total, 1.0 / total)
            done += 1
            if turn is not left[-1] and not stop.is_set():
                listener.phase("resting", done / total)
                clock.wait(plan.rest_seconds, stop)


class _Measurement:
    """Takes the samples of one turn after the other."""

    def __init__(
        self, plan: MeasurePlan, site: Site, source: MeasuredSource, file: SampleFile, *, listener: MeasureListener
    ) -> None:
        self._plan, self._site, self._source, self._file, self._listener = plan, site, source, file, listener

    def take(self, turn: Turn, before: float, part: float) -> None:
        """Take the samples of a turn, with the cap of earlier ones or one found by trial.

        `before` is how much of the whole is done, and `part` how much of it this turn is.
        """
        plan = self._plan
        what = f"{turn.executors} x{', source alone' if turn.is_source else ''}"
        known = caps(self._file.samples, is_source=turn.is_source)
        is_open = plan.cap is None and turn.executors not in known
        cap = plan.cap_of(turn.executors) or known.get(turn.executors)
        cap = cap or scaled_cap(known, turn.executors, _FIRST_CAP)
        trials: list[CapTrial] = []
        restarts = 0

        def say(text: str, done: float) -> None:
            self._listener.phase(f"{what}: {text}", before + done * part)

        while not self._site.stop.is_set():
            with MeasuredApplication(self._site, plan, turn, self._source, cap) as application:
                taking = SampleTaking(
                    plan,
                    turn,
                    cap,
                    source_limit=source_limits(self._file.samples).get(turn.executors),
                    read_host=application.read_host,
                    may_change_cap=is_open and len(trials) < _CAP_TRIALS,
                    is_cap_scaled=bool(known),
                    is_cap_fixed=not self._source.can_change_cap,
                )
                try:
                    phase = application.measure(taking, say, self._keep)
                except ClusterError as fault:
                    if not fault.retryable or restarts >= _RESTARTS or taking.samples:
                        raise ClusterError(f"{what}: {fault}", target=fault.target) from fault
                    restarts += 1
                    _LOG.warning("%s: starting the application again: %s", what, fault)
                    continue
            if phase is not Phase.OTHER_CAP or taking.cap_trial is None:
                return
            trials.append(taking.cap_trial)
            _LOG.info("%s: batches of %d records took %.2f s", what, cap, taking.cap_trial.batch_seconds)
            cap = next_cap(trials, plan.batch_seconds)

    def _keep(self, sample: Sample) -> None:
        self._file.add(sample)
        self._listener.sample(sample)


def _as_run(plan: MeasurePlan) -> RunSettings:
    """The largest size as a pipeline of one operator, for the checks and the cluster that a run has."""
    if plan.topic is not None:
        arrivals: dict[str, object] = {"topic": plan.topic}
    else:
        main = {name: plan.source[name] for name in ("trace", "shape") if name in plan.source}
        arrivals = {**main, "options": {name: value for name, value in plan.source.items() if name not in main}}
    return parse_settings(
        {
            "name": "measure",
            "cluster": {"master": plan.master},
            "arrivals": arrivals,
            "operators": [operator_data(plan, Turn(plan.executors[-1], 1))],
            "policy": "fixed",
            **({} if plan.servers is None else {"broker": {"servers": plan.servers}}),
        },
        "measure",
    )
