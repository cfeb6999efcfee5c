# SPDX-License-Identifier: Apache-2.0
"""The Spark settings of an application whose executors are pods of the local cluster.

Its executors run this machine's Java, Python and PySpark: their folders are mounted into the pods, read-only and at the
same paths.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penstock.adaptors.kubernetes_server.images import SPARK_IMAGE
from penstock.adaptors.kubernetes_server.node_plan import ADDRESS, PORT, SERVICE_ADDRESS
from penstock.adaptors.spark.installation import SparkInstallation

MASTER = f"k8s://https://{ADDRESS}:{PORT}"


def spark_settings(
    folder: Path,
    *,
    namespace: str = "default",
    readable: Sequence[Path] = (),
    writable: Sequence[Path] = (),
    driver_host: str = ADDRESS,
) -> dict[str, str]:
    """Return the settings of a driver that runs inside the cluster's network, outside its pods.

    Parameters
    ----------
    folder
        Gets the executors' pod template.
    namespace
        Where the executors' pods come to.
    readable, writable
        Further folders that executors may read, and such as they may write to, like that of the checkpoint.
    driver_host
        Where executors find the driver.
    """
    spark = SparkInstallation.find()
    package = Path(__file__).parents[3]
    seen = _outermost(
        [Path("/usr"), Path(sys.prefix), Path(sys.base_prefix), spark.java.home, spark.home, package, *readable]
    )
    seen += [*sorted(Path("/etc").glob("java-*")), Path("/etc/ld.so.cache")]
    folder.mkdir(parents=True, exist_ok=True)
    template = folder / "executor.json"  # JSON is YAML, too
    template.write_text(json.dumps(_pod_template([path for path in seen if path.exists()], writable)))
    return {
        "spark.master": MASTER,
        "spark.driver.host": driver_host,
        "spark.driver.bindAddress": driver_host,
        "spark.kubernetes.namespace": namespace,
        "spark.kubernetes.container.image": SPARK_IMAGE,
        "spark.kubernetes.container.image.pullPolicy": "Never",
        "spark.kubernetes.executor.podTemplateFile": str(template),
        "spark.kubernetes.allocation.batch.delay": "1s",
        "spark.executorEnv.SPARK_HOME": str(spark.home),
        "spark.executorEnv.JAVA_HOME": str(spark.java.home),
        "spark.executorEnv.PYTHONPATH": str(package),
        "spark.pyspark.python": sys.executable,
    }


def cluster_mode_settings(folder: Path, account: str, **others: Any) -> dict[str, str]:
    """Return the settings of a driver that is a pod itself, for ``spark-submit --deploy-mode cluster``.

    Parameters
    ----------
    folder, others
        As of `spark_settings`.
    account
        The service account that the driver logs in with.
    """
    settings = spark_settings(folder, **others)
    for address in ("spark.driver.host", "spark.driver.bindAddress"):
        del settings[address]
    environment = {
        name.replace("spark.executorEnv.", "spark.kubernetes.driverEnv."): value
        for name, value in settings.items()
        if name.startswith("spark.executorEnv.")
    }
    return {
        **settings,
        **environment,
        "spark.submit.deployMode": "cluster",
        "spark.kubernetes.driver.podTemplateFile": settings["spark.kubernetes.executor.podTemplateFile"],
        "spark.kubernetes.authenticate.driver.serviceAccountName": account,
        # The node has no name service: nobody would find "kubernetes.default.svc", nor the driver's own service.
        "spark.kubernetes.driver.master": f"https://{SERVICE_ADDRESS}:{PORT}",
        "spark.kubernetes.executor.useDriverPodIP": "true",
    }


def _outermost(folders: Sequence[Path]) -> list[Path]:
    """Return the folders that lie in no other one of them."""
    found = sorted(set(folders))
    return [one for one in found if not any(one.is_relative_to(other) and one != other for other in found)]


def _pod_template(readable: Sequence[Path], writable: Sequence[Path]) -> dict[str, Any]:
    volumes, mounts = [], []
    for number, path in enumerate((*readable, *writable)):
        name, is_read_only = f"host-{number}", number < len(readable)
        volumes.append({"name": name, "hostPath": {"path": str(path)}})
        mounts.append({"name": name, "mountPath": str(path), "readOnly": is_read_only})
    container = {"name": "spark-kubernetes-executor", "volumeMounts": mounts}
    return {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container], "volumes": volumes}}
