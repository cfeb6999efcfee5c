# SPDX-License-Identifier: Apache-2.0
"""A `penstock run` on a real cluster whose load rises and falls while an executor is lost: the same on every cluster.

MEAD sizes a query of costly lines by CPU shares and executors. It takes less in the calm and more in the rush, somebody
ends an executor meanwhile, and in the end the bound was kept and the number of each record came out once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tests.e2e.live_run import LiveRun

from penstock.records import Decision

LOADS = ((150, 50), (30, 200), (90, 450), (120, 50), (30, 200), (90, 450), (60, 50))
"""Seconds and records a second. It rises twice: a query that is slow to start may learn too late for the first time."""
MILLISECONDS = 1.4
"""Of CPU for a line: 0.6 cores do 430 of them a second, and no more."""
PATIENCE_SECONDS = 900.0
"""Beside other work the driver alone was seen to take three minutes to start. The bound only ends a failing test."""


@dataclass(frozen=True)
class Surroundings:
    """Where the run takes place, and what the test sees and does there from outside.

    Attributes
    ----------
    master
        `cluster.master` of the settings.
    spark
        What an operator's application needs there.
    cpu_shares
        The lower and the upper share, in rising order; an executor has 0.6 cores with the upper one.
    executors
        Returns the executors that run, by the names that `end` knows, the oldest first.
    end
        Ends one from outside, as a fault of the cluster would.
    environment
        What the command finds in its environment besides.
    """

    master: str
    spark: Mapping[str, str]
    cpu_shares: Sequence[float]
    executors: Callable[[], Sequence[str]]
    end: Callable[[str], None]
    environment: Mapping[str, str] = field(default_factory=dict)


def settings(there: Surroundings) -> dict[str, Any]:
    """One to two executors of 0.6 cores: half of one is enough in the calm, and one is not for the rush."""
    return {
        "name": "surging",
        "cluster": {"master": there.master},
        "arrivals": {
            "shape": "steps:" + ",".join(f"{seconds}s@{rate}" for seconds, rate in LOADS),
            "options": {"payload": "log"},
        },
        "operators": [
            {
                "name": "logs",
                "app": "tests.costly_lines:number_costly_lines",
                "options": {"milliseconds": str(MILLISECONDS)},
                "executors": [1, 2],
                "cpu_shares": list(there.cpu_shares),
                "trigger": "3s",
                "executor_memory": "600m",
                "driver_memory": "700m",
                # Two Python workers at a time are beside the heap.
                "spark": {"spark.executor.memoryOverhead": "600m", **there.spark},
            }
        ],
        "objective": {"p95": "30s"},
        "policy": {
            "name": "mead",
            "options": {"window": 5000, "every_seconds": "5s", "rescue_every": "2s", "look_back": "30s"},
        },
        "guards": {"cooldown_down": "4s", "opposite": "8s"},
        "window": "10s",
        "warm_up": "5s",
        "drain": "600s",
        "restarts": {"start_within": "600s"},
    }


def is_back_at_the_top(decisions: Sequence[Decision], shares: Sequence[float]) -> bool:
    """Whether the lower share of one executor was enough for a time, and all of both were needed after that."""
    targets = [(decision.target.executors, decision.target.cpu_share) for decision in decisions]
    least, top = (1, shares[0]), (2, shares[-1])
    return least in targets and top in targets[targets.index(least) :]


def numbers_kept(run: LiveRun) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The number of every record that came out, copies too."""
    files = sorted((run.folder / "operators" / "logs" / "output").glob("*.numbers"))
    return np.concatenate([np.frombuffer(path.read_bytes(), dtype="<i8") for path in files])


def check_surging_run(folder: Path, there: Surroundings) -> None:
    """Run it in a folder that does not exist yet, and check what came of it."""
    with LiveRun(folder, settings(there), environment=there.environment) as run:

        def wait_for(what: str, is_true: Callable[[], bool]) -> None:
            run.wait_for(what, is_true, patience_seconds=PATIENCE_SECONDS)

        wait_for("less in a calm, and all in a rush", lambda: is_back_at_the_top(run.decisions(), there.cpu_shares))
        wait_for("two executors run", lambda: len(there.executors()) == 2)
        before = there.executors()
        there.end(before[0])  # the one that does the work while the other starts
        wait_for("another one runs in its place", lambda: bool(set(there.executors()) - set(before)))
        result = run.result(PATIENCE_SECONDS)
        decisions = run.decisions()
        told = [d.explain() for d in decisions]
        planned = [d for d in run.decisions(changes_only=False) if "fixed_seconds" in d.evidence]
        assert planned, f"no plan:\n{run.output()}"
        assert {d.policy for d in decisions} == {"mead"}
        assert result["objective"]["met_steady"], f"the bound was broken: {result['latency_steady']}\n{told}"
        due = sum(seconds * rate for seconds, rate in LOADS)
        assert result["records_due"] == result["records_read"] == result["records_done"] == due
        assert np.array_equal(np.sort(numbers_kept(run)), np.arange(due)), "a record is missing, or came twice"
        assert result["capacity_seconds"] < result["static_capacity_seconds"]
        print({"latency": result["latency_steady"], "changes": told})
