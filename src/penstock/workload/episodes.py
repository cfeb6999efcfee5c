# SPDX-License-Identifier: Apache-2.0
"""Ordinary traffic broken by episodes, a long burst and the lull that makes up for it: for windows that hold one.

A queue sees of such a window how regular burst and lull are, and has to see it of the model: with k stages each has an
SCV of 1 / k at the least (Aldous and Shepp, Stochastic Models 3, 1987), so that every state is wanted as a stage. The
autocorrelation at short lags takes two states, for short and long times that come in runs. Here these two stand once,
in the ordinary traffic between episodes, where the queue is nearly empty and hardly cares how long they last; burst
and lull have one state for each stage. (In `staged`, each stage of a lull has two, and there is no traffic between.)

Mean times in the lull and long times outside it may be sums of several exponential times, where the window's third
moment is too small for one.

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

_LONGEST = 4.0
"""Longest cycle, in windows: a window may hold a part of one only."""

_FEWEST = 2
"""Stages of burst and lull below which regularity is not what a search is for."""

_FAR = (48, 160)
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
        """Give the number of phases of each state: burst, lull, then short and long times of ordinary traffic."""
        return np.array([1] * self.burst + [self.lull_parts] * self.lull + [1, self.parts], dtype=np.int64)

    def bounds(self, n: int) -> tuple[FloatArray, FloatArray]:
        """Give the bounds of the parameters for a window of n."""
        least = np.log(4.0 * self.order)
        low = np.array([-6.0, -9.0, -7.0, -4.0, 0.0, least])
        high = np.array([6.0, 6.0, 7.0, 7.0, 14.0, max(np.log(_LONGEST * n), least + 1.0)])
        return low, high

    def chains(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Give mu and P, of mean 1, for each row of parameters.

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
    """Give the episodes worth trying for a window, the largest first."""
    lull_parts, parts = _parts_needed(targets.m2, targets.m3)
    found: list[Episode] = []
    for most in (max_states, (3 * max_states) // 4, max_states // 2):
        free = most - 1 - parts
        burst = free // (1 + lull_parts)
        lull = (free - burst) // lull_parts
        if min(burst, lull) >= _FEWEST:
            found.append(Episode(burst, lull, lull_parts, parts))
    return found


def start(episode: Episode, targets: Targets) -> FloatArray | None:
    """Give parameters read off the window's descriptors; ``None`` where there is no level to be read.

    Nearly all of the time passes in long times. Of those with given c2, c3 and shares of the time, m3 is the least for
    given m2 where mu is proportional to c2 / c3 (Cauchy and Schwarz). The level is the mean of mu as time sees it.
    """
    near = (targets.lags >= _FAR[0]) & (targets.lags <= _FAR[1])
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
    """Give the fewest phases, in the lull and outside it, that allow a third moment this small, the mean being 1."""
    for lull_parts in range(1, 8):
        for parts in range(lull_parts, 2 * lull_parts + 2):
            c2, c3 = moment_factors(np.array([lull_parts, parts]))
            least = 1.0 / float((np.array([_LULL_TIME, 1.0 - _LULL_TIME]) * c2 * c2 / c3).sum())
            if least * (1.0 - slack) <= m3 / m2**2:
                return lull_parts, parts
    return 8, 8
