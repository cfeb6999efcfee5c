# SPDX-License-Identifier: Apache-2.0
"""The cores that operators in real-time mode need at least, held against what the settings give them."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.adaptors.spark.real_time_mode import check_real_time
from penstock.errors import ConfigurationError
from penstock.settings import RunSettings
from penstock.topology import ARRIVALS


def known_partitions(settings: RunSettings) -> dict[str, int]:
    """Partitions of the topics that the run makes, by who writes to them: what is known before it starts."""
    if settings.broker is None or not settings.has_topics:
        return {}
    writers = [operator.name for operator in settings.operators]
    if settings.arrivals.is_replayed:
        writers.append(ARRIVALS)
    return dict.fromkeys(writers, settings.broker.partitions)


def check_floor(settings: RunSettings, partitions: Mapping[str, int]) -> None:
    """Refuse real-time operators whose fewest executors have fewer cores than their topic has partitions.

    Parameters
    ----------
    partitions
        Of the topics, by who writes to them; operators whose input is not among them are not looked at.

    Raises
    ------
    ConfigurationError
        With every such operator, and what to write instead.
    """
    faults: list[str] = []
    for i, operator in enumerate(settings.operators):
        if operator.is_real_time and operator.input in partitions:
            try:
                check_real_time(operator.name, operator.limits(), operator.executor_cores, partitions[operator.input])
            except ConfigurationError as fault:
                faults += [f"operators.{i}.{text}" for text in fault.faults]
    if faults:
        raise ConfigurationError.of_all(settings.name, faults)
