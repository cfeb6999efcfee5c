# SPDX-License-Identifier: Apache-2.0
"""Container images without a registry: archives of one layer, as `docker save` writes them.

The image for Spark holds no Spark. Java, Python and PySpark come from this machine, by folders that the executors' pod
template mounts (`penstock.adaptors.kubernetes_server.spark_pods`).
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PAUSE_IMAGE = "penstock.local/pause:1"
"""Holds the namespaces of a pod."""
SPARK_IMAGE = "penstock.local/spark:1"
"""Starts a driver, an executor, or a command, with the programs of this machine."""

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_EXECUTOR = """#!/bin/sh
# Starts what Spark asks for: a driver, an executor, or any other command.
if [ "$1" = driver ]; then
  shift
  exec "$SPARK_HOME/bin/spark-submit" --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \\
    --deploy-mode client "$@"
fi
if [ "$1" != executor ]; then exec "$@"; fi
options=$(env | sed -n 's/^SPARK_JAVA_OPT_[0-9]*=//p')
IFS='
'
exec "$JAVA_HOME/bin/java" $options "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \\
  -cp "$SPARK_CONF_DIR:$SPARK_HOME/jars/*" org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \\
  --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \\
  --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \\
  --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
"""
_LEAVE = """#!/bin/sh
# Called before the pod of an executor is ended: it may hand over its blocks first.
kill -s PWR 1
timeout 30 tail --pid=1 -f /dev/null
"""


def write_images(folder: Path, pause: Path) -> list[Path]:
    """Write the archives of both images; `pause` is a program that waits for a signal."""
    folder.mkdir(exist_ok=True)
    found = [folder / "pause.tar", folder / "spark.tar"]
    _write_image(found[0], PAUSE_IMAGE, ["/pause"], {"pause": pause.read_bytes()})
    links = {name: f"usr/{name}" for name in ("bin", "sbin", "lib", "lib64")}
    files = {
        "opt/start": _EXECUTOR.encode(),
        "opt/decom.sh": _LEAVE.encode(),
        "etc/passwd": b"root:x:0:0:root:/tmp:/bin/sh\n",  # Hadoop asks who it is
    }
    _write_image(found[1], SPARK_IMAGE, ["/opt/start"], files, links=links, folders=("etc", "opt", "tmp", "usr"))
    return found


def _write_image(
    path: Path,
    name: str,
    entry: list[str],
    files: Mapping[str, bytes],
    *,
    links: Mapping[str, str] | None = None,
    folders: tuple[str, ...] = (),
) -> None:
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as archive:
        for folder in folders:
            entry_of = tarfile.TarInfo(folder)
            entry_of.type, entry_of.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            archive.addfile(entry_of)
        for link, target in (links or {}).items():
            entry_of = tarfile.TarInfo(link)
            entry_of.type, entry_of.linkname = tarfile.SYMTYPE, target
            archive.addfile(entry_of)
        for file, content in files.items():
            _add(archive, file, content)
    digest = hashlib.sha256(layer.getvalue()).hexdigest()
    configuration = _as_bytes(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": entry, "Env": [f"PATH={_PATH}"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
    )
    configured = f"{hashlib.sha256(configuration).hexdigest()}.json"
    manifest = _as_bytes([{"Config": configured, "RepoTags": [name], "Layers": [f"{digest}/layer.tar"]}])
    with tarfile.open(path, "w") as archive:
        _add(archive, configured, configuration)
        _add(archive, f"{digest}/layer.tar", layer.getvalue())
        _add(archive, "manifest.json", manifest)


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.mode, entry.size = 0o755, len(content)
    archive.addfile(entry, io.BytesIO(content))


def _as_bytes(value: Any) -> bytes:
    return json.dumps(value).encode()
