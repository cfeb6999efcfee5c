# SPDX-License-Identifier: Apache-2.0
"""Where an operator's executors stood during a run, and for how long."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.clock import PassedTime
from penstock.evaluation.history import RoundTrip
from penstock.records import Observation


def node_seconds(observations: Sequence[Observation]) -> dict[str, float]:
    """The executor-seconds on each node, the most first; empty where the run did not look at nodes.

    What was seen at one look lasted until the next.
    """
    found: dict[str, float] = {}
    clock = PassedTime()
    passed = [clock.take(seen.at) for seen in observations]
    for seen, seconds in zip(observations, passed[1:], strict=False):  # the last has no end
        had = seen.cluster.observed
        for node, count in () if had is None else had.nodes:
            found[node] = found.get(node, 0.0) + count * seconds
    return dict(sorted(found.items(), key=lambda pair: (-pair[1], pair[0])))


def round_trips_text(measured: Sequence[RoundTrip]) -> str:
    """The round trips in words, each pair once, by the longer of its two directions.

    Examples
    --------
    >>> round_trips_text([("home", "far", 0.2), ("far", "home", 0.21), ("home", "near", 0.01)])
    'far-home 210 ms, home-near 10 ms'
    """
    longest: dict[tuple[str, ...], float] = {}
    for first, second, seconds in measured:
        pair = tuple(sorted((first, second)))
        longest[pair] = max(longest.get(pair, 0.0), seconds)
    return ", ".join(f"{'-'.join(pair)} {1000 * seconds:.0f} ms" for pair, seconds in sorted(longest.items()))
