# SPDX-License-Identifier: Apache-2.0
"""`penstock kafka` without a broker: what it says, its exit codes, its JSON."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from penstock.cli.main import main


def test_status_without_a_broker_fails_and_says_how_to_start_one(tmp_path: Path) -> None:
    """Without a broker the exit code is 1 and the command that starts one is named."""
    result = CliRunner().invoke(main, ["kafka", "status", "--folder", str(tmp_path)])
    assert result.exit_code == 1
    assert "penstock kafka start" in result.output


def test_status_as_json_has_every_field(tmp_path: Path) -> None:
    """What is not known is null, never left out."""
    result = CliRunner().invoke(main, ["kafka", "status", "--json", "--folder", str(tmp_path)])
    found = json.loads(result.stdout.splitlines()[-1])
    assert found["running"] is False
    assert found["answers"] is False
    assert found["topics"] is None
    assert found["bootstrap_servers"] is None


def test_stop_without_a_broker_is_no_failure(tmp_path: Path) -> None:
    """There is nothing to stop, and that is what was wanted."""
    result = CliRunner().invoke(main, ["kafka", "stop", "--json", "--folder", str(tmp_path)])
    assert result.exit_code == 0
    assert json.loads(result.stdout.splitlines()[-1])["stopped"] is False


def test_start_refuses_a_folder_that_cannot_be_used(tmp_path: Path) -> None:
    """A path below a file is wrong input."""
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(main, ["kafka", "start", "--folder", str(tmp_path / "file" / "x")])
    assert result.exit_code == 2
    assert "--folder" in result.output
