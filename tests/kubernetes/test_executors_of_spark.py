# SPDX-License-Identifier: Apache-2.0
"""What Spark's calls do on Kubernetes, without Penstock's loop. The tests tell one story, in their order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.kubernetes.api_of_tests import Api
from tests.kubernetes.spark_application import Application, counting

from penstock.adaptors.clusters import RunningApplication, SparkCluster, cluster_of

pytestmark = pytest.mark.kubernetes


@pytest.fixture(scope="module")
def application(api: Api, driver_login: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    """A query that counts, with one executor."""
    with counting(api, tmp_path_factory.mktemp("spark")) as made:
        made.until(lambda: len(made.pods()) == 1)
        made.until_batches(1)
        yield made


@pytest.fixture
def port(application: Application) -> SparkCluster:
    """The calls."""
    return cluster_of(RunningApplication(application.spark.sparkContext))


def registered(port: SparkCluster) -> set[str]:
    """The executors that take tasks."""
    return set(port.census().active)


def test_executors_are_added_beside_those_that_run(application: Application, port: SparkCluster) -> None:
    """A higher total starts a pod, and leaves the other one alone."""
    (first,) = application.pods()
    port.ask(2)
    application.until(lambda: len(registered(port)) == 2)
    assert first in registered(port)
    assert set(application.pods()) == registered(port)


def test_killing_an_executor_leaves_the_wanted_total_alone(application: Application, port: SparkCluster) -> None:
    """The killed one is replaced, because the total stays."""
    victim = min(registered(port), key=int)
    port.kill([victim])
    assert port.asked() == 2
    application.until(lambda: victim not in application.pods() and len(registered(port)) == 2)
    assert victim not in registered(port)
    assert port.asked() == 2


def test_after_a_kill_for_good_a_drained_executor_is_replaced(application: Application, port: SparkCluster) -> None:
    """With the total lowered first, the killed one goes for good; the total holds for what happens later."""
    port.ask(1)
    stays, goes = sorted(registered(port), key=int)
    port.kill([goes])
    application.until(lambda: set(application.pods()) == {stays} == registered(port))
    assert port.asked() == 1
    port.drain(stays, "the test says so")
    application.until(lambda: stays not in application.pods() and len(registered(port)) == 1)
    application.until_batches(1)


def test_the_executor_that_is_chosen_goes(application: Application, port: SparkCluster) -> None:
    """Of two executors the older one is drained; its pod goes, the younger one stays, and none comes in its place."""
    port.ask(2)
    application.until(lambda: len(registered(port)) == 2)
    goes, stays = sorted(registered(port), key=int)
    port.ask(1)
    port.drain(goes, "the test says so")
    application.until(lambda: set(application.pods()) == {stays})
    application.until_batches(3)
    assert set(application.pods()) == {stays} == registered(port)
