# SPDX-License-Identifier: Apache-2.0
"""The example manifests, as far as they can be checked without a cluster: who may write to their volumes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

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
        "job.yaml": ["counts", "executor"], "rbac.yaml": [], "service.yaml": ["penstock"]
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
