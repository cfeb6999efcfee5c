# SPDX-License-Identifier: Apache-2.0
"""Markovian arrival processes (MAPs): arrivals whose rate and correlation follow a hidden Markov chain.

========  ===============================================================================
Symbol    Meaning
========  ===============================================================================
D0        rates of phase changes without an arrival; diagonal: minus the rate of leaving
D1        rates of phase changes (or of staying) with an arrival
Q         D0 + D1, generator of the phases
theta     stationary vector of Q: the phase at an arbitrary instant
lam       theta D1 e, the arrival rate
M         (-D0)^-1
P         M D1, the phases seen just after arrivals (the embedded chain)
pi        theta D1 / lam, stationary vector of P
X_n       inter-arrival times
rho_k     autocorrelation of X_0 and X_k
========  ===============================================================================

Formulas: Neuts, "A versatile Markovian point process", Journal of Applied Probability 16, 1979; Lucantoni, "New
results on the single server queue with a batch Markovian arrival process", Stochastic Models 7, 1991; and for
the joint moments Casale, Zhang and Smirni, "KPC-Toolbox: best recipes for automatic trace fitting using MAPs",
Performance Evaluation 67, 2010. Times and rates are in whatever unit the caller keeps; nothing here depends on
it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from penstock.errors import InvalidProcessError
from penstock.markov import conditions, counting, ctmc, lags
from penstock.markov.conditions import TOLERANCE, FloatArray
from penstock.markov.phase_type import PH
from penstock.markov.sampling import AliasTable, MapSampler


@dataclass(frozen=True, eq=False)
class MAP:
    """A Markovian arrival process, valid by construction.

    Parameters
    ----------
    D0, D1
        Rates without and with an arrival.
    tolerance
        How far signs and row sums may be off, relative to each row's largest rate.

    Raises
    ------
    InvalidProcessError
        With the condition that is broken, the entry and its value.

    Examples
    --------
    >>> bursty = MAP.mmpp([[-1, 1], [2, -2]], [9, 1])
    >>> round(bursty.rate, 12), bursty.scv > 1, bool(bursty.autocorrelation(1) > 0)
    (6.333333333333, True, True)
    """

    D0: FloatArray
    D1: FloatArray

    def __init__(self, D0: npt.ArrayLike, D1: npt.ArrayLike, *, tolerance: float = TOLERANCE) -> None:
        hidden, arriving = conditions.as_square("D0", D0), conditions.as_square("D1", D1)
        if hidden.shape != arriving.shape:
            raise InvalidProcessError(f"D0 has {len(hidden)} phases and D1 {len(arriving)}: they must agree")
        scale = np.maximum(np.max(np.abs(hidden), axis=1), np.max(np.abs(arriving), axis=1))
        conditions.negative_diagonal("D0", hidden)
        conditions.rates_off_diagonal("D0", hidden, scale, tolerance)
        conditions.rates_everywhere("D1", arriving, scale, tolerance)
        conditions.zero_row_sums("D0 + D1", hidden.sum(axis=1) + arriving.sum(axis=1), scale, tolerance)
        if not arriving.any():
            raise InvalidProcessError("every entry of D1 is 0: nothing would ever arrive")
        np.fill_diagonal(hidden, 0.0)
        ctmc.require_irreducible(hidden + arriving - np.diag(arriving.diagonal()), "D0 + D1")
        np.fill_diagonal(hidden, -(hidden.sum(axis=1) + arriving.sum(axis=1)))
        object.__setattr__(self, "D0", conditions.frozen(hidden))
        object.__setattr__(self, "D1", conditions.frozen(arriving))

    # --- how processes are made ------------------------------------------------------------------------------

    @classmethod
    def of_phases(cls, D0: FloatArray, D1: FloatArray, theta: FloatArray) -> MAP:
        """Give the process from parts known to be valid, without checking them again.

        `theta` are the phase probabilities at an arbitrary instant.
        """
        made = cls.__new__(cls)
        made.__dict__.update(D0=conditions.frozen(D0), D1=conditions.frozen(D1), theta=conditions.frozen(theta))
        return made

    @classmethod
    def poisson(cls, rate: float) -> MAP:
        """Give the Poisson process."""
        value = conditions.require_positive("rate", rate)
        return cls([[-value]], [[value]])

    @classmethod
    def renewal(cls, intervals: PH) -> MAP:
        """Give the process with independent inter-arrival times; phases that are never entered are left out.

        Examples
        --------
        >>> MAP.renewal(PH.erlang(2, mean=1)).D1.tolist()
        [[0.0, 0.0], [2.0, 0.0]]
        """
        entered = ctmc.reachable(intervals.T > 0, intervals.alpha > 0)
        T = intervals.T[np.ix_(entered, entered)]
        return cls(T, np.outer(intervals.exits[entered], intervals.alpha[entered]))

    @classmethod
    def mmpp(cls, Q: npt.ArrayLike, rates: npt.ArrayLike) -> MAP:
        """Give the Markov-modulated Poisson process: arrivals at `rates[i]` while the chain `Q` is in phase i."""
        generator = ctmc.generator(Q)
        values = conditions.as_vector("rates", rates)
        if len(values) != len(generator):
            raise InvalidProcessError(f"Q has {len(generator)} phases and rates {len(values)} entries: they must agree")
        wrong = np.flatnonzero(values < 0)
        if wrong.size:
            raise InvalidProcessError(f"rates[{wrong[0]}] = {values[wrong[0]]:g} must not be negative")
        return cls(generator - np.diag(values), np.diag(values))

    @classmethod
    def from_json(cls, document: Mapping[str, Any], *, tolerance: float = TOLERANCE) -> MAP:
        """Give the process an object ``{"D0": [[...]], "D1": [[...]]}`` describes."""
        return cls(
            conditions.field(document, "D0", "a MAP"),
            conditions.field(document, "D1", "a MAP"),
            tolerance=tolerance,
        )

    def to_json(self) -> dict[str, Any]:
        """Give the object `from_json` reads, exactly.

        Examples
        --------
        >>> MAP.poisson(2).to_json()
        {'D0': [[-2.0]], 'D1': [[2.0]]}
        """
        return {"D0": self.D0.tolist(), "D1": self.D1.tolist()}

    # --- the chain -------------------------------------------------------------------------------------------

    @property
    def order(self) -> int:
        """Number of phases."""
        return len(self.D0)

    @cached_property
    def Q(self) -> FloatArray:  # noqa: N802 (the papers' symbol)
        """Generator of the phases."""
        total = self.D0 + self.D1
        np.fill_diagonal(total, 0.0)
        np.fill_diagonal(total, -total.sum(axis=1))
        return conditions.frozen(total)

    @cached_property
    def theta(self) -> FloatArray:
        """Phase probabilities at an arbitrary instant."""
        return conditions.frozen(ctmc.eliminate(self.Q))

    @cached_property
    def pi(self) -> FloatArray:
        """Phase probabilities just after an arrival."""
        flow = self.theta @ self.D1
        return conditions.frozen(flow / flow.sum())

    @cached_property
    def M(self) -> FloatArray:  # noqa: N802 (the papers' symbol)
        """Expected time in each phase until the next arrival, (-D0)^-1."""
        return conditions.frozen(ctmc.fundamental(self.D0, self.D1.sum(axis=1)))

    @cached_property
    def P(self) -> FloatArray:  # noqa: N802 (the papers' symbol)
        """Embedded chain: phase just after one arrival to phase just after the next."""
        chain = self.M @ self.D1
        return conditions.frozen(chain / chain.sum(axis=1, keepdims=True))

    @cached_property
    def decay(self) -> float:
        """Eigenvalue of the embedded chain next in size to 1; for two phases the ratio of rho_(k+1) to rho_k.

        The real part, where the eigenvalues are a conjugate pair.
        """
        if self.order == 1:
            return 0.0
        if self.order == 2:
            return float(self.P[0, 0] - self.P[1, 0])
        values = np.linalg.eigvals(self.P - self.pi)
        return float(values[np.argmax(np.abs(values))].real)

    @cached_property
    def _deviation(self) -> FloatArray:
        return ctmc.deviation(self.Q, self.theta)

    # --- inter-arrival times ---------------------------------------------------------------------------------

    @cached_property
    def rate(self) -> float:
        """Arrivals per unit of time."""
        return float((self.theta @ self.D1).sum())

    @cached_property
    def mean(self) -> float:
        """Mean inter-arrival time."""
        return 1.0 / self.rate

    @cached_property
    def intervals(self) -> PH:
        """Distribution of one inter-arrival time."""
        return PH.of_exits(self.pi, self.D0, self.D1.sum(axis=1), self.M)

    @cached_property
    def residual(self) -> PH:
        """Distribution of the time from an arbitrary instant to the next arrival."""
        return PH.of_exits(self.theta, self.D0, self.D1.sum(axis=1), self.M)

    def moments(self, count: int) -> FloatArray:
        """Give the first `count` raw moments of the inter-arrival times, k! pi M^k e."""
        return self.intervals.moments(count)

    @property
    def scv(self) -> float:
        """Squared coefficient of variation of the inter-arrival times."""
        return self.intervals.scv

    @property
    def skewness(self) -> float:
        """Skewness of the inter-arrival times."""
        return self.intervals.skewness

    def joint_moment(self, powers: Sequence[int], gaps: Sequence[int]) -> float:
        """Give E[X_0^a X_i^b X_(i+j)^c ...] for `powers` (a, b, c, ...) and `gaps` (i, j, ...) of at least 1.

        a! b! c! ... pi M^a P^i M^b P^j M^c ... e (Casale, Zhang and Smirni 2010, Sec. 2).

        Examples
        --------
        >>> round(MAP.poisson(1).joint_moment([1, 2], [3]), 12)
        2.0
        """
        return lags.joint_moment(self.pi, self.M, self.P, powers, gaps)

    def autocorrelation(self, at: npt.ArrayLike) -> FloatArray:
        """Give rho_k at each lag of `at`; 1 at lag 0.

        Examples
        --------
        >>> MAP.poisson(3).autocorrelation([0, 1, 5]).round(12).tolist()
        [1.0, 0.0, 0.0]
        """
        return lags.autocorrelation(self.pi, self.M, self.P, lags.as_lags("at", at))

    def bicovariance(self, i: npt.ArrayLike, j: npt.ArrayLike, *, centred: bool = True) -> FloatArray:
        """Give E[(X_0 - m)(X_i - m)(X_(i+j) - m)] for the gaps i and j, at least 1, broadcast against each other.

        With `centred` false, E[X_0 X_i X_(i+j)] (what KPC-Toolbox calls bicovariance).
        """
        return lags.bicovariance(
            self.pi, self.M, self.P, lags.as_lags("i", i, least=1), lags.as_lags("j", j, least=1), centred=centred
        )

    def idi(self, count: npt.ArrayLike) -> FloatArray:
        """Give the index of dispersion for intervals, Var(X_1 + ... + X_n) / (n m^2), for each n of `count`.

        Examples
        --------
        >>> MAP.renewal(PH.erlang(2, mean=1)).idi([1, 10]).round(12).tolist()
        [0.5, 0.5]
        """
        return lags.index_of_dispersion(self.pi, self.M, self.P, lags.as_lags("count", count, least=1))

    # --- counts ----------------------------------------------------------------------------------------------

    def idc(self, t: npt.ArrayLike) -> FloatArray:
        """Give the index of dispersion for counts, Var N(t) / E N(t), for each length of interval; 1 at t = 0.

        Examples
        --------
        >>> MAP.poisson(3).idc([0.1, 100.0]).round(12).tolist()
        [1.0, 1.0]
        """
        times = np.asarray(t, dtype=np.float64)
        wrong = times[~(np.isfinite(times) & (times >= 0))]
        if wrong.size:
            raise InvalidProcessError(f"t = {wrong.flat[0]:g} must be a finite length of time, not negative")
        values = counting.index_of_dispersion(times.ravel(), self.Q, self.D1, self.theta, self._deviation)
        return values.reshape(times.shape)

    @cached_property
    def asymptotic_idc(self) -> float:
        """Limit of `idc` and of `idi` for long intervals."""
        return counting.asymptotic_index(self.D1, self.theta, self._deviation)

    def count_distribution(self, t: float, *, largest: int | None = None, tolerance: float = 1e-12) -> FloatArray:
        """Give P(N(t) = k) for k = 0, 1, ...: up to `largest`, or until less than `tolerance` lies beyond.

        Examples
        --------
        >>> MAP.poisson(2).count_distribution(1.0, largest=2).round(6).tolist()
        [0.135335, 0.270671, 0.270671]
        """
        return counting.count_distribution(float(t), self.D0, self.D1, self.theta, tolerance=tolerance, largest=largest)

    # --- processes made from this one ------------------------------------------------------------------------

    def time_scaled(self, factor: float) -> MAP:
        """Give the process whose every inter-arrival time is `factor` times as long."""
        value = conditions.require_positive("factor", factor)
        return MAP(self.D0 / value, self.D1 / value)

    def with_rate(self, rate: float) -> MAP:
        """Give the process of the same shape and correlation with another rate.

        Examples
        --------
        >>> round(MAP.poisson(3).with_rate(7).rate, 12)
        7.0
        """
        return self.time_scaled(self.rate / conditions.require_positive("rate", rate))

    def thinned(self, probability: float) -> MAP:
        """Give the process of the arrivals kept, each with `probability`, independently (a selectivity below one).

        Examples
        --------
        >>> round(MAP.poisson(10).thinned(0.3).rate, 12)
        3.0
        """
        value = conditions.require_probability("probability", probability)
        if value == 0:
            raise InvalidProcessError("probability = 0 would keep no arrival at all")
        return MAP(self.D0 + (1.0 - value) * self.D1, value * self.D1)

    def split(self, probabilities: Sequence[float]) -> tuple[MAP, ...]:
        """Give the streams that arise when each arrival goes to one of several readers with these probabilities.

        Each is right on its own; together they are dependent. (A copy of every arrival to each reader is this very
        process, once per reader.)
        """
        if sum(probabilities) > 1.0 + TOLERANCE:
            raise InvalidProcessError(
                f"probabilities sum to {sum(probabilities):g}: an arrival goes to one reader at most"
            )
        return tuple(self.thinned(probability) for probability in probabilities)

    def time_reversed(self) -> MAP:
        """Give the process seen backwards in time: diag(theta)^-1 D' diag(theta) for D0 and D1."""
        ratio = self.theta[None, :] / self.theta[:, None]
        return MAP(self.D0.T * ratio, self.D1.T * ratio)

    # --- samples ---------------------------------------------------------------------------------------------

    def sampler(self, rng: np.random.Generator, start: Literal["arrival"] | int = "arrival") -> MapSampler:
        """Give a sampler that starts in the phase drawn from `pi`, or in the phase given."""
        if start == "arrival":
            phase = int(AliasTable(self.pi[None, :]).draw(np.zeros(1, dtype=np.int64), rng)[0])
        elif isinstance(start, int) and 0 <= start < self.order:
            phase = start
        else:
            raise InvalidProcessError(f'start = {start!r} must be "arrival" or a phase from 0 to {self.order - 1}')
        return MapSampler(self.D0, self.D1, self.P, phase)

    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Give `size` consecutive inter-arrival times of the stationary process, the same for the same seed."""
        return self.sampler(rng).draw(size, rng)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MAP):
            return NotImplemented
        return np.array_equal(self.D0, other.D0) and np.array_equal(self.D1, other.D1)

    def __hash__(self) -> int:
        return hash((self.D0.tobytes(), self.D1.tobytes()))

    def __repr__(self) -> str:
        return f"MAP(order={self.order}, rate={self.rate:.6g}, scv={self.scv:.6g}, decay={self.decay:.6g})"
