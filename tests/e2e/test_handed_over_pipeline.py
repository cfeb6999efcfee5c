# SPDX-License-Identifier: Apache-2.0
"""A run of two operators that a master decides for, followed in a browser: its policy is replaced twice while it runs,
and the master that leads is killed meanwhile."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.e2e.live_run import LiveRun
from tests.integration.page.followed_master import FollowedQuery
from tests.integration.test_master_on_spark import Masters

from penstock.records import Decision, LatencySummary
from penstock.service.address_file import ADDRESS_FILE, read_address
from penstock.service.master_stores import TOKEN_FILE

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.spark,
    pytest.mark.kill,
    pytest.mark.browser,
    pytest.mark.long,
    pytest.mark.timeout(1200),
]
SECONDS, RATE = 240, 150
OPERATORS = ("parser", "keeper")
RULES = "".join(
    f'rule "more for {name}":\n  scale-out {name} by 1 never above 2\n  when heap_used above 1 for 2 seconds\n'
    for name in OPERATORS
)


def operator(name: str, app: str, **others: Any) -> dict[str, Any]:
    """One operator that has more than it needs: `threshold` takes an executor away."""
    return {
        "name": name,
        "app": app,
        "executors": [1, 2],
        "cpu_shares": [1.0],
        "trigger": "2s",
        "executor_memory": "600m",
        "driver_memory": "600m",
        **others,
    }


def settings(seconds: int = SECONDS, **more: Any) -> dict[str, Any]:
    """Lines that are parsed, and whose numbers are kept."""
    return {
        "name": "numbers",
        **more,
        "arrivals": {
            "shape": f"constant:rate={RATE},duration={seconds}s",
            "options": {"payload": "log", "malformed": "0"},
        },
        "operators": [
            operator("parser", "penstock.apps.log_analysis:parser"),
            operator("keeper", "tests.e2e.number_keeper:keep_numbers", input="parser"),
        ],
        "objective": {"p95": "60s"},
        "policy": {"name": "threshold", "options": {"every_seconds": "4s", "upper": 0.99, "lower": 0.9}},
        "guards": {"cooldown_down": "2s", "cooldown_up": "2s", "opposite": "2s", "drain": "60s"},
        "window": "8s",
        "warm_up": "5s",
        "drain": "180s",
    }


def numbers_kept(run: LiveRun) -> list[int]:
    """Every number that came out at the end, copies too."""
    files = sorted((run.folder / "operators" / "keeper" / "output").glob("*.numbers"))
    return sorted(int(n) for file in files for n in np.frombuffer(file.read_bytes(), dtype="<i8"))


class Followed:
    """The run as its masters have it."""

    def __init__(self, run: LiveRun, masters: Masters) -> None:
        self.run, self.masters = run, masters

    def asked(self, executors: int) -> set[str]:
        """The operators for which the masters have asked for so many executors, as the run's own decisions say."""
        return {
            one.operator
            for one in self.run.decisions()
            if one.policy == "master" and one.is_change and one.target.executors == executors
        }

    def decided_by(self, policy: str) -> set[str]:
        """The operators that a policy has decided for, as the masters keep it."""
        return {one.operator for one in self.decisions() if one.policy == policy}

    def decisions(self) -> list[Decision]:
        """All decisions of the masters."""
        store = self.masters.store.open_readonly("numbers")
        try:
            return store.decisions(limit=100_000)
        finally:
            store.close()

    def path_latencies(self) -> list[LatencySummary]:
        """The latency from the first arrival to the end of the last operator, wherever the masters had one."""
        store = self.masters.store.open_readonly("numbers")
        try:
            seen = store.observations("keeper", limit=100_000)
        finally:
            store.close()
        return [one.path_latency for one in seen if one.path_latency is not None]

    def kill_leader(self) -> str:
        """Kill the master that leads, and give its address."""
        leader = str(self.masters.ask("agents")["leader"])
        process = self.masters.processes[int(leader.rpartition(":")[2])]
        process.send_signal(signal.SIGKILL)
        process.wait()
        return leader


def test_policies_of_a_pipeline_are_replaced_while_its_leader_is_killed(chromium: Browser, tmp_path: Path) -> None:
    """`threshold` takes executors of both operators away, rules give them back under the next leader, `mead` decides.

    The page shows all of it. The queries are never restarted, and every record is counted once.
    """
    masters = Masters(tmp_path)
    token = {"PENSTOCK_AGENT_TOKEN_FILE": str(masters.store.folder / TOKEN_FILE)}
    page: FollowedQuery | None = None
    try:
        with LiveRun(tmp_path / "run", settings(), "--master", masters.places, environment=token) as run:
            followed = Followed(run, masters)
            run.wait_for("a master", lambda: bool(masters.ask("pipelines/numbers")))
            link = read_address(masters.store.folder / ADDRESS_FILE).link
            page = FollowedQuery(chromium, link, "numbers", tmp_path, operator="keeper")
            page.shows_policy("threshold")
            run.wait_for("less for both", lambda: followed.asked(1) == set(OPERATORS))
            page.shows_size(1)
            assert "utilisation" in page.shows_change("scale in")
            page.picture("threshold")
            page.hears_of_another_master()
            page.replace_policy("rules", RULES)
            killed = followed.kill_leader()
            page.lose_master()
            page.picture("leader-killed")

            def has_another() -> bool:
                view = masters.ask("agents")
                names = [agent["name"] for agent in view.get("agents", [])]
                return view.get("leader") not in (None, killed) and names == ["numbers/keeper", "numbers/parser"]

            run.wait_for("another leader with both agents", has_another)
            run.wait_for("more for both", lambda: followed.asked(2) == set(OPERATORS))
            page.go_on(read_address(masters.store.folder / ADDRESS_FILE).address)
            page.shows_size(2)
            page.shows_policy("rules")
            page.picture("rules")
            page.replace_policy("mead")
            run.wait_for("decisions of mead for both", lambda: followed.decided_by("mead") == set(OPERATORS))
            assert page.why()
            page.picture("mead")
            result = run.result()
            queries = {
                one: {o.query_run for o in run.observations() if o.operator == one} - {None} for one in OPERATORS
            }
        followed_path = followed.path_latencies()
        assert followed_path, "the masters did not know the latency along the path"
        assert all(one.is_exact for one in followed_path)
        decided = followed.decisions()
        assert [p for p in dict.fromkeys(d.policy for d in decided) if p != "steering"] == [
            "threshold",
            "rules",
            "mead",
        ]
        known = {one.decision_id: one for one in decided}
        asked = [one for one in run.decisions() if one.policy == "master" and one.is_change]
        reasons = [known[str(one.evidence["decision_of_the_master"])] for one in asked]
        assert {one.policy for one in reasons} >= {"threshold", "rules"}
        assert len({one.decision_id for one in reasons}) == len(reasons), "a decision was carried out twice"
        assert all(len(runs) == 1 for runs in queries.values()), f"a query was restarted: {queries}"
        assert all(told["restarts"] == 0 for told in result["operators"].values())
        assert result["records_read"] == result["records_done"] == result["records_due"] == RATE * SECONDS
        assert numbers_kept(run) == list(range(RATE * SECONDS))
    finally:
        if page is not None:
            page.close()
        masters.close()


@pytest.mark.kafka
def test_operators_that_are_joined_by_topics_are_scaled_by_masters(tmp_path: Path) -> None:
    """The next leader goes on with both; latency along the path is known, and every record is counted once."""
    masters, seconds = Masters(tmp_path), 90
    token = {"PENSTOCK_AGENT_TOKEN_FILE": str(masters.store.folder / TOKEN_FILE)}
    given = settings(seconds, broker={"partitions": 2})
    try:
        with LiveRun(tmp_path / "run", given, "--master", masters.places, environment=token) as run:
            followed = Followed(run, masters)
            run.wait_for("less for both", lambda: followed.asked(1) == set(OPERATORS))
            killed = followed.kill_leader()
            run.wait_for("another leader", lambda: masters.ask("agents").get("leader") not in (None, killed))
            decided = len(followed.decisions())
            run.wait_for("decisions of it", lambda: len(followed.decisions()) > decided + 4)
            result = run.result()
        followed_path = followed.path_latencies()
        assert followed_path, "the masters did not know the latency along the path"
        assert all(one.is_exact for one in followed_path)
        assert result["records_read"] == result["records_done"] == result["records_due"] == RATE * seconds
        kept = numbers_kept(run)
        assert len(kept) == len(set(kept)) == RATE * seconds
    finally:
        masters.close()
