# SPDX-License-Identifier: Apache-2.0
"""What batches cost, apart from how fast the machine was: generalised least squares on the logarithms of their times.

A batch of n records on e executors with a CPU share s takes

    T = V (a + b / s + c n / (e s)),        a, b, c >= 0

with a the fixed time of the driver, b that under the share, c the time of a record, and V a factor near one. The
logarithm of V is a Gaussian process in time, the sum of

- the machine's speed: other tenants, throttling, a hot processor. It moves within a minute or so (Ornstein-Uhlenbeck);
- the youth of the JVM, which compiles its code while it runs: it fades with the age of the process;
- drifts of the fixed part and of the records' part, each for itself: state grows, records change. They move slowly;
- noise of each batch, heavy-tailed: garbage collections and the like (Student's t, by weights).

So a batch that is slow because the machine is slow does not change what a record costs, and what large batches taught
is kept while only small ones come. Uncertainty grows again as the drifts move on. With the covariance known, a, b and c
are generalised least squares (Gauss-Newton steps, non-negative by NNLS), and the process is predicted for now by
universal kriging (Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006, Sec. 2.7; Lange, Little and
Taylor, "Robust statistical modeling using the t distribution", 1989, for the weights).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtrs
from scipy.optimize import nnls

from penstock.markov.conditions import FloatArray
from penstock.performance.batch_memory import RememberedBatch
from penstock.records import Allocation

CPU_PART = 0.7
"""Part of the fixed time taken to run under the CPU share until shares have varied: of the 0.3 to 0.5 s that a batch
of Spark costs at any size, about 0.1 s is the driver's."""
_CPU_PART_ERROR = 0.3
SPEEDS = (0.005, 0.05, 0.2)
"""Standard deviations of the machine's speed among which the likelihood chooses: a machine of one's own, a shared one,
one on which others work."""
_SPEED_SECONDS = 120.0
_JUMP = 0.7
"""Standard deviation of a jump of the speed: half or twice as fast."""
_YOUNG, _YOUNG_SECONDS = 0.7, 60.0
"""A young JVM was seen to take up to four times as long, and to need some minutes."""
_DRIFT, _DRIFT_SECONDS = 0.25, 1800.0
_COST_JUMP = 1.0
_LEAST_NOISE = 0.01
"""A relative residual of this size is never far off: clocks and progress reports are no finer."""
_TAILS = 4.0
"""Degrees of freedom of the noise."""
_STEPS, _FURTHER_STEPS = 6, 1
"""Gauss-Newton steps of a first fit, and of one that starts from another."""


@dataclass(frozen=True, slots=True)
class Now:
    """What a batch costs now, on one executor at full share.

    Attributes
    ----------
    fixed, per_record
        f = a + b and c, times the speed of now. c may be negative: what batches say, whether it can be or not.
    cpu_part
        b / (a + b).
    covariance
        Of f and c.
    level_error, slope_error
        Standard errors of f and c if the speed of the machine were known, which makes both larger or smaller together.
    """

    fixed: float
    per_record: float
    cpu_part: float
    covariance: FloatArray
    level_error: float
    slope_error: float


class _Circumstances:
    """When and under which circumstances batches ran, as arrays, and how alike the machine and the costs were then."""

    def __init__(self, batches: Sequence[RememberedBatch]) -> None:
        self.at = np.array([batch.at for batch in batches])
        self.youth = np.exp(-np.array([batch.youth for batch in batches]) / _YOUNG_SECONDS)
        self.life = np.array([batch.life for batch in batches])
        self.speed_spell = np.array([batch.speed_spell for batch in batches])
        self.cost_spell = np.array([batch.cost_spell for batch in batches])

    def speed(self, others: _Circumstances, deviation: float, *, jumped: bool) -> FloatArray:
        """Covariances of the logarithm of V that f and c share."""
        apart = np.abs(self.at[:, None] - others.at)
        moving = deviation**2 * np.exp(-apart / _SPEED_SECONDS) + (_JUMP**2 if jumped else 0.0)
        young = _YOUNG**2 * np.outer(self.youth, others.youth) * (self.life[:, None] == others.life)
        return np.asarray(moving * (self.speed_spell[:, None] == others.speed_spell) + young)

    def drift(self, others: _Circumstances, *, jumped: bool) -> FloatArray:
        """Covariances of the drift of f, and of that of c."""
        apart = np.abs(self.at[:, None] - others.at)
        moving = _DRIFT**2 * np.exp(-apart / _DRIFT_SECONDS) + (_COST_JUMP**2 if jumped else 0.0)
        return np.asarray(moving * (self.cost_spell[:, None] == others.cost_spell))


class BatchTimeFit:
    """A fit to remembered batches.

    Parameters
    ----------
    batches
        At least one.
    speed
        Standard deviation of the machine's speed, one of `SPEEDS`.
    before
        An earlier fit to start from.
    """

    def __init__(self, batches: Sequence[RememberedBatch], speed: float, before: BatchTimeFit | None = None) -> None:
        self.batches, self.speed = batches, speed
        self._x = _all_regressors(batches)
        self._log_seconds = np.log([batch.seconds for batch in batches])
        self._seen = _Circumstances(batches)
        self._speed_jumped = len(set(self._seen.speed_spell.tolist())) > 1
        self._cost_jumped = len(set(self._seen.cost_spell.tolist())) > 1
        self._base = self._seen.speed(self._seen, speed, jumped=self._speed_jumped)
        self._drift = self._seen.drift(self._seen, jumped=self._cost_jumped)
        self._weights = np.ones(len(batches))
        self.theta: FloatArray = self._start() if before is None else before.theta
        """a, b and c."""
        self.noise: float = 0.1 if before is None else before.noise
        """Standard deviation of the noise of a batch, relative to its time."""
        self.likelihood = 0.0
        """Logarithm of the batches' probability density, but for a constant."""
        if before is not None:
            self._weights = before.weights_of(batches)
        for _ in range(_STEPS if before is None else _FURTHER_STEPS):
            self._step()
            self._weigh()
        self._step()

    def _start(self) -> FloatArray:
        """Half of the median batch is fixed, the other half the records'."""
        seconds = np.exp(self._log_seconds)
        per_record = 0.5 * float(np.median(seconds / self._x[:, 2]))
        fixed = 0.5 * float(np.median(seconds / (1.0 - CPU_PART + CPU_PART * self._x[:, 1])))
        return np.array([(1.0 - CPU_PART) * fixed, CPU_PART * fixed, per_record])

    def _step(self) -> None:
        """One Gauss-Newton step on a, b, c, with the covariance that belongs to them."""
        theta = self.theta
        total, self._fixed, self._records = self._parts(self._x)
        slow = self._drift * (self._fixed[:, None] * self._fixed + self._records[:, None] * self._records)
        self._noise_variance = self.noise**2 / self._weights
        covariance = self._base + slow
        covariance.flat[:: len(covariance) + 1] += self._noise_variance
        self._factor = _cholesky(covariance)
        residuals = self._log_seconds - np.log(total)
        self._jacobian = self._x / total[:, None]
        whitened, _ = dtrtrs(self._factor, np.column_stack([self._jacobian, residuals]), lower=1)
        # Where shares did not vary, b is the usual part of a + b.
        fixed_seconds = max(float(theta[0] + theta[1]), 1e-12)
        tie = np.array([[-CPU_PART, 1.0 - CPU_PART, 0.0]]) / (_CPU_PART_ERROR * fixed_seconds)
        rows = np.vstack([whitened[:, :3], tie])
        target = np.append(whitened[:, 3] + whitened[:, :3] @ theta, 0.0)
        scale = np.maximum(np.sqrt(np.sum(rows**2, axis=0)), 1e-300)
        information = rows.T @ rows / np.outer(scale, scale)
        self._covariance = np.linalg.pinv(information, hermitian=True) / np.outer(scale, scale)
        self._unbound = self._covariance @ (rows.T @ target)
        # No further down than by a factor: a long step through a curved place is one that the next has to take back.
        self.theta = np.maximum(_non_negative(rows / scale, target) / scale, 0.02 * theta)
        left = residuals - self._jacobian @ (self.theta - theta)
        self._solved, _ = dpotrs(self._factor, left, lower=1)
        self.likelihood = -0.5 * float(left @ self._solved) - float(np.log(np.diag(self._factor)).sum())

    def _weigh(self) -> None:
        """Judge each batch's noise by what the process leaves of its residual, and let far ones count less."""
        inverse, _ = dtrtrs(self._factor, np.eye(len(self._x)), lower=1)
        kept = np.sqrt(self._noise_variance * np.sum(inverse**2, axis=0))  # standard deviation of what is left, of one
        left = self._noise_variance * self._solved / np.maximum(kept, 0.05)
        self.noise = max(1.4826 * float(np.median(np.abs(left))), _LEAST_NOISE)
        self._weights = (_TAILS + 1.0) / (_TAILS + (left / self.noise) ** 2)

    def weights_of(self, batches: Sequence[RememberedBatch]) -> FloatArray:
        """How much batches counted in this fit; those that were not in it count as one."""
        # By identity: a memory hands the same batches in again, and to compare them by their fields takes long.
        known = dict(zip(map(id, self.batches), self._weights.tolist(), strict=True))
        return np.array([known.get(id(batch), 1.0) for batch in batches])

    def _parts(self, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Times by a, b and c, and which parts of them are fixed and the records'."""
        total = np.maximum(x @ self.theta, 1e-12)
        records = self.theta[2] * x[..., 2] / total
        return total, 1.0 - records, records

    def now(self, newest_batch: RememberedBatch) -> Now:
        """What batches cost under the circumstances of one, which need not be one of those that were fitted."""
        newest = _Circumstances((newest_batch,))
        speed = self._seen.speed(newest, self.speed, jumped=self._speed_jumped)[:, 0]
        drift = self._seen.drift(newest, jumped=self._cost_jumped)[:, 0]
        f, c = float(self.theta[0] + self.theta[1]), float(self.theta[2])
        # f V and c V: each has its own drift, the speed is the same for both.
        known = np.array([speed + drift * self._fixed, speed + drift * self._records])
        gain = dpotrs(self._factor, known.T, lower=1)[0].T
        latent = self._before(newest) - known @ gain.T
        moves = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]) - np.array([[f], [c]]) * (gain @ self._jacobian)
        covariance = np.outer([f, c], [f, c]) * latent + moves @ self._covariance @ moves.T
        factors = np.exp(known @ self._solved)
        return Now(
            float(f * factors[0]),
            float((c if self._unbound[2] > 0.0 else self._unbound[2]) * factors[1]),
            float(self.theta[1] / f) if f > 0.0 else CPU_PART,
            np.outer(factors, factors) * covariance,
            *(self._errors_at_one_speed(covariance) * factors).tolist(),
        )

    def _errors_at_one_speed(self, covariance: FloatArray) -> FloatArray:
        """Standard errors of f and c among those that give the mean batch the same time."""
        mean_batch = np.array([1.0, float(np.exp(np.log(self._x[:, 2]).mean()))])
        along = covariance @ mean_batch
        total = float(mean_batch @ along)
        left = np.diag(covariance) - (along**2 / total if total > 0.0 else 0.0)
        return np.asarray(np.sqrt(np.maximum(left, 0.0)))

    def predict(self, batch: RememberedBatch) -> tuple[float, float]:
        """Logarithm of the time that a further batch will take, and its standard deviation, noise included."""
        x, there = regressors(batch.rows, batch.allocation), _Circumstances((batch,))
        total, fixed, records = self._parts(x)
        speed = self._seen.speed(there, self.speed, jumped=self._speed_jumped)[:, 0]
        drift = self._seen.drift(there, jumped=self._cost_jumped)[:, 0]
        known = speed + drift * (fixed * self._fixed + records * self._records)
        gain, _ = dpotrs(self._factor, known, lower=1)
        parts = np.array([fixed, records])
        move = x / total - gain @ self._jacobian
        variance = float(parts @ self._before(there) @ parts - known @ gain + move @ self._covariance @ move)
        return float(np.log(total) + known @ self._solved), float(np.sqrt(max(variance, 0.0) + self.noise**2))

    def _before(self, there: _Circumstances) -> FloatArray:
        """Covariance of the processes of f and of c at one batch, before anything is known about it."""
        speed = there.speed(there, self.speed, jumped=self._speed_jumped)[0, 0]
        return np.asarray(speed + there.drift(there, jumped=self._cost_jumped)[0, 0] * np.eye(2))


def _cholesky(matrix: FloatArray) -> FloatArray:
    """The lower factor, by LAPACK itself: around matrices of this size SciPy's checks take longer than the work."""
    factor, fault = dpotrf(matrix, lower=1)
    if fault:
        raise np.linalg.LinAlgError(f"the covariance of {len(matrix)} batches is not positive definite")
    return np.asarray(factor)


def _non_negative(rows: FloatArray, target: FloatArray) -> FloatArray:
    """Least squares without negative unknowns."""
    try:
        return np.asarray(nnls(rows, target)[0])
    except RuntimeError:  # it gave up: what is negative is taken as nothing, and the next step goes on from there
        return np.asarray(np.maximum(np.linalg.lstsq(rows, target, rcond=None)[0], 0.0))


def _all_regressors(batches: Sequence[RememberedBatch]) -> FloatArray:
    """A row of `regressors` for each batch."""
    share = np.array([batch.allocation.cpu_share for batch in batches])
    rows = np.array([batch.rows for batch in batches], dtype=float)
    capacity = np.array([batch.allocation.capacity for batch in batches])
    return np.column_stack([np.ones(len(batches)), 1.0 / share, rows / capacity])


def regressors(rows: int, allocation: Allocation) -> FloatArray:
    """What a, b and c are multiplied with."""
    return np.array([1.0, 1.0 / allocation.cpu_share, rows / allocation.capacity])


def likeliest_fit(batches: Sequence[RememberedBatch], before: BatchTimeFit | None = None) -> BatchTimeFit:
    """Fit with the deviation of the machine's speed that makes the batches likeliest."""
    return max((BatchTimeFit(batches, speed, before) for speed in SPEEDS), key=lambda fit: fit.likelihood)
