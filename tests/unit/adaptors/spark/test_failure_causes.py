# SPDX-License-Identifier: Apache-2.0
"""A failure has the same words whether the query is asked for it or the listener reports it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from penstock.adaptors.spark.failure_words import failure_words
from penstock.adaptors.spark.query_probe import _causes


class FakeThrowable:
    """A Java exception as Py4J shows it."""

    def __init__(self, name: str, message: str | None, cause: FakeThrowable | None = None) -> None:
        self._name, self._message, self._cause = name, message, cause

    def getClass(self) -> Any:
        """Its class, of which only the name is asked for."""
        return SimpleNamespace(getName=lambda: self._name)

    def getMessage(self) -> str | None:
        """What it says."""
        return self._message

    def getCause(self) -> FakeThrowable | None:
        """What caused it."""
        return self._cause


def query_failed_by(cause: FakeThrowable) -> Any:
    """A query that ended with a failure."""
    failure = FakeThrowable("org.apache.spark.sql.streaming.StreamingQueryException", "[STREAM_FAILED] ...", cause)
    return SimpleNamespace(_jsq=SimpleNamespace(exception=lambda: SimpleNamespace(get=lambda: failure)))


def test_an_error_of_spark_has_its_name() -> None:
    """The words are those of the stack trace that the listener gets."""
    refused = FakeThrowable("org.apache.spark.sql.AnalysisException", "Redefining watermark is disallowed.")
    trace = "org.apache.spark.sql.AnalysisException: Redefining watermark is disallowed.\n\tat org.x.Y(Z.scala:1)"
    assert failure_words(_causes(query_failed_by(refused)) or "") == failure_words(trace)
    assert failure_words(trace) == "AnalysisException: Redefining watermark is disallowed."


def test_the_innermost_cause_and_errors_of_python_are_named() -> None:
    """Causes are followed, and a Python error within the message is found."""
    inner = FakeThrowable("java.net.ConnectException", "Connection refused")
    outer = FakeThrowable("org.apache.spark.SparkException", None, inner)
    assert failure_words(_causes(query_failed_by(outer)) or "") == "ConnectException: Connection refused"
    python = FakeThrowable(
        "org.apache.spark.api.python.PythonException",
        'Traceback (most recent call last):\n  File "app.py", line 3, in price\nValueError: record 450 has no price\n',
    )
    assert failure_words(_causes(query_failed_by(python)) or "") == "ValueError: record 450 has no price"


def test_without_java_there_are_no_causes() -> None:
    """A query of another kind is asked in the ordinary way."""
    assert _causes(SimpleNamespace()) is None  # type: ignore[arg-type]
