# SPDX-License-Identifier: Apache-2.0
"""The options of an application: a default and a reader each, all checked before anything starts. Needs no Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from penstock.errors import ConfigurationError
from penstock.units import parse_whole_number, positive_seconds

Options: TypeAlias = Mapping[str, str]
"""What a pipeline file gives an application."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option's default, as users write it, and the function that reads its text: ``read(name, text)``."""

    default: str
    read: Callable[[str, str], Any]


class ApplicationOptions:
    """The options that an application knows.

    Parameters
    ----------
    application
        Its function's name.
    writes
        The file that it writes into the folder ``output``, which it then needs. None: whoever runs the query writes its
        rows; ``output`` is accepted and ignored.
    options
        By name.
    """

    def __init__(self, application: str, *, writes: str | None = None, **options: Option) -> None:
        self._application = application
        self._writes = writes
        self._options = options

    def read(self, options: Options) -> dict[str, Any]:
        """Return the value of every option, given or not.

        Raises
        ------
        ConfigurationError
            Lists every mistake: unknown option, wrong value, no output folder.
        """
        known = (*self._options, "output")
        faults = [f"{name}: unknown option; known: {', '.join(known)}" for name in options if name not in known]
        if self._writes is not None and not options.get("output"):
            faults.append(f"output: is missing; give the folder for {self._writes}")
        values: dict[str, Any] = {"output": options.get("output")}
        for name, option in self._options.items():
            try:
                values[name] = option.read(name, str(options.get(name, option.default)))
            except ConfigurationError as fault:
                faults.extend(fault.faults)
        if faults:
            raise ConfigurationError.of_all(f"options of {self._application}", faults)
        return values

    def check(self, operator: str, options: Options) -> None:
        """Check the options of the function `operator`, as a run does before it starts anything."""
        if operator != self._application:
            raise ConfigurationError(
                f"operator: there is no {operator!r} here; there is {self._application}", field="operator"
            )
        self.read(options)


def whole_number(default: int, *, least: int, most: int) -> Option:
    """An option that is a whole number."""
    return Option(str(default), lambda name, text: parse_whole_number(name, text, least=least, most=most))


def microseconds(default: str, *, may_be_zero: bool = False) -> Option:
    """An option that is a duration, read in microseconds."""

    def read(name: str, text: str) -> int:
        if may_be_zero and text.strip() in ("0", "0s"):
            return 0
        return max(1, round(positive_seconds(name, text) * 1e6))

    return Option(default, read)
