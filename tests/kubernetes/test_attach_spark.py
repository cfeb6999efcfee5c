# SPDX-License-Identifier: Apache-2.0
"""A query whose executors are pods of a real cluster, scaled by `attach`. The tests tell one story, in their order.

The driver is outside the pods and logs in as a service account with the rights of the manifest, as does Penstock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from tests.kubernetes.api_of_tests import Api

import penstock as ps
from penstock.adaptors.kubernetes_server.local_cluster import LocalCluster
from penstock.adaptors.kubernetes_server.spark_pods import spark_settings
from penstock.records import Allocation, Decision, Outcome, OutcomeStatus, PlanRequest

pytestmark = pytest.mark.kubernetes

PATIENCE_SECONDS = 300.0
LIMIT = 0.8
ENDED = (OutcomeStatus.DONE, OutcomeStatus.DRAINING, OutcomeStatus.FAILED)


class ObedientPolicy:
    """Decides what the test says."""

    name = "obedient"
    every_seconds = 1.0

    def __init__(self) -> None:
        self.target = Allocation(1, 1.0)

    def plan(self, request: PlanRequest) -> Decision:
        """The test's word."""
        return Decision(request.operator, request.at, self.name, request.current, self.target, "the test says so")


@dataclass
class Story:
    """The running application."""

    api: Api
    application: str
    scaler: ps.Scaler
    policy: ObedientPolicy

    def pods(self) -> dict[str, str]:
        """The names of the pods that run and are not on their way out, by executor."""
        listed = self.api.core.list_namespaced_pod(
            self.api.namespace, label_selector=f"spark-app-selector={self.application},spark-role=executor"
        )
        return {
            pod.metadata.labels["spark-exec-id"]: pod.metadata.name
            for pod in listed.items
            if pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None
        }

    def quotas(self) -> list[float]:
        """The kernel's quotas of all executors, in cores."""
        return [round(self.api.quota_cores(name), 3) for name in self.pods().values()]

    def until(self, is_so: Callable[[], object]) -> None:
        """Wait; the bound only ends a failing test."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_so():
            assert time.monotonic() < deadline, (self.pods(), self.outcomes()[-3:], self.missing())
            time.sleep(0.3)

    def decide(self, executors: int, share: float) -> None:
        """Have the policy decide, and wait for the outcome."""
        before = len(self.outcomes())
        self.policy.target = Allocation(executors, share)
        self.until(lambda: any(outcome.status in ENDED for outcome in self.outcomes()[before:]))
        (ended, *_) = [outcome for outcome in self.outcomes()[before:] if outcome.status in ENDED]
        assert ended.status is not OutcomeStatus.FAILED, ended.detail

    def outcomes(self) -> list[Outcome]:
        """What became of actions so far."""
        return self.scaler._store.outcomes("counts")

    def missing(self) -> tuple[str, ...]:
        """What the newest look could not find out, and why."""
        return () if self.scaler.observation is None else self.scaler.observation.missing


@pytest.fixture(scope="module")
def story(cluster: LocalCluster, api: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """A query that counts, with one executor, and Penstock attached."""
    pytest.importorskip("pyspark", reason="needs the extra [spark]")
    from pyspark.sql import SparkSession
    from pyspark.sql.functions import col

    folder = tmp_path_factory.mktemp("spark")
    checkpoints = folder / "checkpoints"
    checkpoints.mkdir()
    settings = {
        **spark_settings(folder, namespace=api.namespace, writable=[checkpoints]),
        "spark.executor.instances": "1",
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.kubernetes.executor.request.cores": "400m",
        "spark.kubernetes.executor.limit.cores": f"{int(LIMIT * 1000)}m",
        "spark.driver.memory": "600m",
        "spark.dynamicAllocation.enabled": "false",
        "spark.decommission.enabled": "true",
        "spark.storage.decommission.enabled": "true",
        "spark.storage.decommission.replicationReattemptInterval": "2s",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.port": "0",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(api.kubeconfig_of("streaming-driver", folder)))
        patch.setenv("SPARK_LOCAL_IP", settings["spark.driver.host"])
        builder = SparkSession.builder.appName("counts")
        for key, value in settings.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        try:
            rows = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
            counts = rows.groupBy((col("value") % 5).alias("key")).count()
            query = (
                counts.writeStream.outputMode("update")
                .format("noop")
                .option("checkpointLocation", str(checkpoints))
                .queryName("counts")
                .trigger(processingTime="2 seconds")
                .start()
            )
            policy = ObedientPolicy()
            with ps.attach(
                query,
                executors=(1, 2),
                cpu_shares=(0.5, 1.0),
                mode="act",
                policy=policy,
                guards="none",
                warm_up_seconds=0.0,
            ) as scaler:
                made = Story(api, spark.sparkContext.applicationId, scaler, policy)
                assert not [note for note in scaler.notes if "CPU shares are not used" in note], scaler.notes
                made.until(lambda: len(made.pods()) == 1)
                yield made
            assert query.isActive
            made.until(lambda: made.quotas() and set(made.quotas()) == {LIMIT})
            query.stop()
        finally:
            spark.stop()
    api.until(lambda: made.pods() == {})


def test_a_share_is_set_in_place(story: Story) -> None:
    """Half a share is half the kernel's quota of the executor's container, without a restart."""
    assert story.quotas() == [LIMIT]
    story.decide(1, 0.5)
    assert story.quotas() == [LIMIT / 2]
    (name,) = story.pods().values()
    state = story.api.pod(name)["status"]["containerStatuses"][0]
    assert (state["resources"]["limits"]["cpu"], state["resources"]["requests"]["cpu"]) == ("400m", "200m")
    assert state["restartCount"] == 0


def test_an_executor_comes_and_is_held_to_the_share(story: Story) -> None:
    """A second pod is started beside the first, and held as well."""
    story.decide(2, 0.5)
    assert len(story.pods()) == 2
    story.until(lambda: story.quotas() == [LIMIT / 2] * 2)


def test_a_pod_deleted_from_outside_is_replaced_and_held(story: Story) -> None:
    """Spark starts another executor in its place; it gets the share that is in force."""
    gone, name = next(iter(story.pods().items()))
    story.api.delete_pod(name)
    story.until(lambda: gone not in story.pods() and len(story.pods()) == 2)
    story.until(lambda: story.quotas() == [LIMIT / 2] * 2)


def test_an_executor_is_drained_and_its_pod_goes(story: Story) -> None:
    """One executor is chosen to go; the other keeps running the query, and gets its whole share back."""
    story.decide(1, 1.0)
    story.until(lambda: len(story.pods()) == 1)
    story.until(lambda: story.quotas() == [LIMIT])


def test_an_api_server_that_is_away_for_a_while_costs_nothing(story: Story, cluster: LocalCluster) -> None:
    """Without the API nothing is changed and batches go on; afterwards a share is set again."""
    before = story.scaler.observation
    assert before is not None
    assert before.last_batch_id is not None
    cluster.hold("kube-apiserver")
    try:
        deadline = time.monotonic() + 60.0
        faults: set[str] = set()
        while time.monotonic() < deadline:
            faults |= set(story.missing())
            time.sleep(0.5)
        assert any("does not answer" in fault for fault in faults), faults
        after = story.scaler.observation
        assert after is not None
        assert after.last_batch_id is not None
        assert after.last_batch_id > before.last_batch_id
    finally:
        cluster.let_go("kube-apiserver")
    story.until(lambda: cluster.status().is_ready)
    story.decide(1, 0.5)
    story.until(lambda: story.quotas() == [LIMIT / 2])
