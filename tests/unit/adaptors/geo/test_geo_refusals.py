# SPDX-License-Identifier: Apache-2.0
"""What a geo network refuses before anything is started."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from penstock.adaptors.geo.cluster import GeoCluster
from penstock.adaptors.geo.delays import OneWayDelays
from penstock.adaptors.geo.network import GeoNetwork
from penstock.adaptors.process.children import Warden
from penstock.errors import ConfigurationError


class FakeWarden(Warden):
    """A warden that has nothing to start with: any request would fail."""

    def __init__(self) -> None:
        pass


def test_without_root_one_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ordinary user reads what is missing and the command that helps; nothing is written."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ConfigurationError, match=r"need root; run it as root: sudo") as caught:
        GeoNetwork(FakeWarden(), tmp_path / "network", ("home", "far"))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "network").exists()


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        (("home", "Far"), "cannot be a host's name"),
        (("home", "far", "far"), "there twice"),
        ((), "give 1 to"),
    ],
)
def test_wrong_names_are_refused(tmp_path: Path, nodes: tuple[str, ...], words: str) -> None:
    """A name that no host may have, one that is there twice, and no name at all."""
    with pytest.raises(ConfigurationError, match=words):
        GeoNetwork(FakeWarden(), tmp_path, nodes)


def test_a_cluster_needs_a_node_besides_home_and_cpu_above_zero(tmp_path: Path) -> None:
    """No worker's node, the master's name for one, and a node without CPU are refused."""
    nodes: Mapping[str, float | None]
    for nodes, words in (({}, "at least one"), ({"home": None}, "none called home"), ({"far": 0.0}, "more than 0")):
        with pytest.raises(ConfigurationError, match=words):
            GeoCluster(FakeWarden(), tmp_path, nodes)


def test_a_delay_of_an_unknown_node_is_refused(tmp_path: Path) -> None:
    """Also where root would be missing: settings are checked first."""
    with pytest.raises(ConfigurationError, match="no node farr"):
        GeoNetwork(FakeWarden(), tmp_path, ("home", "far"), OneWayDelays.parse("home:farr=1ms"))
