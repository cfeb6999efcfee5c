# SPDX-License-Identifier: Apache-2.0
"""The bodies of requests that steer."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from penstock.errors import ConfigurationError
from penstock.loop.helm import LONGEST_HOLD_SECONDS
from penstock.secrets import shown
from penstock.steering import PolicyChoice, SteeredMode

_DEEPEST = 20


def _not_too_deep(options: dict[str, Any]) -> dict[str, Any]:
    """Refuse options that nest without end: everything that reads or shows them goes down as far."""
    level: list[Any] = [options]
    for _ in range(_DEEPEST):
        level = [
            inner
            for outer in level
            if isinstance(outer, (dict, list))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    if level:
        raise ValueError(f"they nest more than {_DEEPEST} deep; write them as in settings")
    return options


Options = Annotated[dict[str, Any], AfterValidator(_not_too_deep)]


class OrderBody(BaseModel):
    """Who says so, and why."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    reason: str = Field(default="", max_length=500, description="why; it is kept, and shown with every decision")
    by: str | None = Field(default=None, max_length=64, description="who says so; default: the role of the token")
    dry_run: bool = Field(
        default=False, strict=True, description="only check it, and say what would be; nothing changes"
    )


class OperatorBody(OrderBody):
    """An order for one operator, or for all."""

    operator: str | None = Field(default=None, max_length=200, description="whose; left out: all operators")


class ModeBody(OperatorBody):
    """How far the policy may go."""

    mode: SteeredMode = Field(description="what is left to the policy")


class SizeBody(OperatorBody):
    """A size to hold for a time."""

    # Strict: `true` is no number of executors.
    executors: int = Field(ge=1, le=1_000_000, strict=True, description="how many; within the limits of the settings")
    cpu_share: float | None = Field(
        default=None, gt=0, le=1, strict=True, description="left out: the largest that is allowed"
    )
    for_seconds: float = Field(
        ge=1, le=LONGEST_HOLD_SECONDS, strict=True, description="how long; then the policy goes on"
    )


class PolicyBody(OrderBody):
    """Another policy."""

    policy: str | None = Field(default=None, max_length=200, description="its name; left out: `rules`")
    options: Options = Field(default_factory=dict, description="its options, as in settings")
    rules: str | None = Field(default=None, max_length=50_000, description="the text of rules, not the name of a file")

    @model_validator(mode="after")
    def _names_something(self) -> PolicyBody:
        if self.policy is None and self.rules is None:
            raise ValueError("policy: is missing; give its name, or rules")
        if "rules" in self.options:
            raise ValueError("options.rules: rules stand beside the options; give them as `rules`")
        return self

    def choice(self) -> PolicyChoice:
        """The policy that is meant.

        Raises
        ------
        ConfigurationError
            An option is a secret: what is chosen is kept with the run, and shown.
        """
        if shown("options", self.options) != self.options:
            raise ConfigurationError(
                "options: one of them looks like a secret, and options are kept with the run; leave it out",
                field="options",
            )
        # With a line's end, rules are text to all that read them: no file or module of the host can be named.
        rules = None if self.rules is None else f"{self.rules.rstrip()}\n"
        return PolicyChoice(self.policy or "rules", self.options, rules)
