# SPDX-License-Identifier: Apache-2.0
"""Spark's configuration reaches the driver by a private file, and not by its command line."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from penstock.errors import ConfigurationError
from penstock.records import Limits, Mode
from penstock.running import operator_process
from penstock.running.operator_job import JobInput, OperatorJob
from penstock.running.spark_properties import properties_text, submit_arguments


class RecordingBuilder:
    """A builder of sessions: what it is given would stand on the command line."""

    def __init__(self) -> None:
        self.given: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def take(*words: str) -> RecordingBuilder:
            self.given += words
            return self

        return take


def test_no_value_of_the_configuration_is_an_argument(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The values are in a file that nobody else may read, which the arguments name."""
    builder, sql = RecordingBuilder(), ModuleType("pyspark.sql")
    sql.SparkSession = type("SparkSession", (), {"builder": builder})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyspark.sql", sql)
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--packages a:b:1 pyspark-shell")
    spark = {"spark.hadoop.fs.s3a.secret.key": "abracadabra"}
    job = OperatorJob("a", "m:f", "local", Limits(), Mode.ACT, str(tmp_path), "s", JobInput(), spark=spark)
    operator_process._session(job)
    file = tmp_path / "spark.properties"
    assert "abracadabra" not in " ".join([*builder.given, os.environ["PYSPARK_SUBMIT_ARGS"]])
    assert "abracadabra" in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert os.environ["PYSPARK_SUBMIT_ARGS"] == (
        f"--packages a:b:1 --properties-file {file} --load-spark-defaults pyspark-shell"
    )


def test_values_are_written_as_java_reads_them() -> None:
    """Backslashes and ends of lines are escaped; what separates a name from its value only in names."""
    assert properties_text({"a b": "c=d:e", "x": "1\n2\\3"}) == "a\\ b=c=d:e\nx=1\\n2\\\\3\n"


def test_a_file_of_the_users_own_is_refused_with_a_way_out() -> None:
    """Spark reads one such file only."""
    with pytest.raises(ConfigurationError, match="under `spark` of the operator"):
        submit_arguments(Path("/x"), "--properties-file y pyspark-shell")
