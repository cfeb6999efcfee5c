# SPDX-License-Identifier: Apache-2.0
"""On a cluster of the user's own the pipeline goes on when Penstock goes, and the next Penstock takes it over."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.e2e.live_run import PATIENCE_SECONDS, LiveRun, capped_groups
from tests.e2e.test_scaled_run import settings

from penstock.adaptors.spark.cluster import EmbeddedCluster

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kill, pytest.mark.timeout(1200)]

# The records are there in ten seconds and read a thousand at a time: thirty batches, a second or more each, pace the
# test, so that a slow machine gets the time it needs between the kill and the last batch.
RECORDS = 30_000


@pytest.mark.cgroups
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_controller_that_went_is_replaced_and_no_record_is_lost(
    number: signal.Signals, standalone_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    """After SIGKILL and SIGTERM batches go on without a cap; a resumed run ends with every record counted once."""
    folder = tmp_path / "run"
    with ended_with_the_test(folder):
        spec = settings(
            f"constant:rate={RECORDS // 10},duration=10s",
            rows_per_batch=1000,
            drain="600s",
            cluster={"master": standalone_cluster.master_url},
        )
        spec["operators"][0]["spark"] = dict(standalone_cluster.authentication)
        with LiveRun(folder, spec, may_be_left=True) as first:
            first.wait_for("the first batch", lambda: any(o.records_done for o in first.observations()))
            first.process.send_signal(number)
            first.process.wait(PATIENCE_SECONDS)
            if number == signal.SIGTERM:
                assert first.process.returncode == 130, first.output()
                assert json.loads(first.output().strip().splitlines()[-1])["is_left"]
            first.wait_for("no cap is left", lambda: not capped_groups(first), while_running=False)
        done = _newest_commit(folder)
        # The batch after the one under way at the kill began without a controller.
        first.wait_for("batches without a controller", lambda: _newest_commit(folder) >= done + 2, while_running=False)
        with LiveRun(folder, spec, "--resume") as second:
            result = second.result()
            assert result["records_due"] == result["records_done"] == RECORDS
            assert second.total_counted("logs") == RECORDS
            second.wait_for("the operator to be gone", lambda: not operators_of(folder), while_running=False)


@contextmanager
def ended_with_the_test(folder: Path) -> Iterator[None]:
    """What outlives its controller on purpose does not outlive a test that failed."""
    try:
        yield
    finally:
        for pid in operators_of(folder):
            os.kill(pid, signal.SIGKILL)


def _newest_commit(folder: Path) -> int:
    commits = (folder / "operators" / "logs" / "checkpoint" / "commits").glob("[0-9]*")
    return max((int(p.name) for p in commits), default=-1)


def operators_of(folder: Path) -> list[int]:
    """The processes of operators in a run folder."""
    import psutil

    return [p.pid for p in psutil.process_iter(["cmdline"]) if str(folder) in " ".join(p.info["cmdline"] or [])]
