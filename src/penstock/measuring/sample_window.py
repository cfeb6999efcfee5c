# SPDX-License-Identifier: Apache-2.0
"""A sample under way: what was seen since it was begun, and what that comes to."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.measuring.disturbance import HostReading, load_between
from penstock.measuring.plan import MeasurePlan, Turn
from penstock.measuring.sample import Sample, marks_of
from penstock.measuring.throughput import BatchEnd, throughput_of
from penstock.records import CpuReading, Telemetry


@dataclass(slots=True)
class SampleWindow:
    """The batches of a sample.

    Parameters
    ----------
    plan, turn, cap
        What is measured, and the most records that a batch takes.
    converged_after_seconds
        When throughput was steady; None: it is not.
    part, attempt
        Which sample of the application, and which try of it.
    host, cpu
        The readings at its begin; None: they are not known.
    ends
        The end of the batch before it, then of its own.
    seconds, runnable
        How long each batch took, and threads that were ready to run at each look.
    lost_share
        Whether the CPU share was lifted meanwhile.
    """

    plan: MeasurePlan
    turn: Turn
    cap: int
    converged_after_seconds: float | None
    part: int
    attempt: int
    host: HostReading | None
    cpu: CpuReading | None
    ends: list[BatchEnd]
    seconds: list[float] = field(default_factory=list)
    runnable: list[int] = field(default_factory=list)
    lost_share: bool = False

    def judged(self, look: Telemetry, host: HostReading | None, *, source_limit: float | None) -> Sample:
        """The sample, with its marks, once it has lasted long enough; the look and the reading are those at its end."""
        found = throughput_of(self.ends)
        assert found is not None, "a sample has at least one batch"
        load = None if self.host is None or host is None else load_between(self.host, host, self.runnable)
        disturbed_by = None if load is None else self.plan.disturbance.exceeded_by(load)
        if self.lost_share:
            disturbed_by = "the CPU share was lifted meanwhile, for this process was held up"
        used = utilisation = None
        before = None if self.cpu is None else self.cpu.used_seconds
        after = None if look.cpu is None else look.cpu.used_seconds
        is_later = self.cpu is not None and look.cpu is not None and look.cpu.at > self.cpu.at
        if self.cpu is not None and look.cpu is not None and is_later and before is not None and after is not None:
            used = (after - before) / (look.cpu.at - self.cpu.at)
            allowed = self.plan.quota_cores(self.turn.executors)
            utilisation = None if allowed is None else used / allowed
        return Sample(
            at=look.at,
            executors=self.turn.executors,
            repeat=self.turn.repeat,
            part=self.part,
            attempt=self.attempt,
            is_source=self.turn.is_source,
            cpu_share=self.plan.cpu_share,
            parallelism=self.plan.parallelism(self.turn.executors),
            cap=self.cap,
            seconds=self.ends[-1].at - self.ends[0].at,
            throughput=found,
            batch_seconds=sum(self.seconds) / len(self.seconds),
            converged_after_seconds=self.converged_after_seconds,
            cpu_used_cores=used,
            utilisation=utilisation,
            source_limit=source_limit,
            host=load,
            disturbed_by=disturbed_by,
            marks=marks_of(
                has_converged=self.converged_after_seconds is not None,
                disturbed_by=disturbed_by,
                throughput=found.mean,
                source_limit=source_limit,
                utilisation=utilisation,
            ),
        )
