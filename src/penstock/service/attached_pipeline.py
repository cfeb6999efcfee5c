# SPDX-License-Identifier: Apache-2.0
"""The pipeline that an agent introduces: its settings, looked through before anything is built from them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock._wiring import LoopSettings, fitting_limits
from penstock.adaptors.agent.arrival_report import Reported
from penstock.errors import ConfigurationError
from penstock.policies import make_policy, policy_entry
from penstock.ports import Notebook, Policy, PolicyContext
from penstock.records import Limits, Mode
from penstock.running.policy_choice import policy_context
from penstock.service.facts import PipelineFacts, facts_of
from penstock.settings import RunSettings, parse_settings
from penstock.steering import PolicyChoice

_OF_PIPELINE = ("name", "mode", "objective", "interval", "window", "warm_up", "policy", "guards", "prices")
_OF_OPERATOR = ("name", "executors", "cpu_shares", "trigger")
"""Nothing else is taken from an agent: other settings name files and programs of the host that they stand on."""


@dataclass(frozen=True, slots=True)
class AttachedPipeline:
    """One query as its agent introduces it.

    Attributes
    ----------
    plain
        The settings as plain data, with the query's run.
    settings
        The same, read.
    cores_per_executor, cap
        Cores of an executor, and the most records of a batch; None: there is no such bound.
    arrivals
        What its agent says about when records arrived.
    query
        Stands for what it does with a record: what was learnt about another one says nothing about it.
    """

    plain: Mapping[str, Any]
    settings: RunSettings
    cores_per_executor: int
    cap: int | None
    arrivals: Reported
    query: str

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self.settings.name

    @property
    def operator(self) -> str:
        """The name of its operator: of an attached query the same."""
        return self.settings.operators[0].name

    @property
    def choice(self) -> PolicyChoice:
        """The policy that the settings name."""
        policy = self.settings.policy
        return PolicyChoice(policy.name or "", policy.options, policy.rules)

    def limits(self, can_set_cpu_share: bool) -> Limits:
        """What the query may have."""
        return fitting_limits(self.settings.operators[0].limits(), can_set_cpu_share)

    def facts(self, limits: Limits, started_at: float) -> PipelineFacts:
        """What does not change."""
        return facts_of(self.settings, limits={self.operator: limits}, started_at=started_at)

    def loop_settings(self, limits: Limits) -> LoopSettings:
        """What its loop needs to know."""
        settings = self.settings
        return LoopSettings(
            limits=limits,
            objective=settings.objective_of(self.operator),
            mode=Mode(settings.mode),
            guards=settings.guards,
            window_seconds=settings.window,
            warm_up_seconds=settings.warm_up,
            cores_per_executor=self.cores_per_executor,
        )

    def build_policy(self, choice: PolicyChoice, limits: Limits, notebook: Notebook) -> Policy:
        """Build a policy for it, with what those before it have learnt; raises ConfigurationError."""
        return make_policy(choice.name, self._context(limits, notebook), _text_only(choice.all_options))

    def _context(self, limits: Limits, notebook: Notebook) -> PolicyContext:
        context = policy_context(self.settings, {self.operator: limits}, notebook=notebook)
        site = replace(context.operators[self.operator], cap=self.cap, query=self.query)
        return replace(context, operators={self.operator: site})


def read_attached(text: str, name: str) -> AttachedPipeline:
    """Read what an agent sent as its settings.

    Raises
    ------
    ConfigurationError
        With every mistake.
    """
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise ConfigurationError(f"settings: not JSON: {fault}", field="settings") from fault
    if not isinstance(given, dict) or not isinstance(given.get("operators"), list) or len(given["operators"]) != 1:
        raise ConfigurationError("settings: they have to name one operator", field="settings")
    operator = given["operators"][0]
    if not isinstance(operator, dict) or given.get("name") != name:
        raise ConfigurationError(f"settings.name: the pipeline has to be called {name!r}", field="settings")
    plain = {key: given[key] for key in _OF_PIPELINE if given.get(key) is not None}
    plain["operators"] = [{key: operator[key] for key in _OF_OPERATOR if operator.get(key) is not None}]
    if "guards" in given and given["guards"] is None:
        plain["guards"] = "none"
    settings = parse_settings(plain, "the settings of the query")
    if settings.policy.name is None:
        raise ConfigurationError("settings.policy.name: is missing", field="settings")
    policy_entry(settings.policy.name)  # raises where there is none
    cores, cap = given.get("cores_per_executor", 1), given.get("cap")
    if type(cores) is not int or not 1 <= cores <= 4096 or not (cap is None or (type(cap) is int and cap >= 1)):
        raise ConfigurationError("settings: cores_per_executor and cap have to be whole numbers", field="settings")
    try:
        arrivals = Reported(given.get("arrivals") or Reported.NOTHING)
    except ValueError:
        known = ", ".join(Reported)
        raise ConfigurationError(f"settings.arrivals: has to be one of {known}", field="settings") from None
    run = str(given.get("query_run"))[:200]
    # Without a plan to know it by, another run may be of another query.
    query = str(given.get("plan") or f"run {run}")[:200]
    return AttachedPipeline({**plain, "query_run": run}, settings, cores, cap, arrivals, query)


def _text_only(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options in which rules can only be text: with a line's end nothing reads them as the name of a file or module."""
    if "samples" in options:
        raise ConfigurationError("policy.samples: a file of the master's host cannot be named", field="policy.samples")
    rules = options.get("rules")
    if rules is None:
        return dict(options)
    if not isinstance(rules, str):
        raise ConfigurationError("policy.rules: only the text of rules can be sent to a master", field="policy.rules")
    return {**options, "rules": f"{rules.rstrip()}\n"}
