# SPDX-License-Identifier: Apache-2.0
"""A query without Spark: its load goes up and down, and what is asked of it is written down.

``python tests/toy_query.py NAME MASTERS TOKEN_FILE LOG...`` runs one in a process of its own, with the real agent; with
``PIPELINE/OPERATOR,OPERATOR`` for its name, and a log for each, the operators of one pipeline.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from penstock.adaptors.agent.link import MasterLink
from penstock.adaptors.agent.master_address import MasterAddress, master_address
from penstock.adaptors.agent.meters import Meters
from penstock.adaptors.agent.server import HeardFence, OperatorAgent
from penstock.ports import ArrivalTimes
from penstock.records import Action, BatchProgress, CpuReading, ExecutorState, SourceProgress, Telemetry

HALF_PERIOD_SECONDS = 2.0
MOST_EXECUTORS = 4


class ToyQuery:
    """Executors that are there at once, and a CPU that is nearly idle and nearly busy in turn.

    Parameters
    ----------
    name
        The operator's.
    write
        Takes down what was done, with the fencing number in force.
    skew_seconds
        What its clock is ahead.
    """

    can_set_cpu_share = False

    def __init__(self, name: str, write: Callable[[dict[str, Any]], None], *, skew_seconds: float = 0.0) -> None:
        self.name, self._write, self.skew_seconds = name, write, skew_seconds
        self.executors = 1
        self.fence: Callable[[], int] = lambda: 0
        self._lock = threading.Lock()
        self._used = 0.0
        self._at = time.monotonic()
        self._batch = 0
        self.seen: set[str] = set()

    def now(self) -> float:
        """What the clock of its host shows."""
        return time.time() + self.skew_seconds

    def collect(self) -> Telemetry:
        """One batch since the last look, and the CPU that was used meanwhile."""
        with self._lock:
            at, before = time.monotonic(), self._at
            self._at = at
            busy = 0.95 if int(at / HALF_PERIOD_SECONDS) % 2 else 0.05
            self._used += busy * self.executors * (at - before)
            now = self.now()
            source = SourceProgress("toy", None, None, None, 10)
            batch = BatchProgress(self.name, "q", "run", self._batch, now - 0.1, now, 10, {"addBatch": 0.1}, (source,))
            self._batch += 1
            executors = tuple(ExecutorState(str(n), "host", 1, True, 0, 0.0) for n in range(self.executors))
            cpu = CpuReading(now, self._used, 0.0, None, self.executors)
            return Telemetry(self.name, now, (batch,), executors, cpu)

    def request(self, action: Action) -> None:
        """Have that many executors."""
        with self._lock:
            is_new = action.request_id not in self.seen
            self.seen.add(action.request_id)
            self.executors = action.target.executors
        self._write(
            {
                "at": time.monotonic(),
                "fence": self.fence(),
                "request": action.request_id,
                "decision": action.decision_id,
                "executors": action.target.executors,
                "is_new": is_new,
            }
        )

    def release(self) -> None:
        """Have one executor again."""
        self.executors = 1
        self._write({"at": time.monotonic(), "fence": self.fence(), "release": True})

    def open_shares(self) -> None:
        """There are none."""


def toy_settings(name: str, *, query_run: str = "run", policy: object = None, **more: object) -> dict[str, object]:
    """A toy query as a master is introduced to it: it is looked at twice a second, and scaled without guards."""
    return {
        "name": name,
        "mode": "act",
        "objective": {},
        "operators": [{"name": name, "executors": [1, MOST_EXECUTORS], "cpu_shares": [1.0]}],
        "policy": policy or {"name": "threshold", "options": {"every_seconds": 0.5}},
        "guards": None,
        "interval": 0.5,
        "window": 1.0,
        "warm_up": 0.0,
        "cores_per_executor": 1,
        "cap": None,
        "query_run": query_run,
        **more,
    }


def pipeline_settings(name: str, operators: Sequence[str], *, query_run: str = "run") -> dict[str, object]:
    """A pipeline of toys, each of which reads from the one before."""
    entries = [
        {"name": operator, "input": above, "executors": [1, MOST_EXECUTORS], "cpu_shares": [1.0]}
        for operator, above in zip(operators, ("arrivals", *operators), strict=False)
    ]
    return toy_settings(name, query_run=query_run, operators=entries)


def toy_meters(query: ToyQuery) -> Meters:
    """One metric."""
    meters = Meters()
    meters.add_own("executors", "executors", lambda: query.executors)
    return meters


def start(
    query: ToyQuery,
    address: MasterAddress,
    *,
    settings: dict[str, object] | None = None,
    arrivals: ArrivalTimes | None = None,
    silence_seconds: float = 5.0,
    pipeline: str | None = None,
    heard: HeardFence | None = None,
) -> tuple[OperatorAgent, MasterLink]:
    """Its agent, and the link to the masters; `pipeline`: where it is one of several operators."""
    agent = OperatorAgent(
        query.name,
        query,
        query,
        meters=toy_meters(query),
        arrivals=arrivals,
        on_stop=lambda: None,
        heard=heard,
        now=query.now,
    ).start()
    query.fence = lambda: agent.fence
    given = json.dumps(settings or toy_settings(query.name))
    name = query.name if pipeline is None else f"{pipeline}/{query.name}"
    link = MasterLink(agent, address, name, settings=given, silence_seconds=silence_seconds)
    return agent, link.start()


def main() -> None:
    """Run until the process is killed."""
    name, masters, token_file, *logs = sys.argv[1:]
    address = master_address(masters, token_file=token_file)
    pipeline, _, listed = name.partition("/")
    operators, heard = listed.split(",") if listed else [pipeline], HeardFence()
    with ExitStack() as files:
        for operator, log in zip(operators, logs, strict=True):
            file = files.enter_context(Path(log).open("a", encoding="utf-8", buffering=1))
            query = ToyQuery(operator, lambda line, file=file: print(json.dumps(line), file=file))  # type: ignore[misc]
            if listed:
                start(
                    query,
                    address,
                    settings=pipeline_settings(pipeline, operators),
                    pipeline=pipeline,
                    heard=heard,
                )
            else:
                start(query, address)
        threading.Event().wait()


if __name__ == "__main__":
    main()
