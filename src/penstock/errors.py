# SPDX-License-Identifier: Apache-2.0
"""All errors of Penstock, as one tree. Each carries its values as attributes and says what to do next.

::

    PenstockError
      ConfigurationError (ValueError)    a field of the user's input is wrong; nothing was started
        RuleError                        a scaling rule is wrong; it says where the rule was written
      NotReadyError                      not enough data yet: the loop holds, never fails
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

from collections.abc import Sequence
from typing import Self


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


class NotReadyError(PenstockError):
    """There is not enough data yet. `needed` and `available` say how much is missing, if that can be counted."""

    def __init__(self, message: str, *, needed: int | None = None, available: int | None = None) -> None:
        super().__init__(message)
        self.needed = needed
        self.available = available


class PolicyError(PenstockError):
    """A policy failed, or gave something else than a decision. The operator keeps what it has."""


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
