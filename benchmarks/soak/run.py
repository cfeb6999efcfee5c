# SPDX-License-Identifier: Apache-2.0
"""A pipeline that is scaled every minute, for hours: does what it holds of the machine stay flat?

Two operators joined by topics, on the embedded cluster and broker, go from one executor to two and back every minute.
Memory (PSS), live heap, descriptors and threads of every process by role, the disk of the run folder and the cgroups
are sampled to a CSV file, drawn, and judged (`verdict.py`). The exit code is 0 only if the run ended well and
everything that is judged is flat. Run: ``python benchmarks/soak/run.py --hours 8``; judge an earlier file:
``--judge samples.csv``.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # run by its path, as all benchmarks are

from benchmarks.soak.judgement import draw, judge_all
from benchmarks.soak.sampling import CONTROLLER, MEMORY, VARIABLE, Looks, SampleFile, read_samples
from benchmarks.soak.verdict import ALLOWED_SHARE

from penstock.cli.progress import progress_bar

SCALE_SECONDS = 60.0
WARM_UP_SHARE = 0.25
LEAST_WARM_UP_SECONDS = 2400.0
"""Spark keeps the files of 100 batches, and the checkpoints grow until there are so many: on a busy machine that took
40 minutes."""
LEAST_BLOCK_SECONDS = 2 * SCALE_SECONDS
MOST_BLOCKS = 60
TOPICS_READ, BYTES_A_RECORD, RECORDS_KEPT = 2, 16, 2_000_000
"""The controller keeps offset and arrival of the newest records of each topic that an operator reads (`TopicTap`): of a
million, in twice the place."""


def main() -> int:
    """Run, sample, draw and judge."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--hours", type=float, default=1.0, help="how long records arrive [default: 1]")
    arguments.add_argument("--rate", type=float, default=200.0, help="records a second [default: 200]")
    arguments.add_argument("--every", type=float, default=10.0, help="seconds from one look to the next [default: 10]")
    arguments.add_argument(
        "--warm-up", type=float, help="minutes that are not judged [default: a quarter, at least 40]"
    )
    arguments.add_argument("--folder", type=Path, default=Path("build/soak"), help="gets samples, picture and verdict")
    arguments.add_argument("--judge", type=Path, metavar="CSV", help="judge the samples of an earlier run, run nothing")
    arguments.add_argument("--json", action="store_true", help="one JSON object as the last line")
    chosen = arguments.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))  # so that the run is ended too
    chosen.folder.mkdir(parents=True, exist_ok=True)
    samples = chosen.judge or chosen.folder / "samples.csv"
    code = 0 if chosen.judge else soak(chosen.hours, chosen.rate, chosen.every, samples)
    series = read_samples(samples)
    seconds = max(times[-1] for times, _ in series.values())
    warm_up = max(LEAST_WARM_UP_SECONDS, WARM_UP_SHARE * seconds) if chosen.warm_up is None else 60.0 * chosen.warm_up
    judged = judge_all(series, warm_up_seconds=warm_up, block_seconds=block_seconds(seconds - warm_up),
                       expected={(CONTROLLER, MEMORY): tap_mib(chosen.rate, warm_up, seconds)})  # fmt: skip
    draw(series, judged, chosen.folder / "soak.png", warm_up)
    bad = [one for one in judged if one.is_bad]
    for one in judged:
        print(("! " if one.is_bad else "  ") + one.line(), file=sys.stderr)
    result = {
        "hours": round(seconds / 3600.0, 3),
        "warm_up_hours": round(warm_up / 3600.0, 3),
        "run_exit_code": code,
        "allowed_growth_percent": 100.0 * ALLOWED_SHARE,
        "judged": sum(one.verdict is not None for one in judged),
        "not_flat": [f"{one.subject}: {one.quantity}: {one.verdict}" for one in bad],
        "samples": str(samples),
        "picture": str(chosen.folder / "soak.png"),
    }
    text = "flat after warm-up" if not bad else f"not flat: {len(bad)} of {result['judged']} series"
    print(json.dumps(result) if chosen.json else f"soak: {text}; the run ended with exit code {code}")
    return 1 if bad or code else 0


def block_seconds(judged_seconds: float) -> float:
    """How long a block is: whole cycles of scaling, and some sixty blocks at most."""
    cycle = 2.0 * SCALE_SECONDS
    return max(LEAST_BLOCK_SECONDS, cycle * -(-judged_seconds // (MOST_BLOCKS * cycle)))


def tap_mib(rate: float, since_seconds: float, until_seconds: float) -> float:
    """What the taps of the controller take of memory from one time to another, in MiB."""
    since, until = (min(rate * seconds, RECORDS_KEPT) for seconds in (since_seconds, until_seconds))
    return TOPICS_READ * BYTES_A_RECORD * (until - since) / (1 << 20)


def settings(hours: float, rate: float) -> dict[str, Any]:
    """A parser and a counter with state, scaled by the clock."""
    small = {
        "executor_memory": "600m",
        "driver_memory": "600m",
        "executors": [1, 2],
        "cpu_shares": [0.8, 1.0],
        # A heap fills its limit sooner or later, whatever lives on it. All of it counts from the start, so that what
        # grows outside it can be told; what lives on it is measured apart.
        "spark": {"spark.executor.extraJavaOptions": "-Xms600m -XX:+AlwaysPreTouch"},
    }
    return {
        "name": "soak",
        "broker": {"partitions": 2},
        "arrivals": {
            "shape": f"constant:rate={rate:g},duration={3600.0 * hours:g}s",
            "options": {"payload": "log", "malformed": "0"},
        },
        "operators": [
            {"name": "parser", "app": "penstock.apps.log_analysis:parser", "trigger": "2s", **small},
            {"name": "counter", "app": "penstock.apps.log_analysis:counter", "input": "parser", "unique": ["index"],
             "trigger": "2s", **small},
        ],
        "policy": {
            "name": "schedule",
            "options": {"steps": f"{SCALE_SECONDS:g}s@1,{SCALE_SECONDS:g}s@2x0.8", "every_seconds": "5s"},
        },
        "guards": {"cooldown_down": "1s", "opposite": "1s", "drain": "10000s", "settle": "5s"},
        "restarts": {"start_within": "900s"},  # a busy machine is no fault of the code
        "drain": "600s",
    }  # fmt: skip


def soak(hours: float, rate: float, every: float, samples: Path) -> int:
    """Run the pipeline and look at it until it ends; gives its exit code. Its folder, beside the samples, is kept."""
    import yaml

    mark = uuid.uuid4().hex
    folder = samples.parent.absolute() / f"run-{mark[:8]}"
    spec = folder.with_suffix(".yaml")
    spec.write_text(yaml.safe_dump(settings(hours, rate)), encoding="utf-8")
    with progress_bar(f"soaking for {hours:g} h") as progress:
        command = [sys.executable, "-m", "penstock", "run", str(spec), "--no-view", "--json", "--folder", str(folder)]
        began = time.monotonic()
        with (samples.parent / "run.out").open("w") as output, samples.open("w", encoding="utf-8", newline="") as file:
            run = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, VARIABLE: mark})
            written, looks = SampleFile(file), Looks(run.pid, mark, folder)
            try:
                while run.poll() is None:
                    seconds = time.monotonic() - began
                    written.add(list(looks.look(seconds)))
                    if progress is not None:
                        progress(min(1.0, seconds / (3600.0 * hours)))
                    wait_for_end(run, every)
            finally:
                if run.poll() is None:
                    run.terminate()
                    run.wait()
    return run.returncode


def wait_for_end(run: subprocess.Popen[bytes], seconds: float) -> None:
    """Let some time pass, or less where the run ends."""
    try:
        run.wait(seconds)
    except subprocess.TimeoutExpired:
        return


if __name__ == "__main__":
    sys.exit(main())
