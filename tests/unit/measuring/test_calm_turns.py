# SPDX-License-Identifier: Apache-2.0
"""Measurements that other guests of the machine disturb."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.measuring.calm_turns import calmest
from penstock.measuring.disturbance import DisturbanceLimits, HostReading
from penstock.measuring.placed_turns import PlacedThroughput


def _taken(stolen: list[float], most: int = 3) -> tuple[PlacedThroughput, list[str]]:
    """What `calmest` makes of measurements of 1, 2, 3 ... records a second, with these parts of the CPU stolen."""

    def readings() -> Iterator[HostReading]:
        at, busy, steal = 0.0, 0.0, 0.0
        for part in stolen:
            yield HostReading(at, 2, busy, 0.0, steal, 1)
            at, busy, steal = at + 10.0, busy + 20.0 * (1.0 - part), steal + 20.0 * part
            yield HostReading(at, 2, busy, 0.0, steal, 1)

    said: list[str] = []
    host, rates = readings(), iter([1.0, 2.0, 3.0, 4.0])
    found = calmest(
        lambda: PlacedThroughput(next(rates), 9),
        lambda: next(host),
        most=most,
        limits=DisturbanceLimits(steal=0.05),
        say=said.append,
    )
    return found, said


def test_a_calm_measurement_is_taken_once() -> None:
    """Nothing is measured again where others took little."""
    found, said = _taken([0.01, 0.0])
    assert (found.records_per_second, round(found.steal or 0.0, 6), said) == (1.0, 0.01, [])


def test_a_disturbed_measurement_is_taken_again() -> None:
    """The first calm one counts, and each that does not is reported."""
    found, said = _taken([0.3, 0.2, 0.04])
    assert found.records_per_second == 3.0
    assert [text.partition(":")[0] for text in said] == [
        "1 records/s, with 30 % of the CPU stolen",
        "2 records/s, with 20 % of the CPU stolen",
    ]


def test_the_calmest_counts_where_none_is_calm() -> None:
    """After so many there is one all the same, and it says how disturbed it was."""
    found, _ = _taken([0.3, 0.1, 0.2, 0.0])
    assert found.records_per_second == 2.0
    assert round(found.steal or 0.0, 6) == 0.1
