# SPDX-License-Identifier: Apache-2.0
"""`penstock serve` as a master, `penstock agent`, and the commands that steer, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.toy_query import ToyQuery, start

from penstock.adaptors import cgroups
from penstock.adaptors.agent.master_address import master_address
from penstock.cli import main
from penstock.cli.agent import _open_shares
from penstock.service.address_file import ADDRESS_FILE
from penstock.service.master_stores import TOKEN_FILE

PENSTOCK = [sys.executable, "-m", "penstock"]


class Served:
    """A master that listens, and its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "masters"
        self.process = subprocess.Popen(
            [*PENSTOCK, "serve", "--store", f"sqlite:{self.folder}", "--agent-port", "0", "--watch", "host_runnable",
             "--watch-every", "0.5"], stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.page = self.process.stdout.readline()
        self.agents = self.process.stdout.readline().removeprefix("agents: ").strip()
        until((self.folder / ADDRESS_FILE).exists, "its lead")  # it says where it listens before it leads

    def close(self) -> None:
        """End it, as Ctrl-C does."""
        self.process.terminate()
        self.process.communicate(timeout=60)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A master during a test."""
    made = Served(tmp_path)
    yield made
    made.close()


def run(*arguments: object) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def until(ask: Callable[[], Any], what: str) -> Any:
    """Wait until it is there, and give it."""
    deadline = time.monotonic() + 60
    while not (found := ask()):
        assert time.monotonic() < deadline, f"{what} did not come about"
        time.sleep(0.1)
    return found


def test_an_attached_query_is_seen_and_steered_from_the_command_line(served: Served) -> None:
    """RUN is the master's folder, or the folder and the query's name; the folder says where the leader is."""
    assert served.page.startswith("watch and steer: http://127.0.0.1:")
    query = ToyQuery("counts", lambda _: None)
    agent, link = start(query, master_address(served.agents, token_file=served.folder / TOKEN_FILE))
    shown = until(lambda: (r := run("status", served.folder, "--json")).exit_code == 0 and r, "the query")
    assert json.loads(shown.stdout)["name"] == "counts"
    paused = run("pause", served.folder / "counts", "--reason", "a test", "--by", "ana")
    assert paused.exit_code == 0, paused.output
    assert "paused by ana" in run("status", served.folder / "counts").output
    missing = run("status", served.folder / "other")
    assert missing.exit_code == 2
    assert "other" in missing.output
    link.close()
    agent.close()


def agents_of(served: Served) -> list[dict[str, Any]]:
    """The agents that are connected, as the master tells it."""
    import urllib.request

    known = json.loads((served.folder / ADDRESS_FILE).read_text())
    asked = urllib.request.Request(
        f"{known['address']}/api/v1/agents", headers={"Authorization": f"Bearer {known['read_token']}"}
    )
    with urllib.request.urlopen(asked, timeout=20) as answer:
        found: list[dict[str, Any]] = json.load(answer)["agents"]
        return found


def test_the_agent_of_a_host_reports_what_is_watched(served: Served) -> None:
    """Its metrics come in while it runs; when it ends, it is gone. It says that it was told to hold nothing."""
    command = [*PENSTOCK, "agent", "--master", served.agents, "--name", "worker", "--measure-only", "--token-file"]
    with subprocess.Popen([*command, served.folder / TOKEN_FILE], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "only measures: it was started with --measure-only\n"
        assert process.stdout.readline() == f"reports to {served.agents}\n"
        (worker,) = until(lambda: [one for one in agents_of(served) if one["metrics"]], "a report")
        assert worker["name"] == "worker"
        assert worker["scales"] is False
        refusal = "it was started with --measure-only"
        assert worker["shares"] == {"can_hold": False, "why_not": refusal, "held": {}}
        assert worker["metrics"]["host_runnable"]["value"] >= 1
        process.terminate()
        process.wait(30)
        until(lambda: not agents_of(served), "its leave")


def test_a_full_disk_under_its_output_does_not_end_the_agent_of_a_host(served: Served) -> None:
    """What it cannot say it leaves, and its reports go on."""
    command = [*PENSTOCK, "agent", "--master", served.agents, "--name", "worker", "--token-file"]
    with (
        Path("/dev/full").open("w") as full,
        subprocess.Popen([*command, served.folder / TOKEN_FILE], stdout=full, stderr=full) as process,
    ):
        try:
            (first,) = until(lambda: [one for one in agents_of(served) if one["metrics"]], "a report")
            until(lambda: any(one["reports"] > first["reports"] + 1 for one in agents_of(served)), "more reports")
            assert process.poll() is None
        finally:
            process.terminate()
            process.wait(30)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("serve", "--store", "sqlite:a", "--store", "sqlite:b"), "one store"),
        (("serve", "--agent-port", "0"), "one store"),
        (("serve", "--store", "runs/x", "--agent-port", "0"), "none for a master"),
        (("serve", "--store", "sqlite:a", "--watch", "heap"), "heap_used"),
        (("agent", "--master", "host", "--token-file", "none"), "host:port"),
        (("agent", "--master", "elsewhere:7071", "--token-file", "none"), "PENSTOCK_MASTER_CA"),
        (("agent", "--master", "127.0.0.1:7071", "--token-file", "none"), "cannot be read"),
    ],
)
def test_mistakes_are_named_before_anything_starts(
    arguments: tuple[str, ...], word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code is 2, and the message says what to do."""
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code == 2
    assert word in result.output


def test_an_agent_without_rights_says_in_one_line_why_it_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It measures all the same, and tells the master the same words."""

    def refuse() -> object:
        raise cgroups.CgroupsUnavailableError("cgroups: no permission; run as root: sudo ...")

    monkeypatch.setattr(cgroups, "find_hierarchy", refuse)
    assert _open_shares() == (None, "cgroups: no permission; run as root: sudo ...")
