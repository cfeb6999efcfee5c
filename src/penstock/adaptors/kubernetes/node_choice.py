# SPDX-License-Identifier: Apache-2.0
"""Executors on chosen nodes of Kubernetes, by node affinity in the executors' pod template.

Spark reads the template anew for each executor that it builds (`KubernetesExecutorBuilder.buildFromFeatures`). So a
template that is rewritten before executors are asked for places the new ones, and leaves the others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from penstock.adaptors.kubernetes.executor_pods import ROLE_LABEL
from penstock.adaptors.kubernetes.pod_watch import PodWatch
from penstock.adaptors.private_file import write_private
from penstock.errors import ConfigurationError, MetricSourceError
from penstock.records import ExecutorState

TEMPLATE_SETTING = "spark.kubernetes.executor.podTemplateFile"
HOSTNAME = "kubernetes.io/hostname"
"""The label by which Kubernetes names every node."""
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def on_nodes(template: Mapping[str, Any], nodes: Sequence[str]) -> dict[str, Any]:
    """Return the pod template with the further demand that executors run on these nodes, spread out over them.

    What it demands of nodes already holds as well.
    """
    made = deepcopy(dict(template))
    spec = made.setdefault("spec", {})
    affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {}).setdefault(_REQUIRED, {})
    demand = {"key": HOSTNAME, "operator": "In", "values": list(nodes)}
    # One of the terms has to hold, and of a term all expressions.
    terms = affinity.get("nodeSelectorTerms") or [{}]
    affinity["nodeSelectorTerms"] = [
        {**term, "matchExpressions": [*(term.get("matchExpressions") or ()), demand]} for term in terms
    ]
    spec.setdefault("topologySpreadConstraints", []).append(
        {
            "maxSkew": 1,
            "topologyKey": HOSTNAME,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {ROLE_LABEL: "executor"}},
        }
    )
    return made


class NodeTemplate:
    """An executors' pod template of Penstock's own, rewritten as nodes are chosen.

    Parameters
    ----------
    path
        The file that Spark reads. What it is made from is kept beside it. Both are private: a template may name
        passwords in the environment of executors.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._base = json.loads(_base_of(path).read_text(encoding="utf-8"))
        self._nodes: tuple[str, ...] = ()

    @classmethod
    def made_from(cls, given: str | None, path: Path) -> NodeTemplate:
        """Make one from the user's own template, if there is one.

        Raises
        ------
        ConfigurationError
            The user's template cannot be read here.
        """
        base: Any = {"apiVersion": "v1", "kind": "Pod"}
        if given is not None:
            try:
                base = yaml.safe_load(Path(given.removeprefix("file://")).read_text(encoding="utf-8"))
            except (OSError, ValueError, yaml.YAMLError) as fault:
                raise ConfigurationError(
                    f"{TEMPLATE_SETTING}: to choose nodes, Penstock adds to the template, and cannot read {given}: "
                    f"{fault}; name a file on this host",
                    field=TEMPLATE_SETTING,
                ) from fault
        if not isinstance(base, dict):
            raise ConfigurationError(f"{TEMPLATE_SETTING}: {given} is no pod template", field=TEMPLATE_SETTING)
        write_private(_base_of(path), json.dumps(base))
        return cls(path)

    @classmethod
    def of_application(cls, conf: Mapping[str, str]) -> NodeTemplate | None:
        """Return the one that an application was started with; None: its template is not one of these."""
        path = conf.get(TEMPLATE_SETTING)
        return None if path is None or not _base_of(Path(path)).exists() else cls(Path(path))

    def point_at(self, nodes: Sequence[str]) -> None:
        """Have executors that are built from now on demand these nodes."""
        if tuple(nodes) == self._nodes:
            return
        write_private(self._path, json.dumps(on_nodes(self._base, nodes)))  # JSON is YAML, too
        self._nodes = tuple(nodes)


def on_their_nodes(
    read_executors: Callable[[], tuple[ExecutorState, ...]], watch: PodWatch | None
) -> Callable[[], tuple[ExecutorState, ...]]:
    """Return the executors with the nodes of their pods as hosts: by themselves they report the pod's address.

    The call raises MetricSourceError where the pods are not seen.
    """

    def read() -> tuple[ExecutorState, ...]:
        if watch is None or watch.seen is None or watch.is_stale:
            raise MetricSourceError(
                "the nodes of executors are not known: their pods are not seen", target="kubernetes"
            )
        nodes = {pod.executor_id: pod.node for pod in watch.seen.pods}
        return tuple(
            replace(executor, host=nodes.get(executor.executor_id) or executor.host) for executor in read_executors()
        )

    return read


def _base_of(path: Path) -> Path:
    return path.with_suffix(".base.json")
