# SPDX-License-Identifier: Apache-2.0
"""The command group: help, suggestions, light imports, exit codes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.cli.failures import PlainErrorsGroup, as_failure, debug_option
from penstock.errors import AdaptorError, ConfigurationError

COMMANDS = ("demo", "run", "explain", "report", "doctor")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches_with_examples(invoke: Callable[..., Any], command: str) -> None:
    """Every command's help has examples, and offers --json and --debug."""
    result = invoke(command, "--help")
    assert result.exit_code == 0
    assert f"Examples:\n    penstock {command}" in result.stdout
    assert "--json" in result.stdout
    assert "--debug" in result.stdout
    assert "..." not in invoke("--help").stdout.split("Commands:")[1].split("Exit codes")[0]


def test_group_help_lists_commands_and_exit_codes(invoke: Callable[..., Any]) -> None:
    """The group's help names every command and what exit codes mean."""
    text = invoke("--help").stdout
    assert all(f"  {command} " in text for command in COMMANDS)
    assert "130" in text


def test_version(invoke: Callable[..., Any]) -> None:
    """The version is the installed one."""
    from importlib.metadata import version

    assert invoke("--version").stdout.strip() == f"penstock, version {version('penstock')}"


@pytest.mark.parametrize(("arguments", "suggestion"), [(("dmo",), "demo"), (("demo", "--minuts", "1"), "--minutes")])
def test_unknown_words_are_answered_with_the_nearest(
    invoke: Callable[..., Any], arguments: tuple[str, ...], suggestion: str
) -> None:
    """A misspelt command or option gives exit code 2 and the word that was meant."""
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert f"Did you mean '{suggestion}'" in result.stderr


def test_help_loads_no_heavy_package() -> None:
    """`penstock --help` loads neither Spark nor what draws, shows or checks settings."""
    code = (
        "import sys\nfrom penstock.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'pyspark', 'matplotlib', 'numpy', 'pydantic', 'rich', 'pandas'} & set(sys.modules)\n"
        "sys.exit(f'loaded: {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def _group_that_raises(fault: BaseException) -> PlainErrorsGroup:
    group = PlainErrorsGroup("group")

    @group.command()
    @debug_option
    def fail() -> None:
        raise fault

    return group


@pytest.mark.parametrize(
    ("fault", "code", "words"),
    [
        (ConfigurationError("trace: is empty"), 2, "Error: trace: is empty"),
        (AdaptorError("the master is gone"), 1, "Error: the master is gone"),
        (ZeroDivisionError("division by zero"), 1, "a defect of Penstock; --debug shows"),
        (ModuleNotFoundError("no", name="pyspark"), 1, "'pyspark' is missing; `penstock doctor`"),
        (KeyboardInterrupt(), 130, "stopped"),
    ],
)
def test_failures_are_one_message_and_a_code(fault: BaseException, code: int, words: str) -> None:
    """Errors end a command with a message and the code of their kind, never with a traceback."""
    result = CliRunner().invoke(_group_that_raises(fault), ["fail"])
    assert result.exit_code == code
    assert words in result.stderr
    assert "Traceback" not in result.output
    assert result.stdout == ""


def test_debug_lets_the_error_through() -> None:
    """With --debug the error itself comes out, for a traceback."""
    fault = AdaptorError("the master is gone")
    assert CliRunner().invoke(_group_that_raises(fault), ["fail", "--debug"]).exception is fault


def test_only_penstocks_own_errors_are_no_defects() -> None:
    """An unexpected error names its type, so that it can be reported."""
    assert as_failure(KeyError("x")).message.startswith("KeyError: 'x'")
