# SPDX-License-Identifier: Apache-2.0
"""The memory of a run, in memory or in one SQLite file."""

from penstock.knowledge.enduring import EnduringStore
from penstock.knowledge.memory import MemoryStore
from penstock.knowledge.sqlite import SqliteStore

__all__ = ["EnduringStore", "MemoryStore", "SqliteStore"]
