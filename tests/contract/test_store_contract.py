# SPDX-License-Identifier: Apache-2.0
"""One suite for all knowledge stores; and what the one on disk promises across restarts and kills.

tests/integration/postgresql runs it on a real PostgreSQL.
"""

from __future__ import annotations

import itertools
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from penstock.knowledge import MemoryStore, SqliteStore
from penstock.ports import KnowledgeStore
from penstock.records import Action, Allocation, Outcome, OutcomeStatus, StageTime
from penstock.testing import a_decision, an_observation, check_store
from penstock.testing.check_store import STORE_CHECKS, MakeStore


@pytest.fixture(params=["memory", "sqlite"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> MakeStore:
    """Makes empty stores of one kind."""
    if request.param == "memory":
        return MemoryStore
    numbers = itertools.count()
    return lambda bound: SqliteStore(tmp_path / f"{next(numbers)}.sqlite", bound_rows=bound)


@pytest.mark.parametrize("check_promise", STORE_CHECKS, ids=lambda check: check.__name__)
def test_store_contract(check_promise: Callable[[MakeStore], None], make_store: MakeStore) -> None:
    """Every store keeps every promise of the port."""
    check_promise(make_store)


def test_the_suite_notices_a_store_that_forgets() -> None:
    """The suite itself can fail: a store that drops decisions does not pass."""

    class Forgetful(MemoryStore):
        def add_decision(self, decision: object) -> None:
            """Forget it."""

    with pytest.raises(AssertionError):
        check_store(Forgetful)


def test_a_restart_finds_everything(tmp_path: Path) -> None:
    """What one process added the next finds, in the same order, and goes on from."""
    file = tmp_path / "knowledge.sqlite"
    size = Allocation(2)

    def add(store: KnowledgeStore, at: float) -> None:
        store.add_observation(an_observation(at=at))
        store.add_decision(a_decision(at=at))
        store.add_action(Action("operator", at, size, None))
        store.add_outcome(Outcome("request", "operator", at, OutcomeStatus.DONE, size, 1.0))
        store.add_stage_times([StageTime(at, "plan", 0.1)])
        store.set_fact("runs", str(at))

    for run in range(3):
        store = SqliteStore(file)
        add(store, float(run))
        for read in (store.observations, store.decisions, store.actions, store.outcomes, store.stage_times):
            assert [record.at for record in read()] == [float(r) for r in range(run + 1)]
        assert store.fact("runs") == str(float(run))
        store.close()


WRITER = textwrap.dedent(
    """
    import sys
    from penstock.knowledge import SqliteStore
    from penstock.testing import a_decision

    store = SqliteStore(sys.argv[1], bound_rows=1_000_000)
    while True:
        decision = a_decision(reason="x" * 2000)
        store.add_decision(decision)
        print(decision.decision_id, flush=True)  # acknowledged: add_decision has returned
    """
)


@pytest.mark.kill
@pytest.mark.parametrize("acknowledged_before_kill", [1, 40, 400])
def test_kill_9_loses_nothing_acknowledged(tmp_path: Path, acknowledged_before_kill: int) -> None:
    """A process killed mid-write leaves a whole file with every decision whose adding had returned."""
    file = tmp_path / "knowledge.sqlite"
    with subprocess.Popen([sys.executable, "-c", WRITER, str(file)], stdout=subprocess.PIPE, text=True) as writer:
        try:
            assert writer.stdout is not None
            acknowledged = [writer.stdout.readline().strip() for _ in range(acknowledged_before_kill)]
        finally:
            os.kill(writer.pid, signal.SIGKILL)  # no wait for a quiet moment: it goes on writing until now
        # What was printed before the kill and not yet read was acknowledged too; the last line may be cut short.
        acknowledged += [line.strip() for line in writer.stdout if line.endswith("\n")]
    assert writer.returncode == -signal.SIGKILL
    assert all(acknowledged), "the writer ended before it was killed"
    assert len(acknowledged) >= acknowledged_before_kill

    reader = SqliteStore.open_readonly(file)
    seen = [d.decision_id for d in reader.decisions(limit=1_000_000)]
    reader.close()
    # One more than acknowledged may be there: added, killed before its line was printed.
    assert seen[: len(acknowledged)] == acknowledged
    assert len(seen) <= len(acknowledged) + 1

    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    store = SqliteStore(file)
    store.add_decision(a_decision(decision_id="after"))
    assert [d.decision_id for d in store.decisions(limit=1)] == ["after"]
    store.close()


READER = textwrap.dedent(
    """
    import sys
    from penstock.knowledge import SqliteStore

    store = SqliteStore.open_readonly(sys.argv[1])
    print(",".join(d.reason for d in store.decisions()))
    """
)


def test_another_process_reads_a_live_run(tmp_path: Path) -> None:
    """A second process reads all that was added so far while the first has the file open, and disturbs nothing."""
    file = tmp_path / "knowledge.sqlite"
    store = SqliteStore(file)
    for reason in ("first", "second"):
        store.add_decision(a_decision(reason=reason))
    answer = subprocess.run(
        [sys.executable, "-c", READER, str(file)], capture_output=True, text=True, check=True, timeout=60
    )
    assert answer.stdout.strip() == "first,second"
    store.add_decision(a_decision(reason="third"))
    assert [d.reason for d in store.decisions()] == ["first", "second", "third"]
    store.close()
