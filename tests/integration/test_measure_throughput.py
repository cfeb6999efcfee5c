# SPDX-License-Identifier: Apache-2.0
"""`penstock measure` on a real Spark, with executors held to a CPU share by the kernel."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.live_run import groups

from penstock.measuring.plan import MeasurePlan
from penstock.measuring.sample_file import SampleFile
from penstock.records import decode

pytestmark = [pytest.mark.spark, pytest.mark.cgroups, pytest.mark.long, pytest.mark.timeout(900)]

APP = "log-analysis"


def test_two_executors_sustain_more_than_one(tmp_path: Path) -> None:
    """One and two executors of a third of a core each: more throughput with two, kept in the files, nothing left."""
    folder = tmp_path / "measured"
    command = [
        sys.executable, "-m", "penstock", "measure", APP, "--executors", "1,2", "--cpu-share", "0.3", "--batch", "3s",
        "--repeats", "1", "--tries", "1", "--sample", "15s", "--warm-up", "8s", "--warm-up-most", "60s",
        "--converge", "45s", "--rest", "0s", "--no-source-check", "--folder", str(folder), "--json",
        # They compile less and are warm sooner: the test is of the measurement, not of Java.
        "--spark", "spark.executor.extraJavaOptions=-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=800)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.strip().splitlines()[-1])
    one, two = result["sizes"]
    assert (one["executors"], two["executors"]) == (1, 2)
    plan = decode(MeasurePlan, (folder / "plan.json").read_text())
    samples = SampleFile(folder, plan, resume=True).samples
    assert [(s.executors, s.parallelism) for s in samples] == [(1, 1), (2, 2)]
    for sample in samples:
        # The kernel holds them: never more than they are allowed, but for what one period may overrun.
        assert sample.utilisation is not None
        assert sample.utilisation < 1.15
        assert sample.bytes_per_second is not None
        assert sample.bytes_per_second > 20 * sample.throughput.mean  # a log line has more than 20 bytes
        assert sample.host is not None
        assert sample.host.others is not None
    with (folder / "samples.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert [(row["executors"], row["cpu_share"]) for row in rows] == [("1", "0.3"), ("2", "0.3")]
    assert float(rows[1]["throughput"]) == two["throughput"]
    assert (folder / "throughput.png").read_bytes().startswith(b"\x89PNG")
    assert not (folder / "work" / "application-1-executors-1").exists()
    assert [group for group in groups() if "measured" in group.name] == []
    # Whatever else the machine does: with the second executor a record takes about as much CPU as before.
    by_cpu = [s.throughput.mean / s.cpu_used_cores for s in samples if s.cpu_used_cores]
    assert len(by_cpu) == 2
    assert by_cpu[1] > 0.7 * by_cpu[0], by_cpu
    starved = [s.executors for s in samples if s.is_disturbed and s.utilisation is not None and s.utilisation < 0.8]
    if starved:
        pytest.skip(f"others kept the CPU from the executors of {starved}, and the samples say so: nothing to compare")
    assert two["throughput"] > 1.5 * one["throughput"] > 0
