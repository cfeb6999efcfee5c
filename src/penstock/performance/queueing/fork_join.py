# SPDX-License-Identifier: Apache-2.0
"""Fork and join: a record is copied to several branches, and done when all its copies are.

========  ==========================================================================================
Symbol    Meaning
========  ==========================================================================================
F_i       distribution of the time in branch i
c_i       squared coefficient of variation of the arrivals as branch i's mean wait shows it
r_i       c_i / (c_i + service SCV): the part of the variability that all branches have in common
p_i       mean wait over mean sojourn in branch i
w         weight of the common part
========  ==========================================================================================

The branches get the same arrivals, so their times are associated, and the time to the last copy lies between two
distributions (Baccelli, Makowski and Shwartz, "The fork-join queue and related systems with synchronization
constraints", Advances in Applied Probability 21, 1989):

* independent branches, product of the F_i: an upper bound of the time;
* branches that rise and fall together, minimum of the F_i: a lower bound.

The answer lies between them: F = (1 - w) product + w minimum, where for two branches w = p f(r), p and r being the
geometric means of the branches' values and f(r) = 1 - sqrt(1 - r) (1 + (3 / sqrt 2 - 2) r). This is no theorem. It has
the right limits: f(0) = 0, nothing in common; f(1) = 1, constant services; near it the branches part as the square
root of what is their own, as reflected Brownian motions do; and two M/M/1 branches, r = 1/2 and p = rho, get w = rho /
4, with which the mean is the exact one, (12 - rho) / 8 times that of one branch (Flatto and Hahn, "Two parallel queues
created by arrivals with two demands", SIAM Journal on Applied Mathematics 44, 1984). For k branches the weight is
1 - (1 - w)^(1 + 0.35 (1 - 2 / k)), the exponent set by simulation; for M/M/1 branches it comes within 5 % of Nelson and
Tantawi ("Approximate analysis of fork/join synchronization in parallel queues", IEEE Transactions on Computers 37,
1988). c_i is read off the mean wait as E W = s rho / (1 - rho) (c + c_s) / 2, so that correlated arrivals count as much
as they matter at the branch's load.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import sqrt

import numpy as np

from penstock.errors import ConfigurationError
from penstock.markov.conditions import FloatArray
from penstock.performance.queueing.response import Response, Saturated, check_probability


@dataclass(frozen=True)
class Branch:
    """One branch of a fork: how long its copies stay, and the service that is the branch's own.

    A branch of several operators is described by the service of its most loaded one.
    """

    response: Response
    service_mean: float
    service_scv: float

    @property
    def waiting_share(self) -> float:
        """Mean wait over mean time."""
        return max(1.0 - self.service_mean / self.response.mean, 0.0)

    @property
    def in_common(self) -> float:
        """Part of the branch's variability that it shares with branches fed by the same arrivals, from 0 to 1."""
        rho = self.response.utilisation
        wait = self.waiting_share * self.response.mean
        if wait == 0.0:
            return 0.0
        variability = 2.0 * wait * (1.0 - rho) / (rho * self.service_mean)
        return max(1.0 - self.service_scv / variability, 0.0)


@dataclass(frozen=True)
class ForkJoin:
    """A `Response` of the time until all copies are done, with the bounds it lies between."""

    branches: tuple[Branch, ...]
    weight: float
    """Between 0, branches independent, and 1, branches rising and falling together."""

    @property
    def is_stable(self) -> bool:
        """True: a fork with a saturated branch is answered by `Saturated`."""
        return True

    @property
    def utilisation(self) -> float:
        """That of the most loaded branch."""
        return max(branch.response.utilisation for branch in self.branches)

    @cached_property
    def upper(self) -> ForkJoin:
        """The bound of independent branches."""
        return ForkJoin(self.branches, 0.0)

    @cached_property
    def lower(self) -> ForkJoin:
        """The bound of branches that rise and fall together."""
        return ForkJoin(self.branches, 1.0)

    def cdf(self, times: Sequence[float] | FloatArray) -> FloatArray:
        """Share of the records all copies of which are done within each of some times."""
        each = np.array([branch.response.cdf(times) for branch in self.branches])
        share: FloatArray = (1.0 - self.weight) * each.prod(axis=0) + self.weight * each.min(axis=0)
        return share

    def percentile(self, p: float) -> float:
        """The time within which all copies of a share `p` of the records are done."""
        wanted = check_probability(p)
        # All copies are done no sooner than the slowest branch alone, and no later than if each had 1/k of the rest.
        low = max(branch.response.percentile(wanted) for branch in self.branches)
        each = 1.0 - (1.0 - wanted) / len(self.branches)
        high = max(branch.response.percentile(each) for branch in self.branches)
        while high - low > 1e-9 * high:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.cdf([middle])[0] < wanted else (low, middle)
        return high

    def percentiles(self, ps: Sequence[float]) -> FloatArray:
        """Several percentiles at once."""
        return np.array([self.percentile(p) for p in ps])

    @property
    def mean(self) -> float:
        """Mean time until all copies are done."""
        return self._moments[0]

    @property
    def variance(self) -> float:
        """Variance of that time."""
        mean, second = self._moments
        return second - mean**2

    @cached_property
    def _moments(self) -> tuple[float, float]:
        """Give the first two moments, integrals of P(> t) and 2 t P(> t), by Gauss's rule on pieces.

        The pieces double in length from a hundredth of the shortest mean, until less than 1e-12 of the records is left.
        """
        nodes, weights = np.polynomial.legendre.leggauss(24)
        start, step = 0.0, 0.01 * min(branch.response.mean for branch in self.branches)
        first = second = 0.0
        while True:
            at = start + step * 0.5 * (nodes + 1.0)
            beyond = 1.0 - self.cdf(at)
            piece = 0.5 * step * float(weights @ beyond)
            first += piece
            second += step * float(weights @ (at * beyond))
            start += step
            if piece <= 1e-12 * first:
                return first, second
            step = max(step, 0.25 * start)


def solve_fork_join(branches: Sequence[Branch]) -> ForkJoin | Saturated:
    """Give the time until the copies in all branches are done.

    Examples
    --------
    >>> from penstock.markov import PH
    >>> from penstock.performance.queueing.general import solve_m_g_1
    >>> branch = Branch(solve_m_g_1(0.5, PH.exponential(mean=1.0)), 1.0, 1.0)
    >>> both = solve_fork_join([branch, branch])
    >>> round(both.lower.mean, 6), round(both.mean, 6), round(both.upper.mean, 6)
    (2.0, 2.875, 3.0)
    """
    if not branches:
        raise ConfigurationError("branches: a fork needs at least one branch", field="branches")
    loads = [branch.response.utilisation for branch in branches]
    if not all(branch.response.is_stable for branch in branches):
        return Saturated(max(loads))
    return ForkJoin(tuple(branches), common_weight(branches))


def common_weight(branches: Sequence[Branch]) -> float:
    """Give the weight of the common part: the mean over pairs of branches, grown with their number."""
    k = len(branches)
    if k == 1:
        return 0.0
    pairs = [
        sqrt(one.waiting_share * other.waiting_share) * _of_variability(sqrt(one.in_common * other.in_common))
        for one, other in combinations(branches, 2)
    ]
    return float(1.0 - (1.0 - sum(pairs) / len(pairs)) ** (1.0 + 0.35 * (1.0 - 2.0 / k)))


def _of_variability(r: float) -> float:
    return 1.0 - sqrt(1.0 - r) * (1.0 + (3.0 / sqrt(2.0) - 2.0) * r)
