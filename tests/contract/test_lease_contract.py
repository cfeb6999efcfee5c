# SPDX-License-Identifier: Apache-2.0
"""One suite for all stores of leases; and what the one on disk promises across boots."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.knowledge.leases import MemoryLeases, SqliteLeases
from penstock.ports import Lease
from penstock.testing import check_leases


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_lease_contract(kind: str, tmp_path: Path) -> None:
    """Every store of leases keeps every promise of the port."""
    shared = MemoryLeases()
    check_leases(lambda: shared if kind == "memory" else SqliteLeases(tmp_path / "leases.sqlite"))


def test_the_suite_notices_two_holders() -> None:
    """The suite itself can fail: leases that everybody gets do not pass."""

    class Generous(MemoryLeases):
        def take_lease(self, name: str, holder: str, seconds: float) -> Lease | None:
            """Give it to all."""
            self._kept.pop(name, None)
            return super().take_lease(name, holder, seconds)

    shared = Generous()
    with pytest.raises(AssertionError):
        check_leases(lambda: shared)


def test_a_restart_of_the_host_frees_leases_and_keeps_their_numbers(tmp_path: Path) -> None:
    """The monotonic clock begins anew with a boot: what it said before does not hold anybody up."""
    file = tmp_path / "leases.sqlite"
    before = SqliteLeases(file, monotonic=lambda: 1e6, boot="first").take_lease("a lead", "ana", 5.0)
    after = SqliteLeases(file, monotonic=lambda: 10.0, boot="second").take_lease("a lead", "ben", 5.0)
    assert before is not None
    assert after is not None
    assert after.fence == before.fence + 1
