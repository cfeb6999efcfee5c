# SPDX-License-Identifier: Apache-2.0
"""A settings file that is wrong in several layers."""

from pathlib import Path

import pytest

from penstock._run_checks import load_checked
from penstock.errors import ConfigurationError


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
