# SPDX-License-Identifier: Apache-2.0
"""Pods of the example manifests with the programs of this machine: there is no registry that has their images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.adaptors.kubernetes_server.images import SPARK_IMAGE


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
