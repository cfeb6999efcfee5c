# SPDX-License-Identifier: Apache-2.0
"""`penstock doctor`: what is missing, and how it is mended."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from penstock.adaptors import machine
from penstock.adaptors.machine import Check, Severity

GOOD = Check("python", True, "Python 3.11.7")
NO_JAVA = Check("java", False, "no Java was found", "sudo apt-get install openjdk-17-jre-headless")
NO_SHARES = Check("cpu shares", False, "not root", "sudo penstock demo", Severity.OPTIONAL)


@pytest.mark.parametrize(
    ("checks", "code", "words"),
    [
        ([GOOD], 0, ["Everything required is present"]),
        ([GOOD, NO_SHARES], 0, ["limited", "fix it: sudo penstock demo", "Everything required is present"]),
        ([GOOD, NO_JAVA], 1, ["missing", "fix it: sudo apt-get install openjdk-17", "1 of 2 checks"]),
    ],
)
def test_only_what_is_needed_fails(
    invoke: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, checks: list[Check], code: int, words: list[str]
) -> None:
    """A needed thing missing gives exit code 1 and its command; an optional one is named and does not fail."""
    monkeypatch.setattr(machine, "check_machine", lambda: checks)
    result = invoke("doctor")
    assert result.exit_code == code
    assert all(word in result.stdout for word in words)


def test_json_lists_the_checks(invoke: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """--json gives every check with its command on one line, and keeps the exit code."""
    monkeypatch.setattr(machine, "check_machine", lambda: [GOOD, NO_JAVA])
    result = invoke("doctor", "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found["ok"] is False
    assert found["checks"][1] == {
        "name": "java", "ok": False, "severity": "needed", "detail": "no Java was found",
        "mend": "sudo apt-get install openjdk-17-jre-headless",
    }  # fmt: skip
