# SPDX-License-Identifier: Apache-2.0
"""What a soak run looks at: processes by role, memory in proportion, disk by kind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from benchmarks.soak.run import block_seconds, settings
from benchmarks.soak.sampling import (
    CONTROLLER,
    DESCRIPTORS,
    DISK,
    MEMORY,
    PROCESSES,
    Sample,
    SampleFile,
    disk_of,
    kind_of,
    proportional_bytes,
    read_samples,
    role_of,
    samples_of,
)

from penstock.settings import parse_settings


@pytest.mark.parametrize(
    ("line", "role"),
    [
        ("python -I -S /x/penstock/adaptors/process/warden.py --parent 1", "warden"),
        ("python -I -S /x/penstock/adaptors/cgroups/guard.py {}", "cgroup guard"),
        ("python -m penstock.running.operator_process /r/job.json", "driver, Python"),
        ("java -cp x org.apache.spark.deploy.SparkSubmit pyspark-shell", "driver, JVM"),
        ("java org.apache.spark.executor.CoarseGrainedExecutorBackend --driver-url x", "executor"),
        ("python -m pyspark.daemon pyspark.worker", "Python worker"),
        ("java org.apache.spark.deploy.worker.Worker --host x", "Spark worker"),
        ("java org.apache.spark.deploy.master.Master --host x", "Spark master"),
        ("java -cp x kafka.Kafka server.properties", "broker"),
        ("python -m penstock.running.producer a b", "producer"),
        ("python -c from multiprocessing.spawn import spawn_main", "analysis"),
        ("sleep 5", "other"),
    ],
)
def test_every_process_of_a_run_has_its_role(line: str, role: str) -> None:
    """By a word of its command line."""
    assert role_of(line.split(), is_controller=False) == role
    assert role_of(line.split(), is_controller=True) == CONTROLLER


def test_memory_is_the_proportional_part(tmp_path: Path) -> None:
    """A process that is gone has none, and that is an error, not zero."""
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "smaps_rollup").write_text("5-6 ---p [rollup]\nRss: 900 kB\nPss: 300 kB\nPss_Anon: 1 kB\n")
    (tmp_path / "8").mkdir()
    (tmp_path / "8" / "smaps_rollup").write_text("")
    assert proportional_bytes(7, tmp_path) == 300 << 10
    for gone in (8, 9):
        with pytest.raises(OSError, match=r"process 8|No such file"):
            proportional_bytes(gone, tmp_path)


def test_disk_is_counted_by_kind(tmp_path: Path) -> None:
    """Everything in a run folder has a kind, so that nothing grows unseen."""
    for name in ("knowledge.sqlite", "logs/a.log", "cluster/logs/master.log", "kafka/data/t-0/00.log.old",
                 "kafka/kafka.log", "operators/a/checkpoint/state/0/1.delta", "operators/a/output/x.parquet",
                 "operators/a/job.json", "cluster/work/w/app/0/stderr"):  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 5000)
    assert set(disk_of(tmp_path)) == {
        "store", "logs", "topics", "checkpoints", "output", "other", "executor folders"
    }  # fmt: skip
    assert kind_of(Path("kafka/data/soak.parser-0/00000.log")) == "topics"
    assert all(held >= 5000 for held in disk_of(tmp_path).values())
    assert disk_of(tmp_path / "nowhere") == {}


def test_a_look_at_this_process(tmp_path: Path) -> None:
    """It is its own controller, with memory, descriptors and one process at least."""
    (tmp_path / "knowledge.sqlite").write_bytes(b"x")
    found = {(one.subject, one.quantity): one.value for one in samples_of(os.getpid(), tmp_path, 3.0)}
    assert found[CONTROLLER, MEMORY] > 1.0
    assert found[CONTROLLER, DESCRIPTORS] >= 3
    assert found[CONTROLLER, PROCESSES] == 1
    assert ("store", DISK) in found


def test_samples_survive_their_file(tmp_path: Path) -> None:
    """By subject and quantity, in the order of their times."""
    path = tmp_path / "samples.csv"
    with path.open("w", newline="") as file:
        written = SampleFile(file)
        written.add([Sample(0.0, "driver, JVM", MEMORY, 1.25), Sample(0.0, "broker", PROCESSES, 1.0)])
        written.add([Sample(10.0, "driver, JVM", MEMORY, 1200.0)])
    assert read_samples(path) == {
        ("driver, JVM", MEMORY): ([0.0, 10.0], [1.25, 1200.0]),
        ("broker", PROCESSES): ([0.0], [1.0]),
    }


def test_blocks_are_whole_cycles() -> None:
    """Two minutes for a short run, and some sixty blocks for a long one."""
    assert block_seconds(1800.0) == 120.0
    assert block_seconds(18 * 3600.0) % 120.0 == 0.0
    assert 40 <= 18 * 3600.0 / block_seconds(18 * 3600.0) <= 60


def test_its_pipeline_can_be_run() -> None:
    """The settings are valid for any length."""
    parsed = parse_settings(settings(0.5, 200.0))
    assert [operator.name for operator in parsed.operators] == ["parser", "counter"]
