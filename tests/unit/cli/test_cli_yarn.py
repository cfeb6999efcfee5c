# SPDX-License-Identifier: Apache-2.0
"""`penstock yarn` without a cluster: what it says, its exit codes, its JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.adaptors.yarn_server import local_cluster
from penstock.adaptors.yarn_server.distribution import hadoop_version, why_not_here
from penstock.cli.main import main
from penstock.errors import ConfigurationError


def test_status_without_a_cluster_says_how_to_start_one(tmp_path: Path) -> None:
    """Nothing runs: exit code 1, and the command that starts it."""
    result = CliRunner().invoke(main, ["yarn", "status", "--folder", str(tmp_path)])
    assert result.exit_code == 1
    assert "penstock yarn start" in result.output


def test_status_as_json_has_every_field(tmp_path: Path) -> None:
    """The last line is one object."""
    result = CliRunner().invoke(main, ["yarn", "status", "--json", "--folder", str(tmp_path)])
    assert json.loads(result.stdout.splitlines()[-1]) == {
        "running": False,
        "ready": False,
        "pid": None,
        "version": None,
        "folder": str(tmp_path),
        "hadoop_conf_dir": None,
        "nodes": None,
        "fault": None,
    }


def test_stopping_what_does_not_run_fails_where_a_folder_was_named(tmp_path: Path) -> None:
    """A wrong folder is noticed."""
    result = CliRunner().invoke(main, ["yarn", "stop", "--folder", str(tmp_path)])
    assert result.exit_code == 1
    assert "No cluster" in result.output


def test_running_a_program_without_a_cluster_fails_in_a_line(tmp_path: Path) -> None:
    """There is no network to run it in."""
    result = CliRunner().invoke(main, ["yarn", "run", "--folder", str(tmp_path), "--", "true"])
    assert result.exit_code == 1
    assert "not running" in result.output


def test_a_folder_with_something_else_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is removed at the end, so it must hold nothing of the user's."""
    (tmp_path / "thesis.tex").write_text("\\documentclass{book}")
    monkeypatch.setattr(local_cluster, "why_not_here", lambda: None)
    monkeypatch.setattr(local_cluster, "fetch_hadoop", lambda *_: None)
    result = CliRunner().invoke(main, ["yarn", "start", "--folder", str(tmp_path)])
    assert result.exit_code == 2
    assert "holds something else" in result.output
    assert (tmp_path / "thesis.tex").exists()


@pytest.mark.parametrize(
    ("option", "value"), [("--nodes", "0"), ("--nodes", "101"), ("--cores", "0"), ("--memory", "512m")]
)
def test_a_size_out_of_range_is_named(tmp_path: Path, option: str, value: str) -> None:
    """Exit code 2, with the option and its range; nothing is made."""
    folder = tmp_path / "cluster"
    result = CliRunner().invoke(main, ["yarn", "start", "--folder", str(folder), option, value])
    assert result.exit_code == 2
    assert f"{option}: " in result.output
    assert not folder.exists()


def test_what_is_missing_is_named_with_its_remedy() -> None:
    """Root, and each program."""
    assert "needs root" in str(why_not_here(lambda _: "/bin/it", is_root=False))
    assert "nsenter (apt-get install util-linux)" in str(why_not_here(lambda _: None, is_root=True))
    assert why_not_here(lambda _: "/bin/it", is_root=True) is None


def test_the_version_is_that_of_sparks_own_client(tmp_path: Path) -> None:
    """Servers of another version than the client may not understand it."""
    (tmp_path / "jars").mkdir()
    with pytest.raises(ConfigurationError, match="has no Hadoop client"):
        hadoop_version(tmp_path)
    (tmp_path / "jars" / "hadoop-client-api-3.4.1.jar").touch()
    assert hadoop_version(tmp_path) == "3.4.1"
