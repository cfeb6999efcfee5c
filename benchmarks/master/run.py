# SPDX-License-Identifier: Apache-2.0
"""A master on one core with 2,000 agents, each a connection of its own that reports once a second."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.master.load import Load
from tests.toy_query import ToyQuery, start

from penstock.adaptors.agent.master_address import MasterAddress
from penstock.service.address_file import ServiceAddress, read_address
from penstock.service.master_stores import StoreFolder

HEADERS = ("phase", "agents", "sent/s", "taken/s", "of", "bytes in/agent/s", "bytes out/agent/s", "CPU %", "API p50 ms",
           "API p99 ms", "RSS MiB")  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each phase")
    parser.add_argument("--pipelines", type=int, default=5, help="queries that are scaled meanwhile")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        rows = asyncio.run(_measure(Path(folder), given.agents, given.seconds, given.pipelines))
    if given.json:
        print(json.dumps(rows, indent=1))
        return 0
    print("| " + " | ".join(HEADERS) + " |\n|" + "---|" * len(HEADERS))
    for row in rows:
        print("| " + " | ".join(str(row[header]) for header in HEADERS) + " |")
    return 0


async def _measure(folder: Path, agents: int, seconds: float, pipelines: int) -> list[dict[str, Any]]:
    cores = sorted(os.sched_getaffinity(0))
    stores, file = StoreFolder(folder / "store"), folder / "service.json"
    token = stores.token()
    command = [sys.executable, "-m", "penstock", "serve", "--store", f"sqlite:{stores.folder}", "--agent-port", "0",
               "--watch", "cpu_used", "--token-file", str(file)]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        os.sched_setaffinity(process.pid, {cores[0]})
        for task in psutil.Process(process.pid).threads():
            os.sched_setaffinity(task.id, {cores[0]})
        if len(cores) > 1:
            os.sched_setaffinity(0, set(cores[1:]))
        try:
            assert process.stdout is not None
            process.stdout.readline()
            place = ("127.0.0.1", int(process.stdout.readline().rpartition(":")[2]))
            known = read_address(file)
            while not _asked(known, "agents")["is_leading"]:
                time.sleep(0.1)
            done: list[dict[str, Any]] = []
            toys = [
                start(ToyQuery(f"query-{n}", done.append), MasterAddress((place,), token)) for n in range(pipelines)
            ]
            load = Load(place, token, agents)
            begun = time.monotonic()
            await load.connect()
            print(f"{agents} agents connected in {time.monotonic() - begun:.1f} s", file=sys.stderr)
            rows = [await _phase("no subscription", load, process.pid, known, seconds)]
            _asked(known, "agents/watch", {"metrics": ["own_load"], "every_seconds": 1.0})
            rows.append(await _phase("1 metric", load, process.pid, known, seconds))
            names = [f"own_load{n}" for n in range(9)]
            _asked(known, "agents/watch", {"metrics": ["own_load", *names], "every_seconds": 1.0})
            rows.append(await _phase("10 metrics", load, process.pid, known, seconds))
            before = len(done)
            await load.misbehave()
            rows.append(await _phase("10 metrics, 60 bad ones", load, process.pid, known, seconds))
            print(
                f"actions while 60 agents misbehaved: {len(done) - before}; agents lost: {load.lost}", file=sys.stderr
            )
            load.close()
            for agent, link in toys:
                link.close()
                agent.close()
        finally:
            process.terminate()
    return rows


async def _phase(name: str, load: Load, pid: int, known: ServiceAddress, seconds: float) -> dict[str, Any]:
    await asyncio.sleep(3.0)  # what was subscribed to before has ended
    master = psutil.Process(pid)
    taken = await asyncio.to_thread(_taken, known)
    spent, begun = _cpu(master), time.monotonic()
    load.reset()
    asked: list[float] = []
    while time.monotonic() - begun < seconds:
        at = time.perf_counter()
        await asyncio.to_thread(_asked, known, "pipelines")
        asked.append(1e3 * (time.perf_counter() - at))
        await asyncio.sleep(0.05)
    passed = time.monotonic() - begun
    spent = _cpu(master) - spent
    sent = load.reports
    taken = await asyncio.to_thread(_taken, known) - taken
    asked.sort()
    wanted = load.agents if load.is_subscribed else 0
    return dict(zip(HEADERS, (
        name, load.agents, round(sent / passed, 1), round(taken / passed, 1), wanted,
        round(load.bytes_out / load.agents / passed, 1),
        round(load.bytes_in / load.agents / passed, 1), round(100 * spent / passed, 1),
        round(asked[len(asked) // 2], 1), round(asked[int(0.99 * len(asked))], 1),
        round(master.memory_info().rss / 2**20)), strict=True))  # fmt: skip


def _taken(known: ServiceAddress) -> int:
    """How many reports the master has taken from the agents of the load."""
    return sum(one["reports"] for one in _asked(known, "agents")["agents"] if one["name"].startswith("agent "))


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _asked(known: ServiceAddress, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    request = urllib.request.Request(
        f"{known.address}/api/v1/{path}",
        method="GET" if body is None else "PUT",
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {known.operate_token}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


if __name__ == "__main__":
    sys.exit(main())
