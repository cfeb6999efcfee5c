# SPDX-License-Identifier: Apache-2.0
"""How much to add to a forecast so that it is seldom too low.

After CloudScale's two reasons for padding, each of which is a number here, and the larger counts:

- bursts: how far the fast part of the newest readings rises above the slow part, which is all that a forecast can know;
- shortfalls: how far recent answers fell short of what came.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.ports import FloatArray
from penstock.workload.forecast.readings import interpolated

NEWEST = 128
_SLOW = 0.2
"""Share of the frequencies that count as slow."""
SELDOM = 0.9
"""Share of readings and answers that the padding covers."""


def burst_padding(readings: FloatArray) -> float:
    """Return how far the fast part of the newest readings rises, in nine of ten readings at the most.

    Examples
    --------
    >>> burst_padding(np.linspace(0.0, 1.0, 128) * 0.0 + 5.0)
    0.0
    """
    newest = readings[-NEWEST:]
    if np.count_nonzero(np.isfinite(newest)) < 8:
        return 0.0
    filled = interpolated(newest)
    # The straight line between the ends goes first: a jump from the last reading to the first is no burst.
    filled = filled - np.linspace(float(filled[0]), float(filled[-1]), filled.size)
    spectrum = np.fft.rfft(filled)
    spectrum[: max(1, round(_SLOW * spectrum.size))] = 0.0
    fast = np.fft.irfft(spectrum, filled.size)
    rise = float(np.quantile(fast, SELDOM))
    return rise if rise > 1e-12 * max(1.0, float(np.abs(filled).max())) else 0.0


def shortfall_padding(errors: Sequence[float]) -> float:
    """Return how far answers fell short, in nine of ten at the most. `errors` are what came minus what was forecast.

    Examples
    --------
    >>> shortfall_padding([-5.0] * 19 + [3.0]), shortfall_padding([-1.0, 4.0])
    (0.0, 4.0)
    """
    ordered = sorted(errors)
    return max(0.0, ordered[min(int(SELDOM * len(ordered)), len(ordered) - 1)])
