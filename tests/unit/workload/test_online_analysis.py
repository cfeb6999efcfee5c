# SPDX-License-Identifier: Apache-2.0
"""The analysis beside the pipeline: never waited for, never queued."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

import numpy as np
import pytest

from penstock.errors import ConfigurationError, ModelError
from penstock.markov import map2_from_moments
from penstock.workload import WorkloadEstimate
from penstock.workload.online import AnalysisEnd, FloatArray, OnlineAnalysis

PATIENCE = 60.0


class FakeAnalysis:
    """An analysis that ends when it is told to, and remembers what it was given."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.warm: list[WorkloadEstimate | None] = []
        self.fault: Exception | None = None

    def __call__(self, iats: FloatArray, *, shares: Sequence[float], warm: WorkloadEstimate | None) -> WorkloadEstimate:
        """An empty estimate, once allowed."""
        self.warm.append(warm)
        assert self.may_end.wait(PATIENCE)
        if self.fault is not None:
            raise self.fault
        return WorkloadEstimate((), 0.25)


def snapshot() -> tuple[FloatArray, Sequence[float]]:
    """Some intervals, as one window."""
    return np.ones(10), (1.0,)


def test_an_analysis_that_outlasts_its_period_makes_the_next_skipped_not_queued() -> None:
    """While one runs, those that fall due are skipped with a reason; after it exactly one more starts."""
    slow = FakeAnalysis()
    with OnlineAnalysis(period_seconds=60.0, analyse=slow) as online:
        assert online.tick(0.0, snapshot) == ()
        assert online.tick(59.0, snapshot) == ()
        for due in (60.0, 120.0):
            (report,) = online.tick(due, snapshot)
            assert (report.end, report.at, report.seconds) == (AnalysisEnd.SKIPPED, due, due)
            assert "longer than its period of 60 s" in report.detail
        slow.may_end.set()
        assert online.wait(PATIENCE)
        (report,) = online.tick(130.0, snapshot)
        assert (report.end, report.at, report.seconds) == (AnalysisEnd.DONE, 0.0, 0.25)
        assert online.latest is not None
        assert online.latest.age_seconds(130.0) == 130.0
        assert len(slow.warm) == 1
        online.tick(180.0, snapshot)
        assert online.wait(PATIENCE)
        assert slow.warm == [None, online.latest.estimate]
        assert online.count(AnalysisEnd.SKIPPED) == 2


def test_due_times_stay_on_their_grid() -> None:
    """A late call starts one analysis and leaves the later ones where they were."""
    quick = FakeAnalysis()
    quick.may_end.set()
    with OnlineAnalysis(period_seconds=10.0, analyse=quick) as online:
        for now, started in ((0.0, 1), (9.0, 1), (35.0, 2), (39.0, 2), (40.0, 3)):
            online.tick(now, snapshot)
            assert online.wait(PATIENCE)
            assert len(quick.warm) == started


def test_too_few_arrivals_are_told_and_the_last_estimate_stays() -> None:
    """An analysis that is not ready, or fails, says why; the estimate before it stays with its age."""
    with OnlineAnalysis(period_seconds=1.0) as online:
        (report,) = online.tick(0.0, lambda: (np.zeros(0), ()))
        assert report.end is AnalysisEnd.NOT_READY
        online.tick(1.0, lambda: (np.ones(100), (1.0,)))
        assert online.wait(PATIENCE)
        (report, *_) = online.tick(1.5, snapshot)
        assert report.end is AnalysisEnd.NOT_READY
        assert "256" in report.detail
    fake = FakeAnalysis()
    fake.may_end.set()
    with OnlineAnalysis(period_seconds=1.0, analyse=fake) as online:
        online.tick(0.0, snapshot)
        online.wait(PATIENCE)
        fake.fault = ModelError("no process fits")
        online.tick(1.0, snapshot)
        online.wait(PATIENCE)
        (report, *_) = online.tick(1.5, snapshot)
        assert (report.end, report.detail) == (AnalysisEnd.FAILED, "no process fits")
        assert online.latest is not None
        assert online.latest.at == 0.0


def test_a_fault_of_the_program_is_not_hidden() -> None:
    """An error that is none of Penstock's own reaches the caller."""
    fake = FakeAnalysis()
    fake.may_end.set()
    fake.fault = ZeroDivisionError("a mistake")
    with OnlineAnalysis(period_seconds=1.0, analyse=fake) as online:
        online.tick(0.0, snapshot)
        online.wait(PATIENCE)
        with pytest.raises(ZeroDivisionError):
            online.tick(0.5, snapshot)


def _dies(iats: FloatArray, *, shares: Sequence[float], warm: WorkloadEstimate | None) -> WorkloadEstimate:
    os._exit(1)


def test_a_killed_worker_is_told_and_replaced() -> None:
    """A worker process that dies is a failed analysis; the next one has a new worker."""
    with OnlineAnalysis(period_seconds=1.0, worker="process", analyse=_dies) as online:
        online.tick(0.0, snapshot)
        assert online.wait(PATIENCE)
        (report,) = online.tick(0.5, snapshot)
        assert report.end is AnalysisEnd.FAILED
        assert "worker process" in report.detail
        assert online.tick(1.0, snapshot) == ()
        assert online.is_running


def test_a_process_goes_on_from_the_last_estimate() -> None:
    """In a process of its own the second analysis starts warm."""
    stream = map2_from_moments(1.0, 5.0, 60.0, 0.9).sample(6_100, np.random.default_rng(4))
    with OnlineAnalysis(period_seconds=1.0, best=2, worker="process") as online:
        online.tick(0.0, lambda: (stream[:6_000], (1.0, 0.5)))
        assert online.wait(PATIENCE)
        online.tick(1.0, lambda: (stream[100:], (1.0, 0.5)))
        assert online.wait(PATIENCE)
        online.tick(1.5, snapshot)
        assert online.latest is not None
        assert [window.n for window in online.latest.estimate.windows] == [6_000, 3_000]
        assert all(window.fit.is_warm for window in online.latest.estimate.windows)


def test_wrong_settings_are_refused() -> None:
    """A period of zero and an unknown worker are errors that name the field."""
    with pytest.raises(ConfigurationError, match="period_seconds"):
        OnlineAnalysis(period_seconds=0.0)
    with pytest.raises(ConfigurationError, match="worker"):
        OnlineAnalysis(worker="fibre")  # type: ignore[arg-type]
