# SPDX-License-Identifier: Apache-2.0
"""What one of several executors sees of an operator's arrivals, and what splitting does to their burstiness.

*Hash*: each record goes to executor i with probability w_i, whatever came before. The part is the process thinned:
(D0 + (1 - w) D1, w D1), exactly. Independent drops hide single gaps, but a burst of records is a burst in every part:
the index of dispersion for counts falls only as I_w(t) = 1 + w (I(t) - 1).

*Round robin*: each executor gets every n-th record. The part is the process whose phases count the records since its
last one: order n times that of the whole, exactly. Intervals are sums of n: for a renewal process the SCV falls by
n; bursts longer than n records go on through all parts.

Where the exact process has more states than asked for, a MAP of two phases takes its place that has the same first
three moments and the same lag-1 autocorrelation as far as two phases can; `is_exact` and `moved` say so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.errors import ConfigurationError
from penstock.markov import MAP, nearest_map2

MOST_STATES = 64


@dataclass(frozen=True, slots=True)
class Burstiness:
    """Rate and variability of a stream: intervals' SCV and lag-1 correlation, and the counts' dispersion in the long
    run.
    """

    rate: float
    scv: float
    lag_1: float
    dispersion: float

    @classmethod
    def of(cls, process: MAP) -> Burstiness:
        """Describe `process`."""
        return cls(process.rate, process.scv, float(process.autocorrelation([1])[0]), process.asymptotic_idc)


@dataclass(frozen=True)
class Partition:
    """The arrivals at one executor and its share of all records.

    `moved` says what a smaller process in the place of the exact one does not keep.
    """

    arrivals: MAP
    share: float
    is_exact: bool = True
    moved: tuple[str, ...] = ()

    @property
    def burstiness(self) -> Burstiness:
        """Rate and variability of what the executor sees."""
        return Burstiness.of(self.arrivals)


def split_by_hash(arrivals: MAP, weights: Sequence[float]) -> tuple[Partition, ...]:
    """Give the part of each executor when records are spread by a hash with these weights.

    Examples
    --------
    >>> [part.arrivals.rate for part in split_by_hash(MAP.poisson(8.0), [3, 1])]
    [6.0, 2.0]
    """
    values = np.asarray(weights, dtype=np.float64)
    if values.ndim != 1 or not values.size or not np.all(np.isfinite(values) & (values > 0)):
        raise ConfigurationError(
            f"weights: {list(weights)!r} must be positive numbers, one for each executor", field="weights"
        )
    shares = values / values.sum()
    return tuple(Partition(arrivals.thinned(float(share)), float(share)) for share in shares)


def split_round_robin(arrivals: MAP, parts: int, *, most_states: int = MOST_STATES) -> Partition:
    """Give the part each of several executors gets when they take the records in turn.

    Examples
    --------
    >>> split_round_robin(MAP.poisson(8.0), 4).burstiness.scv
    0.25
    """
    count = check_count("parts", parts)
    check_count("most_states", most_states)
    exact = every_nth(arrivals, count)
    if exact.order <= most_states:
        return Partition(exact, 1.0 / count)
    m1, m2, m3 = (float(m) for m in exact.moments(3))
    scv, lag_1 = exact.scv, float(exact.autocorrelation([1])[0])
    if scv <= 0.5:
        raise ConfigurationError(
            f"most_states: {count} executors in turn need {exact.order} states, more than {most_states}, and intervals "
            f"this regular (SCV {scv:.3g}) have no smaller process; allow more states",
            field="most_states",
        )
    # Of a MAP of two phases rho_1 is gamma (1 - 1 / scv) / 2 (Heffes and Lucantoni 1986, for the MMPP).
    ceiling = 0.5 * (1.0 - 1.0 / scv)
    gamma = lag_1 / ceiling if abs(ceiling) > 1e-9 else 0.0
    fit = nearest_map2(m1, m2, m3, min(max(gamma, -0.999), 0.999999))
    return Partition(fit.process, 1.0 / count, is_exact=False, moved=fit.moved)


def every_nth(arrivals: MAP, n: int) -> MAP:
    """Give the process of every n-th arrival, exactly; its order is n times that of `arrivals`."""
    k, eye = arrivals.order, np.eye(n)
    onward = np.eye(n, k=1)
    last = np.zeros((n, n))
    last[-1, 0] = 1.0
    if k * n == k:
        return arrivals
    return MAP(np.kron(eye, arrivals.D0) + np.kron(onward, arrivals.D1), np.kron(last, arrivals.D1))


def check_count(field: str, value: int) -> int:
    """Give `value` back if it is a whole number of at least one."""
    if not math.isfinite(value) or int(value) != value or value < 1:
        raise ConfigurationError(f"{field}: {value!r} must be a whole number of at least 1", field=field)
    return int(value)
