# SPDX-License-Identifier: Apache-2.0
"""Orders of people outlive the controller: another one goes on with them, also with the policy they chose."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.clock import VirtualClock
from penstock.errors import ConfigurationError
from penstock.knowledge.sqlite import SqliteStore
from penstock.loop import Orders
from penstock.loop.kept_orders import first_state, kept_state
from penstock.ports import Policy
from penstock.running.assembly import Assembly
from penstock.running.policy_choice import chosen_policy, settings_with, with_policy
from penstock.settings import RunSettings, parse_settings
from penstock.steering import AuditAction, AuditEntry, OperatorSteering, Order, PolicyChoice, SteeringState


def a_run(**changes: Any) -> RunSettings:
    """A pipeline of one operator."""
    settings: dict[str, Any] = {
        "name": "p",
        "arrivals": {"shape": "constant:rate=5,duration=5s"},
        "operators": [{"name": "a", "app": "a:b", "executors": [1, 3]}],
        "policy": {"name": "threshold", "options": {"upper": 0.8}},
    }
    return with_policy(parse_settings({**settings, **changes}))


class ToyAssembly:
    """The part of an assembly that chooses the policy."""

    def __init__(self, state: SteeringState, fault: ConfigurationError | None = None) -> None:
        self.orders, self._settings_choice = Orders(state, VirtualClock()), chosen_policy(a_run())
        self.said: list[str] = []
        self.listener = SimpleNamespace(fault=lambda _, text: self.said.append(text))
        self.fault = fault

    def build_policy(self, choice: PolicyChoice) -> str:
        """Give its name."""
        if self.fault is not None:
            raise self.fault
        return choice.name

    def chosen(self) -> Policy | None:
        """What the assembly chooses."""
        return Assembly._ordered_policy(cast("Assembly", self))


def test_a_policy_that_was_chosen_decides_after_a_restart() -> None:
    """It is built again; that of the settings is where nobody chose another."""
    first = first_state(["a"], chosen_policy(a_run()))
    assert ToyAssembly(first).chosen() is None
    chosen = SteeringState(first.operators, PolicyChoice("fixed"), first.policy)
    assert cast("Any", ToyAssembly(chosen).chosen()) == "fixed"


@pytest.mark.parametrize(
    ("choice", "fault", "why"),
    [
        (PolicyChoice("mine", is_object=True), None, "it was an object"),
        (PolicyChoice("gone"), ConfigurationError("policy: unknown policy 'gone'"), "unknown policy"),
    ],
)
def test_a_policy_that_cannot_be_built_again_is_reported(
    choice: PolicyChoice, fault: ConfigurationError | None, why: str
) -> None:
    """That of the settings decides, the run says so, and the orders show it."""
    first = first_state(["a"], chosen_policy(a_run()))
    parts = ToyAssembly(SteeringState(first.operators, choice, first.policy), fault)
    assert parts.chosen() is None
    assert why in parts.said[0]
    assert parts.orders.state.policy == first.policy
    assert parts.orders.state.previous == choice


def test_a_policy_is_looked_through_as_that_of_a_settings_file_is() -> None:
    """Every mistake is found by the code that reads settings; limits and objective stay."""
    settings = a_run(objective={"p95": "2s"})
    changed = settings_with(settings, PolicyChoice("mead"))
    assert changed.policy.name == "mead"
    assert changed.operators == settings.operators
    assert changed.path_objectives() == settings.path_objectives()
    with pytest.raises(ConfigurationError, match="did you mean mead"):
        settings_with(settings, PolicyChoice("meed"))
    with pytest.raises(ConfigurationError, match="leave one out"):
        settings_with(settings, PolicyChoice("fixed", {"rules": "x"}, rules="y"))


def test_orders_on_disk_are_found_by_the_next_controller(tmp_path: Path) -> None:
    """The newest entry holds all of them."""
    file = tmp_path / "knowledge.sqlite"
    first = first_state(["a"], chosen_policy(a_run()))
    paused = SteeringState({"a": OperatorSteering(Order("ana", 5.0, "deploying"))}, PolicyChoice("fixed"), first.policy)
    with closing(SqliteStore(file)) as store:
        assert kept_state(store, first) == first
        store.add_audit(AuditEntry(5.0, "ana", AuditAction.PAUSE, None, "deploying", {}, {}, paused))
    with closing(SqliteStore(file)) as store:
        assert kept_state(store, first) == paused
        assert kept_state(store, first, since=6.0) == first  # of an earlier run


def test_a_file_from_before_there_were_orders_is_read_and_written(tmp_path: Path) -> None:
    """It has no table for them: reading gives none, and a controller that goes on with it adds it."""
    file = tmp_path / "knowledge.sqlite"
    SqliteStore(file).close()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("DROP TABLE audit")
        connection.commit()
    with closing(SqliteStore.open_readonly(file)) as store:
        assert store.audit() == []
    state = first_state(["a"], PolicyChoice("fixed"))
    with closing(SqliteStore(file)) as store:
        store.add_audit(AuditEntry(5.0, "ana", AuditAction.RESET, None, "", {}, {}, state))
        assert len(store.audit()) == 1
