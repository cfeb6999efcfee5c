# SPDX-License-Identifier: Apache-2.0
"""The executor sizes of an operator: the job that gives it each of them, and which one a run remembers."""

from __future__ import annotations

from dataclasses import replace

from penstock.ports import KnowledgeStore
from penstock.records import ExecutorSize
from penstock.running.operator_job import OperatorJob
from penstock.running.spark_configuration import size_configuration
from penstock.settings import OperatorSettings


def jobs_by_size(job: OperatorJob, operator: OperatorSettings) -> dict[ExecutorSize | None, OperatorJob]:
    """The operator's job with executors of each size; None is its own size, which `job` has."""
    jobs: dict[ExecutorSize | None, OperatorJob] = {None: job}
    for size in operator.executor_sizes[1:]:
        jobs[size] = replace(job, spark={**job.spark, **size_configuration(operator, size, job.limits)})
    return jobs


def keep_size(store: KnowledgeStore, operator: OperatorSettings, size: ExecutorSize | None) -> None:
    """Remember the size that an operator was started with, for a controller that takes the run over."""
    store.set_fact(_fact(operator.name), str(operator.executor_sizes.index(size) if size is not None else 0))


def kept_size(store: KnowledgeStore, operator: OperatorSettings) -> ExecutorSize | None:
    """The size that was last remembered; None is the operator's own."""
    number = int(store.fact(_fact(operator.name)) or 0)
    return operator.executor_sizes[number] if number > 0 else None


def _fact(operator: str) -> str:
    return f"size of {operator}"
