# SPDX-License-Identifier: Apache-2.0
"""The controller dies: CPU shares are opened, the query goes on, another controller takes over."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from penstock.adaptors.agent.client import RemoteOperator
from penstock.adaptors.process.children import Child, Warden
from penstock.adaptors.spark.cluster import EmbeddedCluster
from penstock.errors import AdaptorError
from penstock.records import Action, Allocation, Limits, Mode, encode
from penstock.running.operator_job import JobInput, OperatorJob

pytestmark = [pytest.mark.spark, pytest.mark.cgroups, pytest.mark.kill]

CONTROLLER = """
import sys, time
from penstock.adaptors.agent.client import RemoteOperator
from penstock.records import Action, Allocation
remote = RemoteOperator(sys.argv[1])
remote.request(Action("survivor", time.time(), Allocation(1, 0.4), None))
while True:
    remote.collect()
    time.sleep(0.5)
"""


def wait_for(what: str, is_true: Callable[[], bool], seconds: float = 240.0) -> None:
    """Poll until something is true; the bound only ends a failing test."""
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline, f"waited in vain for: {what}"
        time.sleep(0.1)


def quota_us(operator: str) -> int | None:
    """The CPU quota of the operator's group; None: there is no group."""
    files = list(Path("/sys/fs/cgroup/cpu").rglob(f"penstock/*-{operator}-*/cpu.cfs_quota_us"))
    return int(files[0].read_text()) if files else None


@pytest.fixture
def operator(standalone_cluster: EmbeddedCluster, tmp_path: Path) -> Iterator[tuple[Child, OperatorJob]]:
    """A running operator without a controller."""
    if not Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").exists():
        pytest.skip("no cgroup v1 cpu controller on this kernel")
    sockets = tmp_path / "s"
    sockets.mkdir(mode=0o700)
    job = OperatorJob(
        name="survivor",
        app="penstock.apps.log_analysis:log_analysis",
        master=standalone_cluster.master_url,
        limits=Limits(1, 1, (0.4, 1.0)),
        mode=Mode.ACT,
        folder=str(tmp_path),
        socket_path=str(sockets / "agent.sock"),
        spark={
            "spark.executor.cores": "1", "spark.cores.max": "1", "spark.executor.memory": "600m",
            "spark.driver.memory": "600m", "spark.driver.host": "127.0.0.1", "spark.ui.port": "0",
            "spark.sql.shuffle.partitions": "1",
        },
        reads=JobInput(replay={"shape": "constant:rate=50,duration=1h", "payload": "log", "partitions": "1"}),
        lease_seconds=3.0,
    )  # fmt: skip
    path = tmp_path / "job.json"
    path.write_text(encode(job))
    with Warden() as warden:
        child = warden.start(
            "survivor",
            [sys.executable, "-m", "penstock.running.operator_process", str(path)],
            log=tmp_path / "survivor.log",
            env={**os.environ, **standalone_cluster.spark_environment()},
            cwd=tmp_path,
        )

        def is_ready() -> bool:
            child.raise_if_ended()
            return Path(job.socket_path).exists()

        wait_for("the operator's agent", is_ready, 180.0)
        yield child, job


def test_shares_open_and_the_query_goes_on(operator: tuple[Child, OperatorJob]) -> None:
    """The cap of a killed controller is lifted, a second one sees batches go on; a killed driver's group goes."""
    child, job = operator
    controller = subprocess.Popen([sys.executable, "-c", CONTROLLER, job.socket_path])
    try:
        wait_for("the cap", lambda: quota_us("survivor") == 40_000)
    finally:
        controller.kill()
        controller.wait()
    wait_for("the cap to be lifted", lambda: quota_us("survivor") == -1)

    with closing(RemoteOperator(job.socket_path)) as second:
        _goes_on(second, child)


def _goes_on(second: RemoteOperator, child: Child) -> None:
    """Hear batches as a second controller, cap the query, and see its group go with its driver."""
    batches: list[int] = []

    def hears_batches() -> bool:
        try:
            telemetry = second.collect()
        except AdaptorError:  # the seat of the first controller is kept until its lease has run out
            return False
        assert telemetry.is_running
        batches.extend(b.batch_id for b in telemetry.batches)
        return len(batches) > 3

    wait_for("batches after the controller's death", hears_batches)
    assert batches == sorted(set(batches))

    second.request(Action("survivor", time.time(), Allocation(1, 0.4), None))
    wait_for("the cap by the second controller", lambda: quota_us("survivor") == 40_000)
    child_pid = child.pid
    os.kill(child_pid, 9)
    wait_for("the group of the dead driver to go", lambda: quota_us("survivor") is None)
