# SPDX-License-Identifier: Apache-2.0
"""The settings of MEAD, the same on Spark and in the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from penstock.errors import ConfigurationError
from penstock.plan.mead import MeadPolicy, Search
from penstock.plan.rescue import Rescue
from penstock.units import parse_seconds

Queues = Literal["map", "m/g/1", "gi/g/1"]


@dataclass(frozen=True, slots=True)
class MeadOptions:
    """What MEAD is told; `mead_options` makes it from plain values.

    Attributes
    ----------
    queues
        ``map`` is MEAD; ``m/g/1`` and ``gi/g/1`` are what the paper compares it with (Sec. VII).
    window, parts
        Inter-arrival times of the base window (N_E), and all windows as parts of it.
    best, max_states
        How many processes are fitted to each window, with how many states at most.
    planner
        Search and planning rules, and T_A.
    rescue
        What watches the backlog between plans; None: nobody, as published.
    believed
        Fits are believed up to this many times what their window itself would have met; None: as they are.
    errors
        How many standard errors a learnt demand is moved to the slow side.
    costs
        What an executor costs at each of its CPU shares; None: the share.
    """

    queues: Queues = "map"
    window: int = 50_000
    parts: tuple[float, ...] = (1.0, 0.5)
    best: int = 5
    max_states: int = 16
    planner: MeadPolicy = field(default_factory=MeadPolicy)
    rescue: Rescue | None = field(default_factory=Rescue)
    believed: float | None = 2.0
    errors: float = 1.0
    costs: tuple[float, ...] | None = None

    @property
    def name(self) -> str:
        """How the policy is called in decisions and results."""
        return "mead" if self.queues == "map" else self.queues

    @property
    def every_seconds(self) -> float:
        """How often the policy wants to be asked: T_A, or as often as the backlog is looked at."""
        plans = self.planner.every_seconds
        return plans if self.rescue is None else min(plans, self.rescue.every_seconds)


def mead_options(
    queues: Queues = "map",
    *,
    window: int = 50_000,
    sub_windows: int = 1,
    best: int = 5,
    max_states: int = 16,
    search: Search = "exact",
    delta: float = 0.05,
    most_levels_down: int | None = 1,
    every_seconds: str | float = 60.0,
    rescue_every: str | float | None = 10.0,
    rescue_at: float = 0.5,
    believed: float | None = 2.0,
    errors: float = 1.0,
    costs: Sequence[float] | None = None,
) -> MeadOptions:
    """Give the options from plain values, as a settings file holds them.

    Each of the `sub_windows` is half as long as the one before. `rescue_every` null: the backlog is not watched;
    `believed` null: fits are not held against a replay of their windows. `costs` are those of an executor at each of
    its CPU shares.

    Examples
    --------
    >>> mead_options(sub_windows=2, rescue_every="5s").parts
    (1.0, 0.5, 0.25)
    """
    if queues not in get_args(Queues):
        known = ", ".join(get_args(Queues))
        raise ConfigurationError(f"queues: {queues!r} is unknown; use one of {known}", field="queues")
    for name, value, least, most in (
        ("window", window, 512, 10_000_000), ("sub_windows", sub_windows, 0, 8), ("best", best, 1, 50),
        ("max_states", max_states, 2, 64),
    ):  # fmt: skip
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ConfigurationError(f"{name}: {value!r} is not a whole number from {least} to {most}", field=name)
    for name, number, at_least in (("believed", believed, 1.0), ("errors", errors, 0.0)):
        if number is not None and not at_least <= _number(name, number) < float("inf"):
            raise ConfigurationError(f"{name}: {number!r} must be at least {at_least:g}", field=name)
    return MeadOptions(
        queues,
        window,
        tuple(0.5**i for i in range(sub_windows + 1)),
        best,
        max_states,
        MeadPolicy(_number("delta", delta), search, most_levels_down, parse_seconds(every_seconds, "every_seconds")),
        None
        if rescue_every is None
        else Rescue(_number("rescue_at", rescue_at), parse_seconds(rescue_every, "rescue_every")),
        believed,
        errors,
        None if costs is None else _costs(costs),
    )


def _costs(values: Any) -> tuple[float, ...]:
    if not isinstance(values, (list, tuple)) or not values:
        raise ConfigurationError(f"costs: {values!r}; write a list, a cost for each CPU share", field="costs")
    found = tuple(_number("costs", value) for value in values)
    if not all(0.0 < value < float("inf") for value in found) or list(found) != sorted(found):
        raise ConfigurationError(f"costs: {list(found)} must be positive and rise with the CPU shares", field="costs")
    return found


def _number(field: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConfigurationError(f"{field}: {value!r} is not a number", field=field)
    return float(value)
