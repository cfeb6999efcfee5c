# SPDX-License-Identifier: Apache-2.0
"""Spark's real-time mode: checks before the start that it has enough cores, and explains its refusals in one line.

In this mode all tasks of a query run for the whole length of a batch, at the same time: one for each partition of its
sources, and one for each partition behind a shuffle. With too few cores for a shuffle, Spark ends the query. Without a
shuffle it says nothing: the tasks that find no core start when the batch is over and read nothing, so their partitions
stand still for ever while the others go on (seen with Spark 4.3). So the floor is checked here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence

from penstock.errors import ConfigurationError
from penstock.records import Limits
from penstock.units import format_seconds

LEAST_INTERVAL_SECONDS = 5.0
"""The shortest real-time batch that Spark accepts (spark.sql.streaming.realTimeMode.minBatchDuration)."""

DEFAULT_INTERVAL_SECONDS = 60.0
"""The default batch length: shorter than Spark's 5 minutes, because a restart repeats up to a batch's records."""

_EXCHANGE = re.compile(r"(?<![A-Za-z])Exchange (SinglePartition|\w+partitioning\(.*)", re.IGNORECASE)
_COUNT = re.compile(r"(\d+)\), [A-Z_]+")
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)?)\]\s*(.*)", re.DOTALL)
_SUBJECT = re.compile(r"The (operator|sink)\(s\): (.+?) (?:is|are) not in the")
_SLOTS = re.compile(r"needs (\d+) concurrent task slots .* but only (\d+) are")
_CLASS = re.compile(r"(?:The )?input stream (\S+) is not supported")
_OUTPUT = re.compile(r"output mode (\w+)")
_INTERVAL = re.compile(r"set to (\d+) ms.*?less than the (\d+) ms minimum")
_KAFKA_OPTION = re.compile(r"(\w+) is not compatible with real time mode")


def cores_needed(source_partitions: int, shuffle_partitions: Sequence[int] = ()) -> int:
    """Return how many cores a query in real-time mode needs at once: the floor of its size.

    Parameters
    ----------
    source_partitions
        Partitions of all its topics together.
    shuffle_partitions
        The number of partitions of each shuffle in it (``spark.sql.shuffle.partitions``, or those of a
        ``repartition``); empty for a query without a shuffle.

    Examples
    --------
    >>> cores_needed(4)
    4
    >>> cores_needed(4, [2])
    6
    """
    counts = [("source_partitions", source_partitions), *(("shuffle_partitions", n) for n in shuffle_partitions)]
    for field, number in counts:
        if number < 1:
            raise ConfigurationError(f"{field}: {number} is too few; give at least 1", field=field)
    return source_partitions + sum(shuffle_partitions)


def least_executors(cores: int, cores_per_executor: int) -> int:
    """Return how many executors provide `cores`.

    Examples
    --------
    >>> least_executors(5, 2)
    3
    """
    if cores_per_executor < 1:
        raise ConfigurationError(
            f"cores_per_executor: {cores_per_executor} is too few; give at least 1", field="cores_per_executor"
        )
    return math.ceil(cores / cores_per_executor)


def check_real_time(
    operator: str,
    limits: Limits,
    cores_per_executor: int,
    source_partitions: int,
    shuffle_partitions: Sequence[int] = (),
    *,
    interval_seconds: float = DEFAULT_INTERVAL_SECONDS,
) -> int:
    """Refuse an operator that could get fewer cores than its real-time query needs. Return that floor in executors.

    Raises
    ------
    ConfigurationError
        Its smallest allocation is below the floor, or its batches are too short. Lists every mistake with its fix.
    """
    cores = cores_needed(source_partitions, shuffle_partitions)
    floor = least_executors(cores, cores_per_executor)
    faults = []
    if limits.min_executors < floor:
        parts = [f"{source_partitions} source", *(f"{n} shuffle" for n in shuffle_partitions)]
        faults.append(
            f"executors: {limits.min_executors} with {_cores(cores_per_executor)} each are too few: a real-time query "
            f"runs a task for each of its {' + '.join(parts)} partitions at once, so it needs {_cores(cores)}; write "
            f"[{floor}, {max(floor, limits.max_executors)}], or make fewer partitions"
        )
    if not LEAST_INTERVAL_SECONDS <= interval_seconds < math.inf:
        faults.append(
            f"interval: {interval_seconds:g} s is too short for a real-time batch; give at least "
            f"{format_seconds(LEAST_INTERVAL_SECONDS)} (records do not wait for its end)"
        )
    if faults:
        raise ConfigurationError.of_all(f"operators.{operator}", faults)
    return floor


def shuffles_in_plan(plan: str) -> tuple[int, ...]:
    """Return the number of partitions of each shuffle in the text of a query's physical plan.

    Examples
    --------
    >>> shuffles_in_plan("+- Exchange hashpartitioning(pattern#7, 2), ENSURE_REQUIREMENTS, [plan_id=9]")
    (2,)
    >>> shuffles_in_plan("+- BroadcastExchange HashedRelationBroadcastMode(List(input[0, int, false]))")
    ()
    """
    found: list[int] = []
    for text in _EXCHANGE.findall(plan):
        if text.startswith("SinglePartition"):
            found.append(1)
        elif counts := _COUNT.findall(text):  # Spark itself checks a shuffle that is written differently at the start
            found.append(int(counts[-1]))
    return tuple(found)


def explain_refusal(message: str) -> str | None:
    """Say in one line why Spark does not run a query in real-time mode, and what to do.

    Parameters
    ----------
    message
        The text of the exception from ``start()``, or of the one the query ended with.

    Returns
    -------
    The message for the user, or None if `message` is about something else.
    """
    option = _KAFKA_OPTION.search(message)
    if option is not None:
        return f"the source's option {option[1]} limits a batch, but a real-time batch has no limit; leave it out"
    found = _CONDITION.search(message)
    if found is None:
        return None
    condition, words = found[1], " ".join(found[2].split())
    if condition == "CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT":
        return _too_few_slots(words)
    if condition == "INVALID_STREAMING_REAL_TIME_MODE_TRIGGER_INTERVAL":
        return _too_short(words)
    family, _, kind = condition.partition(".")
    if family != "STREAMING_REAL_TIME_MODE":
        return None
    explain = _EXPLANATIONS.get(kind)
    # A condition of a later Spark is reported in Spark's words.
    return f"real-time mode refuses the query: {words}" if explain is None else explain(words)


def _cores(number: int) -> str:
    return f"{number} core" if number == 1 else f"{number} cores"


def _too_few_slots(words: str) -> str:
    slots = _SLOTS.search(words)
    numbers = "more cores than are free" if slots is None else f"{slots[1]} cores at once and {slots[2]} are free"
    return f"the real-time query needs {numbers}; give more executors, or fewer topic or shuffle partitions"


def _too_short(words: str) -> str:
    numbers = _INTERVAL.search(words)
    least = LEAST_INTERVAL_SECONDS if numbers is None else int(numbers[2]) / 1e3
    return (
        f"a real-time batch must be at least {format_seconds(least)} long; records do not wait for its end, so longer "
        "is not slower"
    )


def _not_allowed(words: str) -> str:
    subject = _SUBJECT.search(words)
    if subject is None:
        return f"real-time mode refuses the query: {words}"
    names = ", ".join(name.strip().rpartition(".")[2] for name in subject[2].split(","))
    if subject[1] == "sink":
        return f"real-time mode does not write to {names}; write to a Kafka topic"
    hint = (
        "; it is a Python function: use Spark's own functions"
        if "Python" in names or "Pandas" in names
        else "; use projections, filters, explode, union, broadcast joins, aggregations and dropDuplicates"
    )
    return f"real-time mode does not support {names}{hint}, or run the operator in micro-batches"


def _input(words: str) -> str:
    name = _CLASS.search(words)
    source = "this source" if name is None else name[1].rpartition(".")[2]
    return f"real-time mode does not read from {source}; read from a Kafka topic"


def _output_mode(words: str) -> str:
    mode = _OUTPUT.search(words)
    named = "this output mode" if mode is None else f"output mode {mode[1].lower()}"
    return f"real-time mode does not support {named}; write outputMode('update')"


_EXPLANATIONS: Mapping[str, Callable[[str], str]] = {
    "OPERATOR_OR_SINK_NOT_IN_ALLOWLIST": _not_allowed,
    "SINK_NOT_SUPPORTED": lambda _: "real-time mode does not write to this sink; write to a Kafka topic",
    "INPUT_STREAM_NOT_SUPPORTED": _input,
    "OUTPUT_MODE_NOT_SUPPORTED": _output_mode,
    "CHECKPOINT_FORMAT_V1_NOT_SUPPORTED": lambda _: (
        "the checkpoint holds state written by micro-batches, which real-time mode cannot use; give the "
        "operator a new checkpoint folder"
    ),
    "IDENTICAL_SOURCES_IN_UNION_NOT_SUPPORTED": lambda _: (
        "real-time mode does not support the union of a stream with itself; subscribe to both topics in one source"
    ),
    "STATEFUL_OPERATORS_BEFORE_UNION_NOT_SUPPORTED": lambda _: (
        "real-time mode supports no state before a union; unite the streams first"
    ),
    "ASYNC_PROGRESS_TRACKING_CHECKPOINTING_INTERVAL_NON_ZERO": lambda _: (
        "asyncProgressTrackingCheckpointIntervalMs must be 0 in real-time mode; leave the option out"
    ),
}
