# SPDX-License-Identifier: Apache-2.0
"""The service of the example manifest: a master in a pod, with secrets as its comments say."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import sys
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import yaml
from tests.kubernetes.api_of_tests import Api
from tests.kubernetes.conftest import EXAMPLES
from tests.kubernetes.local_pods import documents_of, localize, pod_template

from penstock.adaptors.kubernetes_server.certificates import Authority
from penstock.adaptors.kubernetes_server.spark_pods import spark_settings

PAGE, AGENTS = 7070, 7071
MANIFEST = "service.yaml"


@dataclass(frozen=True)
class LocalService:
    """A service that is ready: how it is called, its pod, where that is, and what its certificate is checked with."""

    name: str
    pod: str
    address: str
    certificate: Path

    def connect(self, port: int) -> ssl.SSLSocket:
        """A connection to its pod, whose certificate is for its name."""
        trusted = ssl.create_default_context(cafile=str(self.certificate))
        with socket.create_connection((self.address, port), timeout=30) as raw:
            return trusted.wrap_socket(raw, server_hostname=self.name)

    def ask(self, path: str, token: str = "", body: dict[str, Any] | None = None) -> tuple[int, bytes]:
        """What its page or API answers; with a body it is an order."""
        connection = HTTPConnection(self.name, PAGE)
        connection.sock = self.connect(PAGE)
        try:
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            sent = None if body is None else json.dumps(body)
            connection.request("GET" if body is None else "POST", path, sent, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def make_agent(self, pod: dict[str, Any]) -> None:
        """Make a driver's pod an agent, by the lines of the manifest's comment.

        The cluster has no name service: the pod knows the master's name in its place.
        """
        comment = (EXAMPLES / MANIFEST).read_text(encoding="utf-8").partition("and these lines:\n")[2]
        lines = comment.partition("apiVersion:")[0].splitlines()
        wanted = yaml.safe_load("\n".join(line.removeprefix("#") for line in lines))
        (container,) = pod["containers"]
        container["env"] += wanted["env"]
        container["volumeMounts"] += wanted["volumeMounts"]
        pod["volumes"] += wanted["volumes"]
        pod["hostAliases"] = [{"ip": self.address, "hostnames": [self.name]}]


def start_service(space: Api, folder: Path) -> LocalService:
    """Apply service.yaml with secrets of its own, and wait until its pod is ready."""
    name = f"penstock.{space.namespace}.svc"
    authority = Authority(folder / "keys")
    authority.sign("service", f"/CN={name}", (), (name,))
    token = folder / "token"
    token.write_text("a-token-that-is-long-enough-for-agents-0123456789")
    keys = authority.folder
    space.apply(_secret("penstock-tls", {"tls.crt": keys / "service.crt", "tls.key": keys / "service.key"}))
    space.apply(_secret("penstock-agents", {"token": token, "ca.pem": authority.certificate}))
    settings = spark_settings(folder / "spark", namespace=space.namespace)
    for document in documents_of(space, MANIFEST):
        if document["kind"] == "Deployment":
            spec = document["spec"]["template"]["spec"]
            environment = {"PYTHONPATH": settings["spark.executorEnv.PYTHONPATH"]}
            container = localize(spec, pod_template(settings), environment)
            spec["containers"][0]["args"] = [sys.executable, "-m", "penstock", *container["args"]]
            spec["volumes"].append({"name": "store", "emptyDir": {}})
            spec["containers"][0]["volumeMounts"].append({"name": "store", "mountPath": "/var/lib/penstock"})
        space.apply(document)
    space.until(lambda: _ready_pod(space) is not None, say=space.words)
    pod = _ready_pod(space)
    assert pod is not None
    return LocalService(name, pod.metadata.name, pod.status.pod_ip, authority.certificate)


def _secret(name: str, files: dict[str, Path]) -> dict[str, object]:
    """A secret with these files."""
    data = {key: base64.b64encode(path.read_bytes()).decode() for key, path in files.items()}
    return {"kind": "Secret", "metadata": {"name": name}, "data": data}


def _ready_pod(space: Api) -> Any:
    """The service's pod, once it is ready."""
    for pod in space.pods_with("app=penstock"):
        if all(state.ready for state in pod.status.container_statuses or ()):
            return pod
    return None
