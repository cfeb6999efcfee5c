# SPDX-License-Identifier: Apache-2.0
"""The page "write a policy": its example is run as it stands, and touches no file of Penstock."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.evaluation.policy_text import parse_policy
from penstock.evaluation.simulation import simulate
from penstock.policies import policy_entries
from penstock.policies import registry as policy_registry
from penstock.simulator import Operator, Pipeline, exponential
from penstock.testing import check_policy

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "how-to" / "write-a-policy.md"
EXAMPLE = ROOT / "examples" / "headroom_policy.py"


@pytest.fixture
def example() -> Iterator[ModuleType]:
    """The example as a module that can be imported by its name."""
    spec = importlib.util.spec_from_file_location("headroom_policy", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["headroom_policy"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["headroom_policy"]


def snippets() -> list[str]:
    """The page's Python blocks."""
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)


def test_the_page_shows_the_example_as_it_is() -> None:
    """What the page prints is the file that is run here, and it is short."""
    code = EXAMPLE.read_text(encoding="utf-8").split('"""\n', maxsplit=1)[1].strip()
    assert snippets()[0].strip() == code
    body = code.split("class HeadroomPolicy", maxsplit=1)[1]
    assert len([line for line in body.splitlines() if line.strip()]) <= 30


def test_the_example_keeps_the_contract(example: ModuleType) -> None:
    """The example keeps every promise of a policy."""
    check_policy(example.HeadroomPolicy)


def test_the_page_is_run_in_the_simulator(example: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """The page's snippet runs as it stands: the example saves CPU against the top allocation."""
    snippet = next(text for text in snippets() if "simulate(" in text)
    names: dict[str, Any] = {}
    exec(compile(snippet, str(PAGE), "exec"), names)
    result = names["result"]
    assert 0.4 < result.cost_against_static < 0.9
    assert result.changes
    assert all("busiest look" in decision.reason for decision in result.changes)
    assert "of static" in capsys.readouterr().out


def test_a_registered_policy_can_be_named(example: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry point makes it a name for settings and commands, with its options out of its signature."""
    from importlib.metadata import EntryPoint

    point = EntryPoint("headroom", "headroom_policy:HeadroomPolicy", "penstock.policies")
    monkeypatch.setattr(policy_registry, "entry_points", lambda group: [point])
    policy_registry.found_policies.cache_clear()
    try:
        entry = policy_entries()["headroom"]
        assert [(o.name, o.default) for o in entry.options] == [("room", 0.3)]
        assert entry.reads_objective is False
        arrivals = np.cumsum(np.random.default_rng(1).exponential(1 / 200, size=20_000))
        limits = ps.Limits(1, 1, (0.4, 0.7, 1.0))
        pipeline = Pipeline.of_one(Operator("matcher", exponential(mean=0.002), limits=limits))
        tight = simulate(arrivals, pipeline, parse_policy("headroom:room=0.05"), ps.keep_up())
        roomy = simulate(arrivals, pipeline, parse_policy("headroom:room=0.5"), ps.keep_up())
        assert tight.capacity_seconds < roomy.capacity_seconds
        with pytest.raises(ps.ConfigurationError, match="headroom has no such option; it has room"):
            parse_policy("headroom:space=1")
    finally:
        monkeypatch.undo()
        policy_registry.found_policies.cache_clear()
