# SPDX-License-Identifier: Apache-2.0
"""The store in a real PostgreSQL: the contract of all stores, and what it promises when connections are lost."""

from __future__ import annotations

import logging
import os
import pwd
import re
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import psycopg
import pytest
from click.testing import CliRunner

from penstock.adaptors.postgresql import PostgresqlStore
from penstock.adaptors.process.children import Warden
from penstock.cli import main
from penstock.errors import AdaptorError, ConfigurationError
from penstock.knowledge import EnduringStore
from penstock.record_tables import SCHEMA_VERSION
from penstock.testing import a_decision, an_observation
from penstock.testing.check_store import STORE_CHECKS, MakeStore
from penstock.testing.postgresql_server import PostgresqlServer
from penstock.testing.synthetic_run import fill_store

pytestmark = [pytest.mark.postgresql, pytest.mark.core]

NewAddress = Callable[[], str]


@pytest.mark.parametrize("check_promise", STORE_CHECKS, ids=lambda check: check.__name__)
def test_store_contract(check_promise: Callable[[MakeStore], None], new_address: NewAddress) -> None:
    """It keeps every promise that the stores in memory and in a file keep."""
    check_promise(lambda bound: PostgresqlStore(new_address(), bound_rows=bound))


def test_the_server_does_not_run_as_root_nor_beyond_the_loopback(server: PostgresqlServer) -> None:
    """As the fixture promises."""
    assert server.pid is not None
    process = psutil.Process(server.pid)
    assert process.uids().effective != 0
    assert pwd.getpwuid(process.uids().effective)
    assert {one.laddr.ip for one in process.net_connections() if one.status == "LISTEN"} == {"127.0.0.1"}


def test_a_server_leaves_nothing_behind() -> None:
    """Its folder and its processes go with its warden."""
    with Warden() as warden, PostgresqlServer(warden) as one:
        folder, pid = one.folder, one.pid
        assert folder.is_dir()
    assert pid is not None
    assert not folder.exists()
    assert not psutil.pid_exists(pid)


def test_a_restart_finds_everything(new_address: NewAddress) -> None:
    """What one process added the next finds, in the same order, and goes on from."""
    address = new_address()
    for run in range(3):
        store = PostgresqlStore(address)
        store.add_observation(an_observation(at=float(run)))
        store.set_fact("runs", str(run))
        assert [one.at for one in store.observations()] == [float(r) for r in range(run + 1)]
        store.close()
    reader = PostgresqlStore.open_readonly(address)
    assert reader.fact("runs") == "2"
    with pytest.raises(AdaptorError, match="opened for reading"):
        reader.set_fact("runs", "3")
    assert reader.fact("runs") == "2"
    reader.close()


WRITER = textwrap.dedent(
    """
    import sys
    from penstock.adaptors.postgresql import PostgresqlStore
    from penstock.testing import a_decision

    store = PostgresqlStore(sys.argv[1], bound_rows=1_000_000)
    while True:
        decision = a_decision(reason="x" * 2000)
        store.add_decision(decision)
        print(decision.decision_id, flush=True)  # acknowledged: add_decision has returned
    """
)


@pytest.mark.kill
def test_kill_9_loses_nothing_acknowledged(new_address: NewAddress) -> None:
    """What a process has added before it was killed is there, once, and another goes on."""
    address = new_address()
    with subprocess.Popen([sys.executable, "-c", WRITER, address], stdout=subprocess.PIPE, text=True) as writer:
        try:
            assert writer.stdout is not None
            acknowledged = [writer.stdout.readline().strip() for _ in range(50)]
        finally:
            os.kill(writer.pid, signal.SIGKILL)
        acknowledged += [line.strip() for line in writer.stdout if line.endswith("\n")]
    store = PostgresqlStore(address)
    seen = [d.decision_id for d in store.decisions(limit=1_000_000)]
    assert seen[: len(acknowledged)] == acknowledged
    assert len(seen) <= len(acknowledged) + 1
    store.add_decision(a_decision(decision_id="after"))
    assert [d.decision_id for d in store.decisions(limit=1)] == ["after"]
    store.close()


def test_several_may_begin_at_once(new_address: NewAddress) -> None:
    """Of stores that are opened together one creates the tables, and all can be used."""
    address, made, faults = new_address(), [], []

    def begin(number: int) -> None:
        try:
            store = PostgresqlStore(address)
            store.set_fact(f"who {number}", "me")
            made.append(store)
        except Exception as fault:
            faults.append(fault)

    threads = [threading.Thread(target=begin, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert [made[0].fact(f"who {number}") for number in range(8)] == ["me"] * 8
    for store in made:
        store.close()


def test_records_wait_in_memory_while_the_server_is_away(server: PostgresqlServer, new_address: NewAddress) -> None:
    """The enduring store loses it once, says so without a password, and gives it back all that came meanwhile."""
    address = new_address()
    said: list[str] = []
    lost: list[bool] = []
    store = EnduringStore(
        PostgresqlStore(address, patience_seconds=1.0),
        patience=2,
        say=said.append,
        on_lost=lambda: lost.append(True),
        retry_seconds=0.0,
    )
    store.add_observation(an_observation(at=1.0))
    server.stop()
    try:
        with pytest.raises(AdaptorError):
            store.add_observation(an_observation(at=2.0))
        for at in (3.0, 4.0):
            store.add_observation(an_observation(at=at))
        assert store.is_lost
        assert lost == [True]
        assert [one.at for one in store.observations()] == [3.0, 4.0]  # what is remembered meanwhile
    finally:
        server.start()
    store.add_observation(an_observation(at=5.0))
    assert not store.is_lost
    assert [one.at for one in store.observations()] == [1.0, 3.0, 4.0, 5.0]
    store.close()
    assert len(said) == 2
    assert server.password not in "".join(said)


def test_a_server_that_stands_still_is_given_up(server: PostgresqlServer, new_address: NewAddress) -> None:
    """A stopped server process answers nothing, not even its own time-out: the call ends, and the next one connects."""
    store = PostgresqlStore(new_address(), patience_seconds=0.5)
    assert server.pid is not None
    before = {one.pid: one for one in psutil.Process(server.pid).children()}
    for process in before.values():
        process.suspend()
    try:
        with pytest.raises(AdaptorError) as fault:
            store.set_fact("a", "b")
        assert fault.value.retryable
    finally:
        for process in before.values():
            if process.is_running():
                process.resume()
    store.set_fact("a", "c")
    assert store.fact("a") == "c"
    store.close()


def test_no_password_is_seen(
    server: PostgresqlServer, new_address: NewAddress, caplog: pytest.LogCaptureFixture
) -> None:
    """Not in errors, their causes, representations or logs: of a wrong password, a wrong address, a closed store."""
    caplog.set_level(logging.DEBUG)
    address = new_address()
    wrong = address.replace(server.password, "abracadabra")
    seen = []
    for given in (wrong, f"{address}&nonsense=1", address.replace("/postgres?", "/absent?"), f"{address}&schema=Bad-1"):
        with pytest.raises(ConfigurationError) as refused:
            PostgresqlStore(given)
        fault: BaseException | None = refused.value
        while fault is not None:
            seen.append(f"{fault!r} {fault}")
            fault = fault.__cause__
    store = PostgresqlStore(address)
    seen += [repr(store), repr(store.address), str(store.address)]
    store.close()
    with pytest.raises(AdaptorError, match="closed") as closed:
        store.fact("x")
    seen.append(f"{closed.value!r} {closed.value} {closed.value.target}")
    text = "\n".join([*seen, *(record.getMessage() for record in caplog.records)])
    assert "127.0.0.1" in text
    assert server.password not in text
    assert "abracadabra" not in text


def test_what_is_not_ours_is_refused_and_left_alone(new_address: NewAddress) -> None:
    """A schema of somebody else, one of another version, and none at all where one is read."""
    address = new_address()
    schema, plain = re.sub(r".*schema=", "", address), urlsplit(address)._replace(query="").geturl()
    with pytest.raises(ConfigurationError, match="has no run"):
        PostgresqlStore.open_readonly(address)
    with psycopg.connect(plain, autocommit=True) as other:
        other.execute(f"CREATE SCHEMA {schema}")
        other.execute(f"CREATE TABLE {schema}.cats (name TEXT)")
        with pytest.raises(ConfigurationError, match="not one of Penstock's"):
            PostgresqlStore(address)
        assert other.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = %s", (schema,)
        ).fetchall() == [("cats",)]
        other.execute(f"DROP TABLE {schema}.cats")
        PostgresqlStore(address).close()  # an empty schema may be made for it by somebody who may
        other.execute(f"UPDATE {schema}.penstock_version SET version = {SCHEMA_VERSION + 6}")
    for open_it in (PostgresqlStore, PostgresqlStore.open_readonly):
        with pytest.raises(ConfigurationError, match=f"version {SCHEMA_VERSION + 6}"):
            open_it(address)


def test_commands_read_it_by_its_address(
    server: PostgresqlServer, new_address: NewAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`explain` and `report` find a run there, and show its address without the password."""
    monkeypatch.chdir(tmp_path)
    address = new_address()
    store = PostgresqlStore(address)
    fill_store(store, "log-analysis")
    store.close()
    explained = CliRunner().invoke(main, ["explain", address])
    assert explained.exit_code == 0, explained.output
    assert "synthetic, objective p95 <= 3.00 s" in explained.output
    reported = CliRunner().invoke(main, ["report", address, "--json"])
    assert reported.exit_code == 0, reported.output
    assert (tmp_path / "report.html").is_file()
    missing = CliRunner().invoke(main, ["explain", server.address("nobody")])
    assert missing.exit_code != 0
    assert "has no run" in missing.output
    wrong = CliRunner().invoke(main, ["explain", f"{address}&schema=A-B"])
    assert wrong.exit_code != 0
    assert "is no name" in wrong.output
    for result in (explained, reported, missing, wrong):
        assert server.password not in result.output
        assert "***@127.0.0.1" in result.output
