# SPDX-License-Identifier: Apache-2.0
"""A store that fails: first nothing is done without it, then control goes on, and all is kept when it is back."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.clock import VirtualClock
from penstock.errors import AdaptorError
from penstock.knowledge import EnduringStore, MemoryStore
from penstock.records import Action, Allocation
from penstock.steering import AuditAction, AuditEntry, PolicyChoice, SteeringState
from penstock.testing import check_store
from penstock.testing.fakes import a_decision, an_observation

FULL = AdaptorError("database or disk is full", target="knowledge.sqlite")


class FailingStore(MemoryStore):
    """Refuses everything while it is broken."""

    def __init__(self) -> None:
        super().__init__()
        self.is_broken = False

    def __getattribute__(self, name: str) -> Any:
        if name.startswith(("add_", "set_")) and object.__getattribute__(self, "is_broken"):
            raise FULL
        return object.__getattribute__(self, name)


class Scene:
    """A store on a disk that can be full, and what was said and done about it."""

    def __init__(self) -> None:
        self.inner, self.clock = FailingStore(), VirtualClock()
        self.said: list[str] = []
        self.openings = 0
        self.store = EnduringStore(
            self.inner, patience=3, say=self.said.append, on_lost=self.open, monotonic=self.clock.monotonic
        )

    def open(self) -> None:
        """Count."""
        self.openings += 1


def test_it_is_a_store() -> None:
    """It keeps every promise of the port."""
    check_store(lambda bound: EnduringStore(MemoryStore(bound), say=lambda _: None, on_lost=lambda: None))


def test_what_was_done_is_recorded_later_where_it_cannot_be_now() -> None:
    """An action that the store refuses is no fault of the pass, and comes before all that follows."""
    scene = Scene()
    action = Action("a", 5.0, Allocation(2), None)
    scene.inner.is_broken = True
    scene.store.add_action(action)
    assert scene.inner.actions() == []
    scene.inner.is_broken = False
    scene.store.add_observation(an_observation())
    assert scene.inner.actions() == [action]
    assert len(scene.inner.observations()) == 1
    assert (scene.openings, scene.said) == (0, [])


def test_after_some_failed_passes_control_goes_on_without_the_store() -> None:
    """Shares are opened once, one line says so, and the history is in memory; then it is all in the store."""
    scene = Scene()
    scene.inner.is_broken = True
    for number in range(2):
        with pytest.raises(AdaptorError, match="full"):
            scene.store.add_observation(an_observation(at=float(number)))
    for number in range(2, 6):
        scene.store.add_observation(an_observation(at=float(number)))
        scene.store.add_decision(a_decision(at=float(number)))
    assert scene.openings == 1
    (line,) = scene.said
    assert "disk is full" in line
    assert "CPU shares are opened" in line
    assert [seen.at for seen in scene.store.observations()] == [2.0, 3.0, 4.0, 5.0]
    scene.inner.is_broken = False
    scene.store.add_observation(an_observation(at=6.0))
    assert scene.inner.observations() == [], "a lost store is not tried at every record"
    scene.clock.advance(10.0)
    scene.store.add_observation(an_observation(at=7.0))
    assert [seen.at for seen in scene.inner.observations()] == [2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    assert len(scene.inner.decisions()) == 4
    assert "kept again" in scene.said[1]
    assert not scene.store.is_lost


def test_one_failure_now_and_then_is_not_the_loss_of_the_store() -> None:
    """Only failures in a row count."""
    scene = Scene()
    for _ in range(10):
        scene.inner.is_broken = True
        with pytest.raises(AdaptorError):
            scene.store.add_observation(an_observation())
        scene.inner.is_broken = False
        scene.store.add_observation(an_observation())
    assert scene.openings == 0


def test_an_order_that_cannot_be_kept_is_refused_and_gives_nothing_up() -> None:
    """Whoever gives orders gets the failure each time; only passes of the loop count toward losing the store."""
    scene = Scene()
    entry = AuditEntry(5.0, "ana", AuditAction.RESET, None, "", {}, {}, SteeringState({}, PolicyChoice("fixed")))
    scene.inner.is_broken = True
    for _ in range(10):
        with pytest.raises(AdaptorError):
            scene.store.add_audit(entry)
    assert (scene.openings, scene.said, scene.store.is_lost) == (0, [], False)
    scene.inner.is_broken = False
    scene.store.add_audit(entry)
    assert scene.inner.audit() == [entry]
