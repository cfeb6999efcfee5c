# SPDX-License-Identifier: Apache-2.0
"""The catalogue of benchmark applications."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from penstock import apps
from penstock.adaptors.replay.options import NAMED_PAYLOADS
from penstock.apps.catalogue import APPLICATIONS, application
from penstock.errors import ConfigurationError


def test_there_are_ten_and_each_can_be_called() -> None:
    """Every entry names a function, a payload that the replay source has, and a folder with a check."""
    assert len(APPLICATIONS) == 10
    for entry in APPLICATIONS.values():
        module_name, _, function = entry.app.partition(":")
        assert callable(getattr(importlib.import_module(module_name), function))
        assert entry.payload in NAMED_PAYLOADS
        assert (Path(apps.__path__[0]) / module_name.rpartition(".")[2] / "check.py").is_file()
        assert application(entry.name) is entry
        assert application(entry.name.replace("-", "_")) is entry


def test_an_unknown_name_gets_the_closest() -> None:
    """A misspelt name is answered with the closest one, and with all."""
    with pytest.raises(ConfigurationError, match=r"no 'word-cuont'; did you mean word-count\? known: word-count, sol"):
        application("word-cuont")
    with pytest.raises(ConfigurationError, match="no 'xyz'; known: "):
        application("xyz")
