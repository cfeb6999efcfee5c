# SPDX-License-Identifier: Apache-2.0
"""Penstock's own sources on a Spark that is too old for them."""

from __future__ import annotations

import importlib
import sys

import pytest

from penstock.errors import ConfigurationError

OURS = "penstock.adaptors.spark.python_sources"


@pytest.mark.parametrize("lacking", ["pyspark.sql.datasource", "pyspark.sql.streaming.datasource"])
def test_a_spark_without_bounded_python_sources_is_refused_with_its_version(
    lacking: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is missing is a newer Spark, not a package: the error says so, and what to do."""
    monkeypatch.delitem(sys.modules, OURS, raising=False)
    monkeypatch.setitem(sys.modules, lacking, None)
    with pytest.raises(
        ConfigurationError, match=r"need Spark 4\.2 or newer, and [\d.]+ is installed; run: pip install"
    ):
        importlib.import_module(OURS)
