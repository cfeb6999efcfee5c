# SPDX-License-Identifier: Apache-2.0
"""A query whose executors are pods of a real cluster, scaled by `attach`. The tests tell one story, in their order.

The driver is outside the pods and logs in as a service account with the rights of the manifest, as does Penstock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from tests.contract.steered_query import ENDED, ObedientPolicy
from tests.kubernetes.api_of_tests import Api
from tests.kubernetes.spark_application import LIMIT, Application, counting

import penstock as ps
from penstock.adaptors.kubernetes_server.local_cluster import LocalCluster
from penstock.records import Allocation, Outcome, OutcomeStatus

pytestmark = pytest.mark.kubernetes


@dataclass
class Story:
    """The running application, and Penstock attached to it."""

    application: Application
    scaler: ps.Scaler
    policy: ObedientPolicy

    @property
    def api(self) -> Api:
        """The cluster."""
        return self.application.api

    def pods(self) -> dict[str, str]:
        """The pods that run, by executor."""
        return self.application.pods()

    def quotas(self) -> list[float]:
        """The kernel's quotas of all executors, in cores."""
        return self.application.quotas()

    def until(self, is_so: Callable[[], object]) -> None:
        """Wait; the bound only ends a failing test."""
        self.application.until(is_so, lambda: (self.outcomes()[-3:], self.missing()))

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
def story(api: Api, driver_login: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """A query that keeps the numbers of its records, with one executor, and Penstock attached."""
    with counting(api, tmp_path_factory.mktemp("spark"), keeps_numbers=True) as application:
        policy = ObedientPolicy()
        with ps.attach(
            application.query,
            executors=(1, 2),
            cpu_shares=(0.5, 1.0),
            mode="act",
            policy=policy,
            guards="none",
            warm_up_seconds=0.0,
        ) as scaler:
            made = Story(application, scaler, policy)
            assert not [note for note in scaler.notes if "CPU shares are not used" in note], scaler.notes
            made.until(lambda: len(made.pods()) == 1)
            yield made
        assert application.query.isActive
        application.until(lambda: application.quotas() and set(application.quotas()) == {LIMIT})


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


def test_a_second_autoscaler_is_noticed(story: Story) -> None:
    """Another Penstock wants two executors of the same application: the first one says so, and keeps to its own."""
    said: set[str] = set()

    def is_told() -> bool:
        said.update(story.missing())
        return any("somebody else has asked Spark for 2 executors, Penstock for 1" in line for line in said)

    other = ObedientPolicy()
    other.target = Allocation(2, 1.0)
    with ps.attach(
        story.application.query,
        name="other",
        executors=(1, 2),
        mode="act",
        policy=other,
        guards="none",
        warm_up_seconds=0.0,
    ):
        story.until(is_told)
    story.until(lambda: len(story.pods()) == 1)
    story.application.until_batches(1)


@pytest.mark.usefixtures("server_is_killed")
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
