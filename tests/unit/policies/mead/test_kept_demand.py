# SPDX-License-Identifier: Apache-2.0
"""What batches taught, kept for a later run of the same query."""

from __future__ import annotations

import json

import pytest

from penstock.knowledge.memory import MemoryStore
from penstock.knowledge.notebook import StoreNotebook
from penstock.performance.batch_memory import RememberedBatch
from penstock.performance.cpu_demand_learning import CpuMemory
from penstock.policies.mead.kept_demand import (
    as_text,
    cpu_as_text,
    cpu_from_text,
    cpu_note_name,
    from_text,
    note_name,
)
from penstock.policies.mead.operator_knowledge import BatchKnowledge, RecordKnowledge, knowledge_of
from penstock.ports import OperatorSite
from penstock.records import Allocation, Limits

LIMITS = Limits(1, 2, (0.5, 1.0))
BATCHES = tuple(
    RememberedBatch(100.0 + k, 50 + 40 * (k % 7), 0.3 + 0.001 * (50 + 40 * (k % 7)), Allocation(1, 1.0), 90.0 + k)
    for k in range(30)
)

WINDOWS = CpuMemory(12.0, 6.0, 4.8, 1200.0, (0.97, 240.0, 60000.0))
"""4 ms of CPU a record."""


def test_batches_go_through_a_text_unchanged() -> None:
    """All that a fit needs is kept."""
    assert from_text("q", as_text("q", BATCHES)) == BATCHES


@pytest.mark.parametrize(
    "text",
    [
        None, "", "no JSON", "{}", "[]", as_text("another query", BATCHES),
        json.dumps({"version": 2, "query": "q", "batches": []}),
        json.dumps({"version": 1, "query": "q", "batches": [[1, 2]]}),
        json.dumps({"version": 1, "query": "q", "batches": [[1.0, 0, 1.0, 1, 1.0, 1.0]]}),
        json.dumps({"version": 1, "query": "q", "batches": [[1.0, 9, 1.0, 0, 1.0, 1.0]]}),
        json.dumps({"version": 1, "query": "q", "batches": [[1.0, 9, -1.0, 1, 1.0, 1.0]]}),
        json.dumps({"version": 1, "query": "q", "batches": [[1.0, float("inf"), 1.0, 1, 1.0, 1.0]]}),
        json.dumps({"version": 1, "query": "q", "batches": [[1.0, 9, 10**400, 1, 1.0, 1.0]]}), "[" * 100_000,
    ],
)  # fmt: skip
def test_what_is_of_another_query_or_damaged_is_not_used(text: str | None) -> None:
    """Nothing is learnt from it, and nothing fails."""
    assert from_text("q", text) == ()


def test_an_operator_knows_its_demand_from_an_earlier_run() -> None:
    """With the batches of an earlier run of its query the demand is there at once; with another query's it is not."""
    notebook = StoreNotebook(MemoryStore())
    notebook.write(note_name("a"), as_text("q", BATCHES))
    same, other = (knowledge_of("a", OperatorSite(LIMITS, query=query)) for query in ("q", "changed"))
    for known in (same, other):
        known.begin_with(notebook)
    assert same.per_record_seconds == pytest.approx(0.001, rel=0.1)
    assert other.demand is None
    assert isinstance(same, BatchKnowledge)
    kept = StoreNotebook(MemoryStore())
    same.write_down(kept)
    other.write_down(kept)
    assert len(from_text("q", kept.read(note_name("a")))) == len(BATCHES)


def test_windows_of_cpu_go_through_a_text_unchanged() -> None:
    """All that a demand is made of is kept."""
    assert cpu_from_text("q", cpu_as_text("q", WINDOWS)) == WINDOWS


@pytest.mark.parametrize(
    "text",
    [
        None, "", "no JSON", "{}", "[]", cpu_as_text("another query", WINDOWS),
        json.dumps({"version": 2, "query": "q", "windows": [12.0, 6.0, 4.8, 1200.0, 0.97, 240.0, 60000.0]}),
        json.dumps({"version": 1, "query": "q", "windows": [12.0, 6.0]}),
        json.dumps({"version": 1, "query": "q", "windows": [2.0, 4.0, 4.8, 1200.0, 0.97, 240.0, 60000.0]}),
        json.dumps({"version": 1, "query": "q", "windows": [12.0, 6.0, 0.0, 1200.0, 0.97, 240.0, 60000.0]}),
        json.dumps({"version": 1, "query": "q", "windows": [12.0, 6.0, 4.8, float("inf"), 0.97, 240.0, 60000.0]}),
        json.dumps({"version": 1, "query": "q", "windows": [12.0, 6.0, 4.8, 10**400, 0.97, 240.0, 60000.0]}),
        json.dumps({"version": 1, "query": "q", "windows": [1e200, 6.0, 4.8, 1200.0, 0.97, 240.0, 60000.0]}),
        json.dumps({"version": 1, "query": "q", "windows": [12.0, 6.0, 4.8, 1e308, 0.97, 240.0, 60000.0]}),
        json.dumps({"version": 1, "query": "q", "windows": [12.0, 6.0, 5e-324, 1200.0, 0.97, 240.0, 60000.0]}),
        json.dumps({"version": 1, "query": "q", "windows": [12.0, 5e-324, 4.8, 1200.0, 0.97, 240.0, 60000.0]}),
        "[" * 100_000,
    ],
)  # fmt: skip
def test_windows_of_another_query_or_damaged_ones_are_not_used(text: str | None) -> None:
    """Nothing is learnt from them, and nothing fails."""
    assert cpu_from_text("q", text) is None


def test_an_operator_in_real_time_mode_knows_its_demand_from_an_earlier_run() -> None:
    """With the windows of an earlier run of its query the demand is there at once, and is kept again."""
    notebook = StoreNotebook(MemoryStore())
    notebook.write(cpu_note_name("a"), cpu_as_text("q", WINDOWS))
    same, other = (
        knowledge_of("a", OperatorSite(LIMITS, is_real_time=True, query=query)) for query in ("q", "changed")
    )
    for known in (same, other):
        known.begin_with(notebook)
    assert isinstance(same, RecordKnowledge)
    assert same.per_record_seconds == pytest.approx(0.004)
    assert same.evidence()["cpu_seconds_per_record"] == pytest.approx(0.004)
    assert other.demand is None
    kept = StoreNotebook(MemoryStore())
    other.write_down(kept)
    assert kept.read(cpu_note_name("a")) is None
    same.write_down(kept)
    later = knowledge_of("a", OperatorSite(LIMITS, is_real_time=True, query="q"))
    later.begin_with(kept)
    assert later.per_record_seconds == pytest.approx(0.004)
