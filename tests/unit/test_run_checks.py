# SPDX-License-Identifier: Apache-2.0
"""A settings file that is wrong in several layers."""

from pathlib import Path

import pytest

from penstock.errors import ConfigurationError
from penstock.running.checks import check_run, load_checked


def test_mistakes_of_every_layer_show_at_once(tmp_path: Path) -> None:
    """A field, a shape, a policy's option and an app's name are told in one go."""
    path = tmp_path / "bad.yaml"
    path.write_text(
        """
name: logs
arrivals: {shape: "periodic:base=5,peek=9,period=60s,width=20s,duration=2m"}
operators:
  - {name: a, app: "penstock.apps.log_analysis:log_analisys", executers: [1, 2]}
policy: {options: {uper: 0.7}}
"""
    )
    with pytest.raises(ConfigurationError) as fault:
        load_checked(path)
    for word in ("executers", "peek", "uper", "log_analisys"):
        assert word in str(fault.value)


def test_a_good_file_is_read(tmp_path: Path) -> None:
    """A file without mistakes gives its settings."""
    path = tmp_path / "good.yaml"
    path.write_text(
        "name: p\narrivals: {shape: 'constant:rate=5,duration=5s'}\n"
        "operators: [{name: a, app: 'penstock.apps.log_analysis:log_analysis'}]\n"
    )
    assert load_checked(path).name == "p"


def test_what_mead_needs_is_told_before_anything_starts(tmp_path: Path) -> None:
    """Without a latency bound, or with costs that do not fit the levels, the run is refused with both reasons."""
    path = tmp_path / "mead.yaml"
    path.write_text(
        "name: p\narrivals: {shape: 'constant:rate=5,duration=5s'}\n"
        "operators: [{name: a, app: 'penstock.apps.log_analysis:log_analysis'}]\n"
        "policy: {name: mead, options: {costs: [1.0, 2.0]}}\n"
    )
    settings = load_checked(path)
    assert settings.operators[0].cpu_shares == (0.4, 0.55, 0.7, 0.85, 1.0)
    with pytest.raises(ConfigurationError) as fault:
        check_run(settings)
    assert "objective: mead plans for a latency bound" in str(fault.value)
    assert "2 costs for 5 CPU shares" in str(fault.value)
