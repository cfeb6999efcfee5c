# SPDX-License-Identifier: Apache-2.0
"""Elastic scheduling that learns from its own run, as the elastic policy does, simulated over a sequence of rates.

In each period it takes the fewest machines for which the lower end of what is believed of them reaches the rate. What
the paper's scheduler does not do:

- **It learns.** At the end of a period it has one sample of the size that ran, as noisy as a measurement. The elastic
  policy has many in an hour: every batch shows what a record costs, whether or not the query is busy all the time.
- **It asks ahead.** One delay before a period ends it asks for what the next may need if it rises as strongly as few
  have done of late (`usual_rises`).
- **It sees that it falls behind.** Where the rate is above what the machines sustain, a backlog grows. It is noticed
  after a while, what the full machines do is one sample more, and more are asked for at once.

All draws of the measurements are simulated side by side, so that a period is a few operations on arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.evaluation.elastic_schedule import LEARNING, IntArray, ScheduledPolicy, Workload, account, usual_rises
from penstock.performance.throughput.curve_belief import CurveBelief
from penstock.ports import FloatArray

NOTICED_SECONDS = 60.0
"""From the start of a shortage until it is acted on. The elastic policy looks every second, and plans every five."""
_SAMPLE_SECONDS = 20.0
"""What a measurement takes (Imai et al., Sec. 4.4.2). While a query is behind, all of its time is a measurement."""
_WORTHWHILE = 0.99
"""Machines are taken up to this part of the most that is expected of any number of them."""


@dataclass(frozen=True, eq=False)
class LearningSchedule:
    """What was decided; a row for each draw, an entry for each period.

    Attributes
    ----------
    machines
        At the start of each period, in force after the delay.
    ahead
        Asked for one delay before each period ends, and kept until those of the next are there.
    corrected
        What a period ends with; more than `machines` where these were too few.
    short_seconds
        From when the period's own machines were in force until more came, where they were too few.
    """

    machines: IntArray
    ahead: IntArray
    corrected: IntArray
    short_seconds: FloatArray

    def policies(self, workload: Workload, truth: FloatArray) -> tuple[ScheduledPolicy, ...]:
        """What came of it, for each draw."""
        return tuple(
            ScheduledPolicy(
                LEARNING, self.machines[draw],
                account(
                    workload, truth, self.machines[draw], ahead=self.ahead[draw], corrected=self.corrected[draw],
                    short_seconds=self.short_seconds[draw],
                ),
            )
            for draw in range(len(self.machines))
        )  # fmt: skip


def learn_and_schedule(
    workload: Workload,
    truth: FloatArray,
    belief: CurveBelief,
    *,
    noise: float,
    coverage: float,
    generator: np.random.Generator,
    asks_ahead: bool = True,
    sees_backlog: bool = True,
) -> LearningSchedule:
    """Schedule a load.

    Parameters
    ----------
    workload
        The rates.
    truth
        What 1, 2, 3, ... machines really sustain. It gives samples and shortages, and nothing else is known of it.
    belief
        About as many sizes, for every draw; it is changed.
    noise
        Relative standard deviation of the samples.
    coverage
        Of the interval whose lower end is counted on.
    generator
        Of the samples' noise.
    asks_ahead, sees_backlog
        Parts that can be left out.
    """
    rates, rises = workload.rates, usual_rises(workload.rates)
    draws = len(belief.expected)
    shape = (draws, len(rates))
    machines, ahead = np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.int64)
    corrected, short = np.empty(shape, dtype=np.int64), np.zeros(shape)
    # Samples as draw_samples draws them: their logarithms are normal, their mean is the truth.
    factors = np.exp(noise * generator.standard_normal(shape) - 0.5 * noise**2)
    for period, rate in enumerate(rates):
        taken, later = _least_sure(belief, coverage, rate, rate * rises[period])
        machines[:, period] = taken
        final = taken.copy()
        if sees_backlog:
            for draw in np.flatnonzero(truth[taken - 1] < rate):
                final[draw], short[draw, period] = _catch_up(
                    workload, truth, belief, draw=int(draw), has=int(taken[draw]), rate=rate, coverage=coverage,
                    noise=noise, generator=generator,
                )  # fmt: skip
        corrected[:, period] = final
        ahead[:, period] = np.maximum(final, later) if asks_ahead else final
        belief.learn(final - 1, truth[final - 1] * factors[:, period])
    return LearningSchedule(machines, ahead, corrected, short)


def _least_sure(belief: CurveBelief, coverage: float, *rates: float) -> list[IntArray]:
    """The fewest machines that are sure to reach each rate, and no more than are worthwhile: for every draw."""
    low = np.maximum.accumulate(belief.low(coverage), axis=1)
    expected = np.maximum.accumulate(belief.expected, axis=1)
    most = low.shape[1]
    worthwhile = (expected < _WORTHWHILE * expected[:, -1:]).sum(axis=1) + 1
    found = []
    for rate in rates:
        needed = np.minimum((expected < rate).sum(axis=1) + 1, most)
        sure = np.minimum((low < rate).sum(axis=1) + 1, most)
        found.append(np.minimum(sure, np.maximum(worthwhile, needed)))
    return found


def _catch_up(
    workload: Workload,
    truth: FloatArray,
    belief: CurveBelief,
    *,
    draw: int,
    has: int,
    rate: float,
    coverage: float,
    noise: float,
    generator: np.random.Generator,
) -> tuple[int, float]:
    """What a period ends with whose machines are too few, and for how long they were too few."""
    lasts, most = workload.period_seconds - workload.delay_seconds, len(truth)
    mended = NOTICED_SECONDS + workload.delay_seconds
    samples = max(1, int(mended / _SAMPLE_SECONDS))
    short = 0.0
    while truth[has - 1] < rate and has < most and short < lasts:
        seen = truth[has - 1] * np.exp(noise * generator.standard_normal(samples) - 0.5 * noise**2).mean()
        # It is behind: whatever noisy samples say, the size does less than arrives.
        belief.learn_one(draw, has - 1, min(float(seen), rate), samples)
        sure = _least_sure(belief, coverage, rate)[0][draw]
        has = min(max(has + 1, int(sure)), most)
        short += mended
    return has, min(short, lasts)
