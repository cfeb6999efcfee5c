# SPDX-License-Identifier: Apache-2.0
"""The settings of both policies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from penstock.errors import ConfigurationError, Mistakes
from penstock.plan.placement import CHOICES, Choice
from penstock.policies.gesscale.expected_load import TREND_SECONDS
from penstock.policies.gesscale.operator_throughput import MODELS
from penstock.units import number, positive_seconds, whole_number

MEANINGS = {
    "every_seconds": "time from one plan to the next; the paper's is a minute",
    "high_pressure": "back pressure above which a stream is under pressure, from 0 to 1",
    "slack": "percent by which throughput must be below what the executors sustain before some are given up "
    "(Trshld_DT)",
    "model": "law of throughput that samples calibrate: `power-law` (the paper's), `batch-time` (of micro-batches), "
    "`fetch-time` (of real-time mode), `proportional` (knows no delays, Eq. 2)",
    "nodes": "how nodes are chosen: `nearest` to those in use, `best` of all sets, `random`; only where there are "
    "nodes to choose from",
    "seed": "of `nodes: random`",
    "confidence": "coverage of a prediction's interval, whose lower end is counted on",
    "catch_up": "within what time a backlog has to be gone; null: ten times what a change takes, at least a minute",
    "calm": "how long arrivals must have been low before executors are given up, at least",
    "ahead": "how far ahead of a change's end a rise of arrivals is followed",
    "trend": "what a rise or fall of arrivals is seen over; overload is judged by the mean of 1.5 times as long, and "
    "what came of late is 15 times as long",
}
"""What each option means."""
PLUS_MEANINGS = MEANINGS | {
    "model": MEANINGS["model"]
    + "; null: `batch-time`, and in real-time mode `power-law`, which was measured best there"
}
"""The same for `gesscale+`."""


@dataclass(frozen=True, slots=True)
class GesscaleOptions:
    """What the published policy is set to; `gesscale_options` makes it from plain values, `MEANINGS` explains them."""

    every_seconds: float = 60.0
    high_pressure: float = 0.5
    slack: float = 50.0
    model: str = "power-law"
    nodes: Choice = "nearest"
    seed: int = 0


@dataclass(frozen=True, slots=True)
class PlusOptions:
    """What `gesscale+` is set to; `plus_options` makes it from plain values, `PLUS_MEANINGS` explains them."""

    every_seconds: float = 10.0
    high_pressure: float = 0.5
    model: str | None = None
    nodes: Choice = "best"
    seed: int = 0
    confidence: float = 0.8
    catch_up_seconds: float | None = None
    calm_seconds: float = 600.0
    ahead_seconds: float = 120.0
    trend_seconds: float = TREND_SECONDS


def gesscale_options(
    *,
    every_seconds: str | float = 60.0,
    high_pressure: float = 0.5,
    slack: float = 50.0,
    model: str = "power-law",
    nodes: str = "nearest",
    seed: int = 0,
) -> GesscaleOptions:
    """Make the options from plain values, as a settings file holds them; `MEANINGS` explains each.

    Examples
    --------
    >>> gesscale_options(every_seconds="30s").every_seconds
    30.0
    """
    mistakes = Mistakes()
    period = mistakes.of(lambda: positive_seconds("every_seconds", every_seconds))
    pressure = mistakes.of(lambda: number("high_pressure", high_pressure, least=0.05, most=0.95))
    percent = mistakes.of(lambda: number("slack", slack, least=0.0, most=99.0))
    law = mistakes.of(lambda: _one_of("model", model, MODELS))
    choice = mistakes.of(lambda: _one_of("nodes", nodes, CHOICES))
    number_of_seed = mistakes.of(lambda: whole_number("seed", seed, least=0))
    mistakes.raise_all("policy gesscale")
    assert period is not None
    assert pressure is not None
    assert percent is not None
    assert law is not None
    assert choice is not None
    assert number_of_seed is not None  # what could not be read was raised
    return GesscaleOptions(period, pressure, percent, law, cast("Choice", choice), number_of_seed)


def plus_options(
    *,
    every_seconds: str | float = 10.0,
    high_pressure: float = 0.5,
    model: str | None = None,
    nodes: str = "best",
    seed: int = 0,
    confidence: float = 0.8,
    catch_up: str | float | None = None,
    calm: str | float = 600.0,
    ahead: str | float = 120.0,
    trend: str | float = TREND_SECONDS,
) -> PlusOptions:
    """Make the options from plain values, as a settings file holds them; `PLUS_MEANINGS` explains each.

    Examples
    --------
    >>> plus_options(calm="5m").calm_seconds
    300.0
    """
    mistakes = Mistakes()
    period = mistakes.of(lambda: positive_seconds("every_seconds", every_seconds))
    pressure = mistakes.of(lambda: number("high_pressure", high_pressure, least=0.05, most=0.95))
    law = None if model is None else mistakes.of(lambda: _one_of("model", model, MODELS))
    choice = mistakes.of(lambda: _one_of("nodes", nodes, CHOICES))
    number_of_seed = mistakes.of(lambda: whole_number("seed", seed, least=0))
    sure = mistakes.of(lambda: number("confidence", confidence, least=0.05, most=0.999))
    within = None if catch_up is None else mistakes.of(lambda: positive_seconds("catch_up", catch_up))
    calm_seconds = mistakes.of(lambda: positive_seconds("calm", calm))
    ahead_seconds = mistakes.of(lambda: positive_seconds("ahead", ahead))
    trend_seconds = mistakes.of(lambda: positive_seconds("trend", trend))
    mistakes.raise_all("policy gesscale+")
    assert period is not None
    assert pressure is not None
    assert choice is not None
    assert number_of_seed is not None
    assert sure is not None
    assert calm_seconds is not None
    assert ahead_seconds is not None
    assert trend_seconds is not None  # what could not be read was raised
    return PlusOptions(
        period, pressure, law, cast("Choice", choice), number_of_seed, sure, within, calm_seconds, ahead_seconds,
        trend_seconds,
    )  # fmt: skip


def _one_of(option: str, value: object, known: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in known:
        raise ConfigurationError(f"{option}: {value!r} is unknown; use one of {', '.join(known)}", field=option)
    return value
