# SPDX-License-Identifier: Apache-2.0
"""Phase-type distributions: the time until a finite Markov chain is absorbed.

======  ======================================================================================
Symbol  Meaning
======  ======================================================================================
alpha   row vector, probability of starting in each phase
T       subgenerator: rates between the phases, on the diagonal minus the rate of leaving
t       -T e, the rates of absorption
M       (-T)^-1, expected time in each phase
m_k     k-th moment, k! alpha M^k e
======  ======================================================================================

Neuts, "Matrix-Geometric Solutions in Stochastic Models" (1981), chapter 2, is the source of the formulas.
Times and rates are in whatever unit the caller keeps; nothing here depends on it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.errors import ConvergenceError, InvalidProcessError
from penstock.markov import conditions, ctmc
from penstock.markov.conditions import TOLERANCE, FloatArray, listed
from penstock.markov.sampling import sample_absorption_times
from penstock.markov.transient import AbsorbingChain


@dataclass(frozen=True, eq=False)
class PH:
    """A phase-type distribution, valid by construction.

    Parameters
    ----------
    alpha
        Probability of starting in each phase; sums to one (there is no mass at zero).
    T
        Subgenerator over the phases.

    Raises
    ------
    InvalidProcessError
        With the condition that is broken, the entry and its value.

    Examples
    --------
    >>> service = PH([1, 0], [[-4, 4], [0, -4]])
    >>> service.mean, service.scv
    (0.5, 0.5)
    >>> float(service.quantile(service.cdf(0.3)).round(12))
    0.3
    """

    alpha: FloatArray
    T: FloatArray

    def __init__(self, alpha: npt.ArrayLike, T: npt.ArrayLike, *, tolerance: float = TOLERANCE) -> None:
        start = conditions.distribution("alpha", alpha, tolerance)
        matrix = conditions.as_square("T", T)
        if len(start) != len(matrix):
            raise InvalidProcessError(f"alpha has {len(start)} entries and T {len(matrix)} rows: they must agree")
        scale = np.max(np.abs(matrix), axis=1)
        conditions.negative_diagonal("T", matrix)
        conditions.rates_off_diagonal("T", matrix, scale, tolerance)
        sums = matrix.sum(axis=1)
        wrong = np.flatnonzero(sums > tolerance * scale)
        if wrong.size:
            i = int(wrong[0])
            raise InvalidProcessError(
                f"row {i} of T sums to {sums[i]:.6g}: it must not be positive, more would flow in than out "
                f"(relative tolerance {tolerance:g} of the row's largest rate {scale[i]:.6g})"
            )
        # What rounding leaves of a row's sum is not an exit.
        exits = np.where(sums < -1e-14 * scale * len(matrix), -sums, 0.0)
        _require_absorption(matrix, exits)
        object.__setattr__(self, "alpha", conditions.frozen(start))
        object.__setattr__(self, "T", conditions.frozen(matrix))
        object.__setattr__(self, "_exits", conditions.frozen(exits))

    @classmethod
    def of_exits(cls, alpha: FloatArray, T: FloatArray, exits: FloatArray, M: FloatArray) -> PH:
        """Give the distribution from parts known to be valid, without checking them again.

        `exits` are then exact, where minus the row sums of a stiff `T` would have lost digits.
        """
        made = cls.__new__(cls)
        made.__dict__.update(alpha=alpha, T=T, _exits=conditions.frozen(exits), M=M)
        return made

    # --- the families ----------------------------------------------------------------------------------------

    @classmethod
    def exponential(cls, *, mean: float) -> PH:
        """Give the exponential distribution.

        Examples
        --------
        >>> PH.exponential(mean=2).scv
        1.0
        """
        return cls.series([conditions.require_positive("mean", mean)])

    @classmethod
    def erlang(cls, phases: int, *, mean: float) -> PH:
        """Give the Erlang distribution of `phases` equal exponential phases; its SCV is 1 / phases.

        Examples
        --------
        >>> round(PH.erlang(4, mean=1).scv, 12)
        0.25
        """
        count = _count("phases", phases)
        return cls.series([conditions.require_positive("mean", mean) / count] * count)

    @classmethod
    def series(cls, means: Sequence[float]) -> PH:
        """Give the sum of independent exponential times with these means (hypoexponential)."""
        times = [conditions.require_positive(f"means[{i}]", mean) for i, mean in enumerate(means)]
        if not times:
            raise InvalidProcessError("a sum of exponential times needs at least one mean; give means=[...]")
        rates = [conditions.require_positive(f"1 / means[{i}]", 1.0 / time) for i, time in enumerate(times)]
        n = len(times)
        alpha, T, exits = np.zeros(n), np.zeros((n, n)), np.zeros(n)
        alpha[0] = 1.0
        T.flat[1 :: n + 1] = rates[:-1]
        T.flat[:: n + 1] = [-rate for rate in rates]
        exits[-1] = rates[-1]
        M = np.triu(np.broadcast_to(times, (n, n)))  # once through every phase from there on
        return cls.of_exits(conditions.frozen(alpha), conditions.frozen(T), exits, conditions.frozen(M))

    @classmethod
    def hyperexponential(cls, probabilities: npt.ArrayLike, rates: npt.ArrayLike) -> PH:
        """Give the mixture of exponential distributions with these rates.

        Examples
        --------
        >>> round(PH.hyperexponential([0.5, 0.5], [1, 3]).mean, 12)
        0.666666666667
        """
        values = [
            conditions.require_positive(f"rates[{i}]", r) for i, r in enumerate(conditions.as_vector("rates", rates))
        ]
        return cls(probabilities, -np.diag(values))

    @classmethod
    def coxian(cls, rates: Sequence[float], onward: Sequence[float]) -> PH:
        """Give the Coxian distribution: phase i at `rates[i]`, then on to the next with probability `onward[i]`.

        Examples
        --------
        >>> PH.coxian([2, 1], [0.5]).mean
        1.0
        """
        values = [conditions.require_positive(f"rates[{i}]", rate) for i, rate in enumerate(rates)]
        if not values or len(onward) != len(values) - 1:
            raise InvalidProcessError(
                f"a Coxian of {len(values)} phases needs {max(len(values) - 1, 0)} onward probabilities, "
                f"these are {len(onward)}"
            )
        T = -np.diag(values)
        for i, probability in enumerate(onward):
            T[i, i + 1] = values[i] * conditions.require_probability(f"onward[{i}]", probability)
        return cls(np.eye(len(values))[0], T)

    @classmethod
    def from_json(cls, document: Mapping[str, Any], *, tolerance: float = TOLERANCE) -> PH:
        """Give the distribution an object ``{"alpha": [...], "T": [[...], ...]}`` describes."""
        return cls(
            conditions.field(document, "alpha", "a phase-type distribution"),
            conditions.field(document, "T", "a phase-type distribution"),
            tolerance=tolerance,
        )

    def to_json(self) -> dict[str, Any]:
        """Give the object `from_json` reads."""
        return {"alpha": self.alpha.tolist(), "T": self.T.tolist()}

    # --- moments ---------------------------------------------------------------------------------------------

    @property
    def order(self) -> int:
        """Number of phases."""
        return len(self.alpha)

    @property
    def exits(self) -> FloatArray:
        """Rates of absorption t = -T e."""
        exits: FloatArray = self.__dict__["_exits"]
        return exits

    @cached_property
    def M(self) -> FloatArray:  # noqa: N802 (the papers' symbol)
        """Expected time in each phase, (-T)^-1."""
        return conditions.frozen(ctmc.fundamental(self.T, self.exits))

    def moments(self, count: int) -> FloatArray:
        """Give the first `count` raw moments, m_k = k! alpha M^k e.

        Examples
        --------
        >>> PH.exponential(mean=1).moments(3).tolist()
        [1.0, 2.0, 6.0]
        """
        values = np.empty(_count("count", count))
        row = self.alpha
        for k in range(len(values)):
            row = (k + 1) * (row @ self.M)
            values[k] = row.sum()
        return values

    @cached_property
    def mean(self) -> float:
        """First moment."""
        return float((self.alpha @ self.M).sum())

    @cached_property
    def variance(self) -> float:
        """Second central moment."""
        return self.scv * self.mean * self.mean

    @cached_property
    def scv(self) -> float:
        """Squared coefficient of variation."""
        m1, m2 = self.moments(2)
        return float(m2 / m1 / m1 - 1.0)

    @cached_property
    def skewness(self) -> float:
        """Third standardised central moment."""
        m1, m2, m3 = self.moments(3)
        n2, n3 = m2 / m1 / m1, m3 / m1 / m1 / m1
        return float((n3 - 3.0 * n2 + 2.0) / (n2 - 1.0) ** 1.5)

    def time_scaled(self, factor: float) -> PH:
        """Give the distribution of `factor` times this variable."""
        value = conditions.require_positive("factor", factor)
        return PH.of_exits(
            self.alpha, conditions.frozen(self.T / value), self.exits / value, conditions.frozen(self.M * value)
        )

    def with_mean(self, mean: float) -> PH:
        """Give the distribution of the same shape with another mean."""
        return self.time_scaled(conditions.require_positive("mean", mean) / self.mean)

    # --- distribution ----------------------------------------------------------------------------------------

    @cached_property
    def _chain(self) -> AbsorbingChain:
        return AbsorbingChain(self.alpha, self.T, self.exits)

    def cdf(self, x: npt.ArrayLike) -> FloatArray:
        """Give P(X <= x) for each x, small values to full relative accuracy."""
        return self._at(x, 0.0, 1.0, lambda rows: rows[:, -1])

    def sf(self, x: npt.ArrayLike) -> FloatArray:
        """Give P(X > x) for each x, small values to full relative accuracy.

        Examples
        --------
        >>> bool(np.isclose(PH.exponential(mean=1).sf(50.0), np.exp(-50), rtol=1e-12))
        True
        """
        return self._at(x, 1.0, 0.0, lambda rows: rows[:, :-1].sum(axis=1))

    def pdf(self, x: npt.ArrayLike) -> FloatArray:
        """Give the density at each x."""
        return self._at(x, 0.0, 0.0, lambda rows: rows[:, :-1] @ self.exits)

    def quantile(self, p: npt.ArrayLike) -> FloatArray:
        """Give the x with P(X <= x) = p for each p; 0 at p = 0 and infinity at p = 1.

        Newton steps on the logarithm of the tail that p lies in, kept inside a bracket that each step narrows.

        Examples
        --------
        >>> bool(np.isclose(PH.exponential(mean=2).quantile(0.5), 2 * np.log(2)))
        True
        """
        wanted = np.asarray(p, dtype=np.float64)
        if np.any(~((wanted >= 0) & (wanted <= 1))):
            bad = float(wanted[~((wanted >= 0) & (wanted <= 1))].flat[0])
            raise InvalidProcessError(f"p = {bad:g} must be a probability between 0 and 1")
        result = np.where(wanted == 0, 0.0, np.inf)
        inner = (wanted > 0) & (wanted < 1)
        if inner.any():
            result[inner] = self._solve_quantile(wanted[inner])
        return result

    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Give `size` independent draws."""
        return sample_absorption_times(self.alpha, self.T, self.exits, size, rng)

    def _at(self, x: npt.ArrayLike, before: float, beyond: float, read: Any) -> FloatArray:
        points = np.asarray(x, dtype=np.float64)
        values = np.where(np.isnan(points), np.nan, np.where(points < 0, before, beyond))
        inner = np.isfinite(points) & (points >= 0)
        if inner.any():
            values[inner] = read(self._chain.probabilities(points[inner]))
        return values

    def _solve_quantile(self, p: FloatArray) -> FloatArray:
        # Brackets from a geometric grid around the mean, widened until they hold every p.
        low, high = self.mean, self.mean
        while self.cdf(low) >= p.min() and low > 1e-290 * self.mean:
            low /= 16.0
        while self.sf(high) > 1.0 - p.max():
            high *= 4.0
        grid = np.geomspace(low, high, 129)
        at = np.clip(np.searchsorted(np.maximum.accumulate(self.cdf(grid)), p), 1, len(grid) - 1)
        a, b = grid[at - 1].copy(), grid[at].copy()
        x = np.sqrt(a * b)
        open_ = np.arange(p.size)
        for _ in range(200):
            rows = self._chain.probabilities(x[open_])
            below, above = rows[:, -1], rows[:, :-1].sum(axis=1)
            density = rows[:, :-1] @ self.exits
            lower_half = p[open_] < 0.5
            reached = np.where(lower_half, below >= p[open_], above <= 1.0 - p[open_])
            b[open_[reached]] = x[open_[reached]]
            a[open_[~reached]] = x[open_[~reached]]
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                # log F is concave and log S nearly linear in x: Newton on them converges from far away.
                step = np.where(
                    lower_half,
                    np.log(p[open_] / below) * below / density,
                    np.log(above / (1.0 - p[open_])) * above / density,
                )
                guess = x[open_] + step
            inside = (guess > a[open_]) & (guess < b[open_])
            moved = np.where(inside, guess, 0.5 * (a[open_] + b[open_]))
            done = (np.abs(moved - x[open_]) <= 4e-15 * moved) | (b[open_] - a[open_] <= 4e-15 * b[open_])
            x[open_] = moved
            open_ = open_[~done]
            if not open_.size:
                return x
        widths = (b[open_] - a[open_]) / b[open_]
        raise ConvergenceError("the quantile did not settle", iterations=200, residual=float(widths.max()))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PH):
            return NotImplemented
        return np.array_equal(self.alpha, other.alpha) and np.array_equal(self.T, other.T)

    def __hash__(self) -> int:
        return hash((self.alpha.tobytes(), self.T.tobytes()))

    def __repr__(self) -> str:
        return f"PH(order={self.order}, mean={self.mean:.6g}, scv={self.scv:.6g})"


def _count(name: str, value: int) -> int:
    if int(value) != value or value < 1:
        raise InvalidProcessError(f"{name} = {value} must be a whole number of at least 1")
    return int(value)


def _require_absorption(T: FloatArray, exits: FloatArray) -> None:
    """Refuse phases from which absorption cannot be reached."""
    reaches = ctmc.reachable((T > 0).T, exits > 0)
    if not reaches.all():
        stuck = np.flatnonzero(~reaches)
        raise InvalidProcessError(
            f"from the phases {listed(stuck)} of T absorption is never reached: the time would be infinite"
        )
    if not math.isfinite(float(exits.max())):
        raise InvalidProcessError("T has rates too large to add up")
