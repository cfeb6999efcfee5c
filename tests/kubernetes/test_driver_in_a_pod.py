# SPDX-License-Identifier: Apache-2.0
"""The controller in the driver's pod: the example job, by its manifest and by spark-submit in cluster mode.

Image, mounts and checkpoint are those of this machine; all else is as in the manifests. The rights that driver and
Penstock have used are compared with those of the manifest.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from tests.kubernetes.api_of_tests import Api
from tests.kubernetes.conftest import EXAMPLES, namespace_with_rights
from tests.kubernetes.local_pods import localize

from penstock.adaptors.kubernetes_server.local_cluster import LocalCluster
from penstock.adaptors.kubernetes_server.spark_pods import MASTER, cluster_mode_settings
from penstock.adaptors.spark.installation import SparkInstallation

pytestmark = pytest.mark.kubernetes

ACCOUNT = "streaming-driver"
JOB = EXAMPLES / "job.py"
ARGUMENTS = ("--policy", "threshold", "--rate", "100")
FORBIDDEN = 403
EXECUTOR_ENV = "spark.executorEnv."
PATIENCE_SECONDS = 300.0
HALF = 0.4
"""Of the limit of the example's executors, in cores."""


@pytest.fixture
def space(cluster: LocalCluster, request: pytest.FixtureRequest) -> Iterator[Api]:
    """A namespace of the test's own."""
    made = namespace_with_rights(cluster, request.node.name.replace("_", "-")[5:40].strip("-"))
    yield made
    made.core.delete_namespace(made.namespace)


def until(is_so: Callable[[], object], say: Callable[[], object]) -> None:
    """Wait; the bound only ends a failing test."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, say()
        time.sleep(0.5)


def is_scaled(space: Api) -> bool:
    """Whether an executor runs with half its share: Penstock has set it from within the driver's pod."""
    pods = space.pods_with("spark-role=executor")
    return bool(pods) and all(space.quota_cores(pod.metadata.name) == pytest.approx(HALF) for pod in pods)


def local_settings(folder: Path, space: Api) -> dict[str, str]:
    """What this machine's cluster needs in place of an image and a volume that all pods share."""
    checkpoint = folder / "checkpoint"
    checkpoint.mkdir()
    return cluster_mode_settings(folder, ACCOUNT, namespace=space.namespace, readable=[EXAMPLES], writable=[checkpoint])


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
    follow(space, "app=counts")


def test_the_manifest_of_the_job_runs(space: Api, tmp_path: Path) -> None:
    """The Deployment starts a driver that starts its executors, and Penstock in it sets their shares."""
    settings = local_settings(tmp_path, space)
    template = json.loads(Path(settings["spark.kubernetes.executor.podTemplateFile"]).read_text())["spec"]
    documents = [
        document
        for document in yaml.safe_load_all((EXAMPLES / "job.yaml").read_text().replace("streams", space.namespace))
        if document["kind"] != "PersistentVolumeClaim"
    ]
    for document in documents:
        if document["kind"] == "ConfigMap":
            document["data"]["spark.properties"] = localized(document["data"]["spark.properties"], settings)
        else:
            environment = {
                key.removeprefix(EXECUTOR_ENV): value for key, value in settings.items() if key.startswith(EXECUTOR_ENV)
            }
            environment["PYSPARK_PYTHON"] = settings["spark.pyspark.python"]
            container = localize(document["spec"]["template"]["spec"], template, environment, tmp_path)
            args = container["args"]
            args[args.index("spark-submit")] = f"{environment['SPARK_HOME']}/bin/spark-submit"
            args[args.index("/opt/job/job.py") :] = [str(JOB), *ARGUMENTS, "--checkpoint", str(tmp_path / "checkpoint")]
        space.apply(document)
    follow(space, "app=counts")


def localized(properties: str, settings: dict[str, str]) -> str:
    """The manifest's properties with this machine's image and template."""
    kept = [line for line in properties.splitlines() if "persistentVolumeClaim" not in line]
    names = ("container.image", "podTemplateFile", "executorEnv", "pyspark.python")
    own = [f"{key}={value}" for key, value in settings.items() if any(name in key for name in names)]
    return "\n".join([*kept, *(line for line in own if "driver" not in line), ""])


def follow(space: Api, selector: str) -> None:
    """Wait until Penstock in the driver's pod has set a share, then end the driver and see the executors go.

    Whatever the driver and Penstock have asked the API was allowed.
    """

    def words() -> str:
        found = space.core.list_namespaced_pod(space.namespace, label_selector=selector).items
        return "\n".join(f"{pod.metadata.name} {pod.status.phase}\n{space.log(pod.metadata.name)}" for pod in found)

    until(lambda: is_scaled(space), words)
    (driver,) = space.pods_with(selector)
    assert "CPU shares are not used" not in space.log(driver.metadata.name)
    # Beyond the namespace it asks for the nodes' room, and does without where that is not allowed.
    refused = [
        call
        for call in space.calls_of(ACCOUNT)
        if call["responseStatus"]["code"] == FORBIDDEN and call["objectRef"].get("namespace") == space.namespace
    ]
    assert not refused, refused[:3]
    if space.core.read_namespaced_pod(driver.metadata.name, space.namespace).metadata.owner_references:
        space.apps.delete_namespaced_deployment("counts", space.namespace)
    else:
        space.core.delete_namespaced_pod(driver.metadata.name, space.namespace)
    until(lambda: not space.core.list_namespaced_pod(space.namespace).items, words)
