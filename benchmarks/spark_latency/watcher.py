# SPDX-License-Identifier: Apache-2.0
"""A policy that follows the timetable, learns what `mead` would learn, and has each cell predicted and measured."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field

import numpy as np
from benchmarks.spark_latency.cells import Measured, interval_after
from benchmarks.spark_latency.predictor import Predicted, Question, predict
from benchmarks.spark_latency.timetable import Turn, rate_of, turn_at

from penstock.errors import NotReadyError
from penstock.evaluation.source_version import source_version
from penstock.monitor.arrival_memory import ArrivalMemory
from penstock.monitor.iat_windows import IatWindows
from penstock.monitor.steady import SteadyBatches
from penstock.performance.demand_learning import BatchDemandLearner
from penstock.policies.mead.options import mead_options
from penstock.ports import DoneRecords, FloatArray, Look
from penstock.records import Allocation, BatchProgress, Decision, PlanRequest


@dataclass
class _CellUnderWay:
    """A cell from its prediction to its last record."""

    turn: Turn
    question: Question
    answer: Future[Predicted]
    done: list[DoneRecords] = field(default_factory=list)
    batches: list[BatchProgress] = field(default_factory=list)
    is_over: bool = False
    """Whether all of its records are done."""
    had: Allocation | None = None
    """What the query was last seen to have; None: that was never known."""
    newest: BatchProgress | None = None
    """The newest batch since it was predicted."""
    fault: str | None = None
    """Why it says nothing; None: it does."""

    @property
    def begin(self) -> float:
        return self.turn.predicted_at

    def take(self, look: Look) -> None:
        """Take in a look. Void is what would make the measurement untrue, not what is hard to watch.

        That is another allocation, a batch that was not reported, and arrival times that are not known. Looks that came
        late or saw no CPU counters change no latency; left out, those of a busy machine would be.
        """
        if self.is_over:
            return
        at, seen = look.telemetry.at, look.observation
        has = seen.cluster.observed
        if self.begin <= at < self.turn.end and has is not None:
            self.had = has
            if not has.satisfies(self.turn.allocation):
                self.fault = f"the query had {has}"
        for batch in look.telemetry.batches:
            before, self.newest = self.newest, batch
            if before is not None and (before.run_id, before.batch_id + 1) != (batch.run_id, batch.batch_id):
                self.fault = f"the batches between {before.batch_id} and {batch.batch_id} were not reported"
        if look.done is not None and seen.latency is not None and not seen.latency.is_exact:
            self.fault = f"when records arrived is not known: {seen.latency.inexact_because}"
        self.batches += [
            b for b in look.telemetry.batches if b.started_at >= self.begin and b.ended_at <= self.turn.end
        ]
        if look.done is not None and look.done.arrived.size:
            self.done.append(look.done)
            self.is_over = bool(look.done.arrived.max() >= self.turn.end)

    def latencies(self) -> FloatArray:
        """Of the records that arrived while the cell was measured."""
        done = DoneRecords.joined(self.done)
        if done is None:
            return np.empty(0)
        return done.seconds[(done.arrived >= self.begin) & (done.arrived < self.turn.end)]


class Watcher:
    """A `ports.WatchingPolicy` for one operator.

    Parameters
    ----------
    turns
        The timetable, by the wall clock.
    record_seconds
        What a record was taken to cost for it.
    before
        Cells that were measured before: the interval goes on from them.
    keep
        Gets every cell as soon as its last record is done.
    predictors
        Where predictions are made: as with `mead`, beside the loop.
    """

    name = "timetable"
    every_seconds = 1.0

    def __init__(
        self,
        turns: Sequence[Turn],
        record_seconds: float,
        before: Sequence[Measured],
        keep: Callable[[Measured], None],
        predictors: Executor,
    ) -> None:
        self._turns, self._record_seconds, self._keep, self._predictors = turns, record_seconds, keep, predictors
        self._interval = interval_after(before)
        self._steady, self._learner = SteadyBatches(), BatchDemandLearner(skip_first=8)
        self._options = mead_options()
        self._arrived: list[FloatArray | None] = []
        """Of this turn."""
        self._turn: Turn | None = None
        self._asked: Turn | None = None
        self._under_way: list[_CellUnderWay] = []
        self._source = source_version()

    def plan(self, request: PlanRequest) -> Decision:
        """What the timetable says now."""
        turn = turn_at(self._turns, request.at)
        target = request.current if turn is None else turn.allocation
        return Decision(request.operator, request.at, self.name, request.current, target, "the timetable says so")

    def watch(self, look: Look) -> tuple[str, ...]:
        """Learn, predict when it is time, and measure."""
        at = look.telemetry.at
        for batch, had in self._steady.take(at, look.observation.cluster.observed, look.telemetry.batches):
            self._learn(batch, had)
        turn = turn_at(self._turns, at)
        if turn != self._turn:
            self._turn, self._arrived = turn, []
        if turn is not None and turn.cell is not None:
            self._arrived += look.arrivals
            if at >= turn.predicted_at and turn != self._asked:
                self._asked = turn
                self._ask(turn, at)
        for cell in list(self._under_way):
            cell.take(look)
            if cell.is_over and cell.answer.done():
                self._under_way.remove(cell)
                self._end(cell)
        return ()

    def close(self) -> None:
        """Nothing is its own."""

    @property
    def is_done(self) -> bool:
        """Whether no cell is under way."""
        return not self._under_way

    def _learn(self, batch: BatchProgress, had: Allocation) -> None:
        """Learn from batches of the turns between cells alone."""
        turn = turn_at(self._turns, batch.started_at)
        if turn is not None and turn.cell is None and had == turn.allocation and batch.ended_at < turn.end:
            self._learner.observe(batch.rows, batch.duration_seconds, had, batch.ended_at)

    def _ask(self, turn: Turn, at: float) -> None:
        assert turn.cell is not None
        windows = IatWindows(self._options.window, self._options.windows)
        # As `mead` has it: a window is over within seconds where records come fast.
        memory = None if self._options.look_back is None else ArrivalMemory(self._options.look_back)
        keeping: list[IatWindows | ArrivalMemory] = [windows] if memory is None else [windows, memory]
        for kept in keeping:
            for times in self._arrived:
                if times is None:
                    kept.interrupt()
                elif (mine := times[(times >= turn.begin) & (times < at)]).size:
                    kept.add_times(mine)
        snapshot = windows.snapshot()
        remembered = None if memory is None else memory.recall()
        try:
            demand = self._learner.learnt().demand
        except NotReadyError as fault:
            say(f"{turn.cell}: not predicted, and to be run again: {fault}")
            return
        question = Question(turn.cell, at, snapshot.iats, snapshot.shares, remembered, demand, self._interval.margin)
        self._under_way.append(_CellUnderWay(turn, question, self._predictors.submit(predict, question)))

    def _end(self, cell: _CellUnderWay) -> None:
        turn, demand, margin = cell.turn, cell.question.demand, cell.question.margin
        seconds = cell.latencies()
        fault = cell.fault or (None if seconds.size and cell.batches else "no record was done")
        if fault is None and cell.had is None:
            fault = "what the query had was never known"
        if fault is not None:
            say(f"{turn.cell}: not measured, and to be run again: {fault}")
            return
        assert turn.cell is not None
        told = cell.answer.result()
        measured = Measured(
            cell=turn.cell,
            at=turn.predicted_at,
            rate=rate_of(turn, self._record_seconds),
            record_seconds=self._record_seconds,
            records=int(seconds.size),
            batches=len(cell.batches),
            batch_seconds=float(np.mean([batch.duration_seconds for batch in cell.batches])),
            mean=float(seconds.mean()),
            p95=float(np.quantile(seconds, 0.95)),
            predicted_mean=told.mean,
            predicted_p95=told.p95,
            low=told.low,
            high=told.high,
            margin=(margin.low, margin.high),
            fitted_mean=told.fitted_mean,
            fitted_p95=told.fitted_p95,
            fixed_seconds=demand.fixed_seconds,
            fixed_cpu_seconds=demand.fixed_cpu_seconds,
            per_record_seconds=demand.per_record_seconds,
            version=str(self._source["version"]),
            commit=self._source["commit"],
        )
        self._interval.update(told.p95, measured.p95, margin)
        self._keep(measured)


def say(text: str) -> None:
    """Tell how far it is."""
    print(text, file=sys.stderr, flush=True)
