# SPDX-License-Identifier: Apache-2.0
"""Runs in which a controller dies at a chosen point: small pipelines with numbered records, and what must come of them.

Each is the smallest one that comes to its points. All run on a cluster of the test's own, whose operators outlive their
controller.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tests.e2e.live_run import LiveRun
from tests.e2e.test_kafka_pipeline import numbers_kept, operator

from penstock.adaptors.kafka.broker import KafkaBroker
from penstock.adaptors.spark.cluster import EmbeddedCluster

KEYS = 10
"""Of the counters in state of `slow_counter`."""


@dataclass(frozen=True)
class Scenario:
    """A pipeline, how many records go through it, and chains of points at which its controllers die."""

    name: str
    records: int
    settings: Callable[[EmbeddedCluster, KafkaBroker | None, int], dict[str, Any]]
    """For a cluster, a broker and a number of records."""
    chains: tuple[tuple[str, ...], ...]
    """What the controllers of one run are to die of, one after the other, as `PENSTOCK_CRASH_AT` says it: each takes
    over from the one before. A chain costs one start of the operators, however many points it has."""
    check: Callable[[LiveRun, int], None]
    needs_broker: bool = False
    most_restarts: int = 0
    """Of one operator in the resumed run. One that was asked to end at a border may be taken over before it does."""


def _common(cluster: EmbeddedCluster) -> dict[str, Any]:
    return {
        "cluster": {"master": cluster.master_url},
        "guards": {"cooldown_up": "1s", "cooldown_down": "1s", "opposite": "1s", "settle": "5s"},
        "restarts": {"start_within": "600s"},  # a busy machine is no fault of the code
        "warm_up": "1s",
        "window": "8s",
        "drain": "1200s",  # the same
    }


def _slow(cluster: EmbeddedCluster, milliseconds: float, **others: Any) -> dict[str, Any]:
    options = {"milliseconds": str(milliseconds)}
    return operator(
        "slow", "tests.e2e.slow_counter:slow_count", options=options, spark=dict(cluster.authentication), **others
    )


def scaled(cluster: EmbeddedCluster, _broker: KafkaBroker | None, records: int) -> dict[str, Any]:
    """One operator whose executors and CPU shares change every few seconds.

    Batches pace it: they take 200 records each. Without guards, records that wait do not keep it from being scaled
    down, also when none arrive any more, as on a busy machine after the first batch.
    """
    return {
        **_common(cluster),
        "guards": None,
        "name": "crashed",
        "arrivals": {
            "shape": f"constant:rate=200,duration={records // 200}s",
            "options": {"maxRowsPerBatch": "200"},
        },
        "operators": [_slow(cluster, 0.1, executors=[1, 2], cpu_shares=[0.5, 1.0], trigger="1s")],
        "policy": {"name": "schedule", "options": {"steps": "6s@1x0.5,6s@2", "every_seconds": "1s"}},
    }


def resized(cluster: EmbeddedCluster, _broker: KafkaBroker | None, records: int) -> dict[str, Any]:
    """One operator that cannot keep up with one core, and gets executors of two.

    Records arrive for longer than the first batches take on a busy machine: what only shrinks presses nobody.
    """
    return {
        **_common(cluster),
        "name": "resized",
        "arrivals": {
            "shape": f"constant:rate=300,duration={records // 300}s",
            "options": {"partitions": "2", "maxRowsPerBatch": "1000"},
        },
        "operators": [_slow(cluster, 4.0, sizes=[{"cores": 2}])],
        "policy": {"name": "fixed"},
        "resize": {"after": "10s"},
        "warm_up": "4s",
    }


def joined(cluster: EmbeddedCluster, broker: KafkaBroker | None, records: int) -> dict[str, Any]:
    """Two operators joined by topics, with a producer of the run's own."""
    assert broker is not None
    lets_in = dict(cluster.authentication)
    return {
        **_common(cluster),
        "name": "joined",
        "broker": {"servers": broker.bootstrap_servers, "partitions": 2},
        "arrivals": {
            "shape": f"constant:rate=200,duration={records // 200}s",
            "options": {"payload": "none"},
        },
        "operators": [
            operator("enrich", "tests.e2e.number_keeper:number_by_key", trigger="1s", spark=lets_in),
            operator("keeper", "tests.e2e.number_keeper:keep_numbers", input="enrich", trigger="1s", spark=lets_in),
        ],
        "policy": "fixed",
    }


def check_counts(run: LiveRun, records: int) -> None:
    """Every record is in the state once, and no batch was run twice or left out."""
    output = run.folder / "operators" / "slow" / "output"
    assert list(output.glob("*.again")) == [], "a batch was run twice"
    numbers = sorted(int(path.stem) for path in output.glob("*.json"))
    assert numbers == list(range(len(numbers))), "batches are missing"
    counts = {int(key): count for key, count in json.loads((output / f"{numbers[-1]}.json").read_text()).items()}
    assert counts == Counter(number % KEYS for number in range(records))


def check_numbers(run: LiveRun, records: int) -> None:
    """Every number came out once."""
    assert np.array_equal(np.sort(numbers_kept(run)), np.arange(records))


SCENARIOS: tuple[Scenario, ...] = (
    # Executors and shares have changed by the sixth pass, and by the second action.
    Scenario(
        "scaled",
        30_000,
        scaled,
        (
            ("settings-kept", "job-written", "process-started", "account-recalled", "process-adopted",
             "operators-ready", "cycles-made", "record-begun:40"),
            ("process-known", "pass-begun:6", "collected:6", "synced:6", "looked:6", "planned:6", "observation-kept:6",
             "decision-kept:6", "pass-ended:6"),
            ("superseded:2", "request-made:2", "requested:2", "acted:2", "action-kept:2", "outcome-kept:2",
             "record-written:40", "record-committed:40", "loop-ended", "operators-ended"),
        ),
        check_counts,
    ),
    # The store has the new size from `size-kept` on, so that nobody comes to the points before it again. After
    # `border-stop-asked` the process is gone, and on a busy machine no records arrive any more when the next one is
    # there: nothing presses for another size.
    Scenario(
        "resized",
        45_000,
        resized,
        (("resize-begun", "border-stop-asked"), ("resize-stopped",), ("resize-started",), ("size-kept",),
         ("resize-passed-on",)),
        check_counts,
        most_restarts=1,
    ),
    Scenario(
        "joined",
        12_000,
        joined,
        (("streams-started", "operator-begun", "producer-started", "streams-begun"),),
        check_numbers,
        needs_broker=True,
    ),
)  # fmt: skip

CHAINS = {f"{scenario.name}-{number}": (scenario, chain)
          for scenario in SCENARIOS for number, chain in enumerate(scenario.chains, 1)}  # fmt: skip


def drivers_of(run_folder: Path) -> Counter[str]:
    """How many drivers each operator of a run has now, by the operator's folder."""
    from penstock.adaptors.process.leftovers import marked_processes

    marked = marked_processes("PENSTOCK_OPERATOR")
    found: Counter[str] = Counter()
    for pid, own in marked.items():
        if own.startswith(f"{run_folder}/") and "penstock.running.operator_process" in _command_line(pid):
            found[Path(own).name] += 1
    return found


def _command_line(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []
