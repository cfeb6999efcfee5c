# SPDX-License-Identifier: Apache-2.0
"""A pipeline from Python: mistakes are told before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock


def test_mistakes_are_told_and_nothing_is_made(tmp_path: Path) -> None:
    """A mapping and a file go through the same checks as on the command line."""
    wrong = {"name": "x", "arrivals": {"topic": "t"}, "operators": [{"name": "a", "app": "nowhere:none"}]}
    with pytest.raises(penstock.ConfigurationError, match=r"arrivals\.topic: needs `broker`"):
        penstock.run(wrong, folder=tmp_path / "run")
    path = tmp_path / "p.yaml"
    path.write_text("name: x\narrivals: {shape: 'constant:rate=1,duration=1s'}\noperators: [{name: a, app: 'no:no'}]\n")
    with pytest.raises(penstock.ConfigurationError, match="cannot be imported"):
        penstock.run(path, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()
