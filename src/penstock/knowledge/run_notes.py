# SPDX-License-Identifier: Apache-2.0
"""What a run said to its user besides decisions: kept in the store, so that it can be read the next morning."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from penstock.errors import PenstockError
from penstock.ports import KnowledgeStore
from penstock.secrets import without_secrets
from penstock.units import number, without_numbers

_FACT = "notes"
_MOST = 500
"""Notes that are kept. When there are more, the oldest go: a run may last for weeks."""


@dataclass(frozen=True, slots=True)
class RunNote:
    """Something said of an operator, or of a part of the run such as its cluster."""

    operator: str
    at: float
    text: str
    count: int = 1
    """How often it was said."""
    last_at: float = 0.0
    """When it was said last."""

    def __str__(self) -> str:
        again = "" if self.count == 1 else f" (said {self.count} times)"
        return f"{self.operator}: {self.text}{again}"


class RunNotes:
    """Keeps what is said. A repeated note is counted, with its newest words; may be used from several threads.

    Parameters
    ----------
    store
        Where notes are kept.
    now
        The time of a note, in seconds since the epoch.
    since
        Older notes belong to an earlier run, and are dropped.
    """

    def __init__(self, store: KnowledgeStore, now: Callable[[], float], *, since: float = 0.0) -> None:
        self._store, self._now = store, now
        self._lock = threading.RLock()  # a store that is lost may lead to another note
        kept = [note for note in kept_notes(store) if note.at >= since]
        self._notes = {_key(note.operator, note.text): note for note in kept}

    def add(self, operator: str, text: str) -> None:
        """Keep a note; a store that cannot keep it has said so itself, and the run goes on."""
        text = without_secrets(text)
        with self._lock:
            at, key = self._now(), _key(operator, text)
            before = self._notes.get(key)
            self._notes[key] = (
                RunNote(operator, at, text, last_at=at)
                if before is None
                else replace(before, text=text, count=before.count + 1, last_at=at)
            )
            while len(self._notes) > _MOST:
                del self._notes[next(iter(self._notes))]
            try:
                self._store.set_fact(_FACT, json.dumps([asdict(note) for note in self._notes.values()]))
            except PenstockError:
                return


def _key(operator: str, text: str) -> tuple[str, str]:
    """Notes that differ in a number alone ("not answered for 5 s", "... for 6 s") are one."""
    return operator, without_numbers(text)


def kept_notes(store: KnowledgeStore) -> list[RunNote]:
    """The notes of a store, oldest first; none where they cannot be read."""
    try:
        found = json.loads(store.fact(_FACT) or "[]")
    except json.JSONDecodeError:
        return []
    notes = [note for one in found if (note := _note(one)) is not None] if isinstance(found, list) else []
    return sorted(notes, key=lambda note: note.at)


def _note(given: Any) -> RunNote | None:
    try:
        return RunNote(
            str(given["operator"]),
            number("at", given["at"]),
            str(given["text"]),
            int(given["count"]),
            number("last_at", given["last_at"]),
        )
    except (KeyError, TypeError, ValueError, PenstockError):
        return None
