# SPDX-License-Identifier: Apache-2.0
"""Executors on chosen nodes, by the pod template that Spark reads for each of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.adaptors.kubernetes.pods import FakePods, SteppedClock

from penstock.adaptors.kubernetes.executor_pods import PodCpu
from penstock.adaptors.kubernetes.node_choice import NodeTemplate, on_nodes, on_their_nodes
from penstock.adaptors.kubernetes.pod_watch import PodWatch
from penstock.errors import ConfigurationError, MetricSourceError
from penstock.records import ExecutorState


def terms(template: dict[str, Any]) -> list[dict[str, Any]]:
    """What nodes have to have: one of these."""
    required = template["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    found: list[dict[str, Any]] = required["nodeSelectorTerms"]
    return found


def named(*nodes: str) -> dict[str, Any]:
    """The demand for nodes by name."""
    return {"key": "kubernetes.io/hostname", "operator": "In", "values": list(nodes)}


def test_nodes_are_demanded_beside_what_the_user_demands() -> None:
    """The user's own terms hold as well, and the template that was given is left as it is."""
    disk = {"key": "disk", "operator": "In", "values": ["ssd"]}
    given = {
        "spec": {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [disk]}, {"matchFields": []}]
                    }
                }
            },
            "containers": [{"name": "spark-kubernetes-executor"}],
        }
    }
    before = json.dumps(given)
    made = on_nodes(given, ("a", "b"))
    assert terms(made) == [
        {"matchExpressions": [disk, named("a", "b")]},
        {"matchFields": [], "matchExpressions": [named("a", "b")]},
    ]
    assert made["spec"]["containers"] == given["spec"]["containers"]
    assert json.dumps(given) == before


def test_a_template_is_rewritten_as_nodes_are_chosen(tmp_path: Path) -> None:
    """Each choice takes the place of the one before; the user's template is not touched."""
    given, own = tmp_path / "mine.yaml", tmp_path / "executor-pod.json"
    given.write_text("kind: Pod\nspec:\n  nodeSelector: {disk: ssd}\n")
    made = NodeTemplate.made_from(f"file://{given}", own)
    made.point_at(("a", "b"))
    assert terms(json.loads(own.read_text())) == [{"matchExpressions": [named("a", "b")]}]
    NodeTemplate(own).point_at(("c",))
    written = json.loads(own.read_text())
    assert terms(written) == [{"matchExpressions": [named("c")]}]
    assert written["spec"]["nodeSelector"] == {"disk": "ssd"}
    assert "affinity" not in given.read_text()


def test_a_template_is_for_this_user_alone(tmp_path: Path) -> None:
    """The user's own may name passwords in the environment of executors, and so what is made of it does."""
    given, own = tmp_path / "mine.yaml", tmp_path / "executor-pod.json"
    given.write_text("spec: {containers: [{name: c, env: [{name: PASSWORD, value: abra}]}]}")
    given.chmod(0o600)
    NodeTemplate.made_from(str(given), own).point_at(("a",))
    made = [path for path in tmp_path.iterdir() if path != given]
    assert [path.name for path in made if "abra" in path.read_text()] == [path.name for path in made]
    assert {path.stat().st_mode & 0o777 for path in made} == {0o600}


@pytest.mark.parametrize("text", [None, "[1, 2]", "{"])
def test_a_template_that_cannot_be_read_is_an_error_that_names_the_setting(tmp_path: Path, text: str | None) -> None:
    """Without the user's own template Penstock cannot add to it."""
    given = tmp_path / "mine.yaml"
    if text is not None:
        given.write_text(text)
    with pytest.raises(ConfigurationError, match=r"spark\.kubernetes\.executor\.podTemplateFile"):
        NodeTemplate.made_from(str(given), tmp_path / "own.json")


def test_executors_are_on_the_nodes_of_their_pods() -> None:
    """Executors report the address of their pod; its node takes the place. Without pods nothing is known."""
    executors = (ExecutorState("1", "10.0.0.7", 1, True, 0, 0.0), ExecutorState("9", "10.0.0.9", 1, True, 0, 0.0))
    watch = PodWatch("counts", FakePods("1"), PodCpu(1.0, 1.0), clock=SteppedClock())
    with pytest.raises(MetricSourceError, match="pods are not seen"):
        on_their_nodes(lambda: executors, watch)()
    watch.look()
    assert [one.host for one in on_their_nodes(lambda: executors, watch)()] == ["node1", "10.0.0.9"]
