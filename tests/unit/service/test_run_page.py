# SPDX-License-Identifier: Apache-2.0
"""A run with its service on a real port of the loopback, and the commands that use it."""

import json
import os
import socket
import stat
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.unit.loop.steered_loop import Steered, ToyPolicy, grows

from penstock.cli import main
from penstock.errors import ConfigurationError
from penstock.knowledge import SqliteStore
from penstock.loop import CycleReport
from penstock.running.pipeline_run import StartedRun
from penstock.service.run_page import RunPage
from penstock.service.server import Site
from penstock.settings import parse_settings

SETTINGS = parse_settings(
    {
        "name": "toys",
        "arrivals": {"shape": "constant:rate=5,duration=5s"},
        "operators": [{"name": "a", "app": "a:b", "executors": [1, 4], "cpu_shares": [0.5, 1.0]}],
        "policy": {"name": "threshold"},
    }
)


class RecordingListener:
    """Takes note of what a run says."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def phase(self, text: str, fraction: float | None = None) -> None:
        """Take note."""
        self.said.append(f"phase {text}")

    def report(self, report: CycleReport) -> None:
        """Take note."""
        self.said.append(f"report {report.observation.operator}")

    def fault(self, operator: str, text: str) -> None:
        """Take note."""
        self.said.append(f"fault {text}")


class Served:
    """A steered loop whose run is served."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.listener = folder, RecordingListener()
        self.store = SqliteStore(folder / "knowledge.sqlite")
        self.loop = Steered(ToyPolicy(grows), store=self.store)
        self.page = RunPage(Site(), folder, self.listener)
        self.loop.on_report = self.page.report

    def __enter__(self) -> "Served":
        self.page.__enter__()
        self.page.started(StartedRun(SETTINGS, self.folder, 1000.0, self.loop.helm, self.loop.cycles, self.store))
        return self

    def __exit__(self, *_: object) -> None:
        self.page.__exit__()
        self.store.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A run that is served."""
    with Served(tmp_path) as found:
        yield found


def call(*arguments: str) -> Any:
    """Call a command, which must end well; gives what it prints as JSON."""
    done = CliRunner().invoke(main, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout.splitlines()[-1])


def test_the_commands_watch_and_steer(served: Served) -> None:
    """They find address and token in the run folder; what they order is obeyed and in the audit."""
    folder = str(served.folder)
    assert call("status", folder)["operators"][0]["why"] == "nothing was seen of it yet"
    assert call("pause", folder, "--reason", "deploying", "--by", "ana")["audit"]["text"] == (
        "ana paused all operators: deploying"
    )
    served.loop.look(4)
    assert served.loop.operators["a"].asked == []
    assert call("status", folder)["operators"][0]["why"].endswith("deploying")
    assert call("resume", folder, "--operator", "a", "--by", "ana")["steering"]["a"]["paused"] is None
    tried = call("policy", "toy", "--run", folder, "--dry-run")
    assert [d["target"]["executors"] for d in tried["would_decide"]] == [4]
    assert call("policy", "threshold", "--run", folder, "--option", "upper=0.7")["policy"]["options"] == {"upper": 0.7}
    assert call("policy", "--rollback", "--run", folder)["policy"]["options"] == {}
    rules = served.folder / "calm.rules"
    rules.write_text('rule "calm": scale-in a by 1 when queue_length below 1 for 1 minute\n')
    assert call("policy", "--rules", str(rules), "--run", folder)["policy"]["name"] == "rules"
    assert [str(entry.action) for entry in served.store.audit()] == [
        "pause", "resume", "policy", "policy rollback", "policy"
    ]  # fmt: skip


def test_a_wrong_command_says_what_to_do(served: Served, tmp_path: Path) -> None:
    """An unknown operator or policy, and a run without a service, are wrong input; nothing changes."""
    folder = str(served.folder)
    for arguments, says in (
        (["pause", folder, "--operator", "b"], "no operator 'b'"),
        (["policy", "meed", "--run", folder], "did you mean mead"),
        (["policy", "--run", folder], "NAME: is missing"),
        (["policy", "fixed", "--rollback", "--run", folder], "give it alone"),
        (["policy", "fixed", "--run", folder, "--option", "upper"], "write it like"),
    ):
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code == 2, done.output
        assert says in done.output
    other = tmp_path / "other"
    other.mkdir()
    SqliteStore(other / "knowledge.sqlite").close()
    done = CliRunner().invoke(main, ["status", str(other)])
    assert done.exit_code == 2
    assert "--page" in done.output
    assert served.store.audit() == []


def test_the_file_with_the_tokens_is_private_and_goes_with_the_run(tmp_path: Path) -> None:
    """It has mode 0600; after the run it is gone, and nobody listens."""
    with Served(tmp_path) as served:
        file = tmp_path / "service.json"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        known = json.loads(file.read_text())
        assert known["pid"] == os.getpid()
        port = int(known["address"].rpartition(":")[2])
        assert served.page.known is not None
        assert known["operate_token"] in served.page.known.link
        assert known["read_token"] not in served.page.known.link
    assert not file.exists()
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), timeout=5):
        pass


def test_events_are_streamed_and_end_with_the_run(tmp_path: Path) -> None:
    """A client sees looks go by, and the end of the stream when the service ends."""
    with Served(tmp_path) as served:
        known = json.loads((tmp_path / "service.json").read_text())
        request = urllib.request.Request(
            f"{known['address']}/api/v1/events", headers={"Authorization": f"Bearer {known['read_token']}"}
        )
        stream = urllib.request.urlopen(request, timeout=30)
        assert stream.readline() == b": welcome\n"
        served.loop.run(1003.0)
    with stream:
        text = stream.read().decode()
    assert text.count("event: observation") == 3
    assert "event: decision" in text
    assert text.rstrip().endswith("data: {}")


def test_what_the_run_says_reaches_its_own_view_too(served: Served) -> None:
    """The page passes everything on."""
    served.page.phase("running", 0.5)
    served.loop.run(1002.0)
    served.page.fault("a", "it is away")
    assert served.listener.said == ["phase running", "report a", "report a", "fault it is away"]
    assert call("status", str(served.folder))["phase"] == "running"


def test_a_run_that_cannot_be_shown_is_run_all_the_same(served: Served) -> None:
    """A second run of the same name is refused by the page, which says so and goes on."""
    run = StartedRun(SETTINGS, served.folder, 1000.0, served.loop.helm, served.loop.cycles, served.store)
    served.page.started(run)
    assert "the page cannot show this run" in served.listener.said[-1]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda folder: Site("0.0.0.0"), "other machines"),
        (lambda folder: Site("example.org"), "other machines"),
        (lambda folder: Site(certificate=folder / "c.pem"), "go together"),
        (lambda folder: Site(certificate=folder / "c.pem", key=folder / "k.pem"), "is not a file"),
    ],
)
def test_it_does_not_listen_beyond_the_machine_by_accident(
    tmp_path: Path, make: Callable[[Path], Site], says: str
) -> None:
    """Without a certificate, or the word that it may be plain, another address is refused."""
    with pytest.raises(ConfigurationError, match=says):
        make(tmp_path)
    assert Site("0.0.0.0", may_be_plain=True).host == "0.0.0.0"


def test_a_service_that_others_reach_answers_to_its_own_names() -> None:
    """Listening everywhere it is called by the machine's name, and known by every address; or as it is told."""
    everywhere = Site("0.0.0.0", may_be_plain=True)
    assert everywhere.called == socket.gethostname()
    assert everywhere.names >= {socket.gethostname(), "127.0.0.1", "localhost"}
    named = Site("::", may_be_plain=True, name="scaling.example.org")
    assert named.called == "scaling.example.org"
    assert "scaling.example.org" in named.names
    assert Site("192.0.2.7", may_be_plain=True).names == {"127.0.0.1", "localhost", "[::1]", "192.0.2.7"}
    assert Site("::1").called == "[::1]"


def test_a_port_that_is_taken_is_refused_before_the_run_begins(tmp_path: Path) -> None:
    """The message names the port."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ConfigurationError, match="is not available"):
            RunPage(Site(port=taken.getsockname()[1]), tmp_path, RecordingListener())
