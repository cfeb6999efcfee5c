# SPDX-License-Identifier: Apache-2.0
"""Policies on a real query: somebody else's object, the one the objective chooses, and changing them while it runs."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import col
from pyspark.sql.streaming.query import StreamingQuery
from tests.integration.spark_driver import SparkDriver

import penstock as ps
from penstock.adaptors.spark.cluster import EmbeddedCluster
from penstock.adaptors.spark.query_probe import executors_of_this_driver
from penstock.evaluation import RunHistory, read_history
from penstock.evaluation.report import outcome_text
from penstock.knowledge import SqliteStore

pytestmark = [pytest.mark.spark, pytest.mark.core]

EXAMPLE = Path(__file__).parents[2] / "examples" / "headroom_policy.py"
PATIENCE_SECONDS = 180.0


@pytest.fixture(scope="module")
def spark(spark_driver: SparkDriver, standalone_cluster: EmbeddedCluster) -> Iterator[SparkSession]:
    """An application with two executors of one core."""
    settings = {
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.cores.max": "2",
        "spark.decommission.enabled": "true",
        "spark.storage.decommission.enabled": "true",
        # How long a drained executor waits before it looks once more for blocks: most of a drain, at its default.
        "spark.storage.decommission.replicationReattemptInterval": "2s",
        "spark.sql.shuffle.partitions": "2",
    }
    with spark_driver.on_cluster(standalone_cluster, settings) as session:
        yield session


@pytest.fixture
def query(spark: SparkSession) -> Iterator[StreamingQuery]:
    """A query that hardly needs CPU."""
    rows = spark.readStream.format("rate").option("rowsPerSecond", 200).load()
    counts = rows.groupBy((col("value") % 5).alias("key")).count()
    started = counts.writeStream.outputMode("update").format("noop").queryName("counts").start()
    yield started
    started.stop()


def headroom_policy() -> Any:
    """The policy of the example, built as its page says."""
    spec = importlib.util.spec_from_file_location("headroom_policy", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.HeadroomPolicy(room=0.2)


def until(scaler: ps.Scaler, is_so: Callable[[list[ps.Decision]], bool]) -> list[ps.Decision]:
    """Wait for decisions; the bound only ends a failing test."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so(scaler.decisions):
        assert time.monotonic() < deadline, "\n".join(d.explain() for d in scaler.decisions[-5:])
        time.sleep(0.2)
    return scaler.decisions


def test_somebody_elses_policy_scales_a_real_query_and_is_replaced_while_it_runs(
    query: StreamingQuery, tmp_path: Path
) -> None:
    """The example takes an idle executor away; then another policy decides, and one that fails changes nothing."""
    file = tmp_path / "scaler.sqlite"
    with ps.attach(
        query,
        policy=headroom_policy(),
        objective=ps.latency(p95="60s"),
        executors=(1, 2),
        mode="act",
        warm_up_seconds=2.0,
        window_seconds=5.0,
        guards={"cooldown_down": "2s", "opposite": "2s", "drain": "60s"},
        store=file,
    ) as scaler:
        assert any("headroom does not look at the objective" in note for note in scaler.notes)
        changes = [d for d in until(scaler, lambda found: any(d.is_change for d in found)) if d.is_change]
        assert changes[0].policy == "headroom"
        assert changes[0].target.executors == 1
        assert "busiest look" in changes[0].reason
        drained_before_it_was_done(file, changes[0])

        scaler.replace_policy("threshold", {"every_seconds": "2s"})
        found = until(scaler, lambda found: found[-1].policy == "threshold" and "utilisation" in found[-1].reason)
        changed = [d for d in found if d.reason == "the policy is threshold from now on, instead of headroom"]
        assert len(changed) == 1
        assert not [d for d in found[found.index(changed[0]) :] if d.policy == "headroom"]

        class Failing:
            name, every_seconds = "failing", 1.0

            def plan(self, request: ps.PlanRequest) -> ps.Decision:
                raise ZeroDivisionError("a test")

        with pytest.raises(ps.ConfigurationError, match="failing failed in plan for counts: ZeroDivisionError: a test"):
            scaler.replace_policy(Failing())
        count = len(scaler.decisions)
        after = until(scaler, lambda found: len(found) > count + 1)
        assert after[-1].policy == "threshold"
    assert query.isActive
    history = history_of(file)
    assert history.is_ended
    assert history.settings is not None
    assert history.settings["policy"]["name"] == "threshold"
    assert history.summary["latency_steady"] is not None
    assert ["the source does not say" in change.why for change in history.exactness_changes] == [True]


def history_of(file: Path) -> RunHistory:
    """What `penstock explain` reads."""
    store = SqliteStore.open_readonly(file)
    try:
        return read_history(store)
    finally:
        store.close()


def drained_before_it_was_done(file: Path, change: ps.Decision) -> None:
    """The executor takes no work first, and the change is done when the driver no longer has it."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    texts: list[str] = []
    while not texts or not texts[-1].startswith("done"):
        assert time.monotonic() < deadline, texts
        texts.append(outcome_text(history_of(file), change))
        time.sleep(0.2)
    assert len(executors_of_this_driver()()) == 1
    assert any(text.startswith("draining, ") and ": executor " in text for text in texts)
    assert ", of which draining " in texts[-1]


@pytest.mark.parametrize(("named", "policy"), [({}, "mead"), ({"policy": "mead-published"}, "mead-published")])
def test_a_latency_objective_gets_a_policy_that_plans_for_it(
    query: StreamingQuery, named: dict[str, Any], policy: str
) -> None:
    """Without a policy's name the one that reads the objective decides; as published it can be named."""
    with ps.attach(
        query, objective=ps.latency(p95="60s"), executors=(1, 2), warm_up_seconds=0.0, window_seconds=3.0, **named
    ) as scaler:
        found = until(scaler, lambda found: len(found) >= 1)
        assert {d.policy for d in found} == {policy}
        assert scaler.notes == ("arrival times of rate are interpolated between batches",)
    assert query.isActive
