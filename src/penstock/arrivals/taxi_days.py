# SPDX-License-Identifier: Apache-2.0
"""Two days of taxi rides: nights that are nearly empty, steep mornings, days that oscillate, evenings that fall.

The shape follows what Gesscale (Arkian et al., ICCCN 2021, Section V) says of its load, the first two days of May
2013 in New York, replayed ten times as fast in 288 minutes: strong rises at 30 and 180 min, each followed by
oscillation, small falls at 100 and 220 min, strong ones at 120 and 270 min. The heights between those instants are
ours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from penstock.arrivals.profile import RateProfile
from penstock.arrivals.shapes import Shape
from penstock.errors import ConfigurationError

_MINUTES = 288.0
"""Of the paper's replay: the shape is stretched from these to its duration."""
_CORNERS = (
    (0.0, 0.75), (12.0, 0.45), (24.0, 0.27), (30.0, 0.25), (46.0, 1.25), (58.0, 1.35), (100.0, 1.30), (105.0, 1.05),
    (113.0, 1.40), (120.0, 1.45), (136.0, 0.70), (152.0, 0.45), (170.0, 0.28), (180.0, 0.27), (196.0, 1.30),
    (208.0, 1.40), (220.0, 1.38), (225.0, 1.12), (238.0, 1.45), (262.0, 1.55), (270.0, 1.50), (281.0, 0.85),
    (288.0, 0.75),
)  # fmt: skip
"""Minutes and rates, in parts of the mean."""
_DAYS = ((46.0, 120.0), (196.0, 270.0))
"""From where to where the rate oscillates."""
_SWING, _SWING_MINUTES = 0.07, 9.0
_STEPS_PER_MINUTE = 2


@dataclass(frozen=True)
class TaxiDays(Shape):
    """Two days of rides.

    Parameters
    ----------
    rate
        Mean records per second.
    duration_seconds
        Of both days together.
    variant
        0: the shape as it stands. Any other number draws one like it: heights and oscillation differ, the instants of
        rises and falls stay.
    """

    rate: float
    duration_seconds: float
    variant: int = 0

    def __post_init__(self) -> None:
        if self.variant < 0:
            raise ConfigurationError(f"variant: {self.variant} is not a whole number from 0", field="variant")
        self._check()

    @property
    def rates(self) -> tuple[tuple[str, float], ...]:
        """The mean rate, by the name of its field."""
        return (("rate", self.rate),)

    @cached_property
    def profile(self) -> RateProfile:
        """Straight pieces of half a minute of the replay."""
        minutes = np.linspace(0.0, _MINUTES, int(_MINUTES) * _STEPS_PER_MINUTE + 1)
        at, height = (np.array(column) for column in zip(*_CORNERS, strict=True))
        swing, period, phase = np.array([_SWING, _SWING]), _SWING_MINUTES, np.zeros(2)
        if self.variant:
            rng = np.random.default_rng([self.variant, 288])
            height = height * rng.uniform(0.88, 1.12, len(height))
            swing, period = rng.uniform(0.04, 0.10, 2), rng.uniform(7.0, 12.0)
            phase = rng.uniform(0.0, 2.0 * math.pi, 2)
        curve = np.interp(minutes, at, height)
        for day, (start, end) in enumerate(_DAYS):
            # It grows out of nothing and goes back there, so that the curve has no step.
            inside = np.clip((minutes - start) / (end - start), 0.0, 1.0)
            wave = swing[day] * np.sin(2.0 * math.pi * (minutes - start) / period + phase[day])
            curve = curve * (1.0 + wave * np.minimum(1.0, 8.0 * np.minimum(inside, 1.0 - inside)))
        mean = float(np.mean((curve[1:] + curve[:-1]) / 2.0))
        rates = (self.rate / mean * curve).tolist()
        step = self.duration_seconds / (len(rates) - 1)
        return RateProfile([(step, a, b) for a, b in pairwise(rates)])
