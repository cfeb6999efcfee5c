# SPDX-License-Identifier: Apache-2.0
"""Where output goes: the JSON result on the last line of stdout, messages beside it."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, redirect_stdout
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console


def words_console(as_json: bool) -> Console:
    """Return the console for messages: stdout, or stderr if stdout is for JSON."""
    from rich.console import Console

    # No emoji: in names such as `my_rules:x:3` the letter is a letter.
    return Console(stderr=as_json, highlight=False, emoji=False)


def prints_to_stderr() -> AbstractContextManager[object]:
    """Send there what users' modules print while they are read: it is no part of the result."""
    return redirect_stdout(sys.stderr)


def print_json(result: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
    """Print one JSON object, or a list of them, on one line. Numbers that JSON lacks become null."""
    click.echo(json.dumps(_plain(result), allow_nan=False, ensure_ascii=False))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
