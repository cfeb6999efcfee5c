# SPDX-License-Identifier: Apache-2.0
"""The settings of the elastic policy."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import ConfigurationError, Mistakes
from penstock.performance.throughput import MODELS, model_named
from penstock.policies.elastic.sample_file import read_samples
from penstock.ports import ThroughputModel
from penstock.records import ThroughputSample
from penstock.units import number, positive_seconds

MEANINGS = {
    "catch_up": "within what time a backlog has to be gone; no record should wait longer; null: the objective's "
    "`catch_up`, 60s where it has none",
    "patience": "part of `catch_up` that records may wait before capacity is added; 0: capacity always covers the "
    "arrivals, for more executors",
    "batch": "how long a batch may be: what a size sustains is meant for batches of this length; null: two fifths of "
    "`catch_up`, 30s at most, and never less than the trigger interval",
    "model": f"what predicts sizes that were not measured: {', '.join(f'`{name}`' for name in MODELS)}",
    "samples": "a CSV file with measured throughputs to start with, as `penstock measure` writes it; null: none",
    "confidence": "coverage of a prediction's interval, whose lower end is counted on",
    "follow_trend": "switch: plan for what arrivals will be when a change is in force, if they rise or fall",
    "weigh_changes": "switch: take less only if that saves more than its changes cost, as measured in the run",
    "every_seconds": "time from one plan to the next",
}
"""What each option means."""

_BATCH = 0.4
"""Part of `catch_up` that a batch may take: its records wait for two batches at most, and some time is left."""
_MOST_BATCH_SECONDS = 30.0
"""Longer batches do hardly more, and nobody sees what goes on for so long."""
_CALM = 1.0 / 6.0
"""Most part of `catch_up` that a batch of a query that keeps up takes; what longer ones hold waits for capacity."""


@dataclass(frozen=True, slots=True)
class ElasticOptions:
    """What the elastic policy is set to; `elastic_options` makes it from plain values, `MEANINGS` explains them."""

    model: ThroughputModel
    catch_up_seconds: float = 60.0
    patience: float = 0.58
    batch_seconds: float | None = None
    samples: tuple[ThroughputSample, ...] = ()
    confidence: float = 0.9
    follow_trend: bool = True
    weigh_changes: bool = True
    every_seconds: float = 5.0

    def batch_of(self, trigger_seconds: float | None) -> float:
        """How long a batch of an operator may be."""
        if self.batch_seconds is not None:
            return self.batch_seconds
        return max(min(_BATCH * self.catch_up_seconds, _MOST_BATCH_SECONDS), trigger_seconds or 0.0)

    def calm_batch_of(self, seconds: float, trigger_seconds: float | None) -> float:
        """How long a batch is, or is waited for, while the query keeps up, if the shortest of late took `seconds`."""
        most = min(self.batch_of(trigger_seconds), _CALM * self.catch_up_seconds)
        return max(min(seconds, most), trigger_seconds or 0.0)


def elastic_options(
    *,
    catch_up: str | float | None = None,
    patience: float = 0.58,
    batch: str | float | None = None,
    model: str = "ensemble",
    samples: str | None = None,
    confidence: float = 0.9,
    follow_trend: bool = True,
    weigh_changes: bool = True,
    every_seconds: str | float = 5.0,
) -> ElasticOptions:
    """Make the options from plain values, as a settings file holds them; `MEANINGS` explains each.

    Examples
    --------
    >>> elastic_options(catch_up="2m").catch_up_seconds
    120.0
    """
    mistakes = Mistakes()
    catch_up_seconds = mistakes.of(lambda: positive_seconds("catch_up", 60.0 if catch_up is None else catch_up))
    patient = mistakes.of(lambda: number("patience", patience, least=0.0, most=0.9))
    longest = None if batch is None else mistakes.of(lambda: positive_seconds("batch", batch))
    made = mistakes.of(lambda: _model(model))
    given = () if samples is None else mistakes.of(lambda: read_samples(samples))
    sure = mistakes.of(lambda: number("confidence", confidence, least=0.5, most=0.999))
    for option, value in (("follow_trend", follow_trend), ("weigh_changes", weigh_changes)):
        mistakes.of(lambda option=option, value=value: _switch(option, value))  # type: ignore[misc]
    period = mistakes.of(lambda: positive_seconds("every_seconds", every_seconds))
    mistakes.raise_all("policy elastic")
    assert catch_up_seconds is not None
    assert made is not None
    assert given is not None
    assert patient is not None
    assert sure is not None
    assert period is not None  # what could not be read was raised
    return ElasticOptions(
        made, catch_up_seconds, patient, longest, given, sure, follow_trend, weigh_changes, period
    )  # fmt: skip


def _model(name: object) -> ThroughputModel:
    if not isinstance(name, str) or name not in MODELS:
        raise ConfigurationError(f"model: {name!r} is unknown; use one of {', '.join(MODELS)}", field="model")
    return model_named(name)


def _switch(option: str, value: object) -> None:
    if not isinstance(value, bool):
        raise ConfigurationError(f"{option}: {value!r} is not a switch; write true or false", field=option)
