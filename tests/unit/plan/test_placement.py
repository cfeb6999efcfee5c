# SPDX-License-Identifier: Apache-2.0
"""Which nodes executors stand on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.errors import ConfigurationError
from penstock.latency_map import LatencyMap
from penstock.plan.placement import Choice, Placement
from penstock.records import Allocation, Limits

# a, b and c stand on a line, 10 ms from one to the next; d and e are near each other, and far from all others.
APART = LatencyMap.of(
    [("a", "b", 0.01), ("b", "c", 0.01), ("a", "c", 0.02), ("d", "e", 0.001),
     *((near, far, 0.3) for near in "abc" for far in "de")]
)  # fmt: skip
LIMITS = Limits(1, 5, nodes=("a", "b", "c", "d", "e"), executors_per_node=1)


def on(*nodes: str) -> Allocation:
    """One executor on each of these nodes."""
    return Allocation(len(nodes), nodes=tuple((node, 1) for node in nodes))


def test_nearest_adds_the_node_with_the_lowest_delay_to_those_in_use() -> None:
    """Gesscale, Section IV-E."""
    assert Placement(APART).resized(on("a"), 2, LIMITS) == on("a", "b")
    assert Placement(APART).resized(on("a", "b"), 3, LIMITS) == on("a", "b", "c")


def test_nearest_removes_the_node_with_the_greatest_delay_to_the_others() -> None:
    """Gesscale, Section IV-E; several go one after the other."""
    assert Placement(APART).resized(on("a", "b", "d"), 2, LIMITS) == on("a", "b")
    assert Placement(APART).resized(on("a", "b", "c", "d"), 2, LIMITS).executors == 2


def test_best_moves_to_the_set_with_the_shortest_longest_round_trip() -> None:
    """Two executors that may stand anywhere stand on the two nodes that are nearest to each other."""
    assert Placement(APART, "best").resized(on("a"), 2, LIMITS) == on("d", "e")


def test_best_takes_of_equal_sets_the_one_that_moves_less() -> None:
    """Nothing is moved for nothing."""
    flat = LatencyMap(("a", "b", "c", "d", "e"))
    assert Placement(flat, "best").resized(on("c"), 2, LIMITS).nodes[-1] == ("c", 1)


def test_best_fills_few_nodes_where_these_hold_several_executors() -> None:
    """On one node there is no delay."""
    roomy = replace(LIMITS, executors_per_node=4)
    assert Placement(APART, "best").resized(on("a", "d"), 4, roomy) == Allocation(4, nodes=(("a", 4),))


def test_best_grows_sets_where_there_are_too_many_to_look_at() -> None:
    """Forty nodes on a line: the set found is a run of neighbours."""
    names = tuple(f"n{i:02}" for i in range(40))
    line = LatencyMap.of(
        [(a, b, abs(i - j) / 100.0) for i, a in enumerate(names) for j, b in enumerate(names) if i < j]
    )
    found = Placement(line, "best").resized(Allocation(1), 10, Limits(1, 40, nodes=names, executors_per_node=1))
    assert line.largest(node for node, _ in found.nodes) == pytest.approx(0.09)


def test_random_choices_are_those_of_the_seed_and_the_instant() -> None:
    """The same request gets the same nodes; over instants they differ."""
    placement = Placement(APART, "random", 7)
    assert placement.resized(on("a"), 3, LIMITS, at=60.0) == placement.resized(on("a"), 3, LIMITS, at=60.0)
    assert len({placement.resized(on("a"), 2, LIMITS, at=60.0 * i) for i in range(20)}) > 1


@pytest.mark.parametrize("choice", ["nearest", "random", "best"])
def test_a_node_that_is_gone_is_left(choice: Choice) -> None:
    """An executor on a node that may not be chosen any more goes to another one."""
    left = replace(LIMITS, nodes=("a", "b", "c"))
    found = Placement(APART, choice).resized(on("a", "d"), 2, left)
    assert found.executors == 2
    assert left.allows(found)


def test_lost_nodes_are_left_out_unless_too_few_are_left() -> None:
    """The least of executors comes before the suspicion that a node is lost."""
    assert Placement(APART).resized(on("a"), 2, LIMITS, room={"b": 0}) == on("a", "c")
    least = replace(LIMITS, min_executors=5)
    assert Placement(APART).resized(on("a"), 5, least, room={"b": 0}).executors == 5


@pytest.mark.parametrize("choice", ["nearest", "random", "best"])
@pytest.mark.parametrize("each", [None, 3])
def test_a_node_that_is_full_keeps_what_it_holds(choice: Choice, each: int | None) -> None:
    """More come to others, fewer may stay, and nothing is asked of it beyond what it gave."""
    limits = replace(LIMITS, nodes=("a", "b", "c"), executors_per_node=each)
    two = Allocation(2, nodes=(("a", 2),))
    found = Placement(None, choice).resized(two, 3, limits, room={"a": 2})
    assert dict(found.nodes).get("a") == 2
    assert found.executors == 3
    full = {"a": 2, "b": 0, "c": 1}
    assert Placement(None, choice).resized(two, 5, limits, room=full).nodes == (("a", 2), ("c", 1))
    assert Placement(None, choice).resized(two, 1, limits, room=full).executors == 1


def test_best_looks_at_sets_of_several_sizes_where_nodes_hold_more_and_less() -> None:
    """Three near nodes with one executor each are better than two that are far from each other."""
    roomy = replace(LIMITS, executors_per_node=2)
    found = Placement(APART, "best").resized(on("a"), 3, roomy, room={"a": 1, "b": 1, "c": 1, "e": 1, "d": 1})
    assert found == on("a", "b", "c")
    found = Placement(APART, "best").resized(on("a"), 3, roomy, room={"b": 1, "c": 1, "d": 0})
    assert found.nodes == (("a", 2), ("b", 1))


def test_best_grows_sets_of_nodes_that_hold_more_and_less() -> None:
    """Also where there are too many to look at, each set holds what is asked for."""
    names = tuple(f"n{i:02}" for i in range(40))
    limits = Limits(1, 40, nodes=names, executors_per_node=2)
    room = dict.fromkeys(names[::2], 1)
    found = Placement(LatencyMap(names), "best").resized(Allocation(1), 15, limits, room=room)
    assert found.executors == 15
    assert all(count <= room.get(node, 2) for node, count in found.nodes)


def test_more_than_the_nodes_hold_is_not_asked_for() -> None:
    """There are as many as fit."""
    small = replace(LIMITS, nodes=("a", "b"))
    assert Placement(APART).resized(on("a"), 4, small) == on("a", "b")


def test_where_the_nodes_hold_too_few_the_cluster_chooses() -> None:
    """What is asked for is within the limits all the same."""
    scarce = replace(LIMITS, min_executors=3, nodes=("a", "b"))
    found = Placement(APART).resized(on("a", "b"), 3, scarce)
    assert found == Allocation(3)
    assert scarce.allows(found)


def test_without_nodes_the_cluster_chooses() -> None:
    """Most clusters. Nothing outside the limits comes of it, whatever was asked for."""
    limits = Limits(2, 4, (0.5,))
    found = [Placement().resized(Allocation(2, 0.5), executors, limits).executors for executors in (0, 3, 99)]
    assert found == [2, 3, 4]


def test_an_unknown_way_to_choose_is_refused() -> None:
    """The message lists those there are."""
    with pytest.raises(ConfigurationError, match="nearest, random, best"):
        Placement(APART, "luck")  # type: ignore[arg-type]


@pytest.mark.parametrize("choice", ["nearest", "best"])
def test_the_first_executor_comes_to_the_node_nearest_to_the_driver(choice: Choice) -> None:
    """And so do the others, one after the other; the farthest from it goes first."""
    trips = {"home:a": 0.2, "home:b": 0.01, "home:c": 0.06, "a:b": 0.2, "a:c": 0.2, "b:c": 0.06}
    apart = LatencyMap.of([(*pair.split(":"), seconds) for pair, seconds in trips.items()], driver="home")  # type: ignore[misc]
    placement, limits = Placement(apart, choice), Limits(1, 3, nodes=("a", "b", "c"), executors_per_node=1)
    assert placement.resized(Allocation(1), 1, limits) == on("b")
    assert placement.resized(on("b"), 2, limits) == on("b", "c")
    assert placement.resized(on("a", "b", "c"), 1, limits) == on("b")


def test_fewer_than_the_limits_want_come_to_the_nodes_all_the_same() -> None:
    """Executors that died leave fewer than the least: one more is less than that, and the nodes hold the least."""
    limits = Limits(3, 4, nodes=("a", "b", "c"), executors_per_node=2)
    found = Placement().resized(Allocation(1, nodes=(("b", 1),)), 2, limits)
    assert limits.allows(found)
    assert (found.executors, sum(count for _, count in found.nodes)) == (3, 3)
