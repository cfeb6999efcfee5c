# SPDX-License-Identifier: Apache-2.0
"""Prices and costs, worked out by hand, and where they are shown: nowhere without a price."""

from __future__ import annotations

import doctest
import io
import json
from typing import Any

import pytest
from rich.console import Console

import penstock.money
from penstock.account import OperatorAccount
from penstock.cli.summary import summary_panel
from penstock.cli.view import LiveView, PlainView
from penstock.errors import ConfigurationError
from penstock.evaluation.report import cards
from penstock.evaluation.run_reading import read_history
from penstock.knowledge import MemoryStore
from penstock.loop import CycleReport
from penstock.money import Cost, CostBasis, Prices, total_cost
from penstock.records import Allocation, ClusterState, ExecutorSize
from penstock.settings import kept_cost_bases, parse_settings, read_prices
from penstock.testing import an_observation
from penstock.testing.synthetic_run import fill_store, synthetic_reports, synthetic_settings

PRICES = {"executor_hour": 3.6, "core_hour": 36.0, "currency": "EUR"}


def test_the_examples_hold() -> None:
    """Those in the module's own words."""
    assert doctest.testmod(penstock.money).failed == 0


def account_of(*steps: tuple[float, Allocation | None]) -> OperatorAccount:
    """An account of looks, each with what was there since the one before."""
    account = OperatorAccount()
    for at, size in steps:
        account.add(CycleReport(an_observation(at=at, cluster=ClusterState(observed=size))))
    return account


def test_an_account_is_priced_by_executors_and_cores() -> None:
    """Ten seconds with one executor at half its two cores, then ten with two whole ones; top is four of them."""
    account = account_of((0.0, Allocation(1, 0.5)), (10.0, Allocation(1, 0.5)), (20.0, Allocation(2, 1.0)))
    basis = CostBasis(Prices(3.6, 36.0, "EUR"), 2, 4.0, 4.0)
    cost = account.cost(basis)
    assert cost is not None
    # 30 executor-seconds at 0.001, and (5 + 20) x 2 core-seconds at 0.01
    assert cost.amount == pytest.approx(0.03 + 0.5)
    assert cost.static == pytest.approx(20 * 4 * 0.001 + 20 * 4 * 2 * 0.01)
    assert cost.saved == pytest.approx(cost.static - cost.amount)
    assert cost.saved_fraction == pytest.approx(1 - 0.53 / 1.68)


def test_one_price_is_enough_and_the_other_adds_nothing() -> None:
    """With the price of executors alone the CPU share does not matter, and cores need not be known."""
    account = account_of((0.0, Allocation(1)), (3600.0, Allocation(1, 0.1)))
    only_executors = account.cost(CostBasis(Prices(executor_hour=2.0), None, 1.0, 1.0))
    assert only_executors == Cost(2.0, 2.0)
    assert account.cost(CostBasis(Prices(core_hour=2.0), 4, 1.0, 1.0)) == Cost(pytest.approx(0.8), 8.0)  # type: ignore[arg-type]


def test_a_cost_that_is_not_known_is_none() -> None:
    """No prices, cores that are not known, or nothing observed: never 0."""
    account = account_of((0.0, Allocation(1)), (3600.0, Allocation(1)))
    assert account.cost(None) is None
    assert account.cost(CostBasis(Prices(core_hour=2.0), None, 1.0, 1.0)) is None
    assert account_of((0.0, None), (60.0, None)).cost(CostBasis(Prices(core_hour=2.0), 1, 1.0, 1.0)) is None
    assert total_cost([Cost(1.0, 2.0), None]) is None
    assert total_cost([]) is None
    assert total_cost([Cost(1.0, 2.0, "EUR"), Cost(0.5, 2.0, "EUR")]) == Cost(1.5, 4.0, "EUR")


def test_a_free_allocation_has_no_saved_part() -> None:
    """Where the top allocation costs nothing, no part of it can be saved."""
    assert Cost(0.0, 0.0).saved_fraction is None


def test_settings_price_every_operator_by_its_own_cores_and_sizes() -> None:
    """The top counts with the largest size, in executors of the own one; stored settings give the same."""
    plain: dict[str, Any] = {
        "name": "p",
        "prices": PRICES,
        "operators": [
            {"name": "a", "executors": [1, 4], "cpu_shares": [0.5], "executor_cores": 2, "sizes": [{"cores": 6}]},
            {"name": "b", "input": "a", "executors": [1, 2]},
        ],
    }
    settings = parse_settings(plain)
    bases = settings.cost_bases()
    assert bases["a"] == CostBasis(Prices(3.6, 36.0, "EUR"), 2, 12.0, 6.0)
    assert bases["b"] == CostBasis(Prices(3.6, 36.0, "EUR"), 1, 2.0, 2.0)
    assert kept_cost_bases(settings.model_dump(mode="json", by_alias=True)) == bases
    assert parse_settings({**plain, "prices": None}).cost_bases() == {}


def test_executors_of_another_size_count_by_their_cores() -> None:
    """One of three times the cores costs as much as three of the own size."""
    large = Allocation(1, 1.0, ExecutorSize(6, "1g", worth=3.0))
    basis = CostBasis(Prices(executor_hour=1.0, core_hour=1.0), 2, 3.0, 3.0)
    assert account_of((0.0, large), (3600.0, large)).cost(basis) == account_of(
        (0.0, Allocation(3)), (3600.0, Allocation(3))
    ).cost(basis)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "give executor_hour, core_hour or both"),
        ({"currency": "EUR"}, "give executor_hour, core_hour or both"),
        ({"executor_hour": -1}, "prices.executor_hour"),
        ({"core_hour": float("nan")}, "prices.core_hour"),
        ({"core_hour": 1, "currency": "E" * 40}, "is no label"),
        ({"cpu_hour": 1}, "cpu_hour: is not a setting"),
    ],
)
def test_wrong_prices_are_refused_with_their_field(given: dict[str, Any], said: str) -> None:
    """In a settings file and in `attach` alike."""
    with pytest.raises(ConfigurationError, match=said):
        read_prices(given)
    with pytest.raises(ConfigurationError, match="prices"):
        parse_settings({**synthetic_settings("a"), "prices": given})


@pytest.mark.parametrize(
    "damage", [{"prices": {"core_hour": "x"}}, {"operators": [1, {"name": "a"}]}, {"operators": "none"}]
)
def test_damaged_settings_of_a_store_give_no_cost(damage: dict[str, Any]) -> None:
    """A report of what can be read is better than none."""
    assert kept_cost_bases({"prices": PRICES, "operators": [], **damage}) == {}


def text_of(shown: Any) -> str:
    """What a terminal would show."""
    console = Console(file=io.StringIO(), width=160, color_system=None)
    console.print(shown)
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize("prices", [None, PRICES])
def test_cost_is_shown_where_there_are_prices(prices: dict[str, Any] | None) -> None:
    """Live view, plain lines, summary and report; without prices none of them has a word of it."""
    settings = parse_settings({**synthetic_settings("log-analysis"), "prices": prices})
    lines = Console(file=io.StringIO(), width=400, color_system=None)
    live, plain = LiveView(settings, lines), PlainView(settings, lines, every_seconds=0.0)
    for report in synthetic_reports():
        live.report(report)
        plain.report(report)
    store = MemoryStore()
    fill_store(store, "log-analysis")
    kept = json.loads(store.fact("settings") or "null")
    kept["operators"][0]["executor_cores"] = 1
    store.set_fact("settings", json.dumps({**kept, "prices": prices}))
    store.set_fact("summary", "null")
    history = read_history(store)
    summary = text_of(summary_panel(history.summary))
    texts = (text_of(live.render()), lines.file.getvalue(), summary)  # type: ignore[attr-defined]
    for text in texts:
        assert ("EUR" in text) is (prices is not None)
        assert ("cost" in text) is (prices is not None)
    assert [card.title for card in cards(history) if "EUR" in card.value] == ([] if prices is None else ["Cost"])
