# SPDX-License-Identifier: Apache-2.0
"""What the servers of a YARN on this machine read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from penstock.adaptors.yarn_server.keeper import read_plan, write_plan
from penstock.adaptors.yarn_server.site_files import CLIENT_CONF, Queue, YarnPlan, conf_of
from penstock.errors import ConfigurationError

PLAN = YarnPlan(
    nodes=2,
    cores_per_node=4,
    memory_mib_per_node=2048,
    queues=(Queue("streams", 40.0, 60.0, 2.0), Queue("others", 60.0)),
    properties={"yarn.note": "a < b"},
)


def properties(path: Path) -> dict[str, str]:
    """The properties of one of Hadoop's files."""
    return {str(one.findtext("name")): str(one.findtext("value")) for one in ElementTree.parse(path).getroot()}


def test_each_node_has_an_address_and_folders_of_its_own(tmp_path: Path) -> None:
    """They keep their usual ports, and do not write into each other's folders."""
    PLAN.write(tmp_path)
    sites = [properties(tmp_path / conf_of(node) / "yarn-site.xml") for node in PLAN.node_names]
    for name in ("hostname", "address", "local-dirs", "log-dirs"):
        assert len({site[f"yarn.nodemanager.{name}"] for site in sites}) == 2
    assert {site["yarn.resourcemanager.hostname"] for site in sites} == {"127.0.0.1"}
    assert all(site["yarn.nodemanager.resource.memory-mb"] == "2048" for site in sites)


def test_queues_and_further_properties_are_written(tmp_path: Path) -> None:
    """Queues go to the scheduler's file, and what the user adds to the site's."""
    PLAN.write(tmp_path)
    scheduler = properties(tmp_path / CLIENT_CONF / "capacity-scheduler.xml")
    assert scheduler["yarn.scheduler.capacity.root.queues"] == "streams,others"
    assert scheduler["yarn.scheduler.capacity.root.streams.maximum-capacity"] == "60"
    assert scheduler["yarn.scheduler.capacity.root.streams.user-limit-factor"] == "2"
    assert properties(tmp_path / CLIENT_CONF / "yarn-site.xml")["yarn.note"] == "a < b"


def test_labels_are_switched_on_and_every_queue_has_its_part(tmp_path: Path) -> None:
    """Of nodes with a label, and may take all of them; without labels they are off."""
    replace(PLAN, labels={"127.0.0.3": "fast"}).write(tmp_path)
    scheduler = properties(tmp_path / CLIENT_CONF / "capacity-scheduler.xml")
    path = "yarn.scheduler.capacity.root.streams.accessible-node-labels.fast"
    assert (scheduler[f"{path}.capacity"], scheduler[f"{path}.maximum-capacity"]) == ("40", "100")
    assert properties(tmp_path / CLIENT_CONF / "yarn-site.xml")["yarn.node-labels.enabled"] == "true"
    PLAN.write(tmp_path)
    assert properties(tmp_path / CLIENT_CONF / "yarn-site.xml")["yarn.node-labels.enabled"] == "false"


@pytest.mark.parametrize(
    ("labels", "fault"),
    [({"127.0.0.9": "fast"}, "give one of 127.0.0.2 to 127.0.0.3"), ({"127.0.0.2": "a b"}, "no label")],
)
def test_a_label_that_cannot_be_is_refused(labels: dict[str, str], fault: str) -> None:
    """Of a node that there is not, or with letters that YARN does not take."""
    with pytest.raises(ConfigurationError, match=f"--label: .*{fault}"):
        YarnPlan(labels=labels)


def test_nobody_else_may_enter_the_folder(tmp_path: Path) -> None:
    """Containers' files are the user's own."""
    PLAN.write(tmp_path / "cluster")
    assert (tmp_path / "cluster").stat().st_mode & 0o077 == 0


def test_a_keeper_reads_the_plan_that_was_written(tmp_path: Path) -> None:
    """Nothing of it is lost on the way to another process."""
    write_plan(tmp_path, PLAN)
    assert read_plan(tmp_path) == PLAN
