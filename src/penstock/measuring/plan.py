# SPDX-License-Identifier: Apache-2.0
"""What is measured, and in which order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields

from penstock.errors import ConfigurationError
from penstock.measuring.convergence import Convergence
from penstock.measuring.disturbance import DisturbanceLimits
from penstock.measuring.parallelism import parallelism
from penstock.measuring.sample import Sample
from penstock.units import number, whole_number

READ_ONLY = "penstock.apps.read_only:read_only"
"""The application that shows how fast the source alone is."""

_MAY_DIFFER = ("executors", "repeats", "tries", "rest_seconds")
"""What may be changed when a measurement is resumed: it says how much is measured, not how."""
_MOST_EXECUTORS = 256


@dataclass(frozen=True, slots=True)
class Turn:
    """One application to start and to take a sample of."""

    executors: int
    repeat: int
    """From 1 on."""
    is_source: bool = False
    """Whether the source alone is measured."""


@dataclass(frozen=True, slots=True)
class MeasurePlan:
    """A measurement: of what, with which sizes, and how.

    Parameters
    ----------
    app, options
        The application, `module:function`, and what it is handed.
    executors
        The sizes.
    cpu_share
        The part of its cores that each executor may use; None: CPU is left alone.
    cores, units
        Cores of an executor, and the processing units that run side by side (`parallelism`).
    source
        Options of the replay source; empty with a topic.
    topic, servers
        A topic that is filled already, and its broker.
    batch_seconds, cap
        How long a batch should take, or the most records that it takes for each executor; a given cap is not changed.
    sample_seconds, rest_seconds
        How long a sample is, and the pause after an application.
    warm_up_seconds, warm_up_most_seconds
        The least and the most time that the application runs without a cap on its CPU before: until it is warm.
    repeats, samples_each, tries
        How often each size is started, samples of each start, and how often a disturbed one is taken again.
    source_check
        Whether the source alone is measured once for each size.
    """

    app: str
    executors: tuple[int, ...]
    options: Mapping[str, str] = field(default_factory=dict)
    cpu_share: float | None = None
    cores: int = 1
    units: int = 1
    source: Mapping[str, str] = field(default_factory=dict)
    topic: str | None = None
    servers: str | None = None
    batch_seconds: float = 5.0
    cap: int | None = None
    sample_seconds: float = 20.0
    warm_up_seconds: float = 15.0
    warm_up_most_seconds: float = 120.0
    rest_seconds: float = 10.0
    repeats: int = 3
    samples_each: int = 1
    tries: int = 3
    source_check: bool = True
    convergence: Convergence = field(default_factory=Convergence)
    disturbance: DisturbanceLimits = field(default_factory=DisturbanceLimits)
    master: str = "embedded"
    executor_memory: str = "600m"
    driver_memory: str = "1g"
    spark: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.executors or list(self.executors) != sorted({*self.executors}):
            raise ConfigurationError(
                f"executors: {list(self.executors)} must rise without repeats; write it like 1,2,4", field="executors"
            )
        for size in self.executors:
            whole_number("executors", size, least=1, most=_MOST_EXECUTORS)
        if self.cpu_share is not None:
            number("cpu-share", self.cpu_share, above=0, most=1)
        for name, value in (
            ("cores", self.cores), ("units", self.units), ("repeats", self.repeats), ("each", self.samples_each),
            ("tries", self.tries), ("cap", 1 if self.cap is None else self.cap),
        ):  # fmt: skip
            whole_number(name, value, least=1)
        number("batch", self.batch_seconds, above=0)
        number("sample", self.sample_seconds, above=0)
        number("warm-up", self.warm_up_seconds, least=0)
        number("warm-up-most", self.warm_up_most_seconds, least=0)
        number("rest", self.rest_seconds, least=0)
        if (self.topic is None) != (self.servers is None):
            raise ConfigurationError("topic: a topic and its servers go together; give both or none", field="topic")

    def turns(self) -> list[Turn]:
        """All turns in their order: size after size, then again, so that a drift of the host falls on all of them."""
        found = []
        for repeat in range(1, self.repeats + 1):
            for size in self.executors:
                if self.source_check and repeat == 1:
                    found.append(Turn(size, repeat, is_source=True))
                found.append(Turn(size, repeat))
        return found

    def left(self, samples: Iterable[Sample]) -> list[Turn]:
        """The turns of which there is no sample yet, in their order."""
        done = {sample.turn_key for sample in samples if sample.part >= self.samples_each}
        return [turn for turn in self.turns() if (turn.executors, turn.repeat, turn.is_source) not in done]

    def cap_of(self, executors: int) -> int | None:
        """The most records of a batch with so many executors, where it was given.

        Each executor has its own fixed part of a batch, so the cap grows with them: they all do the same work then.
        """
        return None if self.cap is None else self.cap * executors

    def parallelism(self, executors: int) -> int:
        """How many tasks work side by side with so many executors."""
        return parallelism(executors, self.cores, self.units)

    def quota_cores(self, executors: int) -> float | None:
        """The CPU of all executors together; None: it is not bounded."""
        return None if self.cpu_share is None else executors * self.cores * self.cpu_share

    @property
    def holds_cpu(self) -> bool:
        """Whether executors are held to less than the whole of their cores."""
        return self.cpu_share is not None and self.cpu_share < 1.0

    def seconds_of_a_turn(self) -> float:
        """About how long a turn takes, until turns were seen."""
        # Seen on two idle cores: 20 s until the first batch, and half a minute of CPU until an executor is warm.
        start, batches = 20.0, (self.convergence.window + 2) * self.batch_seconds
        warm_up = min(max(self.warm_up_seconds, 45.0), max(self.warm_up_seconds, self.warm_up_most_seconds))
        return start + warm_up + batches + self.samples_each * self.sample_seconds + self.rest_seconds

    def check_same(self, other: MeasurePlan) -> None:
        """Refuse to resume a measurement that was made in another way."""
        differing = [
            f"{f.name}: was {getattr(self, f.name)!r} and is now {getattr(other, f.name)!r}"
            for f in fields(self)
            if f.name not in _MAY_DIFFER and getattr(self, f.name) != getattr(other, f.name)
        ]
        if differing:
            raise ConfigurationError.of_all("--resume (the samples there were taken otherwise)", differing)
