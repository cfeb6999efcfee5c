# SPDX-License-Identifier: Apache-2.0
"""The example manifests, as far as they can be checked without a cluster: who may write to their volumes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from penstock.cli.main import main

ROOT = Path(__file__).parents[1]
MANIFESTS = sorted((ROOT / "examples" / "kubernetes").glob("*.yaml"))
EXECUTOR_CLAIM = "spark.kubernetes.executor.volumes.persistentVolumeClaim."
EXECUTOR_TEMPLATE = "spark.kubernetes.executor.podTemplateFile"


def documents(path: Path) -> list[dict[str, Any]]:
    """The documents of a manifest."""
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def pods_with_claims(path: Path) -> dict[str, dict[str, Any]]:
    """The pods of a manifest that mount a claim, drivers' and executors', by a name."""
    found = {}
    files: dict[str, str] = {}
    for document in documents(path):
        if document["kind"] == "ConfigMap":
            files |= document["data"]
        spec = document.get("spec", {}).get("template", {}).get("spec", {})
        if any("persistentVolumeClaim" in volume for volume in spec.get("volumes", ())):
            found[document["metadata"]["name"]] = spec
    for properties in (text for name, text in files.items() if name.endswith(".properties")):
        if EXECUTOR_CLAIM in properties:
            template = re.search(rf"^{EXECUTOR_TEMPLATE}=(.+)$", properties, re.MULTILINE)
            name = Path(template[1]).name if template else ""
            found["executor"] = yaml.safe_load(files.get(name, "{}")).get("spec", {})
    return found


def image_user() -> int:
    """The user that both images run as."""
    users = set(re.findall(r"^USER (\d+)$", (ROOT / "containers" / "Containerfile").read_text(), re.MULTILINE))
    (user,) = users
    return int(user)


def test_the_examples_have_pods_that_mount_claims() -> None:
    """A driver with its executors, and a service: the test below looks at those."""
    assert {path.name: sorted(pods_with_claims(path)) for path in MANIFESTS} == {
        "agent.yaml": [], "job.yaml": ["counts", "executor"], "rbac.yaml": [], "service.yaml": ["penstock"]
    }  # fmt: skip


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.name)
def test_a_pod_that_mounts_a_claim_may_write_to_it(manifest: Path) -> None:
    """A fresh volume is root's: the pod's group has to be that of the user of the images."""
    groups = {name: spec.get("securityContext", {}).get("fsGroup") for name, spec in pods_with_claims(manifest).items()}
    assert groups == dict.fromkeys(groups, image_user())


def test_the_executors_template_is_where_the_driver_reads_it() -> None:
    """The setting names a file of the config map, in the folder where the driver's pod mounts that."""
    config, _, deployment = documents(ROOT / "examples" / "kubernetes" / "job.yaml")
    template = re.search(rf"^{EXECUTOR_TEMPLATE}=(.+)$", config["data"]["spark.properties"], re.MULTILINE)
    assert template is not None
    path = Path(template[1])
    (driver,) = deployment["spec"]["template"]["spec"]["containers"]
    (mounted,) = [mount["mountPath"] for mount in driver["volumeMounts"] if mount["name"] == "settings"]
    assert (str(path.parent), path.name in config["data"]) == (mounted, True)


def pod_of(manifest: str) -> dict[str, Any]:
    """The pod of the only workload of a manifest."""
    (pod,) = [found["spec"]["template"]["spec"] for found in documents(ROOT / "examples" / "kubernetes" / manifest)
              if "template" in found.get("spec", {})]  # fmt: skip
    return dict(pod)


def understood(args: list[str]) -> dict[str, Any]:
    """What the command of a container takes from its arguments; fails where it has no such options."""
    name, *rest = args
    command = main.get_command(click.Context(main), name)
    assert command is not None, name
    return command.make_context(name, list(rest)).params


def test_the_agents_of_nodes_report_to_the_service() -> None:
    """Their arguments are right, they go to the service by its name and port, and log in by the secret it reads."""
    _, service, _ = documents(ROOT / "examples" / "kubernetes" / "service.yaml")
    master, agent = pod_of("service.yaml"), pod_of("agent.yaml")
    given = understood(agent["containers"][0]["args"])
    served = understood(master["containers"][0]["args"])
    (port,) = [port["port"] for port in service["spec"]["ports"] if port["name"] == "agents"]
    assert given["master"] == f"{served['name']}:{port}"
    assert served["agent_port"] == port
    assert given["measure_only"]
    assert agent["containers"][0]["image"] == master["containers"][0]["image"]
    (volume,) = agent["volumes"]
    assert volume["secret"] in [one.get("secret") for one in master["volumes"]]
    assert [(mount["name"], mount["mountPath"]) for mount in agent["containers"][0]["volumeMounts"]] == [
        (volume["name"], "/etc/penstock")
    ]


def test_the_agents_of_nodes_have_no_rights() -> None:
    """They read what every container sees: no service account, no root, no capability, and nothing of the host."""
    pod = pod_of("agent.yaml")
    (container,) = pod["containers"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"] == {
        "runAsNonRoot": True, "runAsUser": image_user(), "seccompProfile": {"type": "RuntimeDefault"}
    }  # fmt: skip
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}
    }  # fmt: skip
    assert not {"hostPID", "hostNetwork", "hostIPC"} & pod.keys()
    assert not [volume for volume in pod["volumes"] if "hostPath" in volume]
