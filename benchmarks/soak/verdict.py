# SPDX-License-Identifier: Apache-2.0
"""Whether something stays flat over hours: a slope that single samples cannot bend, and an interval around it.

A pipeline that is scaled every minute goes up and down with it, and a JVM's memory is a saw. So a series is first cut
into blocks of whole cycles, each with its median. Through the blocks after the warm-up goes the line of Theil and Sen:
its slope is the median of the slopes between all pairs of blocks, so that fewer than 29 % of wild blocks do not matter.
Its interval is that of Sen (1968), from the distribution of Kendall's tau (`scipy.stats.theilslopes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt
from scipy.stats import theilslopes

CONFIDENCE = 0.95
"""Each bound of the growth holds with this confidence, so the interval has 90 %."""
LEAST_BLOCKS = 8
ALLOWED_SHARE = 0.10
"""How much of its median a series may grow over the time that is judged."""


class Finding(Enum):
    """What the blocks show."""

    FLAT = "flat"
    """The growth is within what is allowed, with confidence."""
    GROWS = "grows"
    """The growth is above what is allowed, with confidence."""
    UNCLEAR = "unclear"
    """It may be either: the series is too noisy for its length."""
    TOO_SHORT = "too short"
    """There are too few blocks to say anything."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The growth of a series over the time that was judged, in its own unit, with bounds."""

    finding: Finding
    level: float | None = None
    """The median of the blocks."""
    growth: float | None = None
    low: float | None = None
    high: float | None = None
    allowed: float | None = None
    blocks: int = 0

    @property
    def is_flat(self) -> bool:
        """Whether it is known to be flat: what is unclear or too short is not."""
        return self.finding is Finding.FLAT

    def __str__(self) -> str:
        if self.growth is None:
            return f"{self.finding.value}: {self.blocks} blocks after the warm-up, at least {LEAST_BLOCKS} are needed"
        return (
            f"{self.finding.value}: {self.growth:+.3g} ({self.low:+.3g} to {self.high:+.3g}) at {self.level:.4g}, "
            f"allowed {self.allowed:.3g}"
        )


def judge(
    seconds: Sequence[float] | npt.NDArray[np.float64],
    values: Sequence[float] | npt.NDArray[np.float64],
    *,
    warm_up_seconds: float,
    block_seconds: float,
    least_growth: float,
    expected_growth: float = 0.0,
) -> Verdict:
    """Judge one series.

    Parameters
    ----------
    seconds, values
        Samples, the times since the start of the run.
    warm_up_seconds
        What comes before is not judged.
    block_seconds
        How long a block is: a whole number of cycles of whatever comes and goes.
    least_growth
        A growth up to here is always allowed, in the unit of the values: a tenth of very little is noise.
    expected_growth
        What it grows by design in the time that is judged, until a bound. It is allowed on top.
    """
    places, medians = _blocks(np.asarray(seconds, float), np.asarray(values, float), warm_up_seconds, block_seconds)
    if len(medians) < LEAST_BLOCKS:
        return Verdict(Finding.TOO_SHORT, blocks=len(medians))
    slope, _, low, high = theilslopes(medians, places, alpha=2.0 * CONFIDENCE - 1.0)
    span = float(places[-1] - places[0])
    level = float(np.median(medians))
    allowed = max(ALLOWED_SHARE * abs(level), least_growth) + expected_growth
    finding = Finding.GROWS if low * span > allowed else Finding.UNCLEAR
    if high * span <= allowed:
        finding = Finding.FLAT
    return Verdict(finding, level, slope * span, low * span, high * span, allowed, len(medians))


def _blocks(
    seconds: npt.NDArray[np.float64], values: npt.NDArray[np.float64], warm_up_seconds: float, block_seconds: float
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The middle of each block and its median; blocks without a sample are left out, and so is a last one cut short."""
    late = seconds >= warm_up_seconds
    seconds, values = seconds[late], values[late]
    if len(seconds) == 0:
        return np.empty(0), np.empty(0)
    number = ((seconds - warm_up_seconds) // block_seconds).astype(int)
    whole = [
        n for n in np.unique(number) if warm_up_seconds + (n + 1) * block_seconds <= seconds[-1] + block_seconds / 10
    ]
    places = np.array([warm_up_seconds + (n + 0.5) * block_seconds for n in whole])
    return places, np.array([float(np.median(values[number == n])) for n in whole])
