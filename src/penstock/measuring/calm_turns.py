# SPDX-License-Identifier: Apache-2.0
"""A measurement that was disturbed by other guests of the machine is taken again.

A node's CPU is a quota of time. What the hypervisor gives to others meanwhile (steal) counts as used, so throughput
falls by more than any delay between nodes would explain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from penstock.measuring.disturbance import DisturbanceLimits, HostReading, load_between
from penstock.measuring.placed_turns import PlacedThroughput


def calmest(
    take: Callable[[], PlacedThroughput],
    read_host: Callable[[], HostReading],
    *,
    most: int,
    limits: DisturbanceLimits,
    say: Callable[[str], None],
) -> PlacedThroughput:
    """Take a measurement until others took no more than the limit of the CPU meanwhile; else the calmest of all.

    Parameters
    ----------
    take
        Takes the measurement once.
    read_host
        Gives the CPU counters of the host.
    most
        How often it is taken at most.
    limits
        Of these only `steal` is judged: what else runs on the host is the measured cluster.
    say
        Told of each measurement that is taken again, and why.
    """
    taken: list[PlacedThroughput] = []
    while True:
        before = read_host()
        found = take()
        load = load_between(before, read_host())
        steal = None if load is None else load.steal
        taken.append(replace(found, steal=steal))
        if steal is None or steal <= limits.steal:
            return taken[-1]
        if len(taken) >= most:
            return min(taken, key=lambda one: one.steal or 0.0)
        say(f"{found.records_per_second:,.0f} records/s, with {100.0 * steal:.0f} % of the CPU stolen: taken again")
