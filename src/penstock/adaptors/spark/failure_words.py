# SPDX-License-Identifier: Apache-2.0
"""What went wrong with a query, in one line out of the pages that Spark prints, and whether it would come again."""

from __future__ import annotations

import re
from enum import Enum

QUERY_FAILED = "the query failed: "
"""What a telemetry's fault begins with that says why the query ended."""
_LONGEST = 400
_TRACEBACK = re.compile(
    r"Traceback \(most recent call last\):\n(.*?)(?=\n\s+at [\w$]+\.|\nJVM stacktrace|\n=== Streaming Query ===|\Z)",
    re.DOTALL,
)
_PYTHON_ERROR = re.compile(r"^((?:\w+\.)*[A-Z]\w*)(?:: (.*))?$", re.MULTILINE)
_JAVA_ERROR = re.compile(r"^(?:Caused by: )?(?:[a-z]\w*\.)+([A-Z][\w$]*)(?:: (.*))?$", re.MULTILINE)
_PREFACE = re.compile(r"^\[STREAM_FAILED\] .*? terminated with exception: ")
_SQL_STATE = re.compile(r"\s*SQLSTATE: \w+\s*$")

_LASTING = re.compile(
    r"^(?:Extended)?AnalysisException\b|^ParseException\b|Redefining watermark is disallowed|\[UNRESOLVED_COLUMN"
)
_PASSING = re.compile(
    r"ExecutorLostFailure|[Ee]xecutor heartbeat|FetchFailed|Connection (?:refused|reset|closed)|ConnectException"
    r"|ConnectionError|SocketException|[Tt]imed? ?out|TIMED? ?OUT|[Bb]roken ?[Pp]ipe|UnknownHost|NoRouteToHost"
    r"|kafka\.common\.errors|not present in metadata|node assignment|DisconnectException|NotLeader|BrokerNotAvailable"
    r"|(?:Leader|Coordinator)NotAvailable|NetworkException|NotEnoughReplicas|UnknownTopicOrPartition"
    r"|No resolvable bootstrap|EOFException|ClosedChannel|Python worker (?:exited|failed to connect)"
    r"|Kafka: no broker answers|RabbitMQ at \S+ (?:cannot be reached|closed the connection)"
    r"|stopped SparkContext|OutOfMemory|No space left|SparkContext was shut ?down|Master removed|Interrupted"
)


class Prospect(Enum):
    """What another start would bring."""

    LASTING = "lasting"
    """The same failure: Spark cannot run this query."""
    PASSING = "passing"
    """Something outside the query failed, and may be well again."""
    UNKNOWN = "unknown"
    """The same failure, if it came from the records or the function; it shows when it comes again."""


def failure_words(text: str) -> str:
    """Say in one line what failed: the error of the user's Python, else the last cause that Spark names.

    Examples
    --------
    >>> failure_words("org.apache.spark.sql.AnalysisException: Redefining watermark is disallowed.\\n\\tat org.x.Y(Z)")
    'AnalysisException: Redefining watermark is disallowed.'
    """
    traceback = _TRACEBACK.search(text)
    if traceback is not None and (errors := _PYTHON_ERROR.findall(traceback[1])):
        name, message = errors[-1]
        return _line(name.rpartition(".")[2], message)
    causes = _JAVA_ERROR.findall(text)
    if causes:
        return _line(*causes[-1])
    lines = text.strip().splitlines()
    return _line("", _PREFACE.sub("", lines[0]) if lines else "")


def prospect_of(words: str) -> Prospect:
    """Whether another start would fail as well, from the words of a failure.

    Examples
    --------
    >>> prospect_of("AnalysisException: [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `x`").value
    'lasting'
    >>> prospect_of("TimeoutException: Timeout of 60000ms expired").value
    'passing'
    """
    if _LASTING.search(words):
        return Prospect.LASTING
    return Prospect.PASSING if _PASSING.search(words) else Prospect.UNKNOWN


def _line(name: str, message: str) -> str:
    said = _SQL_STATE.sub("", _PREFACE.sub("", " ".join(message.split())))
    whole = f"{name}: {said}" if name and said else name or said
    return whole if len(whole) <= _LONGEST else whole[: _LONGEST - 3] + "..."
