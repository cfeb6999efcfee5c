# SPDX-License-Identifier: Apache-2.0
"""Executors on chosen nodes of Kubernetes: node selectors and affinity, as plain data for Spark and a pod template.

Kubernetes places pods by what they ask for. Spark reads the executors' pod template anew for each executor that it
builds, so a template that is rewritten before executors are asked for places the new ones, and leaves the others. (Read
in Spark's sources, `KubernetesExecutorBuilder.buildFromFeatures`; not tried on a cluster.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.errors import ConfigurationError

HOSTNAME = "kubernetes.io/hostname"
"""The label by which Kubernetes names every node."""
_SELECTOR_PREFIX = "spark.kubernetes.executor.node.selector."
_EXECUTOR_LABELS = {"spark-role": "executor"}


def node_selector(node: str) -> dict[str, str]:
    """Return the Spark setting that puts all executors of an application on one node, from its start to its end.

    Examples
    --------
    >>> node_selector("edge-1")
    {'spark.kubernetes.executor.node.selector.kubernetes.io/hostname': 'edge-1'}
    """
    _check(node)
    return {f"{_SELECTOR_PREFIX}{HOSTNAME}": node}


def lacking_nodes(wanted: Mapping[str, int], present: Mapping[str, int]) -> tuple[str, ...]:
    """Return the nodes that have fewer executors than they should: where the next ones are to go."""
    return tuple(node for node, count in wanted.items() if count > present.get(node, 0))


def executor_pod_template(
    nodes: Sequence[str], *, application: str | None = None, is_one_per_node: bool = True
) -> dict[str, Any]:
    """Return a pod template whose executors may run on these nodes alone.

    As a YAML file it is Spark's setting ``spark.kubernetes.executor.podTemplateFile``.

    Parameters
    ----------
    nodes
        The nodes' names, as their label ``kubernetes.io/hostname`` has them.
    application
        Spark's application id. Executors of other applications then do not count for `is_one_per_node`.
    is_one_per_node
        Whether executors keep away from each other, so that each node gets at most one. Otherwise they only spread out.

    Raises
    ------
    ConfigurationError
        No nodes were given, or one without a name.
    """
    if not nodes or isinstance(nodes, str):  # the letters of a name are no nodes
        raise ConfigurationError(
            "nodes: give the nodes for the executors, at least one, as a list or tuple", field="nodes"
        )
    for node in nodes:
        _check(node)
    labels = {**_EXECUTOR_LABELS, **({} if application is None else {"spark-app-selector": application})}
    affinity: dict[str, Any] = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": list(nodes)}]}
                ]
            }
        }
    }
    spec: dict[str, Any] = {"affinity": affinity}
    if is_one_per_node:
        affinity["podAntiAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": labels}, "topologyKey": HOSTNAME}
            ]
        }
    else:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": HOSTNAME,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": labels},
            }
        ]
    return {"apiVersion": "v1", "kind": "Pod", "spec": spec}


def _check(node: str) -> None:
    if not node.strip():
        raise ConfigurationError("nodes: a node has no name; give the label kubernetes.io/hostname", field="nodes")
