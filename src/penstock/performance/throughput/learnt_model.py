# SPDX-License-Identifier: Apache-2.0
"""What all models of throughput share: their samples, learning one by one, and grades of their predictions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from penstock.errors import ConfigurationError, NotReadyError
from penstock.performance.throughput.sample_table import SampleTable
from penstock.records import Allocation, ThroughputPrediction, ThroughputSample


@dataclass(frozen=True, slots=True)
class ProgressiveError:
    """How far predictions were from the samples that came next, each graded before it was learnt.

    Attributes
    ----------
    count
        How many samples were graded.
    total
        Sum of their absolute relative errors.
    covered
        How many fell within the 90 % interval.
    """

    count: int = 0
    total: float = 0.0
    covered: int = 0

    @property
    def mean(self) -> float | None:
        """Mean absolute relative error; None before the first grade."""
        return self.total / self.count if self.count else None

    def graded(self, prediction: ThroughputPrediction, measured: float) -> ProgressiveError:
        """With one more grade."""
        error = abs(prediction.records_per_second - measured) / measured
        is_covered = prediction.low <= measured <= prediction.high
        return ProgressiveError(self.count + 1, self.total + error, self.covered + is_covered)


@dataclass(frozen=True, eq=False)
class LearntModel(ABC):
    """A model that keeps its samples, and is trained anew with each one more.

    Attributes
    ----------
    min_sizes
        How many different sizes it wants before it answers.
    half_life_seconds
        After what time a sample counts half; None: samples do not fade.
    max_samples
        How many samples it keeps; the oldest go first.
    samples
        What it was trained on.
    progressive
        What its predictions were worth so far.
    """

    name: ClassVar[str]

    min_sizes: int = field(default=1, kw_only=True)
    half_life_seconds: float | None = field(default=None, kw_only=True)
    max_samples: int = field(default=1000, kw_only=True)
    samples: tuple[ThroughputSample, ...] = field(default=(), kw_only=True, repr=False)
    progressive: ProgressiveError = field(default=ProgressiveError(), kw_only=True, repr=False)

    def __post_init__(self) -> None:
        for name in ("min_sizes", "max_samples"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name}: {getattr(self, name)!r} must be at least 1", field=name)
        if self.half_life_seconds is not None and not self.half_life_seconds > 0.0:
            raise ConfigurationError(
                f"half_life_seconds: {self.half_life_seconds!r} must be positive, or None for samples that do not fade",
                field="half_life_seconds",
            )

    # --- what a model gives ------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def parameters(self) -> Mapping[str, float]:
        """What was fitted, by name; empty before the first fit."""

    @property
    @abstractmethod
    def notes(self) -> tuple[str, ...]:
        """What a reader of its predictions should know."""

    @abstractmethod
    def trained(self, table: SampleTable) -> Self:
        """This model with what the samples say."""

    @abstractmethod
    def answer(self, allocation: Allocation, coverage: float) -> ThroughputPrediction:
        """The prediction of a trained model."""

    def delay_for(self, allocation: Allocation) -> float:  # noqa: ARG002
        """The largest network delay between an allocation's nodes as of now, in seconds."""
        return 0.0

    def is_sure_of(self, allocation: Allocation) -> bool:  # noqa: ARG002
        """Whether its samples speak of such an allocation: what it says of others is to be tried."""
        return False

    # --- the contract ------------------------------------------------------------------------------------------

    def fit(self, samples: Sequence[ThroughputSample]) -> Self:
        """A model of this kind, trained on these samples alone.

        Raises
        ------
        NotReadyError
            There are fewer sizes than `min_sizes`.
        """
        kept = tuple(samples)[-self.max_samples :]
        table = self.table_of(kept)
        if table.sizes < self.min_sizes:
            wanted = "1 size" if self.min_sizes == 1 else f"{self.min_sizes} different sizes"
            raise NotReadyError(
                f"{self.name} needs samples of at least {wanted} and has {table.sizes} (in {len(kept)} samples); "
                "measure further sizes",
                needed=self.min_sizes,
                available=table.sizes,
            )
        return replace(self, samples=kept, progressive=ProgressiveError()).trained(table)

    def update(self, sample: ThroughputSample) -> Self:
        """The model with one more sample, which its prediction is graded on first."""
        progressive = self.progressive
        if self.samples:
            progressive = progressive.graded(self.predict(sample.allocation), sample.records_per_second)
        return replace(self.fit((*self.samples, sample)), progressive=progressive)

    def predict(self, allocation: Allocation, coverage: float = 0.9) -> ThroughputPrediction:
        """What the allocation sustains, with an interval for a new measurement.

        Raises
        ------
        NotReadyError
            The model has not been fitted.
        """
        if not 0.0 < coverage < 1.0:
            raise ConfigurationError(f"coverage: {coverage!r} is outside (0, 1); write 0.9 for 90 %", field="coverage")
        if not self.samples:
            raise NotReadyError(
                f"{self.name} has not been fitted; give it samples of at least {self.min_sizes} size(s)",
                needed=self.min_sizes,
                available=0,
            )
        return self.answer(allocation, coverage)

    @property
    def training_error(self) -> float | None:
        """Root mean square of what it misses its samples by, in records a second; None before the first fit."""
        if not self.samples:
            return None
        table = self.table_of(self.samples)
        squares = [
            (self.predict(sample.allocation).records_per_second - sample.records_per_second) ** 2
            for sample in self.samples
        ]
        return float((table.weight @ squares / table.weight.sum()) ** 0.5)

    def table_of(self, samples: Sequence[ThroughputSample]) -> SampleTable:
        """The samples as columns, with the delays that this model sees."""
        delays = [self.delay_for(one.allocation) if one.delay_seconds is None else one.delay_seconds for one in samples]
        return SampleTable.of(samples, self.half_life_seconds, delays)
