# SPDX-License-Identifier: Apache-2.0
"""All errors of Penstock, as one tree. Each carries its values as attributes and says what to do next.

::

    PenstockError
      ConfigurationError (ValueError)    a field of the user's input is wrong; nothing was started
        RuleError                        a scaling rule is wrong; it says where the rule was written
      NotReadyError                      not enough data yet: the loop holds, never fails
      SteeringError                      an order cannot be carried out as things are; nothing was changed
      PolicyError                        a policy failed, or gave no decision: the loop holds
      ModelError
        InvalidProcessError (ValueError)
        ConvergenceError
      AdaptorError                       an outside system failed
        MetricSourceError
        ActuationError
          ActuationTimeoutError
          ActuationRejectedError
        ClusterError

Only ``loop/runner.py`` and ``cli/`` catch the base class.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import ParamSpec, Self, TypeVar

_T = TypeVar("_T")
_P = ParamSpec("_P")


def did_you_mean(name: str, known: Iterable[str], listed: str = "known:") -> str:
    """The second half of a message about an unknown name: the nearest of those known, if there is one, and all.

    Examples
    --------
    >>> did_you_mean("meed", ["mead", "rules"]), did_you_mean("x", ["mead", "rules"])
    ('did you mean mead? Known: mead, rules', 'known: mead, rules')
    """
    names = list(known)
    swapped = [one for one in names if sorted(one) == sorted(name)]  # p59 is p95 rather than p99
    near = swapped or difflib.get_close_matches(name, names, n=1)
    every = f"{listed} {', '.join(names) or 'none'}"
    return f"did you mean {near[0]}? {every[0].upper()}{every[1:]}" if near else every


class PenstockError(Exception):
    """Base class of all failures that Penstock itself reports."""


class ConfigurationError(PenstockError, ValueError):
    """The user's input is wrong. `field` names where, and the message says how to fix it."""

    def __init__(self, message: str, *, field: str | None = None, faults: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.field = field
        self.faults = tuple(faults) or (message,)

    @classmethod
    def of_all(cls, where: str, faults: Sequence[str]) -> Self:
        """Return one error that lists every fault found in `where`. The attribute `faults` has them separately."""
        if len(faults) == 1:
            return cls(f"{where}: {faults[0]}", field=where, faults=faults)
        lines = "\n".join(f"  - {fault}" for fault in faults)
        return cls(f"{where}: {len(faults)} mistakes\n{lines}", field=where, faults=faults)


def known_arguments(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Let a function refuse an unknown argument as a mistake of the user's: by its name, with the nearest one.

    Examples
    --------
    >>> @known_arguments
    ... def attach(query, *, executors=(1, 1)):
    ...     return executors
    >>> attach("query", executor=(1, 3))
    Traceback (most recent call last):
    ...
    penstock.errors.ConfigurationError: executor: attach has no such argument; did you mean executors? Known: executors
    """
    parameters = inspect.signature(function).parameters.values()
    names = [one.name for one in parameters if one.kind is not inspect.Parameter.POSITIONAL_ONLY]
    optional = [one.name for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY]

    @wraps(function)
    def checked(*given: _P.args, **named: _P.kwargs) -> _T:
        faults = [
            f"{name}: {function.__name__} has no such argument; {did_you_mean(name, optional)}"
            for name in named
            if name not in names
        ]
        if len(faults) == 1:
            raise ConfigurationError(faults[0], field=next(name for name in named if name not in names))
        if faults:
            raise ConfigurationError.of_all(function.__name__, faults)
        return function(*given, **named)

    return checked


class RuleError(ConfigurationError):
    """A scaling rule is wrong. `message` says how to fix it; `line`, `column` and `source` say where it was written."""

    def __init__(
        self,
        message: str,
        *,
        line: int | None = None,
        column: int | None = None,
        source: str = "",
        field: str | None = "rules",
        faults: Sequence[str] = (),
    ) -> None:
        self.message = message
        self.line, self.column, self.source = line, column, source
        super().__init__(f"{self.place}: {message}" if self.place else message, field=field, faults=faults)

    @property
    def place(self) -> str:
        """Where the rule was written, such as ``calm.rules, line 3, column 5``; empty where that is not known."""
        line = "" if self.line is None else f"line {self.line}, column {self.column or 1}"
        return ", ".join(part for part in (self.source, line) if part)

    def at(self, line: int, column: int, source: str = "") -> RuleError:
        """The same error with its place."""
        return RuleError(self.message, line=line, column=column, source=source)


class Mistakes:
    """Gathers mistakes, so that all of them are reported at once.

    Examples
    --------
    >>> def refuse(field):
    ...     raise ConfigurationError(f"{field}: is wrong; write 1", field=field)
    >>> mistakes = Mistakes()
    >>> mistakes.of(lambda: 5), mistakes.of(lambda: refuse("lower")), mistakes.of(lambda: refuse("upper"))
    (5, None, None)
    >>> mistakes.raise_all("policy")
    Traceback (most recent call last):
    ...
    penstock.errors.ConfigurationError: policy: 2 mistakes
      - lower: is wrong; write 1
      - upper: is wrong; write 1
    """

    def __init__(self) -> None:
        self.found: list[ConfigurationError] = []

    def of(self, read: Callable[[], _T]) -> _T | None:
        """Return what `read` returns, or None if it refuses."""
        try:
            return read()
        except ConfigurationError as fault:
            self.found.append(fault)
            return None

    def raise_all(self, where: str) -> None:
        """Raise the one mistake as it is, several as one error about `where`, none not at all."""
        if len(self.found) == 1:
            raise self.found[0]
        if self.found:
            raise ConfigurationError.of_all(where, [text for fault in self.found for text in fault.faults])


class NotReadyError(PenstockError):
    """There is not enough data yet. `needed` and `available` say how much is missing, if that can be counted."""

    def __init__(self, message: str, *, needed: int | None = None, available: int | None = None) -> None:
        super().__init__(message)
        self.needed = needed
        self.available = available


class PolicyError(PenstockError):
    """A policy failed, or gave something else than a decision. The operator keeps what it has."""


class SteeringError(PenstockError):
    """An order to a running loop cannot be carried out as things are. Nothing was changed."""


class ModelError(PenstockError):
    """A mathematical model could not be built or solved."""


class InvalidProcessError(ModelError, ValueError):
    """Matrices or vectors do not describe a stochastic process. The message names the broken condition."""


class ConvergenceError(ModelError):
    """An iteration did not converge."""

    def __init__(self, message: str, *, iterations: int, residual: float) -> None:
        super().__init__(f"{message} (after {iterations} iterations, residual {residual:.3g})")
        self.iterations = iterations
        self.residual = residual


class AdaptorError(PenstockError):
    """An outside system failed. `target` says which; `retryable` says whether the same call may succeed later."""

    def __init__(
        self, message: str, *, target: str = "", request_id: str | None = None, retryable: bool = False
    ) -> None:
        super().__init__(message)
        self.target = target
        self.request_id = request_id
        self.retryable = retryable


class MetricSourceError(AdaptorError):
    """Measurements could not be read."""


class ActuationError(AdaptorError):
    """A change could not be carried out."""


class ActuationTimeoutError(ActuationError):
    """A requested change did not take effect in time."""


class ActuationRejectedError(ActuationError):
    """The outside system refused a change."""


class ClusterError(AdaptorError):
    """The cluster or one of its processes could not be started, or was lost."""
