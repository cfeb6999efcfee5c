# SPDX-License-Identifier: Apache-2.0
"""What policies have learnt, kept in the store for those that come after them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from penstock.errors import PenstockError
from penstock.ports import KnowledgeStore

NOTES_FACT = "policy notes"
"""The fact in a store that holds the notes of all policies."""
_LOG = logging.getLogger(__name__)


class StoreNotebook:
    """A `ports.Notebook` in a knowledge store.

    Parameters
    ----------
    store
        Where texts are kept: with a file or a database, beyond the end of the run.
    """

    def __init__(self, store: KnowledgeStore) -> None:
        self._store = store

    def read(self, name: str) -> str | None:
        """The text under a name; None: there is none."""
        return self._notes().get(name)

    def write(self, name: str, text: str) -> None:
        """Keep a text under a name."""
        try:
            self._store.set_fact(NOTES_FACT, json.dumps({**self._notes(), name: text}))
        except PenstockError:
            _LOG.warning("what was learnt could not be kept (%s)", name, exc_info=True)

    def _notes(self) -> dict[str, str]:
        try:
            kept = json.loads(self._store.fact(NOTES_FACT) or "{}")
        except (PenstockError, ValueError):
            _LOG.warning("what earlier policies have learnt cannot be read", exc_info=True)
            return {}
        return {str(name): str(text) for name, text in kept.items()} if isinstance(kept, dict) else {}


@contextmanager
def forgetting_notes(store: KnowledgeStore) -> Iterator[None]:
    """Forget what all policies have written down; where what follows fails, it is as it was."""
    kept = store.fact(NOTES_FACT)
    store.set_fact(NOTES_FACT, "{}")
    try:
        yield
    except BaseException:
        with suppress(PenstockError):
            store.set_fact(NOTES_FACT, kept or "{}")
        raise
