# SPDX-License-Identifier: Apache-2.0
"""What every cluster must do, checked on any cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.errors import ActuationRejectedError
from penstock.ports import Cluster
from penstock.records import Allocation

Until = Callable[[Callable[[], object]], object]


def check_cluster(cluster: Cluster, until: Until, *, nodes: Sequence[str] = ()) -> None:
    """Check that a cluster says what can be had, gives it, and refuses the rest with its reason.

    In the end the application has as many executors as before, and no CPU cap.

    Parameters
    ----------
    cluster
        Of a running application that somebody has asked for executors, with room for one more. Nobody else scales it.
    until
        Waits (or moves a virtual clock) until what it is given is so, and raises where that takes too long.
    nodes
        Some that executors can run on.
    """
    before = cluster.asked()
    assert before is not None, "nobody has asked for executors"
    until(lambda: _are_there(cluster, before))
    for check in CLUSTER_CHECKS:
        check(cluster, until, nodes)
        assert cluster.asked() == before, f"{check.__name__} has left {cluster.asked()} executors, not {before}"
    until(lambda: _are_there(cluster, before))


def _says_what_can_be_had(cluster: Cluster, until: Until, nodes: Sequence[str]) -> None:
    del until, nodes
    assert cluster.refusal() is None, f"executors cannot be scaled: {cluster.refusal()}"
    room = cluster.room()
    if room is not None:
        has = len(cluster.census().active)
        assert room.executors >= has, f"there are {has} executors, and {room.executors} can be had"
        assert room.reason, "why no more executors can be had is not said"
    for what, why_not in (("nodes", cluster.nodes.why_none), ("CPU shares", cluster.why_no_shares)):
        assert why_not is None or why_not.strip(), f"why {what} cannot be had is not said"
    assert cluster.nodes.why_none is None or not cluster.nodes.names, "nodes are named, and cannot be chosen"


def _gives_replaces_and_drains(cluster: Cluster, until: Until, nodes: Sequence[str]) -> None:
    del nodes
    before = cluster.asked() or 0
    there = set(cluster.census().active)

    def added() -> str:
        active = set(cluster.census().active)
        assert there <= active, "an executor that was there went as another came"
        assert active - there, "asking for less has ended an executor"
        return min(active - there)

    cluster.ask(before + 1)
    until(lambda: _are_there(cluster, before + 1))
    lost = added()
    cluster.kill([lost])
    assert cluster.asked() == before + 1, "a kill has changed how many are asked for"
    until(lambda: lost not in cluster.census().active and _are_there(cluster, before + 1))
    cluster.ask(before)
    goes = added()
    if cluster.can_drain:
        cluster.drain(goes, "the check says so")
    else:
        cluster.kill([goes])
    until(lambda: _are_there(cluster, before))
    assert set(cluster.census().active) == there, "another executor went than the one that was chosen"


def _takes_nodes_or_says_why_not(cluster: Cluster, until: Until, nodes: Sequence[str]) -> None:
    del until
    why_none = cluster.nodes.why_none
    if why_none is None:
        if nodes:
            cluster.choose(nodes)
        return
    _refuses(lambda: cluster.choose(nodes or ("node",)), why_none)


def _takes_shares_or_says_why_not(cluster: Cluster, until: Until, nodes: Sequence[str]) -> None:
    del until, nodes
    wanted = Allocation(cluster.asked() or 1, 1.0)
    if cluster.why_no_shares is not None:
        _refuses(lambda: cluster.resize(wanted), cluster.why_no_shares)
        return
    cluster.resize(wanted, is_starting=True)
    cluster.resize(wanted)
    assert cluster.share_refusal() is None, f"a whole share will not come about: {cluster.share_refusal()}"
    cluster.resize(None)


def _releases_twice(cluster: Cluster, until: Until, nodes: Sequence[str]) -> None:
    del until, nodes
    cluster.release()
    cluster.release()


def _are_there(cluster: Cluster, executors: int) -> bool:
    census = cluster.census()
    return len(census.active) == executors and not census.leaving


def _refuses(call: Callable[[], None], why: str) -> None:
    said = None
    try:
        call()
    except ActuationRejectedError as refused:
        said = str(refused)
    assert said is not None, f"it was taken, though it cannot be had: {why}"
    assert why in said, f"it was refused by {said}, and not because {why}"


CLUSTER_CHECKS = (
    _says_what_can_be_had,
    _gives_replaces_and_drains,
    _takes_nodes_or_says_why_not,
    _takes_shares_or_says_why_not,
    _releases_twice,
)
