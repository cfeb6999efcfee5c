# SPDX-License-Identifier: Apache-2.0
"""The entry of an operator's process."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.errors import ClusterError, ConfigurationError
from penstock.records import Limits, Mode, encode
from penstock.running import operator_process
from penstock.running.operator_job import JobInput, OperatorJob


def test_what_the_user_must_mend_is_one_line_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The end of the log is what the run reports: the fault itself, and no trace of our code."""
    job = OperatorJob("a", "m:f", "local", Limits(), Mode.ACT, str(tmp_path), "s", JobInput(), checkpoint_seconds=60.0)
    path = tmp_path / "job.json"
    path.write_text(encode(job))

    def refuse(told: OperatorJob) -> int:
        assert told == job
        raise ConfigurationError("trigger: say it with Spark's own functions", field="trigger")

    monkeypatch.setattr(operator_process, "run_operator", refuse)
    monkeypatch.setattr(sys, "argv", ["operator_process", str(path)])
    assert operator_process.main() == 2
    (record,) = caplog.records
    assert record.getMessage() == "trigger: say it with Spark's own functions"
    assert record.exc_info is None
    assert (tmp_path / "failure.txt").read_text() == "trigger: say it with Spark's own functions"


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (KeyError("price"), "KeyError: 'price'"),
        (ClusterError("AnalysisException: no", target="a"), "AnalysisException: no"),
    ],
)
def test_what_the_function_raises_is_left_for_the_controller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception, words: str
) -> None:
    """The file beside the job has the error in a line, and the exit code is that of a failure."""
    job = OperatorJob("a", "m:f", "local", Limits(), Mode.ACT, str(tmp_path), "s", JobInput())
    (tmp_path / "job.json").write_text(encode(job))

    def fail(_told: OperatorJob) -> int:
        raise fault

    monkeypatch.setattr(operator_process, "run_operator", fail)
    monkeypatch.setattr(sys, "argv", ["operator_process", str(tmp_path / "job.json")])
    assert operator_process.main() == 1
    assert (tmp_path / "failure.txt").read_text() == words


def test_executors_that_may_choose_nodes_of_kubernetes_get_a_template_of_penstocks_own(tmp_path: Path) -> None:
    """It begins with all nodes that are allowed; elsewhere, and without nodes, Spark is left to the user's settings."""
    limits = Limits(1, 2, nodes=("a", "b"))
    job = OperatorJob("a", "m:f", "k8s://https://h:6443", limits, Mode.ACT, str(tmp_path), "s", JobInput())
    (path,) = operator_process.node_template(job).values()
    assert '"values": ["a", "b"]' in Path(path).read_text()
    assert operator_process.node_template(replace(job, master="spark://h:7077")) == {}
    assert operator_process.node_template(replace(job, limits=Limits(1, 2))) == {}
