# SPDX-License-Identifier: Apache-2.0
"""A query whose executors are containers of a real YARN, scaled by `attach`. The tests tell one story, in order."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from tests.yarn.attached_query import AttachedQuery, attached_query

from penstock.adaptors.yarn_server.yarn_cluster import YarnCluster

pytestmark = pytest.mark.yarn

MOST = 6
ROOM = 4
"""Executors of 512 MB and 384 MB besides, in a queue of 4608 MB with an application master of 640 MB."""

ROOM_WITHOUT_A_NODE = 2
"""In the 3072 MB that the queue may take of two nodes."""


@pytest.fixture(scope="module")
def story(cluster: YarnCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttachedQuery]:
    """A query with one executor, and Penstock attached."""
    with attached_query(cluster, tmp_path_factory.mktemp("story"), most=MOST) as made:
        yield made


def test_shares_can_be_set_and_the_queue_is_known(story: AttachedQuery) -> None:
    """Control groups are used, and one sentence says that the queue gives less than is allowed."""
    story.until(lambda: any("the cluster gives at most" in note for note in story.scaler.notes))
    notes = story.scaler.notes
    assert not [note for note in notes if "CPU shares are not used" in note], notes
    (less,) = [note for note in notes if "the cluster gives at most" in note]
    assert f"at most {ROOM} executors now, and {MOST} are allowed" in less
    assert "queue root.streams" in less


def test_a_share_is_set_on_the_containers_processes(story: AttachedQuery) -> None:
    """The kernel holds the executor of a container to the share, while it runs."""
    story.decide(1, 0.25)
    story.until(lambda: story.capacity() == 0.25)


def test_executors_come_live(story: AttachedQuery) -> None:
    """A second and third executor start in containers beside the first, and are held as well; the query runs on."""
    before = story.pids()
    story.decide(3, 0.5)
    story.settle(3)
    story.until(lambda: story.capacity() == 1.5)
    assert before.items() <= story.pids().items()
    assert story.containers() == 4
    story.next_batches(1)


def test_what_the_queue_does_not_give_is_not_planned_for(story: AttachedQuery) -> None:
    """The policy is told the queue's limit, and a wish beyond it is cut down to what can be had."""
    story.decide(MOST, 0.5)
    assert story.policy.request is not None
    assert story.policy.request.limits.max_executors == ROOM
    story.settle(ROOM)
    assert story.port.asked() == ROOM
    last = [decision for decision in story.scaler.decisions if decision.is_change][-1]
    assert last.target.executors == ROOM


def test_chosen_executors_are_drained_and_their_containers_go(story: AttachedQuery) -> None:
    """Two go, two stay, nobody replaces them, and the ResourceManager has the containers back."""
    story.decide(2, 0.5)
    story.settle(2)
    story.until(lambda: story.containers() == 3)
    assert story.port.asked() == 2
    story.next_batches(2)
    assert len(story.hosts()) == 2


@pytest.mark.kill
def test_a_container_that_is_killed_is_replaced_and_held(story: AttachedQuery) -> None:
    """Spark starts another executor in its place; it joins the group of the share."""
    gone, pid = next(iter(story.pids().items()))
    os.kill(pid, signal.SIGKILL)
    story.until(lambda: gone not in story.hosts() and len(story.hosts()) == 2)
    story.until(lambda: story.capacity() == 1.0 and len(story.pids()) == 2)


def test_a_kill_does_not_lower_the_wanted_total(story: AttachedQuery) -> None:
    """An executor that is removed without a drain is replaced while the total says so, and not when it was lowered."""
    victim = next(iter(story.hosts()))
    story.port.kill([victim])
    total = story.port.asked()
    # The scaler may have raised it already: while the killed one is on its way out, one more has to be asked for.
    assert total is not None
    assert total >= 2
    story.until(lambda: victim not in story.hosts() and len(story.hosts()) == 2)
    story.until(lambda: story.port.asked() == 2)


@pytest.mark.kill
def test_a_resource_manager_that_is_away_costs_nothing(story: AttachedQuery) -> None:
    """Batches go on, executors are seen, the fault is told, and a share is set; afterwards all is as before."""
    manager = story.cluster.manager_pid
    os.kill(manager, signal.SIGSTOP)
    try:
        story.until(lambda: any("does not answer" in fault for fault in story.missing()))
        story.decide(2, 0.25)
        story.until(lambda: story.capacity() == 0.5)
        story.next_batches(2)
    finally:
        os.kill(manager, signal.SIGCONT)
    story.until(lambda: not any("does not answer" in fault for fault in story.missing()))


@pytest.mark.kill
def test_executors_of_a_lost_node_come_elsewhere(story: AttachedQuery) -> None:
    """A NodeManager dies, and with its node goes a third of the queue; those above that come when the node is back."""
    master = story.cluster.ask(f"/apps/{story.application}")["app"]["amHostHttpAddress"].rpartition(":")[0]
    story.decide(3, 1.0)
    story.settle(3)
    lost = next(host for host in story.hosts().values() if host != master)
    os.kill(story.cluster.node_pid(lost), signal.SIGKILL)
    try:
        story.until(lambda: story.cluster.node_states()[lost] == "LOST")
        story.until(lambda: lost not in story.hosts().values() and len(story.hosts()) == ROOM_WITHOUT_A_NODE)
        story.next_batches(2)
    finally:
        story.cluster.start_node(lost)
    story.settle(3)
