# SPDX-License-Identifier: Apache-2.0
"""Backtests for those who look: `penstock backtest` in a process of its own, at the lowest priority, one at a time.

In this process it would take turns with the loops, and its memory would be theirs.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.errors import ConfigurationError, SteeringError
from penstock.records import new_id

LONGEST_SECONDS = 900.0
_MOST_KEPT = 20
_MOST_WORDS = 2000
STATIC = "static"
_NAME, _WORD = re.compile(r"[a-z][a-z0-9_]{0,60}"), re.compile(r"[\w.+-]{1,60}")


@dataclass(frozen=True, slots=True)
class Tried:
    """A policy to try; without a name the top allocation throughout."""

    policy: str
    options: Mapping[str, Any] = field(default_factory=dict)
    rules: str | None = None

    def text(self, folder: Path) -> str:
        """As the command names it. Rules are written into a file of the folder."""
        options = {name: _plain(name, value) for name, value in self.options.items()}
        if self.rules is not None:
            file = folder / f"{new_id()}.rules"
            file.write_text(self.rules, encoding="utf-8")
            options["rules"] = str(file)
        if not options:
            return self.policy
        return f"{self.policy}:{','.join(f'{name}={value}' for name, value in options.items())}"


def _plain(name: str, value: Any) -> str:
    """A value as the command reads it. No file of this machine can be named: who looks may not read it."""
    if not isinstance(value, (bool, int, float, str)) and value is not None:
        raise ConfigurationError(f"options.{name}: give a number, a word, true, false or null", field=f"options.{name}")
    text = json.dumps(value) if not isinstance(value, str) else value
    if not _NAME.fullmatch(name) or not _WORD.fullmatch(text):
        raise ConfigurationError(
            f"options: {name[:40]}={text[:40]!r} is no number or word; files cannot be named here, use the command",
            field="options",
        )
    return text


@dataclass(slots=True)
class Backtest:
    """One backtest: what is tried, and what came of it."""

    backtest_id: str
    pipeline: str
    operator: str | None
    policies: tuple[str, ...]
    started_at: float
    state: str = "running"
    """``running``, ``done`` or ``failed``."""
    result: dict[str, Any] | None = None
    detail: str = ""

    def plain(self) -> dict[str, Any]:
        """As the API gives it."""
        return {
            "backtest_id": self.backtest_id,
            "pipeline": self.pipeline,
            "operator": self.operator,
            "policies": list(self.policies),
            "started_at": self.started_at,
            "state": self.state,
            "result": self.result,
            "detail": self.detail,
        }


class Backtests:
    """Runs backtests of stored histories, and remembers the newest."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Backtest] = OrderedDict()
        self._child: subprocess.Popen[str] | None = None
        self._is_closed = False

    def start(self, pipeline: str, file: Path, tried: Sequence[Tried], *, operator: str | None, at: float) -> Backtest:
        """Begin one.

        Raises
        ------
        SteeringError
            Another one runs.
        ConfigurationError
            An option cannot be given here.
        """
        with self._lock:
            if self._is_closed or any(one.state == "running" for one in self._kept.values()):
                raise SteeringError("another backtest runs; wait until it is done")
            folder = tempfile.TemporaryDirectory(prefix="penstock-backtest-")
            try:
                texts = [one.text(Path(folder.name)) for one in tried]
            except BaseException:
                folder.cleanup()
                raise
            names = [one.policy if one.rules is None else f"{one.policy}, with rules" for one in tried]
            made = Backtest(new_id(), pipeline, operator, tuple(names), at)
            self._kept[made.backtest_id] = made
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        words = ["backtest", str(file), "--json"]
        words += [word for text in texts for word in ("--policy", text)]
        words += [] if operator is None else ["--operator", operator]
        threading.Thread(target=self._run, args=(made, words, folder), name="penstock-backtest", daemon=True).start()
        return made

    def of(self, pipeline: str) -> list[Backtest]:
        """Those of a pipeline, newest first."""
        with self._lock:
            return [one for one in reversed(self._kept.values()) if one.pipeline == pipeline]

    def close(self) -> None:
        """End the one that runs."""
        with self._lock:
            self._is_closed, child = True, self._child
        if child is not None and child.poll() is None:
            child.kill()

    def _run(self, made: Backtest, words: Sequence[str], folder: tempfile.TemporaryDirectory[str]) -> None:
        state, result, detail = "failed", None, ""
        try:
            with folder:
                child = subprocess.Popen(
                    [sys.executable, "-m", "penstock", *words],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    cwd=folder.name,
                    preexec_fn=_step_back,  # noqa: PLW1509 - it only calls nice(2)
                )
                with self._lock:
                    self._child = child
                    if self._is_closed:
                        child.kill()
                out, errors = child.communicate(timeout=LONGEST_SECONDS)
            if child.returncode == 0:
                state, result = "done", json.loads(out)
            else:
                detail = _last_words(errors)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            detail = f"it took longer than {LONGEST_SECONDS:g} s; try fewer policies, or use the command"
        except (OSError, ValueError) as fault:
            detail = f"it could not be run: {fault}"
        with self._lock:
            self._child = None
            made.state, made.result, made.detail = state, result, detail


def _step_back() -> None:
    os.nice(19)


def _last_words(errors: str) -> str:
    """What the command said of its failure, without the file names of its folder."""
    lines = [line for line in errors.strip().splitlines() if line.strip()]
    return "\n".join(lines[-5:])[-_MOST_WORDS:] or "it ended without a word"
