# SPDX-License-Identifier: Apache-2.0
"""What a thousand scaling rules over a thousand operators cost, with a reading a second each, and what they remember.

    python benchmarks/rules/run.py [--json] [--operators 1000] [--seconds 20]

Measured is what rules add to the loop: keeping each look as far back as the rules ask for, building the request, and
the decision. The looks themselves are made beforehand. Memory is what the process has grown by when
histories are full: the looks that are kept, and the policy.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

import psutil

from penstock.policies import make_policy
from penstock.ports import LookingBackPolicy, OperatorSite, Policy, PolicyContext
from penstock.records import (
    Allocation,
    ClusterState,
    LatencySummary,
    Limits,
    Objective,
    Observation,
    PlanRequest,
    Quality,
)
from penstock.topology import ARRIVALS, Stream, Topology

LIMITS = Limits(1, 4)
BAR_CORES = 0.2
LONG = 'rule "queue of {name} is long": scale-out {name} by 1 never above 4 when queue_length above 300 for {time}'


@dataclass(frozen=True)
class Case:
    """Rules, and whether queues are long all the time (every rule looks at its whole time) or hardly ever."""

    name: str
    rules: str
    are_long: bool


def cases(count: int) -> list[Case]:
    """The rules of a thousand operators in several ways."""
    names = [f"op{number}" for number in range(count)]
    own = "\n".join(LONG.format(name=name, time="60 seconds") for name in names)
    far = "\n".join(LONG.format(name=name, time="5 minutes") for name in names)
    means = own.replace("queue_length above", "queue_length p90 above")
    few = "\n".join(
        LONG.format(name="*", time="1 minute")
        .replace("of * is", f"{number} of all is")
        .replace("300", str(300 + number))
        for number in range(10)
    )
    mixed = few + "\n" + "\n".join(LONG.format(name=name, time="60 seconds") for name in names[10:])
    return [
        Case("one rule each over 60 s, calm", own, are_long=False),
        Case("one rule each over 60 s, every one holds", own, are_long=True),
        Case("one rule each over 5 min, every one holds", far, are_long=True),
        Case("one rule each, p90 over 60 s, every one holds", means, are_long=True),
        Case("990 of one operator and 10 of all, calm", mixed, are_long=False),
    ]


def context_of(count: int) -> PolicyContext:
    """So many operators, all of which read what arrives."""
    names = [f"op{number}" for number in range(count)]
    topology = Topology(tuple(names), tuple(Stream(ARRIVALS, name) for name in names), "wide")
    return PolicyContext(topology, {name: OperatorSite(LIMITS) for name in names}, {})


def look(name: str, at: float, queue: int) -> Observation:
    """A look as the monitor makes it."""
    has = Allocation(4)
    latency = LatencySummary(1000, 0.3 + 1e-9 * at, 0.28, 0.5, 0.6, 0.7)
    return Observation(
        name, at, 15.0, Quality.GOOD, ClusterState(has, has, has), 100.0 + 1e-9 * at, 100.0, queue, 0.6, 0.6, 0.0, 0.2,
        latency, None, 1000, 900, 5,
    )  # fmt: skip


def measure(case: Case, count: int, seconds: int) -> dict[str, Any]:
    """Play a case; the time that rules take for a second of readings, and what is remembered."""
    began = time.process_time()
    policy: Policy = make_policy("rules", context_of(count), {"rules": case.rules})
    building = time.process_time() - began
    assert isinstance(policy, LookingBackPolicy)
    back = policy.history_seconds
    rng = random.Random(1)
    names = [f"op{number}" for number in range(count)]
    queues = [rng.randrange(301, 500) if case.are_long else rng.randrange(0, 290) for _ in names]
    histories: dict[str, deque[Observation]] = {name: deque() for name in names}
    warm_up = int(back) + 5
    taken: list[float] = []
    gc.collect()
    process = psutil.Process()
    memory_before = memory_full = process.memory_info().rss
    for second in range(warm_up + seconds):
        at = 1.7e9 + second
        looks = [look(name, at, queue + second % 7) for name, queue in zip(names, queues, strict=True)]
        if second == warm_up:
            memory_full = process.memory_info().rss
        started = time.process_time()
        for seen in looks:
            history = histories[seen.operator]
            history.append(seen)
            while at - history[0].at > back:
                history.popleft()
            if second < warm_up - 1:  # asked once before, as in a run, where it is asked from the start
                continue
            request = PlanRequest(
                seen.operator, at, seen, Allocation(4), LIMITS, Objective(), history=tuple(history)
            )  # fmt: skip
            decision = policy.plan(request)
            assert ("rule" in decision.evidence) == case.are_long
        if second >= warm_up:
            taken.append(time.process_time() - started)
    kept = sum(len(history) for history in histories.values())
    return {
        "case": case.name, "rules": case.rules.count('rule "'), "operators": count, "cores": sum(taken) / len(taken),
        "longest_pass_seconds": max(taken), "us_per_decision": 1e6 * sum(taken) / len(taken) / count,
        "looks_kept_each": kept / count, "history_asked_seconds": back,
        "megabytes": (memory_full - memory_before) / 1e6, "building_seconds": building,
        "bar_cores": BAR_CORES, "is_within_bar": sum(taken) / len(taken) < BAR_CORES,
    }  # fmt: skip


def main() -> int:
    """Measure every case; fail beyond the bar."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--operators", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=20)
    given = parser.parse_args()
    found = [measure(case, given.operators, given.seconds) for case in cases(given.operators)]
    if given.json:
        print(json.dumps({"benchmark": "rules", "cases": found}))
    else:
        for one in found:
            sys.stdout.write(
                f"{one['case']}: {one['rules']} rules, {one['operators']} operators: {one['cores']:.3f} cores "
                f"({one['us_per_decision']:.0f} us a decision), {one['looks_kept_each']:.0f} looks kept each, "
                f"{one['megabytes']:.0f} MB\n"
            )
    return 0 if all(one["is_within_bar"] for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
