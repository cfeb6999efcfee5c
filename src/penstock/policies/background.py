# SPDX-License-Identifier: Apache-2.0
"""Long analyses beside the loop: started when due, collected when done, never waited for.

If an analysis still runs when the next one is due, the next one is skipped and reported. Nothing is queued, so an
answer is never older than the analysis that gave it. The worker is a process of low priority. It ends with this
process, however this process ends, because its pipe breaks.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar, get_args

from penstock.clock import stopwatch
from penstock.errors import ConfigurationError, NotReadyError, PenstockError
from penstock.policies.analysis_process import AnalysisProcess
from penstock.ports import AnalysisPlace, Worker

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class AnalysisEnd(StrEnum):
    """What became of an analysis that was due."""

    DONE = "done"
    SKIPPED = "skipped"
    """The one before was still running."""
    NOT_READY = "not ready"
    """Too little is known yet."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class AnalysisReport:
    """One analysis that was due at `at`; `seconds` is how long it took, or how long the one in its way had run."""

    at: float
    end: AnalysisEnd
    seconds: float | None
    detail: str = ""


@dataclass(frozen=True, eq=False, slots=True)
class Analysis(Generic[Answer]):
    """An answer, and the instant at which its question was asked."""

    at: float
    answer: Answer
    seconds: float

    def age_seconds(self, now: float) -> float:
        """How old the question is."""
        return now - self.at


class BackgroundAnalysis(Generic[Question, Answer]):
    """Answers a question every `period_seconds` beside whoever calls `tick`.

    Parameters
    ----------
    analyse
        From a question to an answer. For a process it must be a function of a module, and both must be picklable.
    period_seconds
        Time from one analysis to the next (T_A).
    place
        Who does it. ``"process"`` has an interpreter of its own at low priority, ``"thread"`` shares this one.
        ``"here"`` has no worker: the analysis is done inside `tick`, and its answer is in force `delay_seconds`
        later, for simulations under a clock of their own.
    """

    def __init__(
        self,
        analyse: Callable[[Question], Answer],
        *,
        period_seconds: float = 60.0,
        place: AnalysisPlace = AnalysisPlace(),  # noqa: B008 - it is frozen
    ) -> None:
        worker = place.worker
        if not 0.0 < period_seconds < float("inf"):
            raise ConfigurationError(
                f'period_seconds: {period_seconds!r} must be a positive time, such as "60s"', field="period_seconds"
            )
        if worker not in get_args(Worker):
            known = ", ".join(get_args(Worker))
            raise ConfigurationError(f"worker: {worker!r} is unknown; use one of {known}", field="worker")
        self._period = period_seconds
        self._analyse = analyse
        self._kind: Worker = worker
        self._delay = place.delay_seconds if worker == "here" else 0.0
        self._worker: _Worker[Question, Answer] | None = None
        self._running: tuple[float, Future[tuple[Answer, float]]] | None = None
        self._due_at: float | None = None
        self._latest: Analysis[Answer] | None = None
        self._counts = dict.fromkeys(AnalysisEnd, 0)

    @property
    def latest(self) -> Analysis[Answer] | None:
        """The newest answer; None: there is none yet. It stays when a later analysis is skipped or fails."""
        return self._latest

    @property
    def is_running(self) -> bool:
        """Whether an analysis is under way."""
        return self._running is not None

    def count(self, end: AnalysisEnd) -> int:
        """How many analyses so far ended like that."""
        return self._counts[end]

    def tick(self, now: float, ask: Callable[[], Question]) -> tuple[AnalysisReport, ...]:
        """Collect what has ended and start what is due, without waiting; report what happened.

        Parameters
        ----------
        now
            The present instant, in seconds.
        ask
            Gives the question, or raises NotReadyError; called only when an analysis would start.
        """
        reports = [] if self._running is None else self._collect(now)
        if self._due_at is None or self._due_at > now + self._period:  # a clock was set back
            self._due_at = now
        if now < self._due_at:
            return tuple(reports)
        if self._running is not None:
            ran = now - self._running[0]
            why = f"the analysis of {ran:.3g} s ago still runs, and takes longer than its period of {self._period:g} s"
            reports.append(self._report(now, AnalysisEnd.SKIPPED, ran, why))
        else:
            try:
                question = ask()
            except NotReadyError as fault:
                # Asked again at the next tick: what is missing may come any moment. The grid begins with the first.
                self._due_at = None
                return (*reports, self._report(now, AnalysisEnd.NOT_READY, None, str(fault)))
            self._running = (now, self._start(question))
            if self._kind == "here":
                reports += self._collect(now)
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
        """End the worker; an analysis under way is lost."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None
        self._running = None

    def __enter__(self) -> BackgroundAnalysis[Question, Answer]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self, question: Question) -> Future[tuple[Answer, float]]:
        if self._kind == "here":
            return _done_here(self._analyse, question)
        self._worker = self._worker or _Worker(self._analyse, self._kind == "process")
        return self._worker.submit(question)

    def _collect(self, now: float) -> list[AnalysisReport]:
        assert self._running is not None
        at, future = self._running
        if not future.done() or now < at + self._delay:
            return []
        self._running = None
        fault = future.exception()
        if fault is None:
            answer, seconds = future.result()
            self._latest = Analysis(at, answer, seconds)
            return [self._report(at, AnalysisEnd.DONE, seconds)]
        if isinstance(fault, NotReadyError):
            return [self._report(at, AnalysisEnd.NOT_READY, None, str(fault))]
        if isinstance(fault, (EOFError, OSError)):
            # The worker was killed (memory, an operator's hand): the next analysis gets a new one.
            self.close()
            return [self._report(at, AnalysisEnd.FAILED, now - at, "the worker process ended before its analysis")]
        if isinstance(fault, PenstockError):
            return [self._report(at, AnalysisEnd.FAILED, now - at, str(fault))]
        raise fault

    def _report(self, at: float, end: AnalysisEnd, seconds: float | None, detail: str = "") -> AnalysisReport:
        self._counts[end] += 1
        return AnalysisReport(at, end, seconds, detail)


def _done_here(analyse: Callable[[Question], Answer], question: Question) -> Future[tuple[Answer, float]]:
    """An analysis that is over: done in this very thread."""
    ended: Future[tuple[Answer, float]] = Future()
    elapsed = stopwatch()
    try:
        ended.set_result((analyse(question), elapsed()))
    except Exception as fault:  # judged where it is collected, as one that comes from a worker
        ended.set_exception(fault)
    return ended


class _Worker(Generic[Question, Answer]):
    """A thread that thinks, or that waits for a process which does."""

    def __init__(self, analyse: Callable[[Question], Answer], is_process: bool) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="penstock-analysis")
        self._analyse = analyse
        self.process = AnalysisProcess(analyse) if is_process else None

    def submit(self, question: Question) -> Future[tuple[Answer, float]]:
        return self._thread.submit(self._answer, question)

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
        self._thread.shutdown(wait=self.process is not None, cancel_futures=True)
        if self.process is not None:
            self.process.close()

    def _answer(self, question: Question) -> tuple[Answer, float]:
        elapsed = stopwatch()
        answer = self._analyse(question) if self.process is None else self.process.answer(question)
        return answer, elapsed()
