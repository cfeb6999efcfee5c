# SPDX-License-Identifier: Apache-2.0
"""The source's arrivals as an operator further down sees them."""

from __future__ import annotations

from penstock.markov import MAP


def visited(process: MAP, visits: float) -> MAP:
    """Give the process at an operator's rate: a part of its records, or all of them and more, evenly denser.

    Examples
    --------
    >>> round(visited(MAP.poisson(10.0), 0.5).rate, 9), round(visited(MAP.poisson(10.0), 3.0).rate, 9)
    (5.0, 30.0)
    """
    if visits == 1.0:
        return process
    return process.thinned(visits) if visits < 1.0 else process.with_rate(visits * process.rate)
