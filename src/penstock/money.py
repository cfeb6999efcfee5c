# SPDX-License-Identifier: Apache-2.0
"""What executors cost: prices, and what a time with some executors comes to beside the top allocation."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from penstock.errors import ConfigurationError

_HOUR_SECONDS = 3600.0
_LONGEST_CURRENCY = 12


@dataclass(frozen=True, slots=True)
class Prices:
    """What an hour costs; at least one of both prices is given.

    Attributes
    ----------
    executor_hour
        Of an executor of the operator's own size, whatever CPU share it has; None: it costs nothing by itself.
    core_hour
        Of a core that an executor may use: half a share of four cores is two. None: CPU costs nothing by itself.
    currency
        What it is counted in, such as ``EUR``.

    Examples
    --------
    >>> Prices(executor_hour=0.10, core_hour=0.04, currency="EUR").of(7200.0, 3600.0)
    0.24
    """

    executor_hour: float | None = None
    core_hour: float | None = None
    currency: str = ""

    def __post_init__(self) -> None:
        for field, price in (("executor_hour", self.executor_hour), ("core_hour", self.core_hour)):
            if price is not None and not 0.0 <= price < math.inf:
                raise ConfigurationError(f"{field}: {price} is no price; give a number from 0 on", field=field)
        if self.executor_hour is None and self.core_hour is None:
            raise ConfigurationError("prices: give executor_hour, core_hour or both, such as 0.12", field="prices")
        if len(self.currency) > _LONGEST_CURRENCY or not self.currency.isprintable():
            raise ConfigurationError(
                f"currency: {self.currency[:40]!r} is no label; give a short one, such as EUR", field="currency"
            )

    def of(self, executor_seconds: float, core_seconds: float) -> float:
        """What so much time costs."""
        hours = executor_seconds * (self.executor_hour or 0.0) + core_seconds * (self.core_hour or 0.0)
        return hours / _HOUR_SECONDS


@dataclass(frozen=True, slots=True)
class Cost:
    """What was paid for, and what the top allocation would have cost in the same time."""

    amount: float
    static: float
    currency: str = ""

    @property
    def saved(self) -> float:
        """How much less it was; below zero where it was more."""
        return self.static - self.amount

    @property
    def saved_fraction(self) -> float | None:
        """The same as a part of the top allocation's cost; None where that costs nothing."""
        return self.saved / self.static if self.static > 0 else None

    def to_json(self) -> dict[str, Any]:
        """For `--json`, the store and the HTTP API."""
        return {
            "amount": self.amount,
            "static": self.static,
            "saved": self.saved,
            "saved_fraction": self.saved_fraction,
            "currency": self.currency,
        }

    def __str__(self) -> str:
        part = "" if self.saved_fraction is None else f" ({self.saved_fraction:.0%})"
        return (
            f"{money_text(self.amount, self.currency)}; saved {money_text(self.saved, self.currency)}{part} "
            "against the top allocation"
        )


@dataclass(frozen=True, slots=True)
class CostBasis:
    """What one operator's time is priced by.

    Attributes
    ----------
    prices
        What an hour costs.
    cores
        Of an executor of the operator's own size; None: that is not known, and a price of cores gives no cost.
    top_executors, top_capacity
        The most that it may have, in executors of its own size: executors, and executors times CPU share.
    """

    prices: Prices
    cores: int | None
    top_executors: float
    top_capacity: float

    def cost(self, executor_seconds: float, share_seconds: float, observed_seconds: float) -> Cost | None:
        """What a time cost, by its integrals over executors and over executors times CPU share.

        None where no time was observed, or where a core has a price and it is not known how many an executor has.
        """
        if observed_seconds <= 0 or (self.prices.core_hour is not None and self.cores is None):
            return None
        cores = self.cores or 0
        return Cost(
            self.prices.of(executor_seconds, share_seconds * cores),
            self.prices.of(observed_seconds * self.top_executors, observed_seconds * self.top_capacity * cores),
            self.prices.currency,
        )


def total_cost(costs: Iterable[Cost | None]) -> Cost | None:
    """What several operators cost together; None where that of one is not known, or there is none."""
    known = list(costs)
    parts = [cost for cost in known if cost is not None]
    if not parts or len(parts) < len(known):
        return None
    return Cost(sum(c.amount for c in parts), sum(c.static for c in parts), parts[0].currency)


def money_text(amount: float, currency: str = "") -> str:
    """An amount for people, with three figures at least.

    Examples
    --------
    >>> money_text(1234.5, "EUR"), money_text(0.004217, "EUR"), money_text(0.0)
    ('1,234.50 EUR', '0.00422 EUR', '0.00')
    """
    size = abs(amount)
    digits = 2 if size >= 1.0 or size < 1e-12 else min(12, 2 - math.floor(math.log10(size)))
    return f"{amount:,.{digits}f} {currency}".rstrip()
