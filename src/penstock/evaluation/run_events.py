# SPDX-License-Identifier: Apache-2.0
"""What happened in a run besides decisions: restarts, and where latency was not exact."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.monitor.exactness import ExactnessChange, ExactnessWatch
from penstock.records import Decision, Mode, Observation


@dataclass(frozen=True, slots=True)
class Restart:
    """An operator's query was started anew; `at` is when the first batch of its new run was seen."""

    operator: str
    at: float
    resize: Decision | None = None
    """The decision that gave it another size; None: it had ended for another reason, such as a death."""

    def __str__(self) -> str:
        if self.resize is None:
            return f"{self.operator}: runs again after it had ended, from its checkpoint"
        return f"{self.operator}: runs again with another size: {self.resize.target}"


def exactness_changes(observations: Mapping[str, Sequence[Observation]]) -> list[ExactnessChange]:
    """Where the latency of each operator stopped being exact, and where it was exact again; oldest first."""
    changes = []
    for seen in observations.values():
        watch = ExactnessWatch()
        changes += [change for observation in seen if (change := watch.take(observation)) is not None]
    return sorted(changes, key=lambda change: change.at)


def inexact_spans(changes: Sequence[ExactnessChange], operator: str, end: float) -> list[tuple[float, float]]:
    """From when to when an operator's latency was not exact, up to `end` at most."""
    own = [change for change in changes if change.operator == operator]
    return [
        (lost.at, end if again is None else again.at)
        for lost, again in itertools.zip_longest(own[::2], own[1::2])
    ]  # fmt: skip


def restarts(observations: Mapping[str, Sequence[Observation]], changes: Sequence[Decision]) -> list[Restart]:
    """The restarts of all operators, oldest first: where the query's run is another than before."""
    found = []
    for operator, seen in observations.items():
        resizes = [d for d in changes if d.operator == operator and d.is_restart and d.mode is Mode.ACT]
        known = [o for o in seen if o.query_run is not None]
        since = known[0].at if known else 0.0
        for before, after in itertools.pairwise(known):
            if before.query_run != after.query_run:
                asked = [d for d in resizes if since <= d.at <= after.at]
                found.append(Restart(operator, after.at, asked[-1] if asked else None))
                since = after.at
    return sorted(found, key=lambda restart: restart.at)
