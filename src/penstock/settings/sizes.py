# SPDX-License-Identifier: Apache-2.0
"""Executors of other sizes, which an operator gets by a restart, and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from penstock.records import ExecutorSize
from penstock.settings.fields import Part, Seconds, Size
from penstock.units import parse_bytes

_SET_BY_SIZE = ("spark.executor.cores", "spark.executor.memory", "spark.cores.max", "spark.executor.instances")
_PARTITIONS = "spark.sql.shuffle.partitions"


class SizeSettings(Part):
    """Executors that an operator may be restarted with, where no live change gives it enough."""

    cores: int = Field(ge=1, le=64, description="cores of an executor; more than in the size before")
    memory: Size | None = Field(default=None, description="heap of an executor; default: that of the size before")
    shuffle_partitions: int | None = Field(
        default=None,
        ge=1,
        le=100_000,
        description="for queries that keep no state: one that does keeps the number it began with. Default: as many as "
        "the largest size has cores in all, for every size",
    )


class ResizeSettings(Part):
    """When an operator with `sizes` gets another one: a restart is the last resort, and must repay its pause."""

    after: Seconds = Field(
        default=60.0, gt=0, description="how long it must be short of capacity at the top of its limits"
    )
    horizon: Seconds = Field(default=600.0, gt=0, description="within what a restart must repay its pause")
    pause: Seconds = Field(default=30.0, gt=0, description="the pause expected before one was measured in this run")
    calm: Seconds = Field(
        default=900.0, gt=0, description="how long it must be calm at the bottom of its limits before a smaller size"
    )
    patience: Seconds = Field(
        default=60.0, gt=0, description="how long the running batch may take before it is stopped, and run again"
    )


def check_sizes(sizes: Sequence[SizeSettings], cores: int, memory: str, spark: Mapping[str, str]) -> None:
    """Raise ValueError where sizes do not rise from the operator's own, or its Spark configuration is in their way."""
    for i, size in enumerate(sizes):
        if size.cores <= cores:
            before = "executor_cores" if i == 0 else f"sizes.{i - 1}.cores"
            raise ValueError(f"cores of number {i} are {size.cores}, not above {before} ({cores}); let sizes rise")
        if size.memory is not None and parse_bytes(size.memory) < parse_bytes(memory):
            raise ValueError(f"memory of number {i} is {size.memory}, below {memory} before it; let sizes rise")
        cores, memory = size.cores, size.memory or memory
    for key in _SET_BY_SIZE:
        if sizes and key in spark:
            raise ValueError(f"{key} stands under `spark` and would hold for every size; remove it there")
    if _PARTITIONS in spark and any(size.shuffle_partitions is not None for size in sizes):
        raise ValueError(f"{_PARTITIONS} stands under `spark`, before `shuffle_partitions`; say it in one place")


def sizes_from(cores: int, memory: str, sizes: Sequence[SizeSettings]) -> tuple[ExecutorSize, ...]:
    """All sizes, the operator's own first, each with its worth in executors of that one."""
    found = [ExecutorSize(cores, memory)]
    for size in sizes:
        memory = size.memory or memory
        found.append(ExecutorSize(size.cores, memory, size.shuffle_partitions, worth=size.cores / cores))
    return tuple(found)
