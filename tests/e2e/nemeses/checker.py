# SPDX-License-Identifier: Apache-2.0
"""Judges a run by what came out of it: which numbers are lost, doubled, strange or out of place, and what was going on.

It shares no code with Penstock: it reads the output files and the history, and computes what should be there.

- *lost*: a number that was to be sent and did not come out.
- *doubled*: one that came out more than once.
- *strange*: one that was never to be sent.
- *out of place*: one that stands behind a higher number in its partition of the arrivals, or whose place in the topic
  was given to two numbers. A producer that is started again, or sends again, could cause it.
- *wrong counts*: keys whose count in the operator's state is not the number of numbers that have that key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from tests.e2e.nemeses.history import History, Load

Rows: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
"""One line for each record that came out: its number, its partition of the arrivals, its offset there."""
SUFFIX = ".places"
_SHOWN = 20
_SLACK_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong with what came out; nothing, if all is well."""

    history: History
    lost: tuple[int, ...] = ()
    doubled: tuple[int, ...] = ()
    strange: tuple[int, ...] = ()
    out_of_place: tuple[int, ...] = ()
    wrong_counts: Mapping[int, tuple[int, int]] | None = None
    """By key: what the state has, and what it should have. None: no counts were found."""

    @property
    def is_good(self) -> bool:
        """Whether every number came out once, in its place, and all counts are exact."""
        return not (self.lost or self.doubled or self.strange or self.out_of_place) and self.wrong_counts == {}

    def figures(self) -> dict[str, Any]:
        """How much of each finding there is: figures of runs with different seeds add up."""
        wrong = self.wrong_counts
        return {
            "seed": self.history.load.seed,
            "records": self.history.load.records,
            "faults": self.history.times(),
            **{name: len(getattr(self, name)) for name in ("lost", "doubled", "strange", "out_of_place")},
            "wrong_counts": None if wrong is None else len(wrong),
        }

    def explain(self) -> str:
        """Every finding by number, with the faults around the time at which the number was sent."""
        lines = []
        for name in ("lost", "doubled", "strange", "out_of_place"):
            numbers: tuple[int, ...] = getattr(self, name)
            if numbers:
                lines.append(f"{name.replace('_', ' ')}: {len(numbers):,}")
                lines += [f"  {number}{self._around(number)}" for number in numbers[:_SHOWN]]
                lines += [f"  and {len(numbers) - _SHOWN:,} more"] if len(numbers) > _SHOWN else []
        if self.wrong_counts is None:
            lines.append("no counts of the state were found")
        elif self.wrong_counts:
            lines.append(f"wrong counts: {len(self.wrong_counts)}")
            lines += [
                f"  key {key}: {has:,} in the state, should be {wanted:,}"
                for key, (has, wanted) in list(self.wrong_counts.items())[:_SHOWN]
            ]
        return "\n".join(lines) or f"{self.history.load.records:,} numbers, each once and in its place"

    def _around(self, number: int) -> str:
        load = self.history.load
        if not 0 <= number < load.records:
            return ""
        faults = self.history.around(load.due_at(number), _SLACK_SECONDS)
        return f" (sent around {', '.join(map(str, faults))})" if faults else " (no fault when it was sent)"


def check(history: History, rows: Rows, counts: Mapping[int, int] | None) -> Verdict:
    """Judge what came out against what was sent.

    Parameters
    ----------
    history
        What was sent, and what happened meanwhile.
    rows
        What came out, copies too.
    counts
        The newest counts in the state of the counting operator, by key; None: there are none.
    """
    records = history.load.records
    numbers = rows[:, 0]
    is_known = (numbers >= 0) & (numbers < records)
    times = np.bincount(numbers[is_known], minlength=records)
    return Verdict(
        history,
        lost=_plain(np.flatnonzero(times == 0)),
        doubled=_plain(np.flatnonzero(times > 1)),
        strange=_plain(np.unique(numbers[~is_known])),
        out_of_place=_out_of_place(rows[is_known]),
        wrong_counts=None if counts is None else _wrong_counts(history.load, counts),
    )


def _out_of_place(rows: Rows) -> tuple[int, ...]:
    unique = np.unique(rows, axis=0)
    ordered = unique[np.lexsort((unique[:, 0], unique[:, 2], unique[:, 1]))]
    if len(ordered) < 2:
        return ()
    before, after = ordered[:-1], ordered[1:]
    is_same_partition = before[:, 1] == after[:, 1]
    # A number that is sent twice has two places; that alone is `doubled`, and shows there.
    is_back = is_same_partition & (after[:, 0] < before[:, 0])
    shares_place = is_same_partition & (after[:, 2] == before[:, 2])
    return _plain(np.unique(np.concatenate([after[is_back, 0], after[shares_place, 0]])))


def _wrong_counts(load: Load, counts: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    whole, rest = divmod(load.records, load.keys)
    wanted = {key: whole + (key < rest) for key in range(load.keys)}
    keys = sorted(wanted.keys() | counts.keys())
    found = {key: (counts.get(key, 0), wanted.get(key, 0)) for key in keys}
    return {key: both for key, both in found.items() if both[0] != both[1]}


def _plain(numbers: np.ndarray[Any, Any]) -> tuple[int, ...]:
    return tuple(int(number) for number in numbers)


# --- what the operators of a nemesis run write ---


def read_rows(output: Path) -> Rows:
    """Everything that the keeping operator wrote: a file for each batch, rows of three numbers."""
    parts = [np.frombuffer(path.read_bytes(), dtype="<i8") for path in sorted(output.glob(f"*{SUFFIX}"))]
    return np.concatenate([*parts, np.empty(0, dtype="<i8")]).reshape(-1, 3)


def rows_written(output: Path) -> int:
    """How many rows are there, by the sizes of the files."""
    return sum(path.stat().st_size for path in output.glob(f"*{SUFFIX}")) // 24


def read_counts(output: Path) -> dict[int, int] | None:
    """The counts of the newest batch of the counting operator; None: it wrote none."""
    batches = sorted((int(path.stem), path) for path in output.glob("*.json"))
    if not batches:
        return None
    found: dict[str, int] = json.loads(batches[-1][1].read_text(encoding="utf-8"))
    return {int(key): count for key, count in found.items()}
