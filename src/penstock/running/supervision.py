# SPDX-License-Identifier: Apache-2.0
"""Looks after a run while it runs: the operators' processes, the streams, the cluster, and whether it is done."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from penstock.adaptors.process.log_rotation import rotate_logs
from penstock.adaptors.spark.executor_folders import remove_old_executors
from penstock.adaptors.spark.failure_words import QUERY_FAILED
from penstock.clock import Clock
from penstock.crash_points import crash_point
from penstock.errors import ClusterError
from penstock.loop import CycleReport, Runner
from penstock.records import ExecutorSize, Mode, OutcomeStatus, Quality
from penstock.running.assembly import Assembly
from penstock.running.lease_beats import LeaseBeats
from penstock.running.operator_sizes import keep_size, kept_size
from penstock.running.run_listener import RunListener
from penstock.running.running_operator import RunningOperator, State
from penstock.running.stream_retention import StreamRetention
from penstock.settings import RunSettings
from penstock.topology import ARRIVALS

_HEAL_EVERY_SECONDS = 3.0
_ROTATE_EVERY_SECONDS = 60.0


class Supervision:
    """Runs the loop of an assembled run, and looks after its parts between the passes.

    Parameters
    ----------
    settings, parts
        The run.
    listener, clock
        Who sees it go by, and the time.
    stop, leave
        Ends it in good order; with `leave` set before, its operators stay as they are.
    """

    def __init__(
        self,
        settings: RunSettings,
        parts: Assembly,
        *,
        listener: RunListener,
        clock: Clock,
        stop: threading.Event,
        leave: threading.Event | None = None,
    ) -> None:
        self._settings, self._parts = settings, parts
        self._listener, self._clock, self._stop = listener, clock, stop
        self._leave = leave or threading.Event()
        self._runner = Runner(
            list(parts.cycles.values()),
            clock,
            interval_seconds=settings.interval,
            on_report=self.take,
            on_fault=self.note_fault,
        )
        self._beats = LeaseBeats(
            {name: operator.remote for name, operator in parts.operators.items()},
            settings.interval,
            monotonic=clock.monotonic,
        )
        self._starts = {name: operator.starts for name, operator in parts.operators.items()}
        self._warned: set[str] = set()
        self._keeps_state: set[str] = set()
        self._passes_held = 0
        self._next_heal = float("-inf")
        self._next_rotation = float("-inf")
        self._retention = StreamRetention(_folders_read(settings, parts), settings.retention)
        self._drain_deadline: float | None = None
        self._load_ends: tuple[float, float] | None = None
        """When the load ends: by the wall clock, and by the clock that nobody sets."""
        self.on_pass: Callable[[], None] | None = None
        """Called in every pass of every operator."""
        self.failure: ClusterError | None = None
        """Why the run was given up; None: it was not."""

    @property
    def runner(self) -> Runner:
        """The loop."""
        return self._runner

    @property
    def faults(self) -> int:
        """How many passes failed, without those in which an operator was being restarted with another size."""
        return self._runner.faults - self._passes_held

    @property
    def missed_turns(self) -> int:
        """How many passes fell out because the one before took longer than the interval."""
        return self._runner.missed_turns

    def run(self) -> None:
        """Look after the run until every record is done, it is stopped, or an operator fails for good."""
        self._listener.phase("running", 0.0)
        if not self._stop.is_set():
            threading.Thread(target=self._stop_with, daemon=True).start()
            with self._beats:
                self._runner.run()

    def _stop_with(self) -> None:
        self._stop.wait()
        if self._leave.is_set():
            self._runner.abandon()
        else:
            self._runner.stop()

    def take(self, report: CycleReport) -> None:
        """Take one pass of an operator's cycle, and look after what it showed."""
        operator = self._parts.operators[report.observation.operator]
        self._beats.passed(operator.name)
        if self.on_pass is not None:
            self.on_pass()
        operator.take(report)
        for note in report.notes:
            self._listener.fault(operator.name, note)
        self._report_restart(operator, report)
        self._listener.report(report)
        has_ended = report.observation.quality is Quality.STOPPED
        self._look_after(operator, _why_ended(report.observation.missing) if has_ended else None)
        if self._is_last(operator):
            self._look_around(report.observation.at)

    def note_fault(self, name: str, text: str) -> None:
        """Take a pass that failed, and look after the operator's process."""
        operator = self._parts.operators[name]
        if operator.is_resizing:
            self._passes_held += 1  # its process is away, as it should be
        elif operator.state is State.RUNNING:
            self._listener.fault(name, text)
        self._look_after(operator)
        if self._is_last(operator):
            self._look_around(self._clock.now())

    def _is_last(self, operator: RunningOperator) -> bool:
        return operator is next(reversed(self._parts.operators.values()))

    def _report_restart(self, operator: RunningOperator, report: CycleReport) -> None:
        if any(batch.state_rows is not None for batch in report.batches):
            self._keeps_state.add(operator.name)
        decision = report.decision
        if decision is not None and decision.is_restart and decision.mode is Mode.ACT:
            self._warn_of_partitions(operator, decision.target.size)
        for outcome in report.outcomes:
            if outcome.status is OutcomeStatus.DONE and outcome.detail:
                self._listener.fault(operator.name, f"has {outcome.observed}: {outcome.detail}")

    def _warn_of_partitions(self, operator: RunningOperator, size: ExecutorSize | None) -> None:
        has_own = size is not None and size.shuffle_partitions is not None
        if not has_own or operator.name not in self._keeps_state or operator.name in self._warned:
            return
        self._warned.add(operator.name)
        self._listener.fault(
            operator.name,
            "shuffle_partitions of its sizes have no effect: the query keeps state, and Spark goes on with the number "
            "it began with",
        )

    def _look_after(self, operator: RunningOperator, ended: str | None = None) -> None:
        operator.watch(self._clock.monotonic(), lambda text: self._listener.fault(operator.name, text), ended)
        if operator.starts > self._starts[operator.name]:
            self._starts[operator.name] = operator.starts
            self._parts.cycles[operator.name].monitor.restarted()
            if kept_size(self._parts.store, operator.settings) != operator.size:
                keep_size(self._parts.store, operator.settings, operator.size)
                crash_point("size-kept")
        self._parts.actuators[operator.name].carry_on()
        if operator.state is State.FAILED:
            self.failure = operator.failure()
            self._runner.stop()

    def _look_around(self, now: float) -> None:
        for fault in self._parts.streams.faults():
            self._listener.fault("streams", fault)
        steady = self._clock.monotonic()
        if self._parts.cluster is not None and steady >= self._next_heal:
            self._next_heal = steady + _HEAL_EVERY_SECONDS
            for worker in self._parts.cluster.replace_lost_workers():
                self._listener.fault("cluster", f"{worker} was lost; a new one was started")
        if steady >= self._next_rotation:
            self._next_rotation = steady + _ROTATE_EVERY_SECONDS
            for fault in self._tidy(steady):
                self._listener.fault("disk", fault)
        self._progress(now)

    def _tidy(self, steady: float) -> list[str]:
        """Bound what grows over weeks; returns what could not be done."""
        faults = [*rotate_logs(self._parts.log_folders), *self._retention.sweep(steady)]
        if self._parts.cluster is not None:
            faults += remove_old_executors(self._parts.cluster.folder / "work")
        return faults

    def _progress(self, now: float) -> None:
        """Report how far the run is, and end it when every record that arrived is done."""
        span = self._parts.streams.load.span()
        if span is None:
            return
        start, end = span
        if self._load_ends is None or self._load_ends[0] != end:
            self._load_ends = end, self._clock.monotonic() + end - now
        if now < end:
            # After its end the clock may have been set back: what is done stays done.
            if self._clock.monotonic() >= self._load_ends[1] and self._is_all_done(now):
                self._runner.stop()
                return
            self._drain_deadline = None  # a clock that was set may have shown a later instant for a while
            self._listener.phase("running", None if math.isinf(end) else (now - start) / max(1e-9, end - start))
            return
        if any(operator.state in (State.DOWN, State.STARTING) for operator in self._parts.operators.values()):
            # It died and comes back: it gets its time from then on. One that cannot come back ends the run as failed.
            self._drain_deadline = None
            self._listener.phase("finishing the records still under way", None)
            return
        if self._drain_deadline is None:
            # What a real-time query has done is known only at its checkpoints.
            checkpoints = [o.checkpoint_seconds or 0.0 for o in self._settings.operators]
            self._drain_deadline = self._clock.monotonic() + self._settings.drain + max(checkpoints)
        if self._is_all_done(now):
            self._runner.stop()
        elif self._clock.monotonic() >= self._drain_deadline:
            self._listener.fault(
                "run", f"not all records were done {self._settings.drain:.0f} s after the last arrival"
            )
            self._runner.stop()
        else:
            self._listener.phase("finishing the records still under way", None)

    def _is_all_done(self, now: float) -> bool:
        """Whether no operator has anything left; all must be seen in this pass, for one that is away may have more."""
        for operator in self._parts.operators.values():
            seen = None if operator.last is None else operator.last.observation
            if operator.state is not State.RUNNING or seen is None or seen.at < now:
                return False
            done, left = seen.records_done, seen.backlog_records
            if done is None:  # it was taken over or started again with nothing more to do: no batch of it is seen
                done = self._parts.streams.load.done(Path(operator.job.checkpoint_folder))
                left = None if done is None or seen.records_arrived is None else seen.records_arrived - done
            if operator.settings.input == ARRIVALS:
                if done is None or done != self._parts.streams.load.total:
                    return False
            elif left != 0:
                return False
        return True


def _why_ended(missing: Sequence[str]) -> str:
    """Why a query ended, of all that an observation of it says; empty: it does not say."""
    return next((text.removeprefix(QUERY_FAILED) for text in missing if text.startswith(QUERY_FAILED)), "")


def _folders_read(settings: RunSettings, parts: Assembly) -> dict[Path, list[Path]]:
    """The folders that join operators, each with the checkpoints of those that read it; none where topics do."""
    if settings.has_topics:
        return {}
    found: dict[Path, list[Path]] = {}
    for operator in settings.operators:
        if operator.input != ARRIVALS:
            above, job = parts.operators[operator.input].job, parts.operators[operator.name].job
            found.setdefault(Path(above.output_folder), []).append(Path(job.checkpoint_folder))
    return found
