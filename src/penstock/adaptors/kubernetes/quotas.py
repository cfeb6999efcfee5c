# SPDX-License-Identifier: Apache-2.0
"""How many executors the quotas of a namespace allow, from what the API says about quotas and pods.

A quota (https://kubernetes.io/docs/concepts/policy/resource-quotas/) bounds the sum over all pods of the namespace that
have not ended, those of others too. A pod that would go beyond it is not made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from penstock.adaptors.kubernetes.quantities import as_cpu, as_memory, bytes_of, cores_of
from penstock.records import ExecutorRoom

Spec = Mapping[str, Any]
_SAME = {"cpu": "requests.cpu", "memory": "requests.memory", "count/pods": "pods"}
"""Other names of what a quota bounds."""
_COUNTED = ("requests.cpu", "requests.memory", "limits.cpu", "limits.memory", "pods")


def executor_room(quotas: Iterable[Mapping[str, Any]], another: Spec, pods: Sequence[Spec]) -> ExecutorRoom | None:
    """Return how many executors there can be, each with all that Spark asks for; None: no quota bounds them.

    Parameters
    ----------
    quotas
        Of the namespace, as the API describes them.
    another
        The spec of a pod for another executor.
    pods
        The specs of the executors' pods that have not ended. They may have less than what was asked for, by their CPU
        share, and are to be able to have it again. What they have beyond it, such as memory, they keep.
    """
    bounds = (bound for quota in quotas if _counts(quota, another) for bound in _bounds(quota, another, pods))
    least = min(bounds, key=lambda bound: bound[0], default=None)
    return None if least is None else ExecutorRoom(*least)


def _bounds(quota: Mapping[str, Any], another: Spec, pods: Sequence[Spec]) -> Iterator[tuple[int, str]]:
    """Each thing that a quota bounds: how many executors it allows in all, and what to say to the user."""
    status = quota.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    for key, text in hard.items():
        kind = _SAME.get(key, key)
        if kind not in _COUNTED or key not in used:  # where nothing is counted yet, nothing is known
            continue
        takes = _amount(another, kind)
        if not takes:
            continue
        own = [_amount(pod, kind) for pod in pods]
        others = max(0.0, _number(kind, used[key]) - sum(own))
        beyond = sum(max(0.0, amount - takes) for amount in own)
        most = max(0, int((_number(kind, text) - others - beyond) / takes + 1e-9))
        name, space = quota["metadata"]["name"], quota["metadata"].get("namespace", "")
        yield (
            most,
            f"quota {name} of namespace {space} has {text} of {key}, of which others use {_text(kind, others)}; an "
            f"executor takes {_text(kind, takes)}",
        )


def _amount(spec: Spec, kind: str) -> float:
    """What a pod takes of something that quotas bound."""
    if kind == "pods":
        return 1.0
    part, resource = kind.split(".")

    def of(containers: Iterable[Mapping[str, Any]]) -> list[float]:
        texts = (((one.get("resources") or {}).get(part) or {}).get(resource) for one in containers)
        return [_number(kind, text) for text in texts if text is not None]

    # https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers
    first = spec.get("initContainers") or ()
    beside = [one for one in first if one.get("restartPolicy") == "Always"]  # sidecars, which go on running
    before = [one for one in first if one.get("restartPolicy") != "Always"]
    running = sum(of([*spec["containers"], *beside]))
    together = max([running, *(amount + sum(of(beside)) for amount in of(before))])
    overhead = (spec.get("overhead") or {}).get(resource)
    return together + (0.0 if overhead is None else _number(kind, overhead))


def _number(kind: str, text: object) -> float:
    if kind.endswith("memory"):
        return float(bytes_of(str(text)))
    return cores_of(str(text))  # a number of pods is written alike


def _text(kind: str, amount: float) -> str:
    if kind.endswith("memory"):
        return as_memory(int(amount)) if amount else "0"
    return as_cpu(amount) if amount and kind != "pods" else f"{amount:g}"


def _counts(quota: Mapping[str, Any], spec: Spec) -> bool:
    """Whether a quota counts such pods: it may be for some only, by its scopes."""
    given = quota.get("spec") or {}
    scopes = [{"scopeName": name, "operator": "Exists"} for name in given.get("scopes") or ()]
    scopes += ((given.get("scopeSelector") or {}).get("matchExpressions")) or ()
    return all(_is_in(scope, spec) for scope in scopes)


def _is_in(scope: Mapping[str, Any], spec: Spec) -> bool:
    name, is_limited_in_time = scope["scopeName"], spec.get("activeDeadlineSeconds") is not None
    if name == "PriorityClass":
        own, values = spec.get("priorityClassName"), scope.get("values") or ()
        matches = {"In": own in values, "NotIn": own not in values, "Exists": own is not None}
        return matches.get(scope["operator"], own is None)
    # Executors always ask for CPU and memory, so they are never of the class BestEffort.
    known = {"Terminating": is_limited_in_time, "NotTerminating": not is_limited_in_time, "NotBestEffort": True}
    return known.get(name, False)
