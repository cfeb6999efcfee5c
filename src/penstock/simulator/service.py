# SPDX-License-Identifier: Apache-2.0
"""How much work a record is: declared distributions and measured samples, in seconds at full CPU share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from penstock.errors import ConfigurationError
from penstock.markov import PH
from penstock.ports import FloatArray


class Service(Protocol):
    """A distribution of work. Draws are independent of each other; a draw may be zero, never negative."""

    @property
    def mean(self) -> float:
        """Mean work of a record, in seconds at full share."""
        ...

    @property
    def scv(self) -> float:
        """Squared coefficient of variation."""
        ...

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Give `size` draws."""
        ...


@dataclass(frozen=True, slots=True)
class Deterministic:
    """The same work for every record."""

    mean: float

    def __post_init__(self) -> None:
        _positive("mean", self.mean)

    @property
    def scv(self) -> float:
        """Zero: it does not vary."""
        return 0.0

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Give `size` times the same."""
        del rng
        return np.full(size, self.mean)


@dataclass(frozen=True, slots=True)
class Gamma:
    """Gamma distributed work; SCV 1 is the exponential distribution, SCV 1/k the Erlang distribution of k phases.

    Examples
    --------
    >>> Gamma(mean=0.002, scv=0.5)
    Gamma(mean=0.002, scv=0.5)
    """

    mean: float
    scv: float = 1.0

    def __post_init__(self) -> None:
        _positive("mean", self.mean)
        _positive("scv", self.scv)

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Give `size` draws."""
        shape = 1.0 / self.scv
        if shape in (1.0, 2.0, 3.0):  # a few exponential parts are quicker than a gamma variate
            drawn = rng.standard_exponential(size)
            for _ in range(int(shape) - 1):
                drawn += rng.standard_exponential(size)
        else:
            drawn = rng.standard_gamma(shape, size)
        drawn *= self.mean * self.scv
        return drawn


def exponential(mean: float) -> Gamma:
    """Give exponentially distributed work."""
    return Gamma(mean, 1.0)


def erlang(phases: int, mean: float) -> Gamma:
    """Give work that is a sum of `phases` equal exponential parts."""
    if int(phases) != phases or phases < 1:
        raise ConfigurationError(f"phases: {phases!r} is not a whole number from 1", field="phases")
    return Gamma(mean, 1.0 / phases)


@dataclass(frozen=True, slots=True)
class Hyper2:
    """Hyperexponential work of two kinds with balanced means: each kind brings half of the work.

    Parameters
    ----------
    mean
        Of the work.
    scv
        Squared coefficient of variation, above 1.

    Notes
    -----
    p = (1 + sqrt((scv - 1) / (scv + 1))) / 2, with rates 2 p / mean and 2 (1 - p) / mean (Tijms, "A First Course in
    Stochastic Models", 2003, appendix B).
    """

    mean: float
    scv: float

    def __post_init__(self) -> None:
        _positive("mean", self.mean)
        if not 1.0 < self.scv < math.inf:
            raise ConfigurationError(
                f"scv: {self.scv!r} must be above 1 for hyper2; use exponential for 1 and erlang below", field="scv"
            )

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Give `size` draws."""
        # 1 - p as a quotient: for a large SCV the difference from 1 would lose its digits.
        root = math.sqrt((self.scv - 1.0) / (self.scv + 1.0))
        rare = 1.0 / ((self.scv + 1.0) * (1.0 + root))
        usual = 1.0 - rare
        drawn = rng.standard_exponential(size)
        drawn *= np.where(rng.random(size) < rare, 0.5 * self.mean / rare, 0.5 * self.mean / usual)
        return drawn


@dataclass(frozen=True, slots=True)
class LogNormal:
    """Lognormally distributed work."""

    mean: float
    scv: float

    def __post_init__(self) -> None:
        _positive("mean", self.mean)
        _positive("scv", self.scv)

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Give `size` draws."""
        variance = math.log1p(self.scv)
        drawn = rng.standard_normal(size)
        drawn *= math.sqrt(variance)
        np.exp(drawn, out=drawn)
        drawn *= self.mean * math.exp(-0.5 * variance)
        return drawn


@dataclass(frozen=True, slots=True)
class PhaseType:
    """Work with a phase-type distribution."""

    ph: PH

    @property
    def mean(self) -> float:
        """Mean work of a record."""
        return self.ph.mean

    @property
    def scv(self) -> float:
        """Squared coefficient of variation."""
        return self.ph.scv

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Give `size` draws."""
        return self.ph.sample(size, rng)


@dataclass(frozen=True, eq=False)
class Samples:
    """Work as it was measured: each record's is one of the samples, drawn with replacement."""

    values: FloatArray

    def __init__(self, values: npt.ArrayLike) -> None:
        array = np.array(values, dtype=np.float64)
        if array.ndim != 1 or not array.size:
            raise ConfigurationError("samples: give at least one measured time", field="samples")
        wrong = np.flatnonzero(~(np.isfinite(array) & (array >= 0)))
        if wrong.size:
            raise ConfigurationError(
                f"samples: number {int(wrong[0])} is {array[wrong[0]]!r}; a measured time is zero or more",
                field="samples",
            )
        if not array.any():
            raise ConfigurationError("samples: all are zero; an operator without work needs none", field="samples")
        array.setflags(write=False)
        object.__setattr__(self, "values", array)

    @cached_property
    def mean(self) -> float:
        """Mean of the samples."""
        return float(self.values.mean())

    @cached_property
    def scv(self) -> float:
        """Squared coefficient of variation of the samples."""
        return float(np.mean((self.values / self.mean - 1.0) ** 2))

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Give `size` draws."""
        drawn: FloatArray = self.values[rng.integers(0, len(self.values), size)]
        return drawn


def _positive(field: str, value: float) -> None:
    if not 0.0 < value < math.inf:
        raise ConfigurationError(f"{field}: {value!r} must be a positive number", field=field)
