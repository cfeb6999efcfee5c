# SPDX-License-Identifier: Apache-2.0
"""Decides whether two windows differ by more than chance in rate, variability or correlation.

Each difference is compared with the standard errors of both windows. Those are by batch means and grow with the
windows' own memory: bursty windows differ a lot without any change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from penstock.workload.moments import TraceDescription


@dataclass(frozen=True)
class Difference:
    """One descriptor of two windows. `z` is the signed difference in standard errors, later minus earlier."""

    name: str
    before: float
    after: float
    z: float

    def is_beyond(self, sigmas: float) -> bool:
        """Return whether the difference exceeds this many standard errors."""
        return abs(self.z) > sigmas


@dataclass(frozen=True)
class WorkloadChange:
    """What changed between two windows. `sigmas` is how many standard errors count as a change.

    `correlation` compares the mean autocorrelation over the first lags; ``None`` when a window is constant.
    """

    rate: Difference
    scv: Difference
    correlation: Difference | None
    sigmas: float

    @property
    def differences(self) -> tuple[Difference, ...]:
        """The differences that could be computed."""
        return (self.rate, self.scv, *(() if self.correlation is None else (self.correlation,)))

    @property
    def changed(self) -> tuple[str, ...]:
        """The names of what changed."""
        return tuple(d.name for d in self.differences if d.is_beyond(self.sigmas))

    @property
    def is_changed(self) -> bool:
        """Whether anything changed."""
        return bool(self.changed)

    def explain(self) -> str:
        """Describe in a sentence what changed.

        Examples
        --------
        >>> WorkloadChange(Difference("rate", 10, 20, 6.0), Difference("scv", 1, 1.1, 0.5), None, 4.0).explain()
        'rate 10 -> 20 (6.0 standard errors)'
        """
        changes = [
            f"{d.name} {d.before:.4g} -> {d.after:.4g} ({abs(d.z):.1f} standard errors)"
            for d in self.differences
            if d.is_beyond(self.sigmas)
        ]
        return "; ".join(changes) or "no change beyond chance"


def detect_change(before: TraceDescription, after: TraceDescription, *, sigmas: float = 4.0) -> WorkloadChange:
    """Compare two windows that do not overlap.

    Rate and SCV are compared as logarithms, in which their errors are more alike.

    Examples
    --------
    >>> from penstock.workload.moments import describe_iats
    >>> rng = np.random.default_rng(5)
    >>> slow, fast = describe_iats(rng.exponential(2.0, 4000)), describe_iats(rng.exponential(1.0, 4000))
    >>> detect_change(slow, fast).changed
    ('rate',)
    """
    rate = _of_logs("rate", before.rate, after.rate, before.mean_error / before.mean, after.mean_error / after.mean)
    scv = _of_logs("scv", before.scv, after.scv, _relative(before), _relative(after))
    correlation = None
    if before.lags.size and after.lags.size:
        (one, one_error), (two, two_error) = _mean_correlation(before), _mean_correlation(after)
        spread = math.hypot(one_error, two_error)
        correlation = Difference("correlation", one, two, (two - one) / spread if spread > 0 else 0.0)
    return WorkloadChange(rate, scv, correlation, sigmas)


def _relative(trace: TraceDescription) -> float:
    return trace.scv_error / trace.scv if trace.scv > 0 else 0.0


def _of_logs(name: str, one: float, two: float, one_error: float, two_error: float) -> Difference:
    if one <= 0 or two <= 0:
        return Difference(name, one, two, 0.0 if one == two else math.copysign(math.inf, two - one))
    spread = math.hypot(one_error, two_error)
    difference = math.log(two / one)
    if spread == 0:
        return Difference(name, one, two, 0.0 if difference == 0 else math.copysign(math.inf, difference))
    return Difference(name, one, two, difference / spread)


def _mean_correlation(trace: TraceDescription) -> tuple[float, float]:
    near = trace.lags <= 10
    # Errors of neighbouring lags are far from independent: use their mean, not their root of squares.
    floor = 1.0 / math.sqrt(trace.n * float(np.count_nonzero(near)))
    return float(trace.acf_at_lags[near].mean()), max(float(trace.acf_errors[near].mean()), floor)
