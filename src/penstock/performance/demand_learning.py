# SPDX-License-Identifier: Apache-2.0
"""The service demand of an operator, learnt from its batches while it runs.

Each batch is judged by what those before say about it, and then learnt from (`batch_time_fit` has the model: fixed
time, time of a record, and the speed of the machine as a factor of its own). What is remembered is bounded, and large
batches are not forgotten because small ones came since (`batch_memory`).

A batch far off (a garbage collection, a lost executor) is set aside. Several of them in a row, all to one side, are a
jump of the machine's speed: another tenant came or went. If the last batches lean to one side though the speed may
move, the demand has changed: what batches before it said about the cost of a query counts for little.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from scipy.special import erfc, stdtrit

from penstock.errors import ConfigurationError, NotReadyError
from penstock.markov.conditions import FloatArray
from penstock.performance.batch_memory import BatchMemory, RememberedBatch
from penstock.performance.batch_time_fit import BatchTimeFit, Now, likeliest_fit, regressors
from penstock.performance.demand import BatchDemand, check_allocation
from penstock.records import Allocation

_FAR = 5.0
"""Standard deviations beyond which a batch is set aside."""
_JUMPED = 3
"""Batches in a row that were set aside to one side: the speed of the machine has jumped."""
_WITNESSES, _AGREE, _ASIDE = 10, 9, 1.0
"""The demand has changed if 9 of the last 10 batches lie on one side, beyond one standard deviation: by chance
that is one window in 10^6, and one in 10^4 if every seventh batch is held up by a pause."""
_LIKELIER = 5.0
"""How much more the logarithm of the likelihood must be for a change of costs to be believed, and not one of speed."""
_SETTLED = 40
"""Batches after a jump from which on the question is settled."""
_REFIT_EVERY, _CHOOSE_EVERY = 4, 8
"""Batches after which the fit takes in what is new, if nobody asked for it before, and after which the deviation of the
machine's speed is chosen anew."""
_VARIED = 0.05
"""Least relative standard deviation of the records per unit of capacity that separates f from c."""
_HARDLY = 0.25
"""Records hardly count if, two standard errors above what was found, they take less than this of the largest batch."""
_KEEP = 0.5 ** (1.0 / 200.0)
"""Forgetting of the noise and of the grades, for each batch."""
_NORMAL_90 = 1.6449
_EARLIER = -1
"""Number of the process, and of the spell of the machine's speed, of batches from an earlier run."""


class Verdict(StrEnum):
    """What was made of a batch."""

    TAKEN = "taken"
    EMPTY = "no records: such a batch starts no tasks, so it says nothing about batches that do"
    WARM_UP = "one of the first: classes are loaded and code is compiled"
    FAR_OFF = "far off what others took: set aside"
    CHANGED = "the last batches agree with each other and not with those before: taken, and those made light"


@dataclass(frozen=True, slots=True)
class LearntDemand:
    """A demand, and what it rests on.

    Attributes
    ----------
    demand
        f, c, g and their variability, with standard errors, as fast as the machine is now.
    fixed_bounds_seconds, per_record_bounds_seconds
        Confidence intervals of f and c; never below 0.
    residual_scv
        Variance of a batch's time about its prediction, over the prediction squared.
    batches
        How many batches it rests on.
    far_off
        How many were set aside, ever.
    is_cpu_part_learnt
        False: CPU shares have not varied, and the part of f that stretches is assumed.
    fixed_error_at_one_speed_seconds
        Standard error of f apart from how fast the machine is: f against the times of batches that ran just now.
    error, coverage
        Mean relative error of the times predicted before batches were learnt from, and the part of them that lay in
        their 90 % interval, of the last batches; None: none was predicted.
    """

    demand: BatchDemand
    fixed_bounds_seconds: tuple[float, float]
    per_record_bounds_seconds: tuple[float, float]
    residual_scv: float
    batches: float
    far_off: int
    is_cpu_part_learnt: bool
    fixed_error_at_one_speed_seconds: float
    error: float | None = None
    coverage: float | None = None


@dataclass(slots=True)
class _Noise:
    """How batches vary about what is predicted, and how good predictions were; older batches count less."""

    moments: FloatArray
    information: FloatArray
    weight: float = 0.0
    absolute: float = 0.0
    covered: float = 0.0

    graded: float = 0.0

    def add(self, variance: float, fixed_part: float, record_part: float) -> None:
        """Take in a squared residual relative to its prediction; the parts are what it would be if an SCV were 1."""
        parts = np.array([fixed_part, record_part])
        self.information = _KEEP * self.information + np.outer(parts, parts)
        self.moments = _KEEP * self.moments + variance * np.array([*parts, 1.0])
        self.weight = _KEEP * self.weight + 1.0

    def grade(self, relative: float, *, is_covered: bool) -> None:
        """Take in how good a prediction was."""
        self.graded = _KEEP * self.graded + 1.0
        self.absolute = _KEEP * self.absolute + abs(relative)
        self.covered = _KEEP * self.covered + is_covered

    def scvs(self) -> tuple[float, float]:
        """SCVs of the fixed time and of a record's, neither negative, that explain the squared residuals best."""
        (a, b), (_, d) = self.information
        p, q = float(self.moments[0]), float(self.moments[1])
        determinant = a * d - b * b
        if determinant > 1e-9 * a * d:
            fixed, record = (d * p - b * q) / determinant, (a * q - b * p) / determinant
            if fixed >= 0 and record >= 0:
                return float(fixed), float(record)
        if a <= 0.0 or d <= 0.0:
            return (float(p / a), 0.0) if a > 0.0 else (0.0, 0.0)
        # One of them alone: the one that explains more.
        return (float(p / a), 0.0) if p * p * d >= q * q * a else (0.0, float(q / d))


class BatchDemandLearner:
    """Learns a `BatchDemand`.

    Parameters
    ----------
    least_batches
        Before so many batches nothing is said.
    skip_first
        So many batches after the start, or after `restart`, are not learnt from.
    cap, trigger_seconds
        Cap and trigger interval of the query; passed on to the demand.

    Examples
    --------
    >>> learner = BatchDemandLearner(skip_first=0)
    >>> for rows in (100, 400, 200, 900) * 5:
    ...     _ = learner.observe(rows, 0.3 + 0.001 * rows, Allocation(1, 1.0))
    >>> learnt = learner.learnt()
    >>> round(learnt.demand.fixed_seconds, 3), round(learnt.demand.per_record_seconds, 5)
    (0.3, 0.001)
    """

    def __init__(
        self,
        *,
        least_batches: int = 12,
        skip_first: int = 3,
        cap: int | None = None,
        trigger_seconds: float | None = None,
    ) -> None:
        if least_batches < 4:
            raise ConfigurationError(
                f"least_batches: {least_batches} must be at least 4: three unknowns, and one to judge them by",
                field="least_batches",
            )
        self._least, self._skip_first = least_batches, skip_first
        self._cap, self._trigger = cap, trigger_seconds
        self._memory = BatchMemory()
        self._witnesses: deque[tuple[float, RememberedBatch]] = deque(maxlen=_WITNESSES)
        self._noise = _Noise(np.zeros(3), np.zeros((2, 2)))
        self._skipped = self._far_off = self._taken = 0
        self._not_fitted = self._since_choice = 0
        self._rows: tuple[int, int] | None = None
        self._life = self._speed_spell = self._cost_spell = 0
        self._at: float | None = None
        self._born: float | None = None
        self._fit: BatchTimeFit | None = None

    @property
    def batches(self) -> tuple[RememberedBatch, ...]:
        """Those that are remembered, oldest first."""
        return tuple(self._memory)

    def begin_with(self, batches: Sequence[RememberedBatch]) -> None:
        """Start with what batches of an earlier run taught. How fast the machine is now is not known from them."""
        if self._taken or len(batches) < self._least:
            return
        for batch in sorted(batches, key=lambda batch: batch.at):
            self._memory.add(replace(batch, life=_EARLIER, speed_spell=_EARLIER, cost_spell=0))
        self._taken = len(self._memory)
        rows = [batch.rows for batch in self._memory]
        self._rows = min(rows), max(rows)
        self._refit()

    def restart(self) -> None:
        """Say that the query was started anew: its first batches will not be learnt from, and its JVM is young."""
        self._skipped = 0
        self._life += 1
        self._born = None

    def observe(self, rows: int, seconds: float, allocation: Allocation, at: float | None = None) -> Verdict:
        """Learn from one batch: its records, its time, what the operator had while it ran, and when it ended.

        Without an end it is taken to have followed the one before at once.
        """
        check_allocation(allocation)
        if rows < 0:
            raise ConfigurationError(f"rows: {rows} is negative", field="rows")
        if not 0.0 < seconds < math.inf:
            raise ConfigurationError(
                f"seconds: {seconds!r} is not the time of a batch; give a positive number of seconds", field="seconds"
            )
        # A clock that was set back must not make an old batch of a new one.
        before = 0.0 if self._at is None else self._at
        self._at = before + seconds if at is None else max(at, before)
        if self._born is None:
            self._born = self._at - seconds
        if rows == 0:
            return Verdict.EMPTY
        if self._skipped < self._skip_first:
            self._skipped += 1
            return Verdict.WARM_UP
        least, most = self._rows or (rows, rows)
        self._rows = min(least, rows), max(most, rows)
        batch = RememberedBatch(
            self._at, rows, seconds, allocation, self._at - self._born, self._life, self._speed_spell, self._cost_spell
        )
        if self._fit is None:
            self._memory.add(batch)
            self._taken += 1
            if self._taken >= self._least:
                self._refit()
            return Verdict.TAKEN
        return self._go_on(batch, self._fit)

    @property
    def has_enough_batches(self) -> bool:
        """Whether there are batches enough; if nothing is learnt all the same, they are too much alike."""
        return self._fit is not None

    def learnt(self, confidence: float = 0.95) -> LearntDemand:
        """Give the demand as it is known now.

        Raises
        ------
        NotReadyError
            Too few batches, or their records did not vary, or noise hides what a record costs; the message says which.
        """
        if not 0.0 < confidence < 1.0:
            raise ConfigurationError(f"confidence: {confidence!r} is outside (0, 1)", field="confidence")
        if self._fit is None:
            raise NotReadyError(
                f"{self._taken} batches with records so far, beside the first {self._skip_first}, which do not "
                f"count; {self._least} are needed",
                needed=self._least,
                available=self._taken,
            )
        spread = self._spread()
        if spread < _VARIED:
            least, most = self._rows or (0, 0)
            raise NotReadyError(
                f"all batches had about the same records ({least} to {most}) under about the same allocation, so the "
                "fixed time and the time of a record cannot be separated; batches of other sizes are needed "
                f"(relative standard deviation {spread:.1%}, needed {_VARIED:.0%}): let the rate vary, or the trigger"
            )
        now = self._now()
        error = now.slope_error
        if now.per_record <= 2.0 * error and not self._hardly_counts(now, error):
            raise NotReadyError(
                f"batch time does not yet show to grow with the records: {now.per_record:.3g} s a record, standard "
                f"error {error:.3g} s; larger or more batches are needed"
            )
        return self._told(now, confidence)

    def _hardly_counts(self, now: Now, error: float) -> bool:
        """Whether records take so little that what is not known of it does not matter at the sizes seen."""
        largest = max(batch.rows / batch.allocation.capacity for batch in self._memory)
        most = max(now.per_record, 0.0) + 2.0 * error
        if now.per_record < -2.0 * error:
            return False  # larger batches are faster: something else is going on, and nothing follows for c
        return error > 0.0 and most * largest < _HARDLY * (now.fixed + most * largest)

    def _told(self, now: Now, confidence: float) -> LearntDemand:
        error = math.sqrt(max(float(now.covariance[1, 1]), 0.0))
        per_record, slope_error = _above_zero(now.per_record, now.slope_error)
        record_error = math.sqrt(slope_error**2 + max(error**2 - now.slope_error**2, 0.0))
        # Records alone explain the time: what is fixed is below what can be seen, and taken as a hundredth of a batch.
        fixed = max(now.fixed, 0.01 * float(np.mean([batch.seconds for batch in self._memory])))
        fixed_error = math.sqrt(max(float(now.covariance[0, 0]), 0.0))
        correlation = float(now.covariance[0, 1]) / (fixed_error * error) if fixed_error > 0 and error > 0 else 0.0
        fixed_scv, per_record_scv = self._noise.scvs()
        quantile = float(stdtrit(max(len(self._memory) - 3.0, 1.0), 0.5 + confidence / 2.0))  # of Student's t
        noise = self._noise
        return LearntDemand(
            demand=BatchDemand(
                fixed_seconds=fixed,
                per_record_seconds=per_record,
                fixed_scv=fixed_scv,
                per_record_scv=per_record_scv,
                fixed_cpu_seconds=now.cpu_part * fixed,
                fixed_error_seconds=fixed_error,
                per_record_error_seconds=record_error,
                error_correlation=min(max(correlation, -1.0), 1.0),
                cap=self._cap,
                trigger_seconds=self._trigger,
            ),
            fixed_bounds_seconds=_around(fixed, quantile * fixed_error),
            per_record_bounds_seconds=_around(per_record, quantile * record_error),
            residual_scv=float(noise.moments[2] / noise.weight) if noise.weight else self._noise_of_fit(),
            batches=len(self._memory),
            far_off=self._far_off,
            is_cpu_part_learnt=self._shares_varied(),
            fixed_error_at_one_speed_seconds=now.level_error,
            error=noise.absolute / noise.graded if noise.graded else None,
            coverage=noise.covered / noise.graded if noise.graded else None,
        )

    def _now(self) -> Now:
        """What a batch costs now; before the first batch of this run, of a process and machine nothing is known of."""
        fit, newest = self._refit(), tuple(self._memory)[-1]
        if newest.life == self._life:
            return fit.now(newest)
        return fit.now(replace(newest, youth=0.0, life=self._life, speed_spell=self._speed_spell))

    def _noise_of_fit(self) -> float:
        assert self._fit is not None
        return self._fit.noise**2

    def bounded(self) -> LearntDemand | None:
        """Give what batches allow where `learnt` cannot separate f from c; None: there are too few of them.

        Whatever c is, f + c n is the mean time at the mean batch, and neither is negative. So c is between 0 and what
        it would be if nothing were fixed; and not far above the fitted slope, unless that is below 0, which a young
        JVM makes it. The middle of the two is given, with the way to either end as the error: one error to the slow
        side is the longest that batches may take.
        """
        if self._fit is None:
            return None
        now = self._now()
        x = np.array([regressors(batch.rows, batch.allocation) for batch in self._memory])
        seconds = np.array([batch.seconds for batch in self._memory])
        stretched = 1.0 - now.cpu_part + now.cpu_part * x[:, 1]
        weights = 1.0 / seconds**2
        most = float(np.sum(weights * seconds * stretched) / np.sum(weights * stretched * x[:, 2]))
        if self._spread() >= _VARIED:
            slope, error = now.per_record, now.slope_error
            if -error <= slope and slope + 3.0 * error > 0.0:
                most = min(most, slope + 3.0 * error)
        mean_records = float(np.sum(weights * stretched * x[:, 2]) / np.sum(weights * stretched**2))
        per_record = 0.5 * most
        fixed = (
            float(np.sum(weights * seconds * stretched) / np.sum(weights * stretched**2)) - per_record * mean_records
        )
        told = self._told(replace(now, fixed=fixed, per_record=per_record), 0.95)
        return replace(
            told,
            demand=replace(
                told.demand,
                fixed_seconds=fixed,
                per_record_seconds=per_record,
                per_record_scv=0.0,
                fixed_cpu_seconds=now.cpu_part * fixed,
                fixed_error_seconds=per_record * mean_records,
                per_record_error_seconds=per_record,
                error_correlation=-1.0,
            ),
            fixed_bounds_seconds=(fixed - per_record * mean_records, fixed + per_record * mean_records),
            per_record_bounds_seconds=(0.0, most),
        )

    # --- how it is kept ----------------------------------------------------------------------------------------

    def _go_on(self, batch: RememberedBatch, fit: BatchTimeFit) -> Verdict:
        predicted, deviation = fit.predict(batch)
        off = (math.log(batch.seconds) - predicted) / deviation
        self._witnesses.append((off, batch))
        self._noise.grade(batch.seconds / math.exp(predicted) - 1.0, is_covered=abs(off) <= _NORMAL_90)
        if abs(off) <= _FAR:  # what is set aside is no noise of the others
            self._note_noise(batch, predicted, deviation)
        for side in (1.0, -1.0):
            aside = [seen for seen_off, seen in self._witnesses if side * seen_off > _ASIDE]
            if len(aside) >= _AGREE:
                return self._take_as_changed(aside)
            last = [seen for seen_off, seen in list(self._witnesses)[-_JUMPED:] if side * seen_off > _FAR]
            if len(last) == _JUMPED:
                return self._take_as_changed(last)
        if abs(off) > _FAR:
            self._far_off += 1
            return Verdict.FAR_OFF
        self._memory.add(batch)
        self._taken += 1
        self._not_fitted += 1
        self._since_choice += 1
        # Batches that are unlike those before are taken in at once, or the next would look unlike them too.
        if self._not_fitted >= _REFIT_EVERY or abs(off) > 1.0:
            self._refit()
        return Verdict.TAKEN

    def _note_noise(self, batch: RememberedBatch, predicted: float, deviation: float) -> None:
        assert self._fit is not None
        a, b, c = self._fit.theta
        x = regressors(batch.rows, batch.allocation)
        total = a + b * x[1] + c * x[2]
        # The variance of n records' time if their SCV were 1 is n (c / (e s))^2.
        record_part = c * c * x[2] / batch.allocation.capacity / total**2
        # A part of the residual is the prediction's own error, and not the batch's noise.
        own = (self._fit.noise / deviation) ** 2
        relative = batch.seconds / math.exp(predicted) - 1.0
        self._noise.add(own * relative**2, float(((a + b * x[1]) / total) ** 2), float(record_part))

    def _refit(self) -> BatchTimeFit:
        """Take in what came since the last fit."""
        batches = tuple(self._memory)
        if self._fit is None or self._since_choice >= _CHOOSE_EVERY:
            self._fit, self._since_choice = likeliest_fit(batches, self._fit), 0
            self._weigh_costs()
        elif self._not_fitted:
            self._fit = BatchTimeFit(batches, self._fit.speed, self._fit)
        self._not_fitted = 0
        return self._fit

    def _take_as_changed(self, batches: list[RememberedBatch]) -> Verdict:
        """Begin a new spell of the machine's speed with the batches that disagree."""
        self._witnesses.clear()
        self._speed_spell += 1
        self._memory.move(batches, self._speed_spell, self._cost_spell)
        self._fit = likeliest_fit(tuple(self._memory), self._fit)
        self._weigh_costs()
        self._taken += len(batches)
        self._not_fitted = self._since_choice = 0
        return Verdict.CHANGED

    def _weigh_costs(self) -> None:
        """Find out whether what changed with the newest spell was the query's costs, not the machine's speed alone."""
        assert self._fit is not None
        newest = [batch for batch in self._memory if batch.speed_spell == self._speed_spell]
        is_open = any(b.speed_spell < self._speed_spell and b.cost_spell == self._cost_spell for b in self._memory)
        if not newest or not is_open or len(newest) > _SETTLED:
            return
        changed = self._memory.copy()
        changed.move(newest, self._speed_spell, self._cost_spell + 1)
        as_costs = likeliest_fit(tuple(changed), self._fit)
        if as_costs.likelihood > self._fit.likelihood + _LIKELIER:
            self._cost_spell += 1
            self._memory, self._fit = changed, as_costs

    def _spread(self) -> float:
        """Relative standard deviation of n / (e s)."""
        records = np.array([batch.rows / batch.allocation.capacity for batch in self._memory])
        return float(records.std() / records.mean())

    def _shares_varied(self) -> bool:
        stretch = np.array([1.0 / batch.allocation.cpu_share for batch in self._memory])
        return bool(stretch.std() > _VARIED * stretch.mean())


def _around(value: float, distance: float) -> tuple[float, float]:
    return max(value - distance, 0.0), value + distance


def _above_zero(value: float, error: float) -> tuple[float, float]:
    """Mean and standard deviation of a normal distribution of which only what is above zero is possible."""
    if error <= 0.0 or value > 8.0 * error:
        return value, error
    below = max(-value / error, -30.0)
    if below > 5.0:  # far in the tail it is exponential
        return error / below, error / below
    density = math.exp(-0.5 * below * below) / math.sqrt(2.0 * math.pi)
    ratio = density / (0.5 * float(erfc(below / math.sqrt(2.0))))
    mean = value + error * ratio
    return mean, error * math.sqrt(max(1.0 + below * ratio - ratio * ratio, 1e-6))
