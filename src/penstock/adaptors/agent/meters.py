# SPDX-License-Identifier: Apache-2.0
"""The metrics that an agent can give, each with a function that reads it; and those of the user's own."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Collection, Mapping

from penstock.adaptors.agent.wire import Offer
from penstock.errors import ConfigurationError
from penstock.metrics import OWN_PREFIX, metric_named

_log = logging.getLogger(__name__)
_MOST_OWN = 100
_LONGEST_NAME = 100

ReadMany = Callable[[], Mapping[str, float | None]]


class Meters:
    """Metrics that are read together where one look gives several. What cannot be read is None, and never an error.

    The list of offers only grows, so that a metric keeps its place in it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._offers: list[Offer] = []
        self._groups: list[tuple[tuple[str, ...], ReadMany]] = []
        self._failing: set[str] = set()

    @property
    def offers(self) -> list[Offer]:
        """Everything that can be asked for, with unit and meaning."""
        with self._lock:
            return list(self._offers)

    def add_known(self, names: Collection[str], read: ReadMany) -> None:
        """Offer metrics of the catalogue that one look gives."""
        known = [metric_named(name) for name in names]
        self._add([Offer(metric.name, metric.unit, metric.meaning) for metric in known], read)

    def add_own(self, name: str, unit: str, read: Callable[[], float | None]) -> None:
        """Offer a metric of the user's own; its name gets the prefix of those."""
        full = f"{OWN_PREFIX}{name}"
        self._add([Offer(full, unit, metric_named(full).meaning)], lambda: {full: read()})

    def sample(self, names: Collection[str]) -> dict[str, float | None]:
        """Read these metrics; those that are not offered are left out."""
        with self._lock:
            groups = [(own, read) for own, read in self._groups if not set(own).isdisjoint(names)]
        found: dict[str, float | None] = {}
        for own, read in groups:
            values = self._read(own, read)
            found.update({name: _number(values.get(name)) for name in own if name in names})
        return found

    def _add(self, offers: list[Offer], read: ReadMany) -> None:
        with self._lock:
            taken = {offer.name for offer in self._offers}
            if double := [offer.name for offer in offers if offer.name in taken]:
                raise ConfigurationError(
                    f"metric: there is a metric {double[0]} already; give another name", field="metric"
                )
            self._offers += offers
            self._groups.append((tuple(offer.name for offer in offers), read))

    def _read(self, names: tuple[str, ...], read: ReadMany) -> Mapping[str, float | None]:
        try:
            values = read()
        except Exception as fault:  # a measurement must not disturb the query, whatever it does
            if names[0] not in self._failing:  # once, until it works again
                self._failing.add(names[0])
                _log.warning("%s cannot be read: %s: %s", ", ".join(names), type(fault).__name__, fault)
            return {}
        self._failing.discard(names[0])
        return values


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


_own: dict[str, tuple[str, Callable[[], float | None]]] = {}
_own_lock = threading.Lock()


def metric(name: str, function: Callable[[], float | None], *, unit: str = "") -> None:
    """Offer a metric of your own to policies, rules and pages, from the process of the query.

    It is called ``own_`` and the name. The function is called as often as somebody wants the metric, in a thread of its
    own: it should return at once, and None where there is no value. Given again, it replaces the one before.

    Parameters
    ----------
    name
        Lower-case letters, digits and ``_``.
    function
        Returns the newest value.
    unit
        What it is counted in, such as ``records`` or ``s``.

    Raises
    ------
    ConfigurationError
        The name is none, or the function cannot be called.

    Examples
    --------
    >>> metric("sessions", lambda: 12, unit="sessions")
    """
    is_plain = isinstance(name, str) and name.isascii() and name.replace("_", "a").isalnum() and name == name.lower()
    if not is_plain or len(name) > _LONGEST_NAME:
        raise ConfigurationError(
            f'name: {name!r} is none for a metric; write lower-case letters, digits and _, such as "sessions"',
            field="name",
        )
    if not callable(function):
        raise ConfigurationError(
            f"function: {function!r} cannot be called; give one without arguments that returns a number",
            field="function",
        )
    with _own_lock:
        if name not in _own and len(_own) >= _MOST_OWN:
            raise ConfigurationError(f"name: there are {_MOST_OWN} metrics of your own already", field="name")
        _own[name] = (unit, function)


def add_own_metrics(meters: Meters) -> bool:
    """Offer the user's own metrics that are not offered yet; says whether there were any."""
    offered = {offer.name for offer in meters.offers}
    with _own_lock:
        new = [(name, unit) for name, (unit, _) in _own.items() if f"{OWN_PREFIX}{name}" not in offered]
    for name, unit in new:
        meters.add_own(name, unit, lambda name=name: _own[name][1]())  # type: ignore[misc]
    return bool(new)
