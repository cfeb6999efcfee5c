# SPDX-License-Identifier: Apache-2.0
"""The workload analysis beside the pipeline: started when due, collected when done, waited for by nobody.

Each analysis has a worker of its own (a thread, or a process of low priority) and goes on from the last estimate. If
one is still running when the next is due, the next is skipped and said to be: nothing is queued, so that an estimate
is never of a snapshot older than the analysis that made it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from multiprocessing import get_context
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from penstock.errors import ConfigurationError, NotReadyError, PenstockError
from penstock.workload.estimate import WorkloadEstimate, estimate_workload

FloatArray = npt.NDArray[np.float64]


class Analyse(Protocol):
    """Turns a buffer of inter-arrival times into an estimate, going on from the last one."""

    def __call__(self, iats: FloatArray, *, shares: Sequence[float], warm: WorkloadEstimate | None) -> WorkloadEstimate:
        """The estimate."""
        ...


class AnalysisEnd(StrEnum):
    """What became of an analysis that was due."""

    DONE = "done"
    SKIPPED = "skipped"
    """The one before was still running."""
    NOT_READY = "not ready"
    """Too few arrivals yet."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class AnalysisReport:
    """One analysis that was due at `at`; `seconds` is how long it took, or how long the one in its way had run."""

    at: float
    end: AnalysisEnd
    seconds: float | None
    detail: str = ""


@dataclass(frozen=True, eq=False, slots=True)
class Analysis:
    """An estimate, and the instant of the snapshot that it describes."""

    at: float
    estimate: WorkloadEstimate

    def age_seconds(self, now: float) -> float:
        """How old the snapshot is."""
        return now - self.at


class OnlineAnalysis:
    """Runs `estimate_workload` every `period_seconds` beside whoever calls `tick`.

    Parameters
    ----------
    period_seconds
        Time from one analysis to the next (T_A).
    best, max_states, seed
        As for `estimate_workload`.
    budget_seconds
        After this long an analysis searches no further and gives what it has; None: no limit.
    worker
        ``"thread"`` shares the interpreter with the caller; ``"process"`` has one of its own, at low priority.
    analyse
        Another analysis instead of `estimate_workload`; for a process it must be a function of a module.
    """

    def __init__(
        self,
        *,
        period_seconds: float = 60.0,
        best: int = 5,
        max_states: int = 16,
        seed: int = 0,
        budget_seconds: float | None = None,
        worker: Literal["thread", "process"] = "thread",
        analyse: Analyse | None = None,
    ) -> None:
        if not 0.0 < period_seconds < float("inf"):
            raise ConfigurationError(
                f'period_seconds: {period_seconds!r} must be a positive time, such as "60s"', field="period_seconds"
            )
        if worker not in ("thread", "process"):
            raise ConfigurationError(f'worker: {worker!r} is unknown; use "thread" or "process"', field="worker")
        self._period = period_seconds
        self._worker = worker
        self._analyse: Analyse = analyse or partial(
            estimate_workload, best=best, max_states=max_states, seed=seed, budget_seconds=budget_seconds
        )
        self._executor: Executor | None = None
        self._running: tuple[float, Future[WorkloadEstimate]] | None = None
        self._due_at: float | None = None
        self._latest: Analysis | None = None
        self._counts = dict.fromkeys(AnalysisEnd, 0)

    @property
    def latest(self) -> Analysis | None:
        """The newest estimate; None: there is none yet. It stays when a later analysis is skipped or fails."""
        return self._latest

    @property
    def is_running(self) -> bool:
        """Whether an analysis is under way."""
        return self._running is not None

    def count(self, end: AnalysisEnd) -> int:
        """How many analyses so far ended like that."""
        return self._counts[end]

    def tick(
        self, now: float, snapshot: Callable[[], tuple[FloatArray, Sequence[float]]]
    ) -> tuple[AnalysisReport, ...]:
        """Collect what has ended and start what is due, without waiting; tell what happened.

        Parameters
        ----------
        now
            The present instant, in seconds.
        snapshot
            Gives the inter-arrival times, oldest first, and the windows as shares of them; called only when an
            analysis starts.
        """
        reports = [] if self._running is None else self._collect(now)
        if self._due_at is None:
            self._due_at = now
        if now < self._due_at:
            return tuple(reports)
        if self._running is not None:
            ran = now - self._running[0]
            told = f"the analysis of {ran:.3g} s ago still runs, and takes longer than its period of {self._period:g} s"
            reports.append(self._report(now, AnalysisEnd.SKIPPED, ran, told))
        else:
            iats, shares = snapshot()
            if len(shares) == 0:
                reports.append(self._report(now, AnalysisEnd.NOT_READY, None, "no inter-arrival time yet"))
            else:
                warm = None if self._latest is None else self._latest.estimate
                self._executor = self._executor or self._start_worker()
                self._running = (now, self._executor.submit(self._analyse, iats, shares=tuple(shares), warm=warm))
        # On the grid of the first: a late call does not move those after it.
        self._due_at += self._period * (1 + (now - self._due_at) // self._period)
        return tuple(reports)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the analysis under way, for a simulation or a test; give whether none is left running.

        Its result is collected by the next `tick`.
        """
        if self._running is None:
            return True
        from concurrent.futures import wait

        return not wait([self._running[1]], seconds).not_done

    def close(self) -> None:
        """Give the worker up; an analysis under way is not waited for."""
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._executor = None
        self._running = None

    def __enter__(self) -> OnlineAnalysis:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _collect(self, now: float) -> list[AnalysisReport]:
        assert self._running is not None
        at, future = self._running
        if not future.done():
            return []
        self._running = None
        fault = future.exception()
        if fault is None:
            estimate = future.result()
            self._latest = Analysis(at, estimate)
            return [self._report(at, AnalysisEnd.DONE, estimate.seconds)]
        if isinstance(fault, NotReadyError):
            return [self._report(at, AnalysisEnd.NOT_READY, None, str(fault))]
        if isinstance(fault, BrokenExecutor):
            # The worker was killed (memory, an operator's hand): the next analysis gets a new one.
            self.close()
            return [self._report(at, AnalysisEnd.FAILED, now - at, "the worker process ended before its analysis")]
        if isinstance(fault, PenstockError):
            return [self._report(at, AnalysisEnd.FAILED, now - at, str(fault))]
        raise fault

    def _report(self, at: float, end: AnalysisEnd, seconds: float | None, detail: str = "") -> AnalysisReport:
        self._counts[end] += 1
        return AnalysisReport(at, end, seconds, detail)

    def _start_worker(self) -> Executor:
        if self._worker == "thread":
            return ThreadPoolExecutor(1, thread_name_prefix="penstock-workload")
        # Spawned: a fork of a process with threads (py4j, the loop) may inherit locks that nobody will open.
        return ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=_be_modest)


def _be_modest() -> None:
    os.nice(10)
