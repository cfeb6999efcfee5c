# SPDX-License-Identifier: Apache-2.0
"""Looks through what `attach` was given: every mistake at once, before Spark is touched."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.adaptors.postgresql.address import StoreAddress, is_address
from penstock.errors import ConfigurationError, Mistakes
from penstock.money import Prices
from penstock.policies import default_policy, make_policy
from penstock.ports import ArrivalTimes, OperatorSite, PolicyContext
from penstock.records import Limits, Mode, Objective
from penstock.settings import GuardSettings, mode_of, read_guards, read_prices
from penstock.stores import StorePlace, open_store, open_store_readonly
from penstock.topology import Topology

INTERPOLATED = "interpolated"
_ARRIVAL_METHODS = ("of", "arrived_by", "done_index")


@dataclass(frozen=True, slots=True)
class AttachArguments:
    """What `attach` was given, read."""

    limits: Limits
    objective: Objective
    mode: Mode
    guards: GuardSettings | None
    store: StorePlace | None
    prices: Prices | None


def read_arguments(
    query: Any,
    *,
    objective: Any,
    executors: Any,
    cpu_shares: Any,
    mode: Any,
    policy: Any,
    policy_options: Any,
    guards: Any,
    name: Any,
    arrivals: Any,
    seconds: Mapping[str, tuple[Any, float]],
    store: Any,
    prices: Any,
) -> AttachArguments:
    """Read the arguments of `attach`; `seconds` has times by name, each with the least that it may be.

    Raises
    ------
    ConfigurationError
        With every mistake.
    """
    found = Mistakes()
    found.of(lambda: _check_query(query))
    bounds = found.of(lambda: _executors(executors)) or (1, 1)
    shares = found.of(lambda: _cpu_shares(cpu_shares)) or (1.0,)
    for field, (value, least) in seconds.items():
        found.of(lambda field=field, value=value, least=least: _check_seconds(field, value, least))  # type: ignore[misc]
    wanted = found.of(lambda: _objective(objective)) or Objective()
    wanted_mode = found.of(lambda: mode_of(mode)) or Mode.RECOMMEND
    wanted_guards = found.of(lambda: GuardSettings() if guards is None else read_guards(guards))
    found.of(lambda: _check_name(name))
    found.of(lambda: _check_arrivals(arrivals))
    file = found.of(lambda: _store(store))
    wanted_prices = found.of(lambda: read_prices(prices))
    limits = Limits(*bounds, shares)
    if found.of(lambda: check_options(policy_options)) and found.found:
        # Where all else is well, the policy is built for the query itself, and that says more.
        found.of(lambda: _check_policy(policy, policy_options, limits, wanted))
    found.raise_all("attach")
    return AttachArguments(limits, wanted, wanted_mode, wanted_guards, file, wanted_prices)


def check_options(options: Any) -> bool:
    """Refuse options of a policy that are not names and values; gives True."""
    if options is not None and (not isinstance(options, Mapping) or not all(isinstance(key, str) for key in options)):
        raise ConfigurationError(
            f'policy_options: {options!r} are none; write names and values, such as {{"upper": 0.6}}',
            field="policy_options",
        )
    return True


def _check_query(query: Any) -> None:
    if not hasattr(query, "isActive"):
        raise ConfigurationError(
            f"query: {query!r} is not a streaming query; give what start() returned", field="query"
        )


def _executors(executors: Any) -> tuple[int, int]:
    try:
        lowest, highest = executors
    except (TypeError, ValueError):
        raise ConfigurationError(f"executors: {executors!r}; write them like (1, 8)", field="executors") from None
    if type(lowest) is not int or type(highest) is not int:
        raise ConfigurationError(f"executors: {executors!r} must be two whole numbers, (min, max)", field="executors")
    Limits(lowest, highest)
    return lowest, highest


def _cpu_shares(cpu_shares: Any) -> tuple[float, ...]:
    try:
        shares = tuple(float(share) for share in cpu_shares)
    except (TypeError, ValueError):
        raise ConfigurationError(
            f"cpu_shares: {cpu_shares!r}; write them like (0.5, 1.0)", field="cpu_shares"
        ) from None
    Limits(cpu_shares=shares)
    return shares


def _check_seconds(field: str, value: Any, least: float) -> None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not least <= value < math.inf:
        raise ConfigurationError(f"{field}: {value!r} must be a number of seconds, at least {least:g}", field=field)


def _objective(objective: Any) -> Objective:
    if objective is not None and not isinstance(objective, Objective):
        raise ConfigurationError(f'objective: {objective!r} is none; write latency(p95="2s")', field="objective")
    return objective or Objective()


def _check_name(name: Any) -> None:
    if name is not None and (not isinstance(name, str) or not name.strip()):
        raise ConfigurationError(
            f'name: {name!r} is none; write a text such as "counts", or leave it out', field="name"
        )


def _check_arrivals(arrivals: Any) -> None:
    if arrivals is None or arrivals == INTERPOLATED:
        return
    missing = [part for part in _ARRIVAL_METHODS if not callable(getattr(arrivals, part, None))]
    if isinstance(arrivals, (str, type)) or len(missing) == len(_ARRIVAL_METHODS):
        raise ConfigurationError(
            f"arrivals: {arrivals!r} is none; give an object with {', '.join(_ARRIVAL_METHODS)} "
            f'(penstock.ports.{ArrivalTimes.__name__}), "{INTERPOLATED}", or leave it out',
            field="arrivals",
        )
    if missing:
        raise ConfigurationError(
            f"arrivals: {arrivals!r} lacks {', '.join(missing)}; give it all methods of "
            f"penstock.ports.{ArrivalTimes.__name__}",
            field="arrivals",
        )


def _store(store: Any) -> StorePlace | None:
    if store is None:
        return None
    if not isinstance(store, (str, os.PathLike)) or isinstance(store, bytes):
        raise ConfigurationError(
            f'store: {store!r} is no file; write its path, such as "scaler.sqlite", an address of '
            "PostgreSQL, or leave it out",
            field="store",
        )
    if is_address(store):
        address = StoreAddress.parse(str(store))
        open_store(address).close()
        return address
    path = Path(store)
    try:
        if path.is_dir():
            raise ConfigurationError(
                f"store: {path} is a folder; name a file in it, such as {path / 'scaler.sqlite'}", field="store"
            )
        if not path.parent.is_dir():
            raise ConfigurationError(
                f"store: the folder {path.parent} does not exist; create it first, or give another file", field="store"
            )
        if path.exists() and path.stat().st_size:
            open_store_readonly(path).close()
    except (OSError, ValueError) as fault:
        text = (
            str(fault) if isinstance(fault, ConfigurationError) else f"{path!r} cannot be used: {fault}; give another"
        )
        raise ConfigurationError(text if text.startswith("store:") else f"store: {text}", field="store") from None
    return path.absolute()


def _check_policy(policy: Any, options: Any, limits: Limits, objective: Objective) -> None:
    """Build the policy for a query of which nothing is known."""
    operator = "query"
    chosen = default_policy([objective]) if policy is None else policy
    context = PolicyContext(Topology.of_one(operator), {operator: OperatorSite(limits)}, {(operator,): objective})
    make_policy(chosen, context, options)
