# SPDX-License-Identifier: Apache-2.0
"""A response time as a number of ticks of a Poisson clock (uniformisation), without limit on the number of ticks.

========  ======================================================================================
Symbol    Meaning
========  ======================================================================================
q         ticks per second
N         number of ticks a record stays for
b_n       P(N > n), n = 0, 1, ...
delta     ratio of b_(n+1) to b_n in the tail
========  ======================================================================================

P(D > t) = sum over n of exp(-q t) (q t)^n / n! b_n (Jensen, "Markoff chains as an aid in the study of Markoff
processes", Skandinavisk Aktuarietidskrift 36, 1953). The chain is stepped until b_n falls geometrically to rounding,
or to nothing; beyond that step the sum is closed: sum over n >= m of the Poisson weights times b_m delta^(n - m).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import gammainc, gammaln

from penstock.errors import ConvergenceError
from penstock.markov.conditions import FloatArray
from penstock.performance.queueing.response import check_probability

_SETTLED = 1e-11
_NOTHING = 1e-16
_STRIDE = 64
MOST_TICKS = 1 << 20
"""Ticks after which a survival that is neither gone nor geometric is given up, with an error."""


@dataclass(frozen=True)
class SteppedResponse:
    """A `Response` from the survival after each tick of a Poisson clock.

    Parameters
    ----------
    utilisation
        Work that arrives over work that can be done.
    ticks_per_second
        Rate q of the clock.
    survival
        P(N > n) for n = 0, 1, ..., m.
    decay
        Ratio by which the survival goes on falling after the last entry; 0 where nothing is left.

    Examples
    --------
    >>> exponential = SteppedResponse(0.5, 3.0, np.array([1.0]), 2.0 / 3.0)
    >>> round(exponential.mean, 9), round(exponential.percentile(0.5), 9)
    (1.0, 0.693147181)
    """

    utilisation: float
    ticks_per_second: float
    survival: FloatArray
    decay: float

    @property
    def is_stable(self) -> bool:
        """True: of a saturated queue there is no distribution."""
        return True

    @cached_property
    def mean(self) -> float:
        """Mean time, E N / q."""
        b, delta = self.survival, self.decay
        return float(b.sum() + b[-1] * delta / (1.0 - delta)) / self.ticks_per_second

    @cached_property
    def variance(self) -> float:
        """Variance of the time, (Var N + E N) / q^2, as N exponential stays follow each other."""
        b, delta = self.survival, self.decay
        ticks = self.mean * self.ticks_per_second
        # E N (N - 1) / 2 is the sum of n b_n.
        m = len(b) - 1
        tail = b[-1] * (m * delta / (1.0 - delta) + delta / (1.0 - delta) ** 2)
        pairs = 2.0 * float(np.arange(m + 1) @ b + tail)
        return (pairs + 2.0 * ticks - ticks**2) / self.ticks_per_second**2

    def sf(self, times: Sequence[float] | FloatArray) -> FloatArray:
        """Share of the records that stay longer than each of some times."""
        at = np.atleast_1d(np.asarray(times, dtype=np.float64))
        return np.array([1.0 if t < 0 else self._beyond(float(t) * self.ticks_per_second) for t in at])

    def cdf(self, times: Sequence[float] | FloatArray) -> FloatArray:
        """Share of the records that stay within each of some times."""
        return 1.0 - self.sf(times)

    def percentile(self, p: float) -> float:
        """The time that a share `p` of the records stays within."""
        wanted = 1.0 - check_probability(p)
        if self.survival[0] <= wanted:
            return 0.0
        low, high = 0.0, max(self.mean, 1.0 / self.ticks_per_second)
        while self.sf([high])[0] > wanted:
            low, high = high, 2.0 * high
        while high - low > 1e-10 * high:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.sf([middle])[0] > wanted else (low, middle)
        return high

    def percentiles(self, ps: Sequence[float]) -> FloatArray:
        """Several percentiles at once."""
        return np.array([self.percentile(p) for p in ps])

    def _beyond(self, x: float) -> float:
        if np.isinf(x):
            return 0.0
        m = len(self.survival)
        spread = 9.0 * np.sqrt(x) + 40.0
        low, high = max(0, int(x - spread)), min(m, int(x + spread) + 1)
        total = 0.0
        if low < high:
            n = np.arange(low, high)
            logs = n * np.log(x) - gammaln(n + 1.0) - x if x > 0 else np.where(n == 0, 0.0, -np.inf)
            total = float(np.exp(logs) @ self.survival[low:high])
        if self.decay > 0 and x > 0:
            # Sum over n >= m of the weights times delta^(n - m): a Poisson tail of mean delta x.
            log_scale = np.log(self.survival[-1]) - (m - 1) * np.log(self.decay) - x * (1.0 - self.decay)
            tail = gammainc(m, self.decay * x)
            if tail > 0:
                total += float(np.exp(log_scale + np.log(tail)))
        return min(total, 1.0)


def stepped(utilisation: float, ticks_per_second: float, survival: Iterator[float]) -> SteppedResponse:
    """Give the response whose survival after each tick is drawn from `survival`, as many ticks as are needed.

    Raises
    ------
    ConvergenceError
        If after `MOST_TICKS` the survival is neither gone nor falls geometrically.
    """
    values: list[float] = []
    for value in survival:
        values.append(max(value, 0.0))
        n = len(values)
        if values[-1] <= _NOTHING:
            return SteppedResponse(utilisation, ticks_per_second, np.array(values), 0.0)
        if n % _STRIDE == 0 and n > 3 * _STRIDE:
            # Ratios over whole strides, so that the rounding of single steps does not hide the settling.
            new, old = values[-1] / values[-1 - _STRIDE], values[-1 - _STRIDE] / values[-1 - 2 * _STRIDE]
            if abs(new - old) <= _SETTLED * _STRIDE * (1.0 - new) and values[-1] < 0.5:
                return SteppedResponse(utilisation, ticks_per_second, np.array(values), new ** (1.0 / _STRIDE))
        if n >= MOST_TICKS:
            break
    else:
        return SteppedResponse(utilisation, ticks_per_second, np.array(values), 0.0)
    raise ConvergenceError(
        "the response time has rates too far apart to be stepped through; merge service phases that are much faster "
        "than the mean",
        iterations=MOST_TICKS,
        residual=values[-1],
    )
