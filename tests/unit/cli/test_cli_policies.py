# SPDX-License-Identifier: Apache-2.0
"""`penstock policies`: what is listed, and that a broken package of somebody else's stands in nobody's way."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.policies import registry


@pytest.fixture
def broken_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An installed package that registers the policy `magic` and cannot be imported."""
    info = tmp_path / "magic_policies-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: magic-policies\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[penstock.policies]\nmagic = magic_policies:Magic\n")
    (tmp_path / "magic_policies.py").write_text("import a_wand_that_nobody_has\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    registry.found_policies.cache_clear()
    yield "magic"
    registry.found_policies.cache_clear()
    sys.modules.pop("magic_policies", None)


def test_the_policies_are_listed_as_a_table_and_as_json(invoke: Callable[..., Any]) -> None:
    """Ours come with what they need; one that is named comes with its options."""
    listed = invoke("policies", "--json")
    assert listed.exit_code == 0, listed.output
    document = json.loads(listed.stdout)
    assert [policy["name"] for policy in document["policies"]][:2] == ["mead", "mead-published"]
    assert document["broken"] == []
    one = invoke("policies", "threshold")
    assert "utilisation above which one level is added" in " ".join(one.stdout.split())
    assert "plans for latency" in one.stdout  # a catch-up time is part of the objective, and others read it
    unknown = invoke("policies", "nosuch")
    assert unknown.exit_code == 2
    assert "unknown policy 'nosuch'; known: mead" in unknown.stderr


def test_a_broken_package_is_listed_with_its_reason(broken_package: str, invoke: Callable[..., Any]) -> None:
    """The listing has all others, and says whose policy cannot be used and why."""
    result = invoke("policies", "--json")
    assert result.exit_code == 0, result.output
    (broken,) = json.loads(result.stdout)["broken"]
    assert broken == {
        "name": broken_package,
        "origin": "magic_policies:Magic (package magic-policies)",
        "reason": "it cannot be loaded: ModuleNotFoundError: No module named 'a_wand_that_nobody_has'",
    }
    table = " ".join(invoke("policies").stdout.split())
    assert "threshold" in table
    assert "broken: 'magic' of magic_policies:Magic (package magic-policies) cannot be used" in table


def test_a_broken_package_fails_only_where_it_is_named(
    broken_package: str, tmp_path: Path, invoke: Callable[..., Any]
) -> None:
    """Other policies simulate; its own name is wrong input, with the reason."""
    file = tmp_path / "pipeline.yaml"
    file.write_text(
        "name: one\narrivals: {shape: 'steps:5s@50'}\n"
        "operators:\n  - {name: a, executors: [1, 2], service: {distribution: exponential, mean: 1ms}}\n"
    )
    assert invoke("simulate", str(file), "--policy", "threshold", "--json").exit_code == 0
    named = invoke("simulate", str(file), "--policy", broken_package)
    assert named.exit_code == 2
    assert "No module named 'a_wand_that_nobody_has'" in named.stderr
    assert invoke("policies", broken_package).exit_code == 2
