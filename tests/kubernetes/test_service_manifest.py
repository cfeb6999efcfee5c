# SPDX-License-Identifier: Apache-2.0
"""The manifest of the service: a master in a pod, with its certificate and its agents' token from secrets."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import sys
from pathlib import Path

import pytest
import yaml
from tests.kubernetes.api_of_tests import Api
from tests.kubernetes.conftest import EXAMPLES
from tests.kubernetes.local_pods import localize

from penstock.adaptors.kubernetes_server.certificates import Authority
from penstock.adaptors.kubernetes_server.spark_pods import spark_settings

pytestmark = pytest.mark.kubernetes

NAME = "penstock.streams.svc"
PAGE, AGENTS = 7077, 7071


def secret(name: str, files: dict[str, Path]) -> dict[str, object]:
    """A secret with these files."""
    data = {key: base64.b64encode(path.read_bytes()).decode() for key, path in files.items()}
    return {"kind": "Secret", "metadata": {"name": name}, "data": data}


def test_the_service_runs_by_its_manifest(api: Api, tmp_path: Path) -> None:
    """Its pod gets ready, and answers under its name with its certificate, on the page's port and the agents'."""
    authority = Authority(tmp_path / "keys")
    authority.sign("service", f"/CN={NAME}", (), (NAME,))
    token = tmp_path / "token"
    token.write_text("a-token-that-is-long-enough-for-agents-0123456789")
    keys = authority.folder
    api.apply(secret("penstock-tls", {"tls.crt": keys / "service.crt", "tls.key": keys / "service.key"}))
    api.apply(secret("penstock-agents", {"token": token, "ca.pem": authority.certificate}))
    settings = spark_settings(tmp_path / "spark", namespace=api.namespace)
    template = json.loads(Path(settings["spark.kubernetes.executor.podTemplateFile"]).read_text())["spec"]
    for document in yaml.safe_load_all((EXAMPLES / "service.yaml").read_text(encoding="utf-8")):
        if document["kind"] == "PersistentVolumeClaim":
            continue
        if document["kind"] == "Deployment":
            spec = document["spec"]["template"]["spec"]
            environment = {"PYTHONPATH": settings["spark.executorEnv.PYTHONPATH"]}
            container = localize(spec, template, environment)
            spec["containers"][0]["args"] = [sys.executable, "-m", "penstock", *container["args"]]
            spec["volumes"].append({"name": "store", "emptyDir": {}})
            spec["containers"][0]["volumeMounts"].append({"name": "store", "mountPath": "/var/lib/penstock"})
        api.apply(document)
    try:
        api.until(lambda: address_of(api) is not None)
        host = address_of(api)
        assert host is not None
        trusted = ssl.create_default_context(cafile=str(authority.certificate))
        with (
            socket.create_connection((host, PAGE), timeout=30) as raw,
            trusted.wrap_socket(raw, server_hostname=NAME) as page,
        ):
            page.sendall(f"GET / HTTP/1.1\r\nHost: {NAME}:{PAGE}\r\nConnection: close\r\n\r\n".encode())
            assert page.recv(64).startswith(b"HTTP/1.1 200")
        with (
            socket.create_connection((host, AGENTS), timeout=30) as raw,
            trusted.wrap_socket(raw, server_hostname=NAME) as agents,
        ):
            assert agents.version() is not None
    finally:
        api.apps.delete_namespaced_deployment("penstock", api.namespace)


def address_of(api: Api) -> str | None:
    """The address of the service's pod, once it is ready."""
    for pod in api.pods_with("app=penstock"):
        if all(state.ready for state in pod.status.container_statuses or ()):
            return str(pod.status.pod_ip)
    return None
