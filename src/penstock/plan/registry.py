# SPDX-License-Identifier: Apache-2.0
"""Policies by the names that settings use. A new policy is one function and one entry here."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from penstock.errors import ConfigurationError
from penstock.plan.fixed import FixedPolicy
from penstock.plan.mead_options import MeadOptions, mead_options
from penstock.plan.schedule import SchedulePolicy
from penstock.plan.threshold import ThresholdPolicy
from penstock.ports import Policy
from penstock.records import Allocation
from penstock.units import parse_seconds


def _fixed(executors: int | None = None, cpu_share: float | None = None, every_seconds: str | float = 10.0) -> Policy:
    period = parse_seconds(every_seconds, "every_seconds")
    if executors is None:
        if cpu_share is not None:
            raise ConfigurationError("executors: give it beside cpu_share, or give neither", field="executors")
        return FixedPolicy(every_seconds=period)
    share = 1.0 if cpu_share is None else _number("cpu_share", cpu_share)
    return FixedPolicy(Allocation(_whole("executors", executors), share), every_seconds=period)


def _threshold(upper: float = 0.7, lower: float = 0.5, every_seconds: str | float = 10.0) -> Policy:
    return ThresholdPolicy(
        upper=_number("upper", upper),
        lower=_number("lower", lower),
        every_seconds=parse_seconds(every_seconds, "every_seconds"),
    )


def _schedule(steps: str = "24h@1", every_seconds: str | float = 10.0) -> Policy:
    return SchedulePolicy(steps, every_seconds=parse_seconds(every_seconds, "every_seconds"))


# Every factory takes plain values by name, as a settings file holds them; the names are the options.
_POLICIES: Mapping[str, Callable[..., Policy]] = {"fixed": _fixed, "schedule": _schedule, "threshold": _threshold}
_OF_PIPELINES: Mapping[str, Callable[..., MeadOptions]] = {"mead": mead_options}
"""Policies that decide for all operators together, from what they learn of them: here only their options are made."""


def policy_names() -> tuple[str, ...]:
    """Give the names of the policies that decide for one operator."""
    return tuple(_POLICIES)


def pipeline_policy_names() -> tuple[str, ...]:
    """Give the names of the policies that decide for a whole pipeline."""
    return tuple(_OF_PIPELINES)


def policy_options(name: str) -> tuple[str, ...]:
    """Give the options that the policy called `name` takes."""
    return tuple(inspect.signature(_factory(name)).parameters)


def make_policy(name: str, **options: Any) -> Policy:
    """Give the policy called `name`, built from plain options.

    Raises
    ------
    ConfigurationError
        The name or an option is not known (the message lists the known ones), or a value is wrong.

    Examples
    --------
    >>> make_policy("threshold", upper=0.8, every_seconds="5s")
    ThresholdPolicy(upper=0.8, lower=0.5, every_seconds=5.0)
    """
    factory = _factory(name)
    _check_options(name, options)
    policy = factory(**options)
    if isinstance(policy, MeadOptions):
        raise ConfigurationError(f"policy: {name} decides for a whole pipeline, not for one operator", field="policy")
    return policy


def make_pipeline_options(name: str, **options: Any) -> MeadOptions | None:
    """Give the options of the pipeline's policy called `name`; None: that one decides for single operators.

    Raises
    ------
    ConfigurationError
        As for `make_policy`.
    """
    factory = _factory(name)
    _check_options(name, options)
    made = factory(**options)
    return made if isinstance(made, MeadOptions) else None


def _check_options(name: str, options: Mapping[str, Any]) -> None:
    known = policy_options(name)
    unknown = [option for option in options if option not in known]
    if unknown:
        raise ConfigurationError(
            f"policy {name!r}: unknown {'options' if len(unknown) > 1 else 'option'} {', '.join(unknown)}; "
            f"known: {', '.join(known)}",
            field=unknown[0],
        )


def _factory(name: str) -> Callable[..., Policy | MeadOptions]:
    every: Mapping[str, Callable[..., Policy | MeadOptions]] = {**_POLICIES, **_OF_PIPELINES}
    try:
        return every[name]
    except (KeyError, TypeError):
        known = ", ".join(every)
        raise ConfigurationError(f"policy: unknown policy {name!r}; known: {known}", field="policy") from None


def _number(field: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConfigurationError(f"{field}: {value!r} is not a number", field=field)
    return float(value)


def _whole(field: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigurationError(f"{field}: {value!r} is not a whole number", field=field)
    return value
