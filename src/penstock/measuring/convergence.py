# SPDX-License-Identifier: Apache-2.0
"""Whether a throughput has converged: the K out of N method (MST prediction, Sec. 3.2).

Of the latest N rates, K must lie within +-delta of the rate before them. The paper has N = 5, K = 4, delta = 5 %, and
samples after 90 s in any case (Sec. 4.4.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.errors import ConfigurationError
from penstock.units import number, whole_number


@dataclass(frozen=True, slots=True)
class Convergence:
    """When throughput counts as converged.

    Parameters
    ----------
    window
        N: the latest rates that are looked at.
    agreeing
        K: how many of them must lie near the rate before.
    within
        delta: how near, as a fraction of that rate.
    at_most_seconds
        After this time a sample is taken in any case, and marked.
    """

    window: int = 5
    agreeing: int = 4
    within: float = 0.05
    at_most_seconds: float = 90.0

    def __post_init__(self) -> None:
        whole_number("window", self.window, least=2)
        whole_number("agreeing", self.agreeing, least=1)
        number("within", self.within, above=0, most=1)
        number("at_most_seconds", self.at_most_seconds, above=0)
        if self.agreeing > self.window:
            raise ConfigurationError(
                f"agreeing: {self.agreeing} of the latest {self.window} rates cannot be; give at most {self.window}",
                field="agreeing",
            )

    def is_reached(self, rates: Sequence[float]) -> bool:
        """Whether K of the latest N rates are within delta of the one before them.

        Examples
        --------
        >>> Convergence().is_reached([50.0, 99.0, 101.0, 100.0, 102.0, 99.0])
        True
        >>> Convergence().is_reached([50.0, 99.0, 101.0, 100.0])
        False
        """
        if len(rates) < self.window:
            return False
        first = len(rates) - self.window
        near = [
            abs(rates[i] - rates[i - 1]) <= self.within * rates[i - 1] for i in range(max(first, 1), len(rates))
        ]  # the very first rate has none before it, and agrees with nothing
        return sum(near) >= self.agreeing
