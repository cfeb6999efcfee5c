# SPDX-License-Identifier: Apache-2.0
"""The answer of every queue: the distribution of the time that a record spends in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NoReturn, Protocol

import numpy as np

from penstock.errors import ConfigurationError, ConvergenceError
from penstock.markov.conditions import FloatArray


class Response(Protocol):
    """A distribution of times in seconds, with the load that causes it.

    All times of a queue that is not stable are infinite: a saturated queue is an answer, not an error.
    """

    @property
    def is_stable(self) -> bool:
        """Whether the queue keeps up for ever."""
        ...

    @property
    def utilisation(self) -> float:
        """Work that arrives over work that can be done."""
        ...

    @property
    def mean(self) -> float:
        """Mean time."""
        ...

    @property
    def variance(self) -> float:
        """Variance of the time."""
        ...

    def percentile(self, p: float) -> float:
        """The time that a share `p` of the records stays within, 0 < p < 1."""
        ...

    def percentiles(self, ps: Sequence[float]) -> FloatArray:
        """Several percentiles at once."""
        ...

    def cdf(self, times: Sequence[float] | FloatArray) -> FloatArray:
        """Share of the records that stay within each of some times."""
        ...


class _Endless:
    """What all answers without an end have in common."""

    __slots__ = ()

    @property
    def is_stable(self) -> bool:
        """False: no time is sure to be kept."""
        return False

    @property
    def mean(self) -> float:
        """Infinite."""
        return float("inf")

    @property
    def variance(self) -> float:
        """Infinite."""
        return float("inf")

    def percentile(self, p: float) -> float:
        """Infinite for every share."""
        check_probability(p)
        return float("inf")

    def percentiles(self, ps: Sequence[float]) -> FloatArray:
        """Infinite for every share."""
        return np.array([self.percentile(p) for p in ps])

    def cdf(self, times: Sequence[float] | FloatArray) -> FloatArray:
        """Zero: in the end no record stays within any time."""
        return np.zeros(len(times))


@dataclass(frozen=True, slots=True)
class Saturated(_Endless):
    """The answer of a queue that cannot keep up: waiting grows without end."""

    utilisation: float


@dataclass(frozen=True, slots=True)
class Unsolved(_Endless):
    """Stands for the answer of a queue that was not found. It counts as endless, since no time can be promised.

    Attributes
    ----------
    utilisation
        Below 1 where the queue keeps up.
    why
        What the solver said.
    """

    utilisation: float
    why: str


class MeansOnly:
    """A stable queue with known means only. Requests for its distribution are refused, with the reason."""

    __slots__ = ()
    why: ClassVar[str] = "only means are known"
    """What is known, why no more, and what to solve instead."""

    @property
    def is_stable(self) -> bool:
        """True: a saturated queue is answered by `Saturated`."""
        return True

    @property
    def variance(self) -> float:
        """Refused."""
        return self._refuse("variance")

    def percentile(self, p: float) -> float:
        """Refused."""
        check_probability(p)
        return self._refuse("percentiles")

    def percentiles(self, ps: Sequence[float]) -> FloatArray:
        """Refused."""
        for p in ps:
            check_probability(p)
        return self._refuse("percentiles")

    def cdf(self, times: Sequence[float] | FloatArray) -> FloatArray:  # noqa: ARG002 (the contract's argument)
        """Refused."""
        return self._refuse("cdf")

    def _refuse(self, field: str) -> NoReturn:
        raise ConfigurationError(f"{field}: {self.why}", field=field)


def solved_or_not(solve: Callable[[], Response], utilisation: float) -> Response:
    """Give what `solve` gives, or `Unsolved` where it does not converge: one queue of many is not worth all others.

    Examples
    --------
    >>> def refuse():
    ...     raise ConvergenceError("the process is too uneven", iterations=9, residual=0.5)
    >>> solved_or_not(refuse, 0.7)
    Unsolved(utilisation=0.7, why='the process is too uneven (after 9 iterations, residual 0.5)')
    """
    try:
        return solve()
    except ConvergenceError as fault:
        return Unsolved(utilisation, str(fault))


def check_probability(p: float) -> float:
    """Give `p` back if it lies between 0 and 1, both excluded.

    Examples
    --------
    >>> check_probability(0.95)
    0.95
    """
    if not 0.0 < p < 1.0:
        raise ConfigurationError(
            f"percentiles: {p!r} is outside (0, 1); write the 95th percentile as 0.95", field="percentiles"
        )
    return p
