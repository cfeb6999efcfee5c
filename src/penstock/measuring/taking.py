# SPDX-License-Identifier: Apache-2.0
"""Takes the samples of one running application: warm-up, its size held, converged, sampled, judged.

It sees what a look at the application brings and says in which phase it is; whoever runs the application acts on that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from statistics import median

from penstock.errors import ClusterError
from penstock.measuring.batch_cap import CapSearch, CapTrial, is_hopeless
from penstock.measuring.disturbance import HostReading
from penstock.measuring.plan import MeasurePlan, Turn
from penstock.measuring.sample import Sample
from penstock.measuring.sample_window import SampleWindow
from penstock.measuring.throughput import BatchEnd, batch_rates
from penstock.measuring.warm_up import WarmUp
from penstock.records import BatchProgress, CpuReading, Telemetry

_CAP_BATCHES = 2
"""Batches after which a cap may be seen to be hopeless."""
_FULL_BATCH = 0.9
"""Of the cap: a smaller batch took all that there was."""
_HOLD_SECONDS = 120.0
"""How long executors may take to come."""
_QUOTA_TOLERANCE = 0.01


class Phase(StrEnum):
    """Where the taking of a sample is."""

    WARMING = "warming up"
    HOLDING = "waiting for its size"
    CONVERGING = "waiting for a steady throughput"
    SAMPLING = "sampling"
    DONE = "done"
    OTHER_CAP = "looking for the size of a batch"
    """The application has to be started again with the next cap."""


class SampleTaking:
    """The phases of one turn.

    Parameters
    ----------
    plan, turn
        What is measured.
    cap
        The most records that a batch of the application takes.
    source_limit
        The throughput of the source alone with this size; None: it was not measured.
    read_host
        Reads the host at the begin and the end of a sample; None where it cannot be read.
    may_change_cap
        Whether a cap that does not fit is replaced.
    is_cap_scaled
        Whether the cap is in proportion to that of another size: it is replaced only where it is far off.
    is_cap_fixed
        Whether the cap of a running application stays what it is: one that does not fit then ends the taking.
    """

    def __init__(
        self,
        plan: MeasurePlan,
        turn: Turn,
        cap: int,
        *,
        source_limit: float | None = None,
        read_host: Callable[[], HostReading | None] = lambda: None,
        may_change_cap: bool = True,
        is_cap_scaled: bool = False,
        is_cap_fixed: bool = False,
    ) -> None:
        self._plan, self._turn = plan, turn
        self._source_limit = source_limit
        self._read_host = read_host
        self._is_cap_open = may_change_cap and plan.cap is None
        self._is_cap_fixed = is_cap_fixed
        is_open = self._is_cap_open and not is_cap_fixed
        self._search = CapSearch(cap, plan.batch_seconds, is_open=is_open, is_scaled=is_cap_scaled)
        self._warm_up = WarmUp(turn.executors, plan.warm_up_seconds, plan.warm_up_most_seconds)
        self.phase = Phase.WARMING
        self.samples: list[Sample] = []
        """All that were taken, disturbed ones too."""
        self.cap_trial: CapTrial | None = None
        """What a fixed cap gave, once batches were seen."""
        self._done = 0
        self._cpu_before: float | None = None
        self._hold_from: float | None = None
        self._held_at: float | None = None
        self._converging_from: float | None = None
        self._converged_at: float | None = None
        self._ends: list[BatchEnd] = []
        self._durations: list[float] = []
        self._window: SampleWindow | None = None

    @property
    def records_done(self) -> int:
        """How many records the application has done."""
        return self._done

    @property
    def cap(self) -> int:
        """The most records that a batch should take from now on."""
        return self._search.cap

    def see(self, look: Telemetry, runnable: int | None = None) -> Phase:
        """Take in one look; returns the phase after it.

        Raises
        ------
        ClusterError
            The source has run dry, executors are missing, or batches do not end.
        """
        held: list[BatchProgress] = []
        batches = [batch for batch in look.batches if batch.rows]
        cpu = self._cpu_of_each(look, len(batches))
        for batch in batches:
            self._done += batch.rows
            self._check_full(batch)
            if self.phase is Phase.WARMING:
                self._warm(batch, look, cpu)
            is_counted = self._held_at is not None and batch.started_at >= self._held_at
            if is_counted and self._search.is_of_this_cap(batch.rows):
                held.append(batch)
                self._ends.append(BatchEnd(batch.ended_at, self._done))
                # Others, or the driver, may make a batch longer than its executors' CPU does, but not by so much.
                self._durations.append(self._held_seconds(cpu, batch.duration_seconds, batch.duration_seconds / 2))
        if self.phase is Phase.WARMING and self._warm_up.is_over(look.at):
            self.phase, self._hold_from = Phase.HOLDING, look.at
        elif self.phase is Phase.HOLDING:
            self._hold(look)
        elif self.phase is Phase.CONVERGING:
            self._converge(look, held)
        elif self.phase is Phase.SAMPLING:
            self._sample(look, held, runnable)
        return self.phase

    def _check_full(self, batch: BatchProgress) -> None:
        if batch.rows < _FULL_BATCH * min(self._search.cap, self._search.cap_before):
            raise ClusterError(
                f"the source has run dry after {self._done:,} records: a batch found {batch.rows:,} of {self.cap:,}, "
                "so the application waits for records and its throughput is not the most it can do; give it more "
                "records (a longer shape, trace or topic)",
                target="source",
            )

    def _cpu_of_each(self, look: Telemetry, batches: int) -> float | None:
        """The CPU that each of the batches of a look took; None: it is not known."""
        if not batches:
            return None
        before, self._cpu_before = self._cpu_before, None if look.cpu is None else look.cpu.used_seconds
        if before is None or self._cpu_before is None:
            return None
        return (self._cpu_before - before) / batches

    def _held_seconds(self, cpu_seconds: float | None, otherwise: float, at_least: float) -> float:
        """How long a batch takes executors that are held to their share, by the CPU that it takes.

        Its own duration depends on what else the host does. Batches that take an executor the same CPU whatever the
        size make sizes comparable.
        """
        quota = self._plan.quota_cores(self._turn.executors) if self._plan.holds_cpu else None
        return otherwise if cpu_seconds is None or quota is None else max(cpu_seconds / quota, at_least)

    def _warm(self, batch: BatchProgress, look: Telemetry, cpu_seconds: float | None) -> None:
        """Take in a batch without a cap on the CPU, and guess from it how long one will take with the cap."""
        is_first = self._done == batch.rows
        duration = batch.duration_seconds
        seconds = self._held_seconds(cpu_seconds, duration, min(duration, self._plan.batch_seconds))
        self._warm_up.see(batch.ended_at, self._done, None if look.cpu is None else look.cpu.used_seconds)
        if is_first or not self._search.is_of_this_cap(batch.rows):
            return
        self._durations.append(seconds)
        if self._search.tune(self._durations):
            self._durations = []
            self._warm_up.forget()

    def _hold(self, look: Telemetry) -> None:
        assert self._hold_from is not None
        why = self._why_not_held(look)
        if why is None:
            self.phase, self._held_at = Phase.CONVERGING, look.at
            self._begin_converging(look)
        elif look.at - self._hold_from > _HOLD_SECONDS:
            raise ClusterError(f"{self._turn.executors} executors did not come: {why}", target="cluster")

    def _why_not_held(self, look: Telemetry) -> str | None:
        active = None if look.executors is None else sum(e.is_active for e in look.executors)
        if active is None:
            return "they cannot be counted"
        if active != self._turn.executors:
            return f"there are {active}; does the cluster have the cores and the memory for them?"
        if self._plan.holds_cpu:
            if look.cpu is None:
                return "their CPU cannot be read"
            if look.cpu.processes < self._turn.executors:
                return f"only {look.cpu.processes} processes can be held to a CPU share: do they run on other hosts?"
            if not self._has_share(look.cpu):
                return "their CPU share is not held"
        return None

    def _has_share(self, cpu: CpuReading) -> bool:
        wanted = self._plan.quota_cores(self._turn.executors)
        if wanted is None or not self._plan.holds_cpu:
            return True
        return cpu.quota_cores is not None and abs(cpu.quota_cores - wanted) <= _QUOTA_TOLERANCE * max(wanted, 1.0)

    def _converge(self, look: Telemetry, batches: Sequence[BatchProgress]) -> None:
        assert self._converging_from is not None
        if len(self._durations) >= _CAP_BATCHES and self._is_cap_wrong(
            lambda trial: is_hopeless(trial, self._plan.batch_seconds)
        ):
            return
        if batches and self._search.judge(self._durations):
            self._begin_converging(look)
            return
        is_late = look.at - self._converging_from >= self._plan.convergence.at_most_seconds
        if self._search.is_open and 0 < len(self._durations) < _CAP_BATCHES:
            is_late = False  # its cap has not been judged
        if self._plan.convergence.is_reached(batch_rates(self._ends)):
            if self._search.judge(self._durations[-self._plan.convergence.window :], is_last=True):
                self._begin_converging(look)
                return
            self._converged_at = self._ends[-1].at
        elif not is_late:
            return
        elif not self._ends:
            raise ClusterError(
                f"no batch of at most {self.cap:,} records ended within "
                f"{self._plan.convergence.at_most_seconds:g} s; give a smaller --cap",
                target="application",
            )
        # The first batches are the slowest, so a cap is judged for good by the last ones.
        if not self._is_cap_wrong(self._search.is_wrong):
            self._open_window(look)

    def _begin_converging(self, look: Telemetry) -> None:
        """Batches of another size, or without their share, have another throughput: convergence is judged anew."""
        self._ends, self._durations, self._converging_from = [], [], look.at

    def _is_cap_wrong(self, is_wrong: Callable[[CapTrial], bool]) -> bool:
        """Judge a fixed cap by the latest batches; a wrong one ends the taking."""
        if not (self._is_cap_open and self._is_cap_fixed):
            return False
        self.cap_trial = CapTrial(self.cap, median(self._durations[-self._plan.convergence.window :]))
        if is_wrong(self.cap_trial):
            self.phase = Phase.OTHER_CAP
        return self.phase is Phase.OTHER_CAP

    def _open_window(self, look: Telemetry, part: int = 1, attempt: int = 1) -> None:
        converged = None if self._converged_at is None else self._converged_at - (self._held_at or 0.0)
        self._window = SampleWindow(
            self._plan, self._turn, self.cap, converged, part, attempt, self._read_host(), look.cpu, [self._ends[-1]]
        )
        self.phase = Phase.SAMPLING

    def _sample(self, look: Telemetry, batches: Sequence[BatchProgress], runnable: int | None) -> None:
        window = self._window
        assert window is not None
        window.ends += self._ends[len(self._ends) - len(batches) :] if batches else []
        window.seconds += [batch.duration_seconds for batch in batches]
        if runnable is not None:
            window.runnable.append(runnable)
        if look.executors is not None and sum(e.is_active for e in look.executors) != self._turn.executors:
            raise ClusterError(
                f"an executor of {self._turn.executors} was lost while a sample was taken; the operator's log says why",
                target="cluster",
            )
        if look.cpu is not None and not self._has_share(look.cpu):
            window.lost_share = True
        if window.ends[-1].at - window.ends[0].at < self._plan.sample_seconds:
            return
        limit = None if self._turn.is_source else self._source_limit
        self.samples.append(window.judged(look, self._read_host(), source_limit=limit))
        part, attempt = self.samples[-1].part, self.samples[-1].attempt
        if self.samples[-1].is_disturbed and attempt < self._plan.tries:
            self._open_window(look, part, attempt + 1)
        elif part < self._plan.samples_each:
            self._open_window(look, part + 1)
        else:
            self.phase = Phase.DONE
