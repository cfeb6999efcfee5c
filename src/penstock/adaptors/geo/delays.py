# SPDX-License-Identifier: Apache-2.0
"""The delays that are asked for between the nodes of a geo network."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from penstock.errors import ConfigurationError
from penstock.units import parse_seconds

LONGEST_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class OneWayDelays:
    """How long packets take from one node to another, in seconds, for each direction apart.

    Attributes
    ----------
    seconds
        By sender and receiver. A pair that is missing has no delay.
    """

    seconds: Mapping[tuple[str, str], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for (sender, receiver), seconds in self.seconds.items():
            if sender == receiver:
                raise ConfigurationError(
                    f"delays: {sender} to itself has no delay that could be set; leave the pair out", field="delays"
                )
            if not (math.isfinite(seconds) and 0.0 <= seconds <= LONGEST_SECONDS):
                raise ConfigurationError(
                    f"delays: {seconds!r} s from {sender} to {receiver} is outside 0 to {LONGEST_SECONDS:g} s",
                    field="delays",
                )

    @classmethod
    def of_round_trips(cls, seconds: Mapping[tuple[str, str], float]) -> OneWayDelays:
        """Return the delays that give these round trips, half of each on either way.

        Examples
        --------
        >>> OneWayDelays.of_round_trips({("home", "far"): 0.3}).seconds
        {('home', 'far'): 0.15, ('far', 'home'): 0.15}
        """
        both: dict[tuple[str, str], float] = {}
        for (one, other), trip in seconds.items():
            both[one, other] = both[other, one] = trip / 2
        return cls(both)

    @classmethod
    def parse(cls, text: str) -> OneWayDelays:
        """Read ``home:near=20ms, home:far=200ms, near>far=90ms``: ``:`` is a round trip, ``>`` one way alone.

        Later entries replace earlier ones.

        Raises
        ------
        ConfigurationError
            Lists every entry that cannot be read.

        Examples
        --------
        >>> OneWayDelays.parse("a:b=20ms, b>a=50ms").seconds
        {('a', 'b'): 0.01, ('b', 'a'): 0.05}
        """
        found: dict[tuple[str, str], float] = {}
        faults: list[str] = []
        for entry in filter(None, (part.strip() for part in text.split(","))):
            pair, equals, time = (part.strip() for part in entry.partition("="))
            sign = ">" if ">" in pair else ":"
            one, _, other = (part.strip() for part in pair.partition(sign))
            if not (equals and one and other):
                faults.append(f"cannot read {entry!r}; write a round trip like home:far=200ms, or one way like a>b=9ms")
                continue
            try:
                seconds = parse_seconds(time, field="delays")
            except ConfigurationError as fault:
                faults.append(str(fault))
                continue
            found |= {(one, other): seconds} if sign == ">" else cls.of_round_trips({(one, other): seconds}).seconds
        if faults:
            raise ConfigurationError.of_all("delays", faults)
        return cls(found)

    def one_way(self, sender: str, receiver: str) -> float:
        """Return the delay from one node to another."""
        return self.seconds.get((sender, receiver), 0.0)

    def round_trip(self, one: str, other: str) -> float:
        """Return how long there and back takes."""
        return self.one_way(one, other) + self.one_way(other, one)

    def check_nodes(self, nodes: Iterable[str]) -> None:
        """Raise ConfigurationError for a delay between nodes that are not there."""
        known = tuple(nodes)
        unknown = sorted({node for pair in self.seconds for node in pair} - set(known))
        if unknown:
            raise ConfigurationError(
                f"delays: there is no node {', '.join(unknown)}; the nodes are {', '.join(known)}", field="delays"
            )
