# SPDX-License-Identifier: Apache-2.0
"""Sizes an operator may be restarted with: every mistake is told with its field and what to do."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import ConfigurationError
from penstock.records import ExecutorSize
from penstock.running.checks import check_run, executor_bytes, executor_cores
from penstock.running.spark_configuration import size_configuration, spark_configuration
from penstock.settings import OperatorSettings, RunSettings, parse_settings


def a_run(operator: dict[str, Any], **others: Any) -> RunSettings:
    """A pipeline of one operator."""
    return parse_settings(
        {
            "name": "p",
            "arrivals": {"shape": "constant:rate=5,duration=5s"},
            "operators": [{"name": "a", "app": "penstock.apps.log_analysis:log_analysis", **operator}],
            **others,
        }
    )


def test_sizes_begin_with_the_operators_own() -> None:
    """Memory that is not said is that of the size before."""
    operator = a_run({"sizes": [{"cores": 2, "memory": "2g"}, {"cores": 4, "shuffle_partitions": 12}]}).operators[0]
    assert operator.executor_sizes == (
        ExecutorSize(1, "1g"),
        ExecutorSize(2, "2g", worth=2.0),
        ExecutorSize(4, "2g", 12, worth=4.0),
    )
    assert str(operator.executor_sizes[2]) == "4 cores, 2g, 12 shuffle partitions"


@pytest.mark.parametrize(
    ("operator", "told"),
    [
        ({"sizes": [{"cores": 1}]}, "operators.0.sizes: cores of number 0 are 1, not above executor_cores (1)"),
        ({"sizes": [{"cores": 4}, {"cores": 2}]}, "cores of number 1 are 2, not above sizes.0.cores (4)"),
        ({"sizes": [{"cores": 2, "memory": "600m"}]}, "memory of number 0 is 600m, below 1g before it"),
        ({"sizes": [{"cores": 2, "memory": "6m"}]}, "operators.0.sizes.0.memory: too small"),
        ({"sizes": [{"memory": "2g"}]}, "operators.0.sizes.0.cores: is missing"),
        ({"sizes": [{"cores": 2, "partitions": 8}]}, "operators.0.sizes.0.partitions: is not a setting"),
        ({"sizes": [{"cores": 2}], "spark": {"spark.executor.cores": "1"}}, "cores stands under `spark`"),
        (
            {"sizes": [{"cores": 2, "shuffle_partitions": 8}], "spark": {"spark.sql.shuffle.partitions": "4"}},
            "say it in one place",
        ),
        ({"sizes": [{"cores": 2}], "trigger": "realtime"}, "no batch border"),
    ],
)
def test_a_wrong_size_is_told(operator: dict[str, Any], told: str) -> None:
    """Sizes that fall, are unknown to Spark, or that the Spark configuration would undo are refused."""
    with pytest.raises(ConfigurationError) as fault:
        a_run(operator)
    assert told in str(fault.value)


def test_times_of_a_resize_are_positive() -> None:
    """A wrong time is told with its field."""
    with pytest.raises(ConfigurationError, match=r"resize\.after"):
        a_run({}, resize={"after": "0s"})


def test_the_largest_size_is_what_the_cluster_must_hold() -> None:
    """Cores and memory are counted for the largest size; a worker that is too small is told of beforehand."""
    settings = a_run(
        {"executors": [1, 3], "sizes": [{"cores": 2}, {"cores": 4, "memory": "2g"}]},
        cluster={"cores_per_worker": 2, "memory_per_worker": "1g"},
    )
    operator = settings.operators[0]
    assert executor_cores(operator) == 12
    assert executor_bytes(operator) == pytest.approx(3 * (1.1 * 2**31 + 400 * 2**20))
    with pytest.raises(ConfigurationError) as fault:
        check_run(settings)
    assert "operators.0.sizes: 4 cores do not fit on a worker; raise cluster.cores_per_worker (2)" in str(fault.value)
    assert "2g do not fit on a worker; raise cluster.memory_per_worker (1g)" in str(fault.value)


def test_all_sizes_have_the_shuffle_partitions_of_the_largest() -> None:
    """A query with state keeps the number it began with: begun with the smallest, a larger size would be idle."""
    operator = OperatorSettings(name="a", app="a:b", executors=(1, 2), sizes=({"cores": 4},))
    first, second = (size_configuration(operator, size) for size in operator.executor_sizes)
    assert first["spark.sql.shuffle.partitions"] == second["spark.sql.shuffle.partitions"] == "8"
    assert (first["spark.executor.cores"], second["spark.executor.cores"]) == ("1", "4")
    assert (first["spark.cores.max"], second["spark.cores.max"]) == ("2", "8")
    whole = spark_configuration(operator, {}, is_local=True)
    assert {**whole, **first} == whole


def test_partitions_of_a_size_and_of_the_user_are_kept() -> None:
    """What is said of a size holds for it; what the user's Spark configuration says holds for all."""
    sizes = ({"cores": 2, "shuffle_partitions": 6},)
    sized = OperatorSettings(name="a", app="a:b", sizes=sizes)
    assert [size_configuration(sized, s)["spark.sql.shuffle.partitions"] for s in sized.executor_sizes] == ["2", "6"]
    spark = {"spark.sql.shuffle.partitions": "5"}
    fixed = OperatorSettings(name="a", app="a:b", sizes=({"cores": 2},), spark=spark)
    assert [size_configuration(fixed, s)["spark.sql.shuffle.partitions"] for s in fixed.executor_sizes] == ["5", "5"]
