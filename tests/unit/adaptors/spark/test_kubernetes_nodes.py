# SPDX-License-Identifier: Apache-2.0
"""Node selectors and affinity for Kubernetes, as data."""

from __future__ import annotations

import pytest
import yaml

from penstock.adaptors.spark.kubernetes_nodes import executor_pod_template, lacking_nodes, node_selector
from penstock.errors import ConfigurationError


def test_one_node_is_a_selector_of_spark() -> None:
    """Spark hands every setting with this prefix on as a node selector."""
    assert node_selector("edge-1") == {"spark.kubernetes.executor.node.selector.kubernetes.io/hostname": "edge-1"}


def test_several_nodes_are_required_and_shared_out_one_each() -> None:
    """Only these nodes will do, and two executors of the application keep apart."""
    template = executor_pod_template(("edge-1", "edge-2"), application="spark-7")
    text = yaml.safe_dump(template)
    spec = yaml.safe_load(text)["spec"]
    (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term == {
        "matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["edge-1", "edge-2"]}]
    }
    (apart,) = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart["topologyKey"] == "kubernetes.io/hostname"
    assert apart["labelSelector"]["matchLabels"] == {"spark-role": "executor", "spark-app-selector": "spark-7"}
    assert "containers" not in spec, "the image and the command stay Spark's"


def test_several_executors_on_a_node_only_spread_out() -> None:
    """Without one per node there is no rule that could leave an executor without a place."""
    spec = executor_pod_template(("edge-1",), is_one_per_node=False)["spec"]
    assert "podAntiAffinity" not in spec["affinity"]
    assert spec["topologySpreadConstraints"][0]["whenUnsatisfiable"] == "ScheduleAnyway"


def test_the_next_executors_go_where_some_are_missing() -> None:
    """A node that has what it should have is left out of the next template."""
    assert lacking_nodes({"a": 1, "b": 2, "c": 0}, {"a": 1, "b": 1}) == ("b",)


@pytest.mark.parametrize("nodes", [(), ("",), ("a", " "), "edge-1"])
def test_nodes_without_names_are_refused(nodes: tuple[str, ...]) -> None:
    """An empty selector would mean any node."""
    with pytest.raises(ConfigurationError, match="nodes"):
        executor_pod_template(nodes)
