# SPDX-License-Identifier: Apache-2.0
"""The service demand of an operator that serves records one by one, learnt from samples of their times.

Times are told for full share: a record that took t seconds under a share s took t s of work (`demand.RecordDemand`).
Mean and variability are taken over samples of which older ones count less. Neighbouring samples may depend on each
other, so the standard error of the mean is that of the means of blocks of samples, not of the samples.

A record that waited out a pause of the machine has a time that is not its own: samples beyond so many times the
recent 95th percentile are counted apart.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.errors import ConfigurationError, NotReadyError
from penstock.markov import fit_mean_scv
from penstock.performance.demand import RecordDemand, check_allocation
from penstock.records import Allocation

_BLOCK = 50
_LEAST_BLOCKS = 8
_RECENT = 2_000


@dataclass(frozen=True, slots=True)
class LearntRecordDemand:
    """A demand, and what it rests on.

    Attributes
    ----------
    demand
        Distribution of a record's time at full share, with the relative standard error of its mean.
    scv
        Squared coefficient of variation of the samples; the distribution has it too, unless `moved` says otherwise.
    samples
        How many samples it rests on, older ones counting less.
    pauses
        How many samples were counted apart, ever.
    """

    demand: RecordDemand
    scv: float
    samples: float
    pauses: int
    moved: tuple[str, ...]


class RecordDemandLearner:
    """Learns a `RecordDemand`.

    Parameters
    ----------
    half_life_records
        After so many samples a sample counts half.
    pause_factor
        Samples beyond so many times the recent 95th percentile are pauses, not work.
    most_phases
        Of the distribution; less variable times than an Erlang distribution of so many phases are given that one.

    Examples
    --------
    >>> learner = RecordDemandLearner()
    >>> learner.observe(np.random.default_rng(1).exponential(0.02, 20_000), Allocation(1, 0.5))
    >>> learnt = learner.learnt()
    >>> round(learnt.demand.service.mean, 3), round(learnt.scv, 1)
    (0.01, 1.0)
    """

    def __init__(
        self, *, half_life_records: float = 20_000.0, pause_factor: float = 30.0, most_phases: int = 8
    ) -> None:
        for field, value in (("half_life_records", half_life_records), ("pause_factor", pause_factor - 1.0)):
            if not value > 0:
                raise ConfigurationError(f"{field}: {value!r} is too small", field=field)
        self._keep = 0.5 ** (_BLOCK / half_life_records)
        self._pause_factor, self._most_phases = pause_factor, most_phases
        self._recent: deque[float] = deque(maxlen=_RECENT)
        self._rest: list[float] = []
        self._sums = np.zeros(3)  # of blocks' weights, means and mean squares
        self._squares = np.zeros(2)  # of squared weights, and of block means squared
        self._blocks = 0
        self._pauses = 0

    def observe(self, seconds: npt.ArrayLike, allocation: Allocation) -> None:
        """Learn from the times of some records, and what the operator had while they were served."""
        work = np.asarray(seconds, dtype=np.float64).ravel() * check_allocation(allocation).cpu_share
        if work.size and not (np.isfinite(work).all() and work.min() >= 0):
            raise ConfigurationError("seconds: a record's time must be finite and not negative", field="seconds")
        for at in range(0, work.size, _BLOCK):
            self._take(work[at : at + _BLOCK])

    def learnt(self) -> LearntRecordDemand:
        """Give the demand as it is known now.

        Raises
        ------
        NotReadyError
            Too few samples, with the number needed, or all of them zero.
        """
        if self._blocks < _LEAST_BLOCKS:
            needed = _LEAST_BLOCKS * _BLOCK
            available = self._blocks * _BLOCK + len(self._rest)
            raise NotReadyError(
                f"{available} records' times so far; {needed} are needed", needed=needed, available=available
            )
        total, first, second = self._sums
        mean = float(first / total)
        if mean <= 0:
            raise NotReadyError("every record's time so far is 0: the clock is too coarse for them")
        scv = max(float(second / total) / mean**2 - 1.0, 0.0)
        # Blocks' means scatter about the mean with a variance v; of their weighted mean, v sum w^2 / (sum w)^2.
        count = total**2 / self._squares[0]
        scatter = max(float(self._squares[1] / total) - mean**2, 0.0) * count / max(count - 1.0, 1.0)
        fitted = fit_mean_scv(mean, scv, max_phases=self._most_phases)
        return LearntRecordDemand(
            demand=RecordDemand(fitted.distribution, spread=math.sqrt(scatter / count) / mean),
            scv=scv,
            samples=float(total) * _BLOCK,
            pauses=self._pauses,
            moved=fitted.moved,
        )

    def _take(self, work: npt.NDArray[np.float64]) -> None:
        if len(self._recent) >= _BLOCK:
            limit = self._pause_factor * float(np.quantile(self._recent, 0.95))
            own = work[work <= limit] if limit > 0 else work
            self._pauses += work.size - own.size
            if 2 * own.size < work.size:
                # Most of a block beyond the limit is no pause: the demand has changed.
                self._pauses -= work.size - own.size
                self._recent.clear()
                own = work
            work = own
        self._recent.extend(work.tolist())
        self._rest += work.tolist()
        while len(self._rest) >= _BLOCK:
            block, self._rest = np.array(self._rest[:_BLOCK]), self._rest[_BLOCK:]
            mean, square = float(block.mean()), float((block**2).mean())
            self._sums = self._keep * self._sums + np.array([1.0, mean, square])
            self._squares = np.array([self._keep**2 * self._squares[0] + 1.0, self._keep * self._squares[1] + mean**2])
            self._blocks += 1
