# SPDX-License-Identifier: Apache-2.0
"""What tests ask of a cluster as its administrator, and the pods that they put there."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from penstock.adaptors.kubernetes.api import ApiExecutorPods, ClusterAccess
from penstock.adaptors.kubernetes_server.images import SPARK_IMAGE
from penstock.adaptors.kubernetes_server.local_cluster import LocalCluster
from penstock.adaptors.kubernetes_server.node_plan import ADDRESS, AUDIT, PORT

FORBIDDEN = 403


class Api:
    """Asks the API as the administrator, or as a service account."""

    def __init__(self, cluster: LocalCluster, namespace: str) -> None:
        from kubernetes import client, config

        self.cluster, self.namespace = cluster, namespace
        settings = client.Configuration()
        config.load_kube_config(str(cluster.kubeconfig), client_configuration=settings)
        self.client = client.ApiClient(settings)
        self.core = client.CoreV1Api(self.client)
        self.rights = client.RbacAuthorizationV1Api(self.client)
        self.apps = client.AppsV1Api(self.client)

    def create_namespace(self) -> None:
        """Make the namespace, and wait for its service account."""
        self.core.create_namespace({"metadata": {"name": self.namespace}})
        self.until(lambda: self.core.list_namespaced_service_account(self.namespace).items)

    def apply(self, document: Mapping[str, Any]) -> None:
        """Create one document of a manifest."""
        create = {
            "ServiceAccount": self.core.create_namespaced_service_account,
            "Role": self.rights.create_namespaced_role,
            "RoleBinding": self.rights.create_namespaced_role_binding,
            "ConfigMap": self.core.create_namespaced_config_map,
            "Secret": self.core.create_namespaced_secret,
            "Service": self.core.create_namespaced_service,
            "Deployment": self.apps.create_namespaced_deployment,
            "DaemonSet": self.apps.create_namespaced_daemon_set,
        }[document["kind"]]
        create(self.namespace, dict(document))

    def set_rules(self, role: str, rules: list[dict[str, Any]]) -> None:
        """Give a role these rules in place of those that it has."""
        self.rights.patch_namespaced_role(role, self.namespace, [{"op": "replace", "path": "/rules", "value": rules}])

    def token(self, account: str) -> str:
        """A token of a service account, as a pod gets it."""
        answer = self.core.create_namespaced_service_account_token(account, self.namespace, {"spec": {}})
        return str(answer.status.token)

    def kubeconfig_of(self, account: str, folder: Path) -> Path:
        """A kubeconfig by which a service account logs in."""
        found = json.loads(self.cluster.kubeconfig.read_text())
        found["users"][0]["user"] = {"token": self.token(account)}
        path = folder / f"{account}.kubeconfig"
        path.write_text(json.dumps(found))
        return path

    def calls_of(self, account: str) -> list[dict[str, Any]]:
        """What a service account of this namespace has asked the API, as its audit log has it."""
        user = f"system:serviceaccount:{self.namespace}:{account}"
        lines = (self.cluster.folder / AUDIT).read_text().splitlines()
        return [call for call in map(json.loads, lines) if call["user"]["username"] == user]

    def log(self, pod: str) -> str:
        """What a pod's container has printed."""
        return str(self.core.read_namespaced_pod_log(pod, self.namespace))

    def pods_with(self, selector: str) -> list[Any]:
        """The pods that run, and are not on their way out."""
        found = self.core.list_namespaced_pod(self.namespace, label_selector=selector).items
        return [pod for pod in found if pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None]

    def executor_pods(self, application_id: str) -> ApiExecutorPods:
        """An application's pods, seen with the login of KUBECONFIG."""
        core = ClusterAccess(f"https://{ADDRESS}:{PORT}").connect()
        return ApiExecutorPods(core, self.namespace, application_id)

    def start_executor(
        self,
        application_id: str,
        executor_id: str,
        cpu: str = "200m",
        *,
        is_limited: bool = True,
        command: tuple[str, ...] = ("/usr/bin/sleep", "3600"),
        grace_seconds: int = 0,
    ) -> str:
        """A pod with the labels of an executor that does nothing; waits until it runs, and returns its name."""
        name = self.create_executor(
            application_id, executor_id, cpu, is_limited=is_limited, command=command, grace_seconds=grace_seconds
        )
        self.until(lambda: self.pod(name)["status"].get("phase") == "Running")
        return name

    def create_executor(
        self,
        application_id: str,
        executor_id: str,
        cpu: str = "200m",
        *,
        is_limited: bool = True,
        image: str = SPARK_IMAGE,
        command: tuple[str, ...] = ("/usr/bin/sleep", "3600"),
        grace_seconds: int = 0,
    ) -> str:
        """Such a pod, not waited for."""
        name = f"{application_id}-exec-{executor_id}"
        labels = {"spark-app-selector": application_id, "spark-exec-id": executor_id, "spark-role": "executor"}
        amounts = {"cpu": cpu, "memory": "32Mi"}
        container = {
            "name": "spark-kubernetes-executor",
            "image": image,
            "imagePullPolicy": "Never",
            "args": list(command),
            "resources": {"requests": amounts, "limits": amounts if is_limited else {"memory": "32Mi"}},
            "volumeMounts": [{"name": "usr", "mountPath": "/usr", "readOnly": True}],
        }
        spec = {
            "containers": [container],
            "volumes": [{"name": "usr", "hostPath": {"path": "/usr"}}],
            "terminationGracePeriodSeconds": grace_seconds,
            "restartPolicy": "Never",
        }
        self.core.create_namespaced_pod(self.namespace, {"metadata": {"name": name, "labels": labels}, "spec": spec})
        return name

    def pod(self, name: str) -> dict[str, Any]:
        """A pod as the API describes it."""
        found: dict[str, Any] = self.client.sanitize_for_serialization(
            self.core.read_namespaced_pod(name, self.namespace)
        )
        return found

    def delete_pod(self, name: str) -> None:
        """Delete a pod at once."""
        self.core.delete_namespaced_pod(name, self.namespace, grace_period_seconds=0)

    def quota_cores(self, name: str) -> float:
        """The CPU quota of a pod's container, in cores, as the kernel has it."""
        group = self._group(name, ("cpu.cfs_quota_us", "cpu.max"))
        if (group / "cpu.max").exists():
            quota, period = (group / "cpu.max").read_text().split()
        else:
            quota, period = ((group / f"cpu.cfs_{word}_us").read_text() for word in ("quota", "period"))
        return int(quota) / int(period)

    def memory_limit(self, name: str) -> int:
        """The memory limit of a pod's container, in bytes, as the kernel has it."""
        files = ("memory.limit_in_bytes", "memory.max")
        group = self._group(name, files)
        return next(int((group / file).read_text()) for file in files if (group / file).exists())

    def _group(self, name: str, files: tuple[str, ...]) -> Path:
        """The control group of a pod's container that has one of these files; ProcessLookupError: it has ended.

        The container's process is in the group of its container: its own path says where that is on this host.
        """
        container = self.pod(name)["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
        # Groups of other pods go meanwhile: `walk` passes over them.
        found = [Path(folder) for folder, _, _ in os.walk("/sys/fs/cgroup") if container in Path(folder).name]
        for file in files:
            for folder in found:
                if (folder / file).exists():
                    return folder
        raise ProcessLookupError(f"no control group of container {container} was found")

    def until_executors_have(self, cores: float) -> None:
        """Wait for all executors to have so many cores."""
        self.until(lambda: self._executors_have(cores), 300.0, self.words, every=0.5)

    def _executors_have(self, cores: float) -> bool:
        """Whether there are executors, and the kernel gives each so many cores."""
        pods = self.pods_with("spark-role=executor")
        try:
            return bool(pods) and all(abs(self.quota_cores(pod.metadata.name) - cores) < 1e-6 for pod in pods)
        except ProcessLookupError:  # its container has ended, and the API does not know it yet
            return False

    def refused_calls_of(self, account: str) -> list[dict[str, Any]]:
        """What a service account asked for in this namespace, and was not allowed.

        Beyond the namespace Penstock asks for the nodes' room, and does without where that is not allowed.
        """
        return [
            call
            for call in self.calls_of(account)
            if call["responseStatus"]["code"] == FORBIDDEN and call["objectRef"].get("namespace") == self.namespace
        ]

    def until_empty(self) -> None:
        """Wait for all pods of the namespace to go."""
        self.until(lambda: not self.core.list_namespaced_pod(self.namespace).items, 300.0, self.words)

    def words(self) -> str:
        """What each pod of the namespace has printed; for a test that fails."""
        said = []
        for pod in self.core.list_namespaced_pod(self.namespace).items:
            try:
                text = self.log(pod.metadata.name)
            except Exception as fault:  # its container has not started, or the pod is gone
                text = str(fault)
            said.append(f"{pod.metadata.name} {pod.status.phase}\n{text[-5000:]}")
        return "\n".join(said) or "no pods"

    def until(
        self,
        is_so: Callable[[], Any],
        seconds: float = 120.0,
        say: Callable[[], str] = lambda: "the cluster did not get there",
        every: float = 0.1,
    ) -> None:
        """Wait for the cluster; the bound only ends a failing test."""
        deadline = time.monotonic() + seconds
        while not is_so():
            assert time.monotonic() < deadline, say()
            time.sleep(every)
