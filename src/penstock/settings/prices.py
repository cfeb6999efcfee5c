# SPDX-License-Identifier: Apache-2.0
"""What executors cost, as settings say it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationError, model_validator

from penstock.errors import ConfigurationError
from penstock.money import CostBasis, Prices
from penstock.records import Limits
from penstock.settings.fields import Part, said_of


def _currency(value: str) -> str:
    said_of("currency", lambda: Prices(core_hour=0.0, currency=value))
    return value


class PriceSettings(Part):
    """What an hour costs: a run's cost, and what it saved against the top allocation, are then shown."""

    executor_hour: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description="price of an executor for an hour, whatever its CPU share; executors of another size count by "
        "their cores. None: it has no price of its own",
    )
    core_hour: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description="price of a core that executors may use, for an hour: an executor of 4 cores with a CPU share of "
        "50 % uses two. None: CPU has no price of its own",
    )
    currency: Annotated[str, AfterValidator(_currency)] = Field(
        default="", description="what prices are counted in, such as `EUR`; only shown"
    )

    @model_validator(mode="after")
    def _has_a_price(self) -> PriceSettings:
        said_of("prices", self.prices)
        return self

    def prices(self) -> Prices:
        """The prices."""
        return Prices(self.executor_hour, self.core_hour, self.currency)


def read_prices(value: Any) -> Prices | None:
    """Prices as a settings file writes them; None: there are none.

    Raises
    ------
    ConfigurationError
        With every mistake.
    """
    if value is None:
        return None
    try:
        return PriceSettings.model_validate(value).prices()
    except ValidationError as fault:
        faults = [_in_words(error) for error in fault.errors()]
        raise ConfigurationError("; ".join(faults), field="prices", faults=faults) from fault


def _in_words(error: Any) -> str:
    where = ".".join(("prices", *map(str, error["loc"])))
    if error["type"] == "extra_forbidden":
        return f"{where}: is not a setting; known here: {', '.join(PriceSettings.setting_names())}"
    return f"{where}: {str(error['msg']).removeprefix('Value error, ')} (got {error['input']!r})"


def kept_cost_bases(kept: Mapping[str, Any]) -> dict[str, CostBasis]:
    """What the operators of a stored run are priced by; empty where there are no prices, or they cannot be read."""
    try:
        prices = read_prices(kept.get("prices"))
    except ConfigurationError:
        return {}
    operators = kept.get("operators")
    if prices is None or not isinstance(operators, list):
        return {}
    found: dict[str, CostBasis] = {}
    for one in operators:
        with suppress(ConfigurationError, TypeError, ValueError, KeyError):  # a store may be damaged
            found[str(one["name"])] = _kept_basis(prices, one)
    return found


def _kept_basis(prices: Prices, operator: Mapping[str, Any]) -> CostBasis:
    lowest, highest = operator["executors"]
    top = Limits(lowest, highest, tuple(operator.get("cpu_shares") or (1.0,))).top
    cores = operator.get("executor_cores")
    # Only where cores are known can there be larger sizes.
    worth = max(size["cores"] for size in [{"cores": cores}, *(operator.get("sizes") or ())]) / cores if cores else 1.0
    return CostBasis(prices, cores, top.executors * worth, top.capacity * worth)
