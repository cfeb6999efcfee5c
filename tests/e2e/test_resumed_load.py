# SPDX-License-Identifier: Apache-2.0
"""A run whose controller was killed goes on where it was: operators are taken over, and the load is sent on, once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.e2e.live_run import LiveRun
from tests.e2e.test_kafka_pipeline import has_done, numbers_kept, operator
from tests.e2e.test_outliving import ended_with_the_test, operators_of

from penstock.adaptors.kafka.broker import KafkaBroker
from penstock.adaptors.kafka.operator_topics import records_in
from penstock.adaptors.process.children import Warden
from penstock.adaptors.spark.cluster import EmbeddedCluster

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka, pytest.mark.kill, pytest.mark.timeout(1200)]

RECORDS, RATE = 9_000, 100
TOPIC = "resumed.arrivals"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[KafkaBroker]:
    """A broker that outlives the run."""
    with Warden() as warden, KafkaBroker(warden, tmp_path / "kafka") as broker:
        yield broker


def test_a_killed_run_goes_on_and_sends_every_record_once(
    standalone_cluster: EmbeddedCluster, broker: KafkaBroker, tmp_path: Path
) -> None:
    """After kill -9 in the middle and a resume, every number of the load comes out once, and the run ends by itself."""
    folder, lets_in = tmp_path / "run", dict(standalone_cluster.authentication)
    spec: dict[str, Any] = {
        "name": "resumed",
        "broker": {"servers": broker.bootstrap_servers, "partitions": 2},
        "cluster": {"master": standalone_cluster.master_url},
        "arrivals": {"shape": f"constant:rate={RATE},duration={RECORDS // RATE}s", "options": {"payload": "none"}},
        "operators": [
            operator("enrich", "tests.e2e.number_keeper:number_by_key", trigger="1s", spark=dict(lets_in)),
            operator(
                "keeper", "tests.e2e.number_keeper:keep_numbers", input="enrich", trigger="1s", spark=dict(lets_in)
            ),
        ],
        "policy": "fixed",
        "drain": "300s",
    }
    with ended_with_the_test(folder):
        with LiveRun(folder, spec) as first:
            first.wait_for("a part of the records", has_done(first, "enrich", RECORDS / 20))
            first.process.kill()
            first.process.wait()
            first.wait_for("its producer is gone", lambda: not first.processes("running.producer"), while_running=False)
        sent = records_in(broker.connection, [TOPIC])[TOPIC]
        assert 0 < sent < RECORDS, "the kill was to come in the middle"
        assert len(operators_of(folder)) >= 2, "operators go on without a controller"
        with LiveRun(folder, spec, "--resume") as second:
            held = [0]  # asked once more the topic may be gone: the run ends by itself

            def is_all_sent() -> bool:
                held.append(records_in(broker.connection, [TOPIC])[TOPIC])
                return held[-1] >= RECORDS

            second.wait_for("all was sent", is_all_sent)
            assert held[-1] == RECORDS
            result = second.result()
            output = second.output()
    for name in ("enrich", "keeper"):
        assert f"took over {name}" in output
        assert result["operators"][name]["restarts"] == 0
    assert f"the load goes on: {RECORDS - sent:,} records are left to send" in output
    assert result["records_due"] == result["records_read"] == result["records_done"] == RECORDS
    assert np.array_equal(np.sort(numbers_kept(second)), np.arange(RECORDS))
    assert not operators_of(folder)
