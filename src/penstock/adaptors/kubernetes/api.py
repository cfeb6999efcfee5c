# SPDX-License-Identifier: Apache-2.0
"""Asks the API of a Kubernetes cluster, and says in a sentence what went wrong."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from penstock.adaptors.kubernetes.executor_pods import (
    DEFAULT_CONTAINER,
    ENDED_PHASES,
    FIELD_MANAGER,
    ExecutorPod,
    PodCpu,
    executor_pod,
    executor_selector,
)
from penstock.adaptors.kubernetes.nodes import NodeRoom, node_rooms
from penstock.adaptors.kubernetes.quantities import as_memory, bytes_of
from penstock.adaptors.kubernetes.quotas import executor_room
from penstock.errors import ActuationError, ActuationRejectedError, ConfigurationError
from penstock.records import ExecutorRoom

GUIDE = "docs/how-to/run-on-kubernetes.md"
_ACCOUNT_TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
_CONNECT_SECONDS, _READ_SECONDS = 3.0, 10.0
_PAGE = 500
"""How many pods or nodes one answer holds."""
_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _CONFLICT, _INVALID, _TOO_MANY, _SERVER_FAULT = 401, 403, 404, 409, 422, 429, 500
_RESIZE = "patch pods/resize"
_NOT_ASKED_FOR = ("nodeName", "ephemeralContainers")
"""What a pod's spec has once it is there: its node, and containers for debugging."""
T = TypeVar("T")


class PodGoneError(ActuationError):
    """The pod was deleted meanwhile."""


class NotAllowedError(ActuationRejectedError):
    """A right is missing, or somebody forbids it."""


class ExecutorPods(Protocol):
    """The executors' pods of one application. Failures are ActuationErrors with a sentence for the user."""

    def all(self) -> tuple[ExecutorPod, ...]:
        """Return all that the API knows, also those that do not run yet."""
        ...

    def resize(self, pod: ExecutorPod, cpu: PodCpu, *, is_trial: bool = False) -> None:
        """Ask for another CPU of a pod, in place. A trial is checked and not carried out.

        Raises PodGoneError where the pod is not there any more.
        """
        ...

    def set_memory(self, pod: ExecutorPod, memory: int) -> None:
        """Ask for another memory of a pod in place, in bytes: request and limit. Raises PodGoneError likewise."""
        ...

    def try_another(self, pod: ExecutorPod, cpu: PodCpu) -> None:
        """Raise where the API would not take another pod like this one with that CPU. None is made."""
        ...

    def rooms(self) -> tuple[NodeRoom, ...]:
        """Return what each node can still take."""
        ...


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """Where the API is, and as whom it is asked.

    Attributes
    ----------
    server
        Its address, such as ``https://10.0.0.1:6443``; None: the one of the login that is found.
    context
        Of the kubeconfig; None: its current one.
    """

    server: str | None = None
    context: str | None = None

    @classmethod
    def of_spark(cls, master: str, conf: Mapping[str, str]) -> ClusterAccess:
        """Return the access that an application on this master (``k8s://...``) uses itself.

        Examples
        --------
        >>> ClusterAccess.of_spark("k8s://10.0.0.1:6443", {}).server
        'https://10.0.0.1:6443'
        """
        address = master.removeprefix("k8s://")
        if conf.get("spark.kubernetes.submitInDriver") == "true":
            # The driver is a pod: the master is as it is seen from where the job was submitted. Unless another is
            # set, the pod's own login knows the address, as an address: it needs no name service.
            address = conf.get("spark.kubernetes.driver.master", "")
        server = address if "://" in address or not address else f"https://{address}"
        return cls(server.rstrip("/") or None, conf.get("spark.kubernetes.context"))

    def connect(self) -> Any:
        """Return a client of the package `kubernetes` for the core API.

        It logs in by the pod's own service account where this process runs in a pod, else by the kubeconfig.

        Raises
        ------
        ConfigurationError
            The package is missing, or no login was found; the message says which.
        """
        try:
            from kubernetes import client, config
        except ModuleNotFoundError as fault:
            raise ConfigurationError(
                f"the package {fault.name} is missing; install it: pip install 'penstock[kubernetes]'",
                field="kubernetes",
            ) from fault
        settings = client.Configuration()
        try:
            if "KUBERNETES_SERVICE_HOST" in os.environ and _ACCOUNT_TOKEN.exists():
                config.load_incluster_config(client_configuration=settings)
            else:
                # Read now: the package itself reads the variable once, when it is imported.
                file = os.environ.get("KUBECONFIG") or None
                config.load_kube_config(file, context=self.context, client_configuration=settings)
        except (config.ConfigException, OSError) as fault:
            raise ConfigurationError(
                f"no login for the Kubernetes API was found: {_one_line(fault)}; set KUBECONFIG, or give the pod a "
                "service account",
                field="kubernetes",
            ) from fault
        if self.server is not None:
            settings.host = self.server
        settings.retries = False  # what fails is tried again by who asks, and meanwhile the user is told
        return client.CoreV1Api(client.ApiClient(settings))


class ApiExecutorPods:
    """Implements `ExecutorPods` by the Kubernetes API.

    Parameters
    ----------
    core
        `ClusterAccess.connect`.
    namespace, application_id
        Where the application's pods are (``spark.kubernetes.namespace``), and which.
    container
        The executors' container.
    """

    def __init__(self, core: Any, namespace: str, application_id: str, *, container: str = DEFAULT_CONTAINER) -> None:
        self._core = core
        self._namespace = namespace
        self._selector = executor_selector(application_id)
        self._container = container
        self._described: dict[str, Mapping[str, Any]] = {}
        """The pods of the last look that found any, as the API describes them, by uid."""
        self._asked_memory: int | None = None
        """The least memory limit of any pod so far, in bytes: what Spark asks for. Some have got more in place."""

    def all(self) -> tuple[ExecutorPod, ...]:
        """Return all executors' pods."""
        return tuple(executor_pod(pod, self._container) for pod in self._look())

    def _look(self) -> list[Mapping[str, Any]]:
        """All executors' pods as the API describes them."""
        of_executors = partial(self._core.list_namespaced_pod, self._namespace, label_selector=self._selector)
        listed = list(self._listed("list the executors' pods", "list pods", of_executors))
        if listed:  # where none is left, those that there were still say what another is like
            self._described = {pod["metadata"]["uid"]: pod for pod in listed}
        sizes = (executor_pod(pod, self._container).memory for pod in listed)
        known = [size for size in (self._asked_memory, *sizes) if size is not None]
        self._asked_memory = min(known, default=None)
        return listed

    def resize(self, pod: ExecutorPod, cpu: PodCpu, *, is_trial: bool = False) -> None:
        """Ask for another CPU of a pod."""
        self._patch(pod, str(cpu), cpu.as_resources(), is_trial=is_trial)

    def set_memory(self, pod: ExecutorPod, memory: int) -> None:
        """Ask for another memory of a pod."""
        amount = {"memory": as_memory(memory)}
        self._patch(pod, f"{as_memory(memory)} of memory", {"requests": amount, "limits": amount})

    def _patch(self, pod: ExecutorPod, what: str, resources: Mapping[str, Any], *, is_trial: bool = False) -> None:
        body = {"spec": {"containers": [{"name": pod.container, "resources": resources}]}}
        trial = {"dry_run": "All"} if is_trial else {}
        self._ask(
            f"resize executor {pod.executor_id} ({pod.name}) to {what}",
            _RESIZE,
            lambda: self._core.patch_namespaced_pod_resize(
                pod.name,
                self._namespace,
                body,
                field_manager=FIELD_MANAGER,
                _content_type="application/strategic-merge-patch+json",
                _request_timeout=(_CONNECT_SECONDS, _READ_SECONDS),
                **trial,
            ),
        )

    def try_another(self, pod: ExecutorPod, cpu: PodCpu) -> None:
        """Have the API check another pod like this one, without making it."""
        described = self._described.get(pod.uid)
        if described is None:
            return
        body = another_pod(described, pod.container, cpu, self._asked_memory)
        self._ask(
            "make a pod for another executor",
            "create pods",
            lambda: self._core.create_namespaced_pod(
                self._namespace, body, dry_run="All", _request_timeout=(_CONNECT_SECONDS, _READ_SECONDS)
            ),
        )

    def quota_room(self, cpu: PodCpu) -> ExecutorRoom | None:
        """Return how many executors the namespace's quotas allow, where Spark asks for so much CPU of each.

        None: there is no such quota, or no executor's pod was seen yet, so that nobody knows what one takes. It needs
        the right to list resource quotas; NotAllowedError says that it is missing.
        """
        of_namespace = partial(self._core.list_namespaced_resource_quota, self._namespace)
        quotas = list(self._listed("read the quotas of the namespace", "list resourcequotas", of_namespace))
        if not quotas:
            return None
        there = self._look()
        if not self._described:
            return None
        pattern = next(iter(self._described.values()))
        container = executor_pod(pattern, self._container).container
        another = another_pod(pattern, container, cpu, self._asked_memory)
        alive = [pod["spec"] for pod in there if (pod.get("status") or {}).get("phase") not in ENDED_PHASES]
        return executor_room(quotas, another["spec"], alive)

    def rooms(self) -> tuple[NodeRoom, ...]:
        """Return what each node can still take. All pods' requests are read: it needs rights for the whole cluster."""
        nodes = self._listed("list the nodes", "list nodes", self._core.list_node)
        pods = self._listed("list all pods", "list pods", self._core.list_pod_for_all_namespaces)
        return node_rooms(nodes, pods)

    def _listed(self, what: str, right: str, ask: Callable[..., object]) -> Iterator[Any]:
        """What a list of the API holds, a page at a time: those of a large cluster would fill the memory."""
        page = partial(ask, limit=_PAGE, _request_timeout=(_CONNECT_SECONDS, _READ_SECONDS))
        answer = self._ask(what, right, page)
        yield from answer["items"]
        while following := (answer.get("metadata") or {}).get("continue"):
            answer = self._ask(what, right, partial(page, _continue=following))
            yield from answer["items"]

    def _ask(self, what: str, right: str, call: Callable[[], T]) -> Any:
        from kubernetes.client.exceptions import ApiException
        from urllib3.exceptions import HTTPError, SSLError

        try:
            return self._core.api_client.sanitize_for_serialization(call())
        except ApiException as fault:
            if not fault.status:  # nothing was answered: the client says so in this way for a wrong certificate
                raise _not_trusted(what, fault.reason) from fault
            raise _refused(what, right, self._namespace, fault.status, fault.body) from fault
        except SSLError as fault:
            raise _not_trusted(what, fault) from fault
        except (HTTPError, OSError) as fault:
            raise ActuationError(
                f"could not {what}: the Kubernetes API does not answer: {_one_line(fault)}",
                target="kubernetes",
                retryable=True,
            ) from fault


def another_pod(described: Mapping[str, Any], container: str, cpu: PodCpu, memory: int | None = None) -> dict[str, Any]:
    """Return a pod like the one that the API describes, as it would be asked for anew, with that CPU and memory.

    `memory` is in bytes; None: that of the described one.
    """
    spec = {name: value for name, value in described["spec"].items() if name not in _NOT_ASKED_FOR}
    spec["containers"] = [dict(one) for one in spec["containers"]]
    for one in spec["containers"]:
        if one["name"] == container:
            given, wanted = one.get("resources") or {}, cpu.as_resources()
            kinds = {*given, *wanted}
            made = {kind: {**(given.get(kind) or {}), **wanted.get(kind, {})} for kind in kinds}
            for amounts in made.values():
                if memory is not None and "memory" in amounts and bytes_of(str(amounts["memory"])) > memory:
                    amounts["memory"] = as_memory(memory)
            one["resources"] = made
    labels = dict(described["metadata"].get("labels") or {})
    return {"metadata": {"generateName": "penstock-trial-", "labels": labels}, "spec": spec}


def _not_trusted(what: str, fault: object) -> ActuationError:
    return ActuationRejectedError(
        f"could not {what}: the certificate of the Kubernetes API is not trusted: {_one_line(fault)}; check "
        "certificate-authority in the kubeconfig",
        target="kubernetes",
    )


def _refused(what: str, right: str, namespace: str, status: int, body: Any) -> ActuationError:
    """Return the error for an answer that is no success."""
    said, details = _answer(body)
    begin = f"could not {what}"
    if status == _UNAUTHORIZED:
        text = f"{begin}: the Kubernetes API does not accept the login (401): token or certificate is wrong or too old"
        return ActuationRejectedError(text, target="kubernetes")
    if status == _FORBIDDEN and "exceeded quota" in said:
        text = f"{begin}: {said}; raise the quota of namespace {namespace}, or allow fewer executors"
        return ActuationRejectedError(text, target="kubernetes")
    if status == _FORBIDDEN:
        text = (
            f"{begin}: not allowed (403): {said}; grant the right to {right} in namespace {namespace}, or ask who "
            f"limits it (admission) ({GUIDE})"
        )
        return NotAllowedError(text, target="kubernetes")
    if status == _NOT_FOUND:
        return _not_found(begin, right, namespace, said, details)
    is_passing = status in {_CONFLICT, _TOO_MANY} or status >= _SERVER_FAULT
    kind = ActuationError if is_passing else ActuationRejectedError
    return kind(f"{begin}: the Kubernetes API says ({status}): {said}", target="kubernetes", retryable=is_passing)


def _not_found(begin: str, right: str, namespace: str, said: str, details: Mapping[str, Any]) -> ActuationError:
    if details.get("kind") == "pods" and details.get("name"):
        return PodGoneError(f"{begin}: the pod is gone", target="kubernetes", retryable=True)
    why = f"the Kubernetes API says (404): {said}"
    if details.get("kind") == "namespaces":
        why = f"there is no namespace {namespace} (404)"
    elif right == _RESIZE:
        why = "the Kubernetes API has no such call (404): in-place resize needs Kubernetes 1.33 or newer"
    return ActuationRejectedError(f"{begin}: {why}", target="kubernetes")


def _answer(body: Any) -> tuple[str, Mapping[str, Any]]:
    """What the API says, in one line, and about what."""
    try:
        answer = json.loads(body)
        return _one_line(answer.get("message") or answer), answer.get("details") or {}
    except (TypeError, ValueError, AttributeError):
        return _one_line(body or "nothing"), {}


def _one_line(words: object) -> str:
    return " ".join(str(words).split())[:500]


def names_of(pods: Sequence[ExecutorPod]) -> str:
    """Return executors as a user knows them."""
    ids = ", ".join(pod.executor_id for pod in pods)
    return f"executor {ids}" if len(pods) == 1 else f"executors {ids}"
