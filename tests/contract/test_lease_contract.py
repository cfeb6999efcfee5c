# SPDX-License-Identifier: Apache-2.0
"""One suite for all stores of leases; and what the one on disk promises across boots."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import AdaptorError, ConfigurationError
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


@pytest.mark.parametrize("comes_back", [False, True])
def test_nobody_leads_by_a_file_that_was_deleted(tmp_path: Path, comes_back: bool) -> None:
    """Who has it open is told so at every call: another process may have made a new one, and leads by that."""
    file = tmp_path / "leases.sqlite"
    ana = SqliteLeases(file)
    before = ana.take_lease("a lead", "ana", 60.0)
    assert before is not None
    for part in tmp_path.iterdir():
        part.unlink()
    if comes_back:
        ben = SqliteLeases(file, now=lambda: before.fence + 1.0)
        after = ben.take_lease("a lead", "ben", 60.0)
        assert after is not None
        assert after.fence > before.fence  # agents that have heard the old number take the new one
        ben.close()
    with pytest.raises(AdaptorError, match="deleted or replaced"):
        ana.take_lease("a lead", "ana", 60.0)
    with pytest.raises(AdaptorError, match="deleted or replaced"):
        ana.lease("a lead")
    ana.close()


def test_a_full_disk_deposes_nobody(tmp_path: Path) -> None:
    """Renewing a lease takes no more room than it had after some renewals."""
    leases = SqliteLeases(tmp_path / "leases.sqlite")

    def room() -> int:
        for _ in range(40):
            leases.take_lease("a lead", "ana", 5.0)
        return sum(part.stat().st_size for part in tmp_path.iterdir())

    assert room() == room() == room()
    leases.close()


def test_a_failure_is_named_by_its_cause(tmp_path: Path) -> None:
    """A full disk ends the transaction by itself: that there is none to roll back is not what went wrong."""
    leases = SqliteLeases(tmp_path / "leases.sqlite")
    leases._connection.execute("PRAGMA max_page_count = 3")
    with pytest.raises(AdaptorError, match="the disk is full; free some space"):
        leases.take_lease("a lead", "a" * 100_000, 5.0)
    assert leases.take_lease("a lead", "ana", 5.0) is not None
    leases.close()


def test_a_file_of_something_else_is_refused_with_what_to_do(tmp_path: Path) -> None:
    """It is not touched."""
    file = tmp_path / "leases.sqlite"
    file.write_bytes(b"garbage" * 1000)
    with pytest.raises(ConfigurationError, match="move the file away, or give another folder"):
        SqliteLeases(file)
    assert file.read_bytes() == b"garbage" * 1000
