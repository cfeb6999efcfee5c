# SPDX-License-Identifier: Apache-2.0
"""The file of an experiment on the law of delay for queries in real-time mode."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Literal

from pydantic import Field

from penstock.evaluation.delay_law_experiment import DelayOf, Key, NamedVariant, PlacedExperiment
from penstock.measuring.placed_turns import as_ordered
from penstock.measuring.real_time_turns import RealTimeJob, RealTimeTurn, WindowRules
from penstock.performance.throughput import BatchTimeModel, FetchTimeModel, PowerLawModel
from penstock.performance.throughput.curve_model import CurveModel
from penstock.settings import Seconds

_POLLED_RECORDS = 500
"""What a consumer hands out at once (``max.poll.records``): the next fetch is asked for before the last of these."""


class RealTimeVariant(NamedVariant):
    """A real-time query, by what its consumers get at once."""

    fetch_bytes: int = Field(default=1 << 20, ge=1, description="of a partition at once (max.partition.fetch.bytes)")


class RealTimeLawExperiment(PlacedExperiment):
    """The law of delay for queries in real-time mode."""

    kind: Literal["delay-law-real-time"]
    variants: tuple[RealTimeVariant, ...] = Field(min_length=1)
    records: int = Field(default=6_000_000, ge=1000, description="that the topic is filled with")
    record_bytes: float = Field(gt=0, description="of a record in the topic, for the records of a fetch")
    batch: Seconds = Field(default=10.0, ge=5, description="length of a batch; a measurement is taken within one")
    settle: Seconds = Field(default=2.5, gt=0, description="uncounted after a batch began or a delay changed")
    least: Seconds = Field(default=4.0, gt=0, description="that is counted at least")
    sink: dict[str, str] = Field(default_factory=dict, description="options of the query's producers")

    def laws(self, variant: NamedVariant, delay_of: DelayOf) -> tuple[CurveModel, ...]:
        """The published law, that of micro-batches, and that of fetches."""
        assert isinstance(variant, RealTimeVariant)
        overlap = min(1.0, _POLLED_RECORDS * self.record_bytes / variant.fetch_bytes)
        return (
            PowerLawModel(delay_of),
            # Executors count as they are: tasks do not run in waves, and slots are more than there is CPU for.
            BatchTimeModel(delay_of, batch_seconds=self.batch),
            FetchTimeModel(delay_of, tasks=self.tasks, overlap=overlap),
        )

    def jobs(self, known: Collection[Key]) -> Iterator[tuple[list[Key], RealTimeJob]]:
        """One job for each application; variants that differ in their fetches alone share its cluster and its topic."""
        by_application: dict[str, list[RealTimeVariant]] = {}
        for variant in self.variants:
            by_application.setdefault(variant.application, []).append(variant)
        for variants in by_application.values():
            keys: list[Key] = []
            turns: list[RealTimeTurn] = []
            for variant in variants:
                wanted: dict[RealTimeTurn, list[Key]] = {}
                for repeat in range(1, self.repeats + 1):
                    for one in self.configurations(variant):
                        key = (variant.name, one.executors, round(one.round_trip, 6), repeat)
                        if key not in known:
                            turn = RealTimeTurn(one.executors, one.round_trip, variant.fetch_bytes)
                            wanted.setdefault(turn, []).append(key)
                ordered = as_ordered([turn for turn, of_turn in wanted.items() for _ in of_turn])
                turns += ordered
                keys += [wanted[turn].pop(0) for turn in ordered]
            if turns:
                yield keys, self._job(variants[0], turns)

    def _job(self, variant: RealTimeVariant, turns: list[RealTimeTurn]) -> RealTimeJob:
        return RealTimeJob(
            {
                "app": variant.app, "options": variant.options, "executor_memory": self.executor_memory,
                "driver_memory": self.driver_memory,
            },
            variant.payload,
            self.records,
            self.tasks,
            self.cores_per_node,
            tuple(turns),
            WindowRules(self.batch, self.settle, self.least),
            self.sink,
            self.warm_up,
            self.warm_up_most,
        )  # fmt: skip
