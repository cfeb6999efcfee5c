# SPDX-License-Identifier: Apache-2.0
"""The controller in the driver's pod: the example job, by its manifest and by spark-submit in cluster mode.

Image, mounts and checkpoint are those of this machine; all else is as in the manifests. The rights that driver and
Penstock have used are compared with those of the manifest.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml
from tests.kubernetes.api_of_tests import Api
from tests.kubernetes.conftest import EXAMPLES
from tests.kubernetes.local_pods import ACCOUNT, JOB, local_settings, start_job

from penstock.adaptors.kubernetes_server.spark_pods import MASTER
from penstock.adaptors.spark.installation import SparkInstallation

pytestmark = pytest.mark.kubernetes

ARGUMENTS = ("--policy", "threshold", "--rate", "100")
HALF = 0.4
"""Of the limit of the example's executors, in cores."""


def test_a_job_in_cluster_mode_is_scaled(space: Api, tmp_path: Path) -> None:
    """The job is submitted; its driver is a pod, and Penstock in it sets shares of the executors' pods."""
    properties = yaml.safe_load((EXAMPLES / "job.yaml").read_text().partition("---")[0])["data"]["spark.properties"]
    example = dict(line.split("=", 1) for line in properties.splitlines() if "persistentVolumeClaim" not in line)
    settings = {
        **example,
        **local_settings(tmp_path, space),
        "spark.kubernetes.driver.request.cores": "300m",
        "spark.driver.memory": "600m",
        "spark.driver.memoryOverhead": "600m",
        "spark.kubernetes.submission.waitAppCompletion": "false",
        "spark.kubernetes.driver.label.app": "counts",
    }
    spark = SparkInstallation.find()
    argv = [str(spark.home / "bin" / "spark-submit"), "--master", MASTER]
    for key, value in settings.items():
        argv += ["--conf", f"{key}={value}"]
    argv += [f"local://{JOB}", *ARGUMENTS, "--checkpoint", str(tmp_path / "checkpoint")]
    environment = {**os.environ, "KUBECONFIG": str(space.cluster.kubeconfig), "JAVA_HOME": str(spark.java.home)}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    follow(space)


def test_the_manifest_of_the_job_runs(space: Api, tmp_path: Path) -> None:
    """The Deployment starts a driver that starts its executors, and Penstock in it sets their shares."""
    start_job(space, tmp_path, *ARGUMENTS)
    follow(space)


def follow(space: Api) -> None:
    """Wait until Penstock in the driver's pod has set a share, then end the driver and see the executors go.

    Whatever the driver and Penstock have asked the API was allowed.
    """
    space.until_executors_have(HALF)
    (driver,) = space.pods_with("app=counts")
    assert "CPU shares are not used" not in space.log(driver.metadata.name)
    refused = space.refused_calls_of(ACCOUNT)
    assert not refused, refused[:3]
    if space.core.read_namespaced_pod(driver.metadata.name, space.namespace).metadata.owner_references:
        space.apps.delete_namespaced_deployment("counts", space.namespace)
    else:
        space.core.delete_namespaced_pod(driver.metadata.name, space.namespace)
    space.until_empty()
