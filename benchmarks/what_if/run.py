# SPDX-License-Identifier: Apache-2.0
"""CPU seconds of `penstock what-if` and of `penstock simulate` with mead on one trace, and whether they agree."""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from penstock.arrivals.shape_text import parse_shape

BAR_SECONDS = 10.0
SHAPE = "sampled:periodic:base=20,peak=400,period=40s,width=8s,duration={minutes}m,smooth=false,seed=7"
PIPELINE = """
name: bursts
operators:
  - name: counter
    micro_batch: {{fixed: 0s, driver: 300ms, per_record: 4ms}}
    trigger: 1s
    executors: [{fewest}, {most}]
    cpu_shares: [1.0]
objective: {{p95: 4s}}
"""
EXECUTORS = (1, 2, 3, 4)


@dataclass(frozen=True)
class Command:
    """One command: how long it took, and what it said."""

    name: str
    cpu_seconds: float
    document: Any


def penstock(name: str, *arguments: str) -> Command:
    """Run a command in a process of its own, as users do."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-m", "penstock", *arguments, "--json"], capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if not done.stdout:
        raise SystemExit(done.stderr.decode())
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Command(name, spent, json.loads(done.stdout))


def measured(folder: Path, minutes: int) -> tuple[list[Command], list[Command]]:
    """The two commands whose time counts, and a simulation of each fixed allocation to compare with."""
    shape = parse_shape(SHAPE.format(minutes=minutes))
    trace = folder / "bursts.txt"
    trace.write_text("".join(f"{time!r}\n" for time in shape.times(0, shape.total).tolist()))

    def pipeline(fewest: int, most: int) -> str:
        file = folder / f"from-{fewest}-to-{most}.yaml"
        file.write_text(PIPELINE.format(fewest=fewest, most=most))
        return str(file)

    timed = [
        penstock(
            "what-if, 4 allocations", "what-if", str(trace), "--fixed", "300ms", "--per-record", "4ms", "--trigger",
            "1s", "--executors", "1-4", "--cpu-shares", "1.0", "--objective", "p95=4s",
        ),
        penstock("simulate, mead", "simulate", pipeline(1, 4), "--trace", str(trace), "--policy", "mead"),
    ]  # fmt: skip
    fixed = [
        penstock(f"simulate, {n}", "simulate", pipeline(n, n), "--trace", str(trace), "--policy", "static")
        for n in EXECUTORS
    ]
    return timed, fixed


def main() -> int:
    """Measure, print, and fail above the bar or where the two disagree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=int, default=8)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        timed, fixed = measured(Path(folder), options.minutes)
    rows = timed[0].document["allocations"]
    if options.json:
        print(json.dumps([asdict(command) for command in (*timed, *fixed)]))
    else:
        for command in timed:
            print(f"{command.name:24} {command.cpu_seconds:6.2f} s of CPU (bar {BAR_SECONDS:g} s)")
        print(f"{'executors':>9} {'model p95':>10} {'replayed':>9} {'simulated':>9}  meets 4 s")
        for row, command in zip(rows, fixed, strict=True):
            model, met = (part["percentiles"]["0.95"] for part in (row, row["replayed"]))
            simulated = command.document["latency"]["p95"]
            print(f"{row['executors']:9} {model:8.2f} s {met:7.2f} s {simulated:7.2f} s  {row['meets']}")
    faults = [f"{command.name}: above the bar" for command in timed if command.cpu_seconds > BAR_SECONDS]
    for row, command in zip(rows, fixed, strict=True):
        met, simulated = row["replayed"]["percentiles"]["0.95"], command.document["latency"]["p95"]
        if abs(met / simulated - 1.0) > 0.01:
            faults.append(f"{command.name}: replayed {met:.3g} s, simulated {simulated:.3g} s")
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
