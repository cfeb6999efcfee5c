# SPDX-License-Identifier: Apache-2.0
"""The page with 100 operators and a day of history, in a real Chromium: time to the first plot, bytes, and the API.

The service runs in a process of its own, over stores that were filled before. Only what a reader waits for is timed.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from penstock.clock import SystemClock
from penstock.knowledge import SqliteStore
from penstock.record_tables import Row
from penstock.records import Allocation, ClusterState, LatencySummary, Prediction, WorkloadEstimate, encode
from penstock.testing import a_decision, an_observation

DAY_SECONDS = 86_400.0
OPERATORS = 100
REPEATS = 60
_WIDE, _LONG = "wide", "long"
_METRICS = (
    "arrival_rate,processed_rate,queue_length,latency_p50,latency_p95,path_latency_p95,executors,cpu_share,"
    "cpu_utilisation,busy,back_pressure"
)


def fill(file: Path, name: str, operators: list[str], step_seconds: float, now: float) -> None:
    """Store a day of looks, and a decision each ten minutes."""
    store = SqliteStore(file)
    plain = {
        "name": name,
        "objective": {"p95": 2.0},
        "policy": {"name": "threshold"},
        "arrivals": {"shape": "constant:rate=100,duration=1m"},
        "prices": {"core_hour": 0.045, "currency": "EUR"},
        "operators": [
            {"name": one, "app": "a:b", "executors": [1, 4], "input": operators[(i - 1) // 2] if i else "arrivals"}
            for i, one in enumerate(operators)
        ],
        "started_at": now - DAY_SECONDS,
    }
    store.set_fact("settings", json.dumps(plain))
    waiting: dict[str, list[Row]] = {"observations": [], "decisions": []}

    def write() -> None:
        """Many at a time: a transaction for each of 180,000 records would take minutes."""
        for kind, rows in waiting.items():
            store._insert(kind, rows)
            rows.clear()

    for at in np.arange(now - DAY_SECONDS, now, step_seconds).tolist():
        seen, decided = [], []
        wave = 1.0 + 0.6 * math.sin(at / 3600.0)
        size, delay = Allocation(max(1, round(2 * wave))), 0.4 * wave
        latency = LatencySummary(100, delay, 0.8 * delay, 1.5 * delay, 1.8 * delay, 2 * delay)
        for operator in operators:
            seen.append(
                an_observation(
                    operator=operator,
                    at=at,
                    cluster=ClusterState(size, size, size),
                    latency=latency,
                    path_latency=latency,
                    arrival_rate_rows_per_second=1000.0 * wave,
                    busy_fraction=0.5 * wave,
                    back_pressure=0.2 * wave,
                )
            )
            if at % 600.0 < step_seconds:
                decided.append(
                    a_decision(
                        size,
                        Allocation(size.executors % 4 + 1),
                        operator=operator,
                        at=at,
                        workload=WorkloadEstimate(at, 1050.0 * wave),
                        prediction=Prediction((operator,), 1.6 * delay, 2.0, {}, {}, "1"),
                    )
                )
        waiting["observations"] += [(at, one.operator, False, encode(one)) for one in seen]
        waiting["decisions"] += [(at, one.operator, True, encode(one)) for one in decided]
        if len(waiting["observations"]) > 5000:
            write()
    write()
    store.close()


def serve(folder: Path) -> None:
    """Serve both stores until the standard input ends."""
    from penstock.service.access import Access
    from penstock.service.application import make_application
    from penstock.service.asking import Service
    from penstock.service.events import EventFeed
    from penstock.service.gate import Rate
    from penstock.service.page_files import page_router
    from penstock.service.server import Server, Site
    from penstock.service.stored_desk import StoredDesk

    access, feed = Access(), EventFeed()
    stores = [SqliteStore.open_readonly(folder / f"{name}.sqlite") for name in (_WIDE, _LONG)]
    service = Service([StoredDesk(store, SystemClock(), feed=feed) for store in stores], access, feed)
    app = make_application(service, routers=[page_router()], rate=Rate(1e9, 1e9))
    with Server(app, Site(), feed) as server:
        print(json.dumps({"address": server.address, "token": access.read_token}), flush=True)
        sys.stdin.read()
    for store in stores:
        store.close()


def cpu_seconds(process: psutil.Process) -> float:
    """CPU that a process has used: it says more than the clock where others use the machine as well."""
    used = process.cpu_times()
    return float(used.user + used.system)


def percentile(times: list[float], level: float) -> float:
    """The nearest rank."""
    return sorted(times)[max(0, math.ceil(level * len(times)) - 1)]


def ask_api(known: dict[str, str], service: psutil.Process, now: float) -> list[dict[str, Any]]:
    """How long the API takes: the first time, and then."""

    def get(path: str, *, is_packed: bool = True) -> int:
        headers = {"Authorization": f"Bearer {known['token']}", **({"Accept-Encoding": "gzip"} if is_packed else {})}
        with urllib.request.urlopen(urllib.request.Request(known["address"] + path, headers=headers), timeout=120) as a:
            return len(a.read())

    def series(pipeline: str, operator: str, seconds: float) -> str:
        span = f"from={now - seconds}&to={now}&points=700"
        return f"/api/v1/pipelines/{pipeline}/series?operator={operator}&metrics={_METRICS}&{span}"

    asked = {
        "list of pipelines": "/api/v1/pipelines",
        "pipeline of 100 operators": f"/api/v1/pipelines/{_WIDE}",
        "100 decisions": f"/api/v1/pipelines/{_WIDE}/decisions?limit=100",
        "series of 15 min, of 100 operators": series(_WIDE, "op7", 900.0),
        "series of a day, of 100 operators": series(_WIDE, "op8", DAY_SECONDS),
        "series of a day, a look a second": series(_LONG, "one", DAY_SECONDS),
    }
    rows = []
    for name, path in asked.items():
        began = time.perf_counter()
        packed = get(path)
        first = time.perf_counter() - began
        times, used = [], cpu_seconds(service)
        for _ in range(REPEATS):
            began = time.perf_counter()
            get(path)
            times.append(time.perf_counter() - began)
        rows.append(
            {
                "what": name,
                "first_seconds": first,
                "p50_seconds": percentile(times, 0.5),
                "p99_seconds": percentile(times, 0.99),
                "service_cpu_seconds": (cpu_seconds(service) - used) / REPEATS,
                "bytes": packed,
                "bytes_unpacked": get(path, is_packed=False),
            }
        )
    return rows


def look_at_page(known: dict[str, str], service: psutil.Process, pictures: Path | None) -> list[dict[str, Any]]:
    """How long a reader waits in Chromium, and how much comes over the line."""
    from playwright.sync_api import Page, sync_playwright

    program = shutil.which("chromium")
    if program is None:
        raise SystemExit("no Chromium found; mend it: sudo apt-get install chromium")
    seen: list[dict[str, Any]] = []
    with sync_playwright() as driver, ExitStack() as ends:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        ends.callback(browser.close)

        def view(name: str, way: str, is_there: Callable[[Page], Any], scheme: Any = "light") -> None:
            context = browser.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 900})
            page = context.new_page()
            line = context.new_cdp_session(page)
            line.send("Network.enable")
            taken = [0.0]
            line.on("Network.loadingFinished", lambda one: taken.append(one["encodedDataLength"]))
            began, used = time.perf_counter(), cpu_seconds(service)
            page.goto(f"{known['address']}/#token={known['token']}&{way}", timeout=120_000)
            is_there(page)
            waited = time.perf_counter() - began
            cpu = cpu_seconds(service) - used
            seen.append({"what": name, "seconds": waited, "service_cpu_seconds": cpu, "bytes": sum(taken)})
            if pictures is not None:
                page.wait_for_timeout(500)
                page.screenshot(path=pictures / f"{name.replace(' ', '-').replace(',', '')}-{scheme}.png")
            context.close()

        def drawn(page: Page) -> None:
            page.locator("svg.plot path.line[d*=L]").nth(3).wait_for(state="attached", timeout=120_000)

        def whole_table(page: Page) -> None:
            page.locator("tbody tr").nth(OPERATORS - 1).wait_for(state="attached", timeout=120_000)

        for scheme in ("light", "dark"):
            view("overview of 100 operators", f"/{_WIDE}", whole_table, scheme)
            view("first plot, one of 100 operators", f"/{_WIDE}/operators/op9", drawn, scheme)
            view("first plot, a look a second for a day", f"/{_LONG}/operators/one", drawn, scheme)
    return seen


def main() -> None:
    """Fill, serve, look, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="print one object")
    parser.add_argument("--pictures", type=Path, help="put screenshots, light and dark, into this folder")
    given = parser.parse_args()
    if given.serve is not None:
        serve(given.serve)
        return
    if given.pictures is not None:
        given.pictures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="penstock-page-") as name:
        folder, now = Path(name), SystemClock().now()
        fill(folder / f"{_WIDE}.sqlite", _WIDE, [f"op{i}" for i in range(OPERATORS)], 90.0, now)
        fill(folder / f"{_LONG}.sqlite", _LONG, ["one"], 1.0, now)
        with subprocess.Popen(
            [sys.executable, __file__, "--serve", str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout is not None
            assert child.stdin is not None
            try:
                known, service = json.loads(child.stdout.readline()), psutil.Process(child.pid)
                page = look_at_page(known, service, given.pictures)
                api = ask_api(known, service, now)
            finally:
                child.stdin.close()
                child.wait(30)
    if given.json:
        print(json.dumps({"page": page, "api": api}))
        return
    print(f"{'page':45} {'seconds':>8} {'CPU':>8} {'KiB':>8}")
    for row in page:
        cpu = row["service_cpu_seconds"]
        print(f"{row['what']:45} {row['seconds']:8.2f} {cpu:8.2f} {row['bytes'] / 1024:8.0f}")
    print(f"\n{'API':45} {'first':>8} {'p50':>8} {'p99':>8} {'CPU':>8} {'KiB':>8} {'plain':>8}")
    for row in api:
        print(
            f"{row['what']:45} {row['first_seconds']:8.3f} {row['p50_seconds']:8.3f} {row['p99_seconds']:8.3f} "
            f"{row['service_cpu_seconds']:8.3f} "
            f"{row['bytes'] / 1024:8.0f} {row['bytes_unpacked'] / 1024:8.0f}"
        )


if __name__ == "__main__":
    main()
