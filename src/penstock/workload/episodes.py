# SPDX-License-Identifier: Apache-2.0
"""Ordinary traffic with episodes (a long burst and the lull that makes up for it), for windows that contain one.

The queue of such a window depends on how regular burst and lull are, and so must the model's: with k stages each has an
SCV of at least 1 / k (Aldous and Shepp, Stochastic Models 3, 1987), so every state is needed as a stage. The
autocorrelation at short lags takes two states, for short and long times that come in runs. Here these two occur once,
in the ordinary traffic between episodes, where the queue is nearly empty and hardly depends on how long they last.
Burst and lull have one state for each stage. (In `staged`, each stage of a lull has two, without traffic between.)

If the window's third moment is too small for exponential times, the times in the lull and the long times outside it
can be sums of several exponential times.

========  ==============================================================================================
Symbol    Meaning
========  ==============================================================================================
mu        mean time in each state
P         state after one arrival to state after the next
c2, c3    E[X^2] / E[X]^2 and E[X^3] / E[X]^3 of the long times of one kind
level     E[X_0 X_k] at lags k far beyond the runs of long times and far within an episode
========  ==============================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.workload.staged import moment_factors, unit_mean
from penstock.workload.targets import Targets

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_LONGEST_CYCLE_WINDOWS = 4.0
"""Longest cycle, in windows: a window may contain only part of one."""

_FEWEST_STAGES = 2
"""With fewer stages of burst and lull, regularity does not justify a search."""

_LEVEL_LAGS = (48, 160)
_LULL_TIME = 0.45


@dataclass(frozen=True, slots=True)
class Episode:
    """How many stages a burst and a lull have, and how many phases a long time has in the lull and outside it."""

    burst: int
    lull: int
    lull_parts: int = 1
    parts: int = 1

    @property
    def order(self) -> int:
        """Number of phases."""
        return self.burst + self.lull * self.lull_parts + 1 + self.parts

    @property
    def lull_to_long(self) -> float:
        """Mean time in the lull in units of a long one outside it, for the least m3 that m2 allows."""
        c2, c3 = moment_factors(np.array([self.lull_parts, self.parts]))
        return float(c2[0] / c3[0] / (c2[1] / c3[1]))

    def phases(self) -> IntArray:
        """Return the number of phases of each state: burst, lull, then short and long times of ordinary traffic."""
        return np.array([1] * self.burst + [self.lull_parts] * self.lull + [1, self.parts], dtype=np.int64)

    def bounds(self, n: int) -> tuple[FloatArray, FloatArray]:
        """Return the bounds of the parameters for a window of n."""
        least = np.log(4.0 * self.order)
        low = np.array([-6.0, -9.0, -7.0, -4.0, 0.0, least])
        high = np.array([6.0, 6.0, 7.0, 7.0, 14.0, max(np.log(_LONGEST_CYCLE_WINDOWS * n), least + 1.0)])
        return low, high

    def chains(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mu and P, of mean 1, for each row of parameters.

        These are: logs of the arrivals in bursts and in lulls, each against those of ordinary traffic; log odds of a
        time of ordinary traffic to be long, and of the kind of a time to be kept; log of the mean long time, in units
        of a short one; log of a cycle's arrivals. Times in the lull are as long as leaves the third moment smallest.
        """
        b, k = self.burst, self.burst + self.lull
        bursts, lulls = np.exp(theta[:, 0]), np.exp(theta[:, 1])
        long, memory = (1.0 / (1.0 + np.exp(-theta[:, i])) for i in (2, 3))
        ordinary = np.exp(theta[:, 5]) / (1.0 + bursts + lulls)
        out_burst = np.minimum(b / (ordinary * bursts), 1.0)
        out_lull = np.minimum(self.lull / (ordinary * lulls), 1.0)
        out = np.minimum(1.0 / ordinary, 1.0)
        draw = np.stack([1.0 - long, long], axis=1)
        kind = memory[:, None, None] * np.eye(2) + (1.0 - memory)[:, None, None] * draw[:, None, :]
        mu, p = np.ones((len(theta), k + 2)), np.zeros((len(theta), k + 2, k + 2))
        mu[:, b:k] = np.exp(theta[:, 4:5]) * self.lull_to_long
        mu[:, k + 1] = np.exp(theta[:, 4])
        for i in range(k):
            leave = out_burst if i < b else out_lull
            p[:, i, i] = 1.0 - leave
            if i + 1 < k:
                p[:, i, i + 1] = leave
            else:
                p[:, i, k:] = leave[:, None] * draw
        p[:, k:, k:] = (1.0 - out)[:, None, None] * kind
        p[:, k:, 0] = out[:, None]
        return unit_mean(mu, p), p


def episodes_for(targets: Targets, max_states: int) -> list[Episode]:
    """Return the episodes worth trying for a window, the largest first."""
    lull_parts, parts = _parts_needed(targets.m2, targets.m3)
    found: list[Episode] = []
    for most in (max_states, (3 * max_states) // 4, max_states // 2):
        free = most - 1 - parts
        burst = free // (1 + lull_parts)
        lull = (free - burst) // lull_parts
        if min(burst, lull) >= _FEWEST_STAGES:
            found.append(Episode(burst, lull, lull_parts, parts))
    return found


def start(episode: Episode, targets: Targets) -> FloatArray | None:
    """Return parameters read off the window's descriptors, or ``None`` if there is no level to read.

    Nearly all of the time passes in long times. For given c2, c3, m2 and shares of the time, m3 is least if mu is
    proportional to c2 / c3 (Cauchy and Schwarz). The level is the mean of mu as time sees it.
    """
    near = (targets.lags >= _LEVEL_LAGS[0]) & (targets.lags <= _LEVEL_LAGS[1])
    if not near.any():
        return None
    far = float(targets.acf[near].mean())
    level = far * targets.scv + 1.0
    c2, c3 = moment_factors(np.array([episode.lull_parts, episode.parts]))
    lull_time = _LULL_TIME
    for _ in range(3):
        shares = np.array([lull_time, 1.0 - lull_time])
        lull, long = c2 / c3 * targets.m2 / float((shares * c2 * c2 / c3).sum())
        if not (1.1 < level < lull and long > 1.5):
            return None
        lull_time = (level - 1.0) / (lull - 1.0)
    lulls = lull_time / lull
    ordinary = 1.0 - lull_time  # its mean time being 1
    bursts = max(1.0 - lulls - ordinary, 0.05)
    above = targets.acf - far
    runs = targets.lags[above < above[0] / np.e] if above[0] > 0 else targets.lags[:1]
    return np.array(
        [
            np.log(bursts / ordinary), np.log(lulls / ordinary), -np.log(long - 1.0),
            -np.log(np.expm1(1.0 / float(runs[0]))), 7.0, np.log(2.0 * targets.n),
        ]
    )  # fmt: skip


def _parts_needed(m2: float, m3: float, slack: float = 0.03) -> tuple[int, int]:
    """Return the fewest phases, in the lull and outside it, that allow a third moment this small for mean 1."""
    for lull_parts in range(1, 8):
        for parts in range(lull_parts, 2 * lull_parts + 2):
            c2, c3 = moment_factors(np.array([lull_parts, parts]))
            least = 1.0 / float((np.array([_LULL_TIME, 1.0 - _LULL_TIME]) * c2 * c2 / c3).sum())
            if least * (1.0 - slack) <= m3 / m2**2:
                return lull_parts, parts
    return 8, 8
