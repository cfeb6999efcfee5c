# SPDX-License-Identifier: Apache-2.0
"""The settings of MEAD. Everything that Penstock adds to the published policy has a switch of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, get_args

from penstock.errors import ConfigurationError, Mistakes
from penstock.policies.mead.planner import MeadPlanner, Search
from penstock.policies.mead.rescue import Rescue
from penstock.units import number, positive_seconds, whole_number

SolvedQueues = Literal["replay", "map", "m/g/1", "gi/g/1"]
"""What latencies can be predicted by."""
Queues = Literal["auto", "replay", "map", "m/g/1", "gi/g/1"]

MEANINGS = {
    "queues": "what latencies are predicted by: `replay` takes what the windows themselves would have met; `map` fits "
    "arrival processes to them, as the paper does; `auto` is `replay`, but `map` for a pipeline with a join or with "
    "both real-time mode and micro-batches, which cannot be replayed; `m/g/1` and `gi/g/1` are what the paper compares "
    "MEAD with (Sec. VII)",
    "window": "inter-arrival times of the base window (N_E)",
    "sub_windows": "further windows, each half as long as the one before",
    "look_back": "operators in micro-batches are made ready for what arrived in this time, however many records that "
    "were; null: for the windows alone",
    "best": "how many arrival processes are fitted to each window, where `queues` is `map`",
    "max_states": "most states of a fitted process; with 16 a queue of micro-batches takes seconds to solve",
    "search": "`auto` is `exact` for up to 8 operators with 8 levels, else `refined`; `exact` gives the cheapest "
    "levels; `refined` improves on the paper's search; `published` is its Fig. 5",
    "most_evaluations": "most allocations that the exact search of `auto` predicts before it takes the best so far",
    "delta": "least gain, as a part of the bound, for which Fig. 5 scales an operator up",
    "most_levels_down": "levels that one plan may take from an operator; null: any number",
    "every_seconds": "time from one plan to the next (T_A)",
    "rescue": "switch: give an operator its highest level while records wait too long, between plans",
    "rescue_every": "how often the backlog is looked at; null: as `rescue: false`",
    "rescue_at": "part of the bound that a waiting record may use up before the rescue",
    "extrapolate_rises": "switch: while arrivals rise, plan for what they will be when the plan is in force",
    "hold_while_rising": "switch: take nothing away while arrivals rise",
    "drop_overtaken": "switch: do not carry out a plan to scale down once more arrives than it was made for",
    "probe": "switch: while batches are too much alike to learn from, step down where that cannot break the bound",
    "remember": "switch: begin with what earlier runs of the same query, in the same store, have learnt about batches, "
    "in real-time mode about records, and about the errors of predictions",
    "margins": "switch: learn by how much predictions are off from what was measured, and keep the bound with the "
    "upper end of their interval",
    "confidence": "part of the plans whose measured latency is to lie at or below the upper end; from 0.5 to below 1",
    "errors": "standard errors by which a learnt demand is moved to the slow side",
    "costs": "what an executor costs at each of its CPU shares; default: the share",
}
"""What each option means."""

AS_PUBLISHED: dict[str, Any] = {
    "queues": "map",
    "search": "published",
    "look_back": None,
    "rescue": False,
    "extrapolate_rises": False,
    "hold_while_rising": False,
    "drop_overtaken": False,
    "probe": False,
    "remember": False,
    "margins": False,
    "errors": 0.0,
}
"""Every addition of ours switched off: the policy of the paper."""


@dataclass(frozen=True, slots=True)
class MeadOptions:
    """What MEAD is set to; `mead_options` makes it from plain values, and `MEANINGS` explains them.

    Attributes
    ----------
    name
        The policy's name in decisions and results.
    windows
        All windows as parts of the base window.
    planner
        Search and planning rules, and T_A.
    rescue
        What watches the backlog between plans; None: nothing does.
    confidence
        Of the intervals of predictions; None: predictions are taken as they are.
    """

    name: str = "mead"
    queues: Queues = "auto"
    window: int = 50_000
    windows: tuple[float, ...] = (1.0, 0.5)
    look_back: float | None = 120.0
    best: int = 5
    max_states: int = 8
    planner: MeadPlanner = field(default_factory=MeadPlanner)
    rescue: Rescue | None = field(default_factory=Rescue)
    extrapolate_rises: bool = True
    hold_while_rising: bool = True
    drop_overtaken: bool = True
    probe: bool = True
    remember: bool = True
    confidence: float | None = 0.9
    errors: float = 1.0
    costs: tuple[float, ...] | None = None

    @property
    def every_seconds(self) -> float:
        """How often the policy wants to be asked: T_A, or as often as the backlog is looked at."""
        plans = self.planner.every_seconds
        return plans if self.rescue is None else min(plans, self.rescue.every_seconds)


def mead_options(
    name: str = "mead",
    *,
    queues: Queues = "auto",
    window: int = 50_000,
    sub_windows: int = 1,
    look_back: str | float | None = 120.0,
    best: int = 5,
    max_states: int = 8,
    search: Search = "auto",
    most_evaluations: int = 2000,
    delta: float = 0.05,
    most_levels_down: int | None = 1,
    every_seconds: str | float = 60.0,
    rescue: bool = True,
    rescue_every: str | float | None = 10.0,
    rescue_at: float = 0.5,
    extrapolate_rises: bool = True,
    hold_while_rising: bool = True,
    drop_overtaken: bool = True,
    probe: bool = True,
    remember: bool = True,
    margins: bool = True,
    confidence: float = 0.9,
    errors: float = 1.0,
    costs: Sequence[float] | None = None,
) -> MeadOptions:
    """Make the options from plain values, as a settings file holds them; `MEANINGS` explains each.

    Examples
    --------
    >>> mead_options(sub_windows=2, rescue_every="5s").windows
    (1.0, 0.5, 0.25)
    >>> mead_options(**AS_PUBLISHED).rescue is None
    True
    """
    mistakes = Mistakes()
    mistakes.of(lambda: _one_of("queues", queues, get_args(Queues)))
    for option, value, least, most in (
        ("window", window, 512, 10_000_000), ("sub_windows", sub_windows, 0, 8), ("best", best, 1, 50),
        ("max_states", max_states, 2, 64),
    ):  # fmt: skip
        mistakes.of(partial(whole_number, option, value, least=least, most=most))
    mistakes.of(lambda: _one_of("search", search, get_args(Search)))
    mistakes.of(lambda: whole_number("most_evaluations", most_evaluations, least=1, most=10_000_000))
    mistakes.of(lambda: number("delta", delta, least=0.0))
    if most_levels_down is not None:
        mistakes.of(lambda: whole_number("most_levels_down", most_levels_down, least=1))
    period = mistakes.of(lambda: positive_seconds("every_seconds", every_seconds))
    remembered = None if look_back is None else mistakes.of(lambda: positive_seconds("look_back", look_back))
    for option, switch in (
        ("rescue", rescue), ("extrapolate_rises", extrapolate_rises), ("hold_while_rising", hold_while_rising),
        ("drop_overtaken", drop_overtaken), ("probe", probe), ("remember", remember), ("margins", margins),
    ):  # fmt: skip
        mistakes.of(partial(_switch, option, switch))
    watched = None if rescue_every is None else mistakes.of(lambda: positive_seconds("rescue_every", rescue_every))
    mistakes.of(lambda: number("rescue_at", rescue_at, above=0.0, most=1.0))
    mistakes.of(lambda: _confidence(confidence))
    mistakes.of(lambda: number("errors", errors, least=0.0))
    read_costs = None if costs is None else mistakes.of(lambda: _costs(costs))
    mistakes.raise_all(f"policy {name}")
    assert period is not None  # what could not be read was raised
    return MeadOptions(
        name=name,
        queues=queues,
        window=window,
        windows=tuple(0.5**i for i in range(sub_windows + 1)),
        look_back=remembered,
        best=best,
        max_states=max_states,
        planner=MeadPlanner(delta, search, most_levels_down, period, name, most_evaluations),
        rescue=Rescue(rescue_at, watched) if rescue and watched is not None else None,
        extrapolate_rises=extrapolate_rises,
        hold_while_rising=hold_while_rising,
        drop_overtaken=drop_overtaken,
        probe=probe,
        remember=remember,
        confidence=confidence if margins else None,
        errors=errors,
        costs=read_costs,
    )


def _one_of(option: str, value: Any, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ConfigurationError(f"{option}: {value!r} is unknown; use one of {', '.join(known)}", field=option)


def _switch(option: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise ConfigurationError(f"{option}: {value!r} is not a switch; write true or false", field=option)


def _confidence(value: Any) -> None:
    if not 0.5 <= number("confidence", value) < 1.0:
        raise ConfigurationError(
            f"confidence: {value!r} is outside [0.5, 1); write it like 0.9, or margins: false", field="confidence"
        )


def _costs(values: Any) -> tuple[float, ...]:
    if not isinstance(values, (list, tuple)) or not values:
        raise ConfigurationError(f"costs: {values!r}; write a list, a cost for each CPU share", field="costs")
    found = tuple(number("costs", value) for value in values)
    if not all(0.0 < value < float("inf") for value in found) or list(found) != sorted(found):
        raise ConfigurationError(f"costs: {list(found)} must be positive and rise with the CPU shares", field="costs")
    return found
