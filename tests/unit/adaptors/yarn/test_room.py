# SPDX-License-Identifier: Apache-2.0
"""How many executors a YARN cluster gives, worked out of what a real ResourceManager (Hadoop 3.5.0) said.

It was recorded while an application had one executor of 896 MB and 1 core and a master of 640 MB, in a queue that may
take 4608 MB and 7 cores of three nodes with 2560 MB and 4 cores each. One user may take 1.2 times the 3072 MB and 4
cores that are the queue's own. Asked for six executors, the cluster then gave four.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from penstock.adaptors.yarn.application_room import ApplicationRoom
from penstock.adaptors.yarn.resource_manager import NotKnownError, ResourceManager
from penstock.adaptors.yarn.room import ClusterAnswers, executor_room
from penstock.errors import MetricSourceError

RECORDED = Path(__file__).with_name("recorded")
MASTER = "container_1794989311368_0001_01_000001"
APPLICATION = "application_1794989311368_0001"


def recorded(name: str) -> Any:
    """One of the answers."""
    return json.loads((RECORDED / f"{name}.json").read_text())


def answers(**changed: Any) -> ClusterAnswers:
    """All answers, some of them replaced."""
    found = {name: recorded(name) for name in ("app", "containers", "nodes", "scheduler")}
    return ClusterAnswers(**{**found, "master": MASTER, "counts_cores": True, **changed})


def with_queue(**changed: Any) -> dict[str, Any]:
    """The scheduler's answer with some values of the queue replaced."""
    scheduler: dict[str, Any] = recorded("scheduler")
    scheduler["scheduler"]["schedulerInfo"]["queues"]["queue"][0].update(changed)
    return scheduler


def test_a_queue_bounds_the_executors() -> None:
    """The master takes 640 of 4608 MB; four executors of 896 MB fit beside it, as was seen."""
    room = executor_room(answers(scheduler=with_queue(userLimitFactor=100.0)))
    assert room is not None
    assert room.executors == 4
    assert room.reason == "queue root.streams may take 4608 MB and 7 cores in all; an executor takes 896 MB and 1 core"


def test_a_users_part_bounds_the_executors_and_the_last_may_go_beyond() -> None:
    """640 + 3 x 896 MB are within 3686 MB, so one more is given; in a smaller part fewer are."""
    given = executor_room(answers())
    assert given is not None
    assert given.executors == 4
    room = executor_room(answers(scheduler=with_queue(userLimitFactor=0.75)))
    assert room is not None
    assert room.executors == 2
    assert room.reason.startswith("user root may take 2304 MB and 3 cores in queue root.streams")


def test_a_user_beyond_their_part_gets_no_more() -> None:
    """What they have is theirs, and counts."""
    room = executor_room(answers(scheduler=with_queue(userLimitFactor=0.25)))
    assert room is not None
    assert room.executors == 1


def test_no_factor_means_no_bound_for_a_user() -> None:
    """The factor -1 switches it off."""
    room = executor_room(answers(scheduler=with_queue(userLimitFactor=-1.0)))
    assert room is not None
    assert room.reason.startswith("queue root.streams")


def test_nodes_bound_the_executors() -> None:
    """An executor has to fit on one node: what is left here and there does not add up."""
    nodes = recorded("nodes")
    for node in nodes["nodes"]["node"]:
        node["availMemoryMB"] = 895
    room = executor_room(answers(nodes=nodes))
    assert room is not None
    assert (room.executors, room.reason) == (1, "no node has room for one more; an executor takes 896 MB and 1 core")


def test_nodes_that_are_lost_or_have_another_label_give_nothing() -> None:
    """Executors without a label come to running nodes without one."""
    nodes = recorded("nodes")
    first, second, third = nodes["nodes"]["node"]
    first["state"], second["nodeLabels"], third["availMemoryMB"] = "LOST", ["gpu"], 100
    room = executor_room(answers(nodes=nodes))
    assert room is not None
    assert room.executors == 1


def labelled(**of_queue: Any) -> ClusterAnswers:
    """All answers, with a label on two nodes, of which the queue may take 1800 MB, and 900 MB are its own."""
    nodes, scheduler = recorded("nodes"), with_queue(**of_queue)
    for node in nodes["nodes"]["node"][1:]:
        node["nodeLabels"] = ["gpu"]
    queue = scheduler["scheduler"]["schedulerInfo"]["queues"]["queue"][0]
    partition = copy.deepcopy(queue["capacities"]["queueCapacitiesByPartition"][0])
    most, own = {"memory": 1800, "vCores": 4}, {"memory": 900, "vCores": 2}
    partition.update(partitionName="gpu", effectiveMaxResource=most, effectiveMinResource=own)
    queue["capacities"]["queueCapacitiesByPartition"].append(partition)
    return answers(nodes=nodes, scheduler=scheduler)


def test_a_label_is_looked_for_on_nodes_and_in_the_queue() -> None:
    """Where executors ask for a label, what the queue may take of such nodes counts, and such nodes alone."""
    room = executor_room(labelled(userLimitFactor=100.0), "gpu")
    assert room is not None
    assert room.executors == 3
    assert "may take 1800 MB and 4 cores in all with the label gpu" in room.reason


def test_a_users_part_is_that_of_the_label() -> None:
    """One executor is within the 900 MB, a second may go beyond them; what they have elsewhere does not count."""
    room = executor_room(labelled(userLimitFactor=1.0), "gpu")
    assert room is not None
    assert room.executors == 1 + 2
    room = executor_room(labelled(userLimitFactor=0.5), "gpu")
    assert room is not None
    assert room.executors == 1 + 1
    assert "user root may take 450 MB" in room.reason


def test_a_label_may_be_the_queues_own() -> None:
    """Executors that ask for no label get nodes with the default one of their queue."""
    room = executor_room(labelled(userLimitFactor=100.0, defaultNodeLabelExpression="gpu"))
    assert room is not None
    assert room.executors == 3
    assert "with the label gpu" in room.reason


def test_cores_do_not_bound_where_they_are_not_counted() -> None:
    """Without them memory alone decides, also below zero cores left."""
    nodes = recorded("nodes")
    for node in nodes["nodes"]["node"]:
        node["availableVirtualCores"] = -3
    room = executor_room(answers(nodes=nodes, counts_cores=False))
    assert room is not None
    assert room.executors == 4
    assert "core" not in room.reason


def test_queues_above_bound_the_executors_too() -> None:
    """What brothers of the queue have taken of their parent's most is not there for it."""
    scheduler = recorded("scheduler")
    root = scheduler["scheduler"]["schedulerInfo"]
    leaf = root["queues"]["queue"][0]
    parent = copy.deepcopy(leaf)
    parent.update(queueName="teams", queuePath="root.teams", users={}, queues={"queue": [leaf]})
    leaf["queuePath"] = "root.teams.streams"
    parent["resources"]["resourceUsagesByPartition"][0]["used"] = {"memory": 4000, "vCores": 5}
    root["queues"]["queue"][0] = parent
    app = recorded("app")
    app["app"]["queue"] = "root.teams.streams"
    room = executor_room(answers(scheduler=scheduler, app=app))
    assert room is not None
    assert (room.executors, room.reason.split(" may")[0]) == (1, "queue root.teams")


def test_without_executors_nothing_is_known() -> None:
    """What an executor takes shows when there is one."""
    containers = recorded("containers")
    del containers["container"][1]
    assert executor_room(answers(containers=containers)) is None


class FakeManager(ResourceManager):
    """Answers with what was recorded."""

    def __init__(self, overview: Any) -> None:
        super().__init__([])
        self.overview = overview
        self.paths: list[str] = []

    def get(self, path: str) -> dict[str, Any]:
        """The recorded answer to a path."""
        self.paths.append(path)
        known = {
            f"/apps/{APPLICATION}": "app",
            f"/apps/{APPLICATION}/appattempts": "attempts",
            f"/apps/{APPLICATION}/appattempts/appattempt_1794989311368_0001_000001/containers": "containers",
            "/nodes?states=RUNNING": "nodes",
            "/scheduler": "scheduler",
        }
        if path != "/scheduler-overview":
            return dict(recorded(known[path]))
        if isinstance(self.overview, Exception):
            raise self.overview
        return dict(self.overview)


@pytest.mark.parametrize(
    "overview",
    [
        {"scheduler": {"schedulingResourceType": "[memory-mb (unit=Mi), vcores]"}},
        {"schedulingResourceType": "[memory-mb (unit=Mi)]"},
        NotKnownError("an older version", target="yarn"),
    ],
)
def test_an_application_finds_its_way_through_the_answers(overview: Any) -> None:
    """Master, containers, nodes and queue are asked for, and what the scheduler counts, where it can be asked."""
    room = ApplicationRoom(FakeManager(overview), APPLICATION, {})()
    assert room is not None
    assert room.executors == 4


def test_what_the_scheduler_counts_is_asked_once() -> None:
    """It does not change while a ResourceManager runs."""
    manager = FakeManager({"schedulingResourceType": "[memory-mb (unit=Mi), vcores]"})
    room = ApplicationRoom(manager, APPLICATION, {})
    room(), room()
    assert manager.paths.count("/scheduler-overview") == 1


def test_an_answer_that_cannot_be_read_is_told() -> None:
    """No wrong answer of a ResourceManager ends anything."""
    with pytest.raises(MetricSourceError, match="cannot be read"):
        ApplicationRoom(FakeManager({"nothing": "here"}), APPLICATION, {})()
