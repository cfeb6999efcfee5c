# SPDX-License-Identifier: Apache-2.0
"""One sample of an application's throughput, with all that is known of how it came about."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from penstock.measuring.disturbance import HostLoad
from penstock.measuring.throughput import Throughput


class Mark(StrEnum):
    """What is wrong with a sample, or bounds it from elsewhere."""

    NOT_CONVERGED = "not converged"
    """The throughput still changed when the time for that was over."""
    DISTURBED = "disturbed"
    """Others used the host."""
    SOURCE_BOUND = "source-bound"
    """The source alone is hardly faster."""
    CPU_LEFT = "CPU left"
    """The executors did not use the CPU they were allowed: something else bounds them, such as the driver."""


SOURCE_BOUND_FROM = 0.8
"""Of the source's own throughput: above it the source is most of what was measured."""
CPU_LEFT_BELOW = 0.8
"""Of the CPU that the executors were allowed."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The throughput of an application with so many executors.

    An unknown value is None. Records and bytes are those that the source gave; bytes are those of the records' text.
    """

    at: float
    executors: int
    repeat: int
    attempt: int
    """Which try of this sample: disturbed ones are taken again."""
    is_source: bool
    cpu_share: float | None
    parallelism: int
    cap: int
    """The most records that a batch took."""
    seconds: float
    throughput: Throughput
    batch_seconds: float
    converged_after_seconds: float | None
    """From the moment its size was held; None: it did not converge."""
    bytes_per_second: float | None = None
    cpu_used_cores: float | None = None
    """By the executors and their Python workers."""
    utilisation: float | None = None
    """The same over what they were allowed."""
    source_limit: float | None = None
    """The throughput of the source alone with as many executors."""
    host: HostLoad | None = None
    disturbed_by: str | None = None
    marks: tuple[Mark, ...] = ()
    part: int = 1
    """Which sample of one started application, from 1 on."""

    @property
    def turn_key(self) -> tuple[int, int, bool]:
        """Which turn it belongs to."""
        return self.executors, self.repeat, self.is_source

    @property
    def is_disturbed(self) -> bool:
        """Whether others used the host meanwhile."""
        return Mark.DISTURBED in self.marks


def marks_of(
    *,
    has_converged: bool,
    disturbed_by: str | None,
    throughput: float,
    source_limit: float | None,
    utilisation: float | None,
) -> tuple[Mark, ...]:
    """What is to be said of a sample.

    Examples
    --------
    >>> marks_of(has_converged=True, disturbed_by=None, throughput=90.0, source_limit=100.0, utilisation=0.95)
    (<Mark.SOURCE_BOUND: 'source-bound'>,)
    """
    found = []
    if not has_converged:
        found.append(Mark.NOT_CONVERGED)
    if disturbed_by is not None:
        found.append(Mark.DISTURBED)
    if source_limit is not None and throughput >= SOURCE_BOUND_FROM * source_limit:
        found.append(Mark.SOURCE_BOUND)
    if utilisation is not None and utilisation < CPU_LEFT_BELOW:
        found.append(Mark.CPU_LEFT)
    return tuple(found)
