# SPDX-License-Identifier: Apache-2.0
"""What a soak run looks at: processes by role, memory in proportion, disk by kind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.soak import sampling
from benchmarks.soak.run import block_seconds, settings, tap_mib
from benchmarks.soak.sampling import (
    CONTROLLER,
    DESCRIPTORS,
    DISK,
    GROUPS,
    MEMORY,
    PROCESSES,
    VARIABLE,
    Looks,
    Sample,
    SampleFile,
    disk_of,
    kind_of,
    live_bytes,
    proportional_bytes,
    read_samples,
    role_of,
    total_bytes,
)

from penstock.adaptors.cgroups.guard import process_stat
from penstock.adaptors.cgroups.owner import Owner
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
    """Without files, which other programs map, too. A process that is gone has none: that is an error, not zero."""
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "smaps_rollup").write_text(
        "5-6 ---p [rollup]\nRss: 900 kB\nPss:   800 kB\nPss_Anon:  290 kB\nPss_File: 500 kB\nPss_Shmem: 10 kB\n"
    )
    (tmp_path / "8").mkdir()
    (tmp_path / "8" / "smaps_rollup").write_text("")
    assert proportional_bytes(7, tmp_path) == 300 << 10
    for gone in (8, 9):
        with pytest.raises(OSError, match=r"process 8|No such file"):
            proportional_bytes(gone, tmp_path)


def test_what_lives_on_a_heap_is_asked_of_its_jvm(tmp_path: Path) -> None:
    """By a histogram of its classes, before which it collects garbage; one that does not answer is no empty heap."""
    jcmd = tmp_path / "jcmd"
    jcmd.write_text(
        "#!/bin/sh\n"
        'test "$1 $2" = "7 GC.class_histogram" || exit 1\n'
        'echo "   1:         266932       53259984  [B (java.base@17)"\n'
        'echo "   2:              1             16  a.Total (x)"\n'
        'echo "Total        266933       53260000"\n'
    )
    jcmd.chmod(0o700)
    assert live_bytes(7, str(jcmd)) == 53_260_000
    assert live_bytes(8, str(jcmd)) is None
    assert live_bytes(7, str(tmp_path / "absent")) is None
    assert live_bytes(7, None) is None
    assert total_bytes("no heap") is None


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


def test_folders_that_go_while_the_disk_is_looked_at_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark removes the folders of executors at any time; the look goes on with the others."""
    folders = [tmp_path / name for name in ("one", "other")]
    for folder in folders:
        (folder / "logs").mkdir(parents=True)
        (folder / "logs" / "file").write_bytes(b"x" * 5000)

    def kind_and_removal(path: Path) -> str:
        for folder in folders:
            if path.parts[0] != folder.name:
                shutil.rmtree(folder)
        return kind_of(path)

    monkeypatch.setattr(sampling, "kind_of", kind_and_removal)
    assert set(disk_of(tmp_path)) == {"logs"}
    assert len(list(tmp_path.iterdir())) == 1


def test_a_look_at_this_process(tmp_path: Path) -> None:
    """It is its own controller, with memory, descriptors and one process at least."""
    (tmp_path / "knowledge.sqlite").write_bytes(b"x")
    found = {(one.subject, one.quantity): one.value for one in Looks(os.getpid(), "m", tmp_path).look(3.0)}
    assert found[CONTROLLER, MEMORY] > 1.0
    assert found[CONTROLLER, DESCRIPTORS] >= 3
    assert found[CONTROLLER, PROCESSES] == 1
    assert ("store", DISK) in found


def test_processes_of_other_runs_are_not_looked_at(tmp_path: Path) -> None:
    """One that left the family of its controller is still found by its mark; one with another's mark is not."""
    first, second = (
        subprocess.Popen(
            [sys.executable, "-c", f"{role!r}; import time; print(flush=True); time.sleep(60)"],
            stdout=subprocess.PIPE, env={**os.environ, VARIABLE: mark},
        )
        for role, mark in (("pyspark.daemon", "m"), ("kafka.Kafka", "another"))
    )  # fmt: skip
    try:
        for started in (first, second):
            assert started.stdout is not None
            started.stdout.readline()
        no_controller = _ended_pid()
        subjects = {one.subject for one in Looks(no_controller, "m", tmp_path, tmp_path).look(0.0)}
    finally:
        for started in (first, second):
            started.kill()
            started.communicate()
    assert subjects == {"Python worker", "zombie", "run"}


def test_control_groups_of_other_runs_are_not_counted(tmp_path: Path) -> None:
    """A group is the run's if one of its processes made it, and stays so when that process is a zombie, or gone."""
    owner = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert owner.stdout is not None
        owner.stdout.readline()
        stat = process_stat("/proc", owner.pid)
        assert stat is not None
        ours, others = Owner(owner.pid, stat.started, 1), Owner(owner.pid, stat.started + 1, 1)
        for folder in (tmp_path / "cpu" / "penstock" / ours.group_name("run", "parser"),
                       tmp_path / "unified" / "a.slice" / "penstock" / ours.group_name("run", "counter"),
                       tmp_path / "cpu" / "penstock" / others.group_name("run", "parser"),
                       tmp_path / "cpu" / "penstock" / "made by hand"):  # fmt: skip
            folder.mkdir(parents=True)
        looks = Looks(os.getpid(), "m", tmp_path / "run", tmp_path)
        assert _values(looks)["run", GROUPS] == 2.0
        owner.kill()
        os.waitid(os.P_PID, owner.pid, os.WEXITED | os.WNOWAIT)
        found = _values(looks)
        assert (found["run", GROUPS], found["zombie", PROCESSES]) == (2.0, 1.0)
    finally:
        owner.kill()
        owner.communicate()
    found = _values(looks)
    assert (found["run", GROUPS], found["zombie", PROCESSES]) == (2.0, 0.0)


def _values(looks: Looks) -> dict[tuple[str, str], float]:
    return {(one.subject, one.quantity): one.value for one in looks.look(0.0)}


def _ended_pid() -> int:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


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


def test_taps_fill_until_they_are_full() -> None:
    """Sixteen bytes a record of two topics, up to two million records each."""
    assert tap_mib(200.0, 0.0, 3600.0) == pytest.approx(22.0, rel=0.01)
    assert tap_mib(200.0, 9000.0, 36_000.0) == pytest.approx(6.1, rel=0.01)
    assert tap_mib(200.0, 20_000.0, 40_000.0) == 0.0


def test_its_pipeline_can_be_run() -> None:
    """The settings are valid for any length."""
    parsed = parse_settings(settings(0.5, 200.0))
    assert [operator.name for operator in parsed.operators] == ["parser", "counter"]
