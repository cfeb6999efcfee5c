# SPDX-License-Identifier: Apache-2.0
"""What policies write down is read again, also by later runs with the same store."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import PenstockError
from penstock.knowledge.memory import MemoryStore
from penstock.knowledge.notebook import StoreNotebook, forgetting_notes
from penstock.knowledge.sqlite import SqliteStore


def test_notes_outlive_the_process(tmp_path: Path) -> None:
    """What was written is there when the file is opened again, each name for itself."""
    for name, text in (("one", "first"), ("two", "second"), ("one", "third")):
        store = SqliteStore(tmp_path / "knowledge.sqlite")
        StoreNotebook(store).write(name, text)
        store.close()
    store = SqliteStore(tmp_path / "knowledge.sqlite")
    notebook = StoreNotebook(store)
    assert (notebook.read("one"), notebook.read("two"), notebook.read("three")) == ("third", "second", None)
    with pytest.raises(KeyError), forgetting_notes(store):
        raise KeyError(notebook.read("one"))  # what was to follow fails
    assert notebook.read("one") == "third"
    with forgetting_notes(store):
        pass
    assert notebook.read("one") is None
    store.close()


@pytest.mark.parametrize("kept", ["no JSON", "[1, 2]", "3"])
def test_notes_that_cannot_be_read_are_none(kept: str) -> None:
    """A damaged text costs what was learnt, not the run."""
    store = MemoryStore()
    store.set_fact("policy notes", kept)
    notebook = StoreNotebook(store)
    assert notebook.read("one") is None
    notebook.write("one", "new")
    assert notebook.read("one") == "new"


class FakeFullStore(MemoryStore):
    """A disk that is full."""

    def set_fact(self, name: str, value: str) -> None:
        """Fail."""
        raise PenstockError(f"{name}: no space for {value}")


def test_a_full_disk_does_not_end_the_loop() -> None:
    """What cannot be kept is lost, and nothing is raised."""
    notebook = StoreNotebook(FakeFullStore())
    notebook.write("one", "text")
    assert notebook.read("one") is None
