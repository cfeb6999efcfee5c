# SPDX-License-Identifier: Apache-2.0
"""`penstock kubernetes` without a cluster: what it says, its exit codes, its JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.adaptors.kubernetes_server import local_cluster
from penstock.adaptors.kubernetes_server.distribution import find_distribution, kubernetes_version, why_not_here
from penstock.cli.main import main


def test_status_without_a_cluster_says_how_to_start_one(tmp_path: Path) -> None:
    """Nothing runs: exit code 1, and the command that starts it."""
    result = CliRunner().invoke(main, ["kubernetes", "status", "--folder", str(tmp_path)])
    assert result.exit_code == 1
    assert "penstock kubernetes start" in result.output


def test_status_as_json_has_every_field(tmp_path: Path) -> None:
    """The last line is one object."""
    result = CliRunner().invoke(main, ["kubernetes", "status", "--json", "--folder", str(tmp_path)])
    found = json.loads(result.stdout.splitlines()[-1])
    assert found == {
        "running": False,
        "ready": False,
        "pid": None,
        "version": kubernetes_version(),
        "folder": str(tmp_path),
        "kubeconfig": None,
        "fault": None,
    }


def test_stopping_what_does_not_run_fails_where_a_folder_was_named(tmp_path: Path) -> None:
    """A wrong folder is noticed."""
    result = CliRunner().invoke(main, ["kubernetes", "stop", "--folder", str(tmp_path)])
    assert result.exit_code == 1
    assert "No cluster" in result.output


def test_running_a_program_without_a_cluster_fails_in_a_line(tmp_path: Path) -> None:
    """There is no network to run it in; the line names the command that makes one."""
    result = CliRunner().invoke(main, ["kubernetes", "run", "--folder", str(tmp_path), "--", "true"])
    assert result.exit_code == 1
    assert "start it with: penstock kubernetes start" in result.output


def test_a_folder_with_something_else_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is removed at the end, so it must hold nothing of the user's."""
    (tmp_path / "thesis.tex").write_text("\\documentclass{book}")
    monkeypatch.setattr(local_cluster, "why_not_here", lambda: None)
    monkeypatch.setattr(local_cluster, "fetch_kubernetes", lambda _: None)
    result = CliRunner().invoke(main, ["kubernetes", "start", "--folder", str(tmp_path)])
    assert result.exit_code == 2
    assert "holds something else" in result.output
    assert (tmp_path / "thesis.tex").exists()


def test_what_is_missing_is_named_with_its_fix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without root, or without programs, one line says what to do."""
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path))
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    assert "run it as root" in str(why_not_here(is_root=False))
    missing = why_not_here(lambda name: None if name == "go" else f"/bin/{name}", is_root=True)
    assert missing == "programs are missing: go (install Go 1.24 or newer)"
    assert why_not_here(lambda name: f"/bin/{name}", is_root=True) is None
    assert find_distribution() is None
