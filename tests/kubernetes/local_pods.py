# SPDX-License-Identifier: Apache-2.0
"""Pods of the example manifests with the programs of this machine: there is no registry that has their images."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from tests.kubernetes.api_of_tests import Api
from tests.kubernetes.conftest import EXAMPLES, NAMESPACE

from penstock.adaptors.kubernetes_server.images import SPARK_IMAGE
from penstock.adaptors.kubernetes_server.spark_pods import cluster_mode_settings

ACCOUNT = "streaming-driver"
JOB = EXAMPLES / "job.py"
_EXECUTOR_ENV = "spark.executorEnv."


def documents_of(space: Api, manifest: str) -> list[dict[str, Any]]:
    """The documents of an example in a namespace, without the claims: there are no volumes to claim."""
    text = (EXAMPLES / manifest).read_text(encoding="utf-8").replace(NAMESPACE, space.namespace)
    return [document for document in yaml.safe_load_all(text) if document["kind"] != "PersistentVolumeClaim"]


def pod_template(settings: Mapping[str, str]) -> dict[str, Any]:
    """What the executors' pods of these settings mount."""
    template: dict[str, Any] = json.loads(Path(settings["spark.kubernetes.executor.podTemplateFile"]).read_text())
    return dict(template["spec"])


def local_settings(folder: Path, space: Api) -> dict[str, str]:
    """What this machine's cluster needs in place of an image and a volume that all pods share."""
    checkpoint = folder / "checkpoint"
    checkpoint.mkdir()
    return cluster_mode_settings(folder, ACCOUNT, namespace=space.namespace, readable=[EXAMPLES], writable=[checkpoint])


def start_job(
    space: Api, folder: Path, *arguments: str, change: Callable[[dict[str, Any]], None] = lambda _: None
) -> None:
    """Apply job.yaml, with these arguments of the job; `change` may change the driver's pod."""
    settings = local_settings(folder, space)
    for document in documents_of(space, "job.yaml"):
        if document["kind"] == "ConfigMap":
            document["data"]["spark.properties"] = _localized(document["data"]["spark.properties"], settings)
        else:
            environment = {
                key.removeprefix(_EXECUTOR_ENV): value
                for key, value in settings.items()
                if key.startswith(_EXECUTOR_ENV)
            }
            environment["PYSPARK_PYTHON"] = settings["spark.pyspark.python"]
            pod = document["spec"]["template"]["spec"]
            change(pod)
            args = localize(pod, pod_template(settings), environment, folder)["args"]
            args[args.index("spark-submit")] = f"{environment['SPARK_HOME']}/bin/spark-submit"
            args[args.index("/opt/job/job.py") :] = [str(JOB), "--checkpoint", str(folder / "checkpoint"), *arguments]
        space.apply(document)


def _localized(properties: str, settings: Mapping[str, str]) -> str:
    """The manifest's properties with this machine's image and template."""
    ours = ("persistentVolumeClaim", "podTemplateFile")
    kept = [line for line in properties.splitlines() if not any(name in line for name in ours)]
    names = ("container.image", "podTemplateFile", "executorEnv", "pyspark.python")
    own = [
        f"{key}={value}"
        for key, value in settings.items()
        if any(name in key for name in names) and ".driver" not in key  # a path may have that word
    ]
    return "\n".join([*kept, *own, ""])


def localize(
    spec: dict[str, Any], template: dict[str, Any], environment: dict[str, str], folder: Path | None = None
) -> dict[str, Any]:
    """Give a pod this machine's image, environment and folders, and return its container.

    Claims to volumes are taken out, with their mounts; `folder` is one that it may write to.
    """
    (container,) = spec["containers"]
    container["image"], container["imagePullPolicy"] = SPARK_IMAGE, "Never"
    container.setdefault("env", []).extend({"name": name, "value": value} for name, value in environment.items())
    claimed = {one["name"] for one in spec["volumes"] if "persistentVolumeClaim" in one}
    spec["volumes"] = [one for one in spec["volumes"] if one["name"] not in claimed] + template["volumes"]
    mounts = [one for one in container["volumeMounts"] if one["name"] not in claimed]
    others = template["containers"][0]["volumeMounts"]
    if folder is not None:
        spec["volumes"].append({"name": "files", "hostPath": {"path": str(folder)}})
        others = [one for one in others if not one["mountPath"].startswith(str(folder))]
        others.append({"name": "files", "mountPath": str(folder)})
    container["volumeMounts"] = [*mounts, *others]
    return dict(container)
