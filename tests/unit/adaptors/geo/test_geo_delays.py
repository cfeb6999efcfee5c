# SPDX-License-Identifier: Apache-2.0
"""Delays between the nodes of a geo network, as they are asked for."""

from __future__ import annotations

import pytest

from penstock.adaptors.geo.delays import OneWayDelays
from penstock.errors import ConfigurationError


def test_a_round_trip_is_shared_out_over_both_ways() -> None:
    """Half on each way; what is not listed has no delay."""
    delays = OneWayDelays.of_round_trips({("a", "b"): 0.3})
    assert (delays.one_way("a", "b"), delays.one_way("b", "a"), delays.round_trip("b", "a")) == (0.15, 0.15, 0.3)
    assert delays.round_trip("a", "c") == 0.0


def test_text_has_round_trips_and_single_ways() -> None:
    """A colon is a round trip, an angle one way, and the later entry holds."""
    delays = OneWayDelays.parse("home:far-off=200ms, far-off>home=0.15s")
    assert delays.seconds == {("home", "far-off"): 0.1, ("far-off", "home"): 0.15}
    assert delays.round_trip("home", "far-off") == 0.25


def test_every_wrong_entry_is_named() -> None:
    """One error lists all entries that cannot be read."""
    with pytest.raises(ConfigurationError) as caught:
        OneWayDelays.parse("a:b, a:c=fast, a:d=1ms")
    assert len(caught.value.faults) == 2


@pytest.mark.parametrize(
    ("pair", "seconds"), [(("a", "b"), -0.1), (("a", "b"), float("nan")), (("a", "b"), 11.0), (("a", "a"), 0.1)]
)
def test_impossible_delays_are_refused(pair: tuple[str, str], seconds: float) -> None:
    """Negative, unknown, absurdly long, or of a node to itself."""
    with pytest.raises(ConfigurationError, match="delays"):
        OneWayDelays({pair: seconds})


def test_a_delay_of_an_unknown_node_names_the_nodes() -> None:
    """A typing error does not pass for no delay."""
    with pytest.raises(ConfigurationError, match=r"no node faar; the nodes are home, far"):
        OneWayDelays.parse("home:faar=1ms").check_nodes(("home", "far"))
