# SPDX-License-Identifier: Apache-2.0
"""The pipeline that an agent introduces: its settings, looked through before anything is built from them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock._wiring import LoopSettings
from penstock.adaptors.agent.agent_names import agent_name, pipeline_of
from penstock.adaptors.agent.arrival_report import Reported
from penstock.errors import ConfigurationError
from penstock.policies import make_policy, policy_entry
from penstock.ports import Notebook, Policy, PolicyContext
from penstock.records import Limits, Mode
from penstock.running.policy_choice import policy_context
from penstock.service.facts import PipelineFacts, facts_of
from penstock.settings import RunSettings, parse_settings
from penstock.steering import PolicyChoice

_OF_PIPELINE = (
    "name",
    "mode",
    "objective",
    "objectives",
    "interval",
    "window",
    "warm_up",
    "policy",
    "guards",
    "prices",
)
_OF_OPERATOR = ("name", "input", "executors", "cpu_shares", "trigger")
"""Nothing else is taken from an agent: other settings name files and programs of the host that they stand on."""
_OF_SITE = ("cores_per_executor", "cap", "tasks", "arrivals", "plan", "follows_path")
"""What settings do not have; said with an operator, or once where it holds for all."""


@dataclass(frozen=True, slots=True)
class AttachedOperator:
    """What an agent says of its operator besides settings.

    Attributes
    ----------
    cores_per_executor, cap, tasks
        Cores of an executor, the most records of a batch, and how many tasks read its records; None: there is no such
        bound, or it is not known.
    arrivals
        What its agent says about when records arrived.
    query
        Stands for what it does with a record: what was learnt about another one says nothing about it.
    follows_path
        Whether its agent says when records first arrived at the pipeline.
    """

    cores_per_executor: int
    cap: int | None
    tasks: int | None
    arrivals: Reported
    query: str
    follows_path: bool


@dataclass(frozen=True, slots=True)
class AttachedPipeline:
    """One pipeline as the agent of one of its operators introduces it; an attached query is one with one operator.

    Attributes
    ----------
    plain
        The settings as plain data, with the query's run: the same from all agents of a run.
    settings
        The same, read.
    operators
        What is said of each operator besides.
    operator
        Whose agent has said it.
    """

    plain: Mapping[str, Any]
    settings: RunSettings
    operators: Mapping[str, AttachedOperator]
    operator: str

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self.settings.name

    @property
    def choice(self) -> PolicyChoice:
        """The policy that the settings name."""
        policy = self.settings.policy
        return PolicyChoice(policy.name or "", policy.options, policy.rules)

    def agent_of(self, operator: str) -> str:
        """How the agent of an operator is called."""
        return agent_name(self.name, operator, len(self.operators))

    @property
    def limits(self) -> dict[str, Limits]:
        """What each operator may have; agents have left out what they cannot set."""
        return {o.name: o.limits() for o in self.settings.operators}

    def facts(self, started_at: float) -> PipelineFacts:
        """What does not change."""
        return facts_of(self.settings, limits=self.limits, started_at=started_at)

    def loop_settings(self, operator: str) -> LoopSettings:
        """What the loop of an operator needs to know."""
        settings = self.settings
        return LoopSettings(
            limits=self.limits[operator],
            objective=settings.objective_of(operator),
            mode=Mode(settings.mode),
            guards=settings.guards,
            window_seconds=settings.window,
            warm_up_seconds=settings.warm_up,
            cores_per_executor=self.operators[operator].cores_per_executor,
        )

    def build_policy(self, choice: PolicyChoice, notebook: Notebook) -> Policy:
        """Build a policy for it, with what those before it have learnt; raises ConfigurationError."""
        return make_policy(choice.name, self._context(notebook), _text_only(choice.all_options))

    def _context(self, notebook: Notebook) -> PolicyContext:
        context = policy_context(self.settings, self.limits, notebook=notebook)
        return replace(
            context,
            operators={
                name: replace(site, cap=known.cap, tasks=known.tasks, query=known.query)
                for name, site in context.operators.items()
                for known in (self.operators[name],)
            },
        )


def read_attached(text: str, agent: str) -> AttachedPipeline:
    """Read what an agent sent as its settings.

    Parameters
    ----------
    text
        The settings of its pipeline.
    agent
        How it calls itself: `agent_name`.

    Raises
    ------
    ConfigurationError
        With every mistake.
    """
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise ConfigurationError(f"settings: not JSON: {fault}", field="settings") from fault
    entries = given.get("operators") if isinstance(given, dict) else None
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise ConfigurationError("settings: they have to name one operator at least", field="settings")
    name = pipeline_of(agent)
    if given.get("name") != name:
        raise ConfigurationError(f"settings.name: the pipeline has to be called {name!r}", field="settings")
    plain = {key: given[key] for key in _OF_PIPELINE if given.get(key) is not None}
    plain["operators"] = [{key: entry[key] for key in _OF_OPERATOR if entry.get(key) is not None} for entry in entries]
    if "guards" in given and given["guards"] is None:
        plain["guards"] = None  # not left out, which would stand for the default ones
    settings = parse_settings(plain, "the settings of the query")
    if settings.policy.name is None:
        raise ConfigurationError("settings.policy.name: is missing", field="settings")
    policy_entry(settings.policy.name)  # raises where there is none
    names = [o.name for o in settings.operators]
    known = [n for n in names if agent_name(name, n, len(names)) == agent]
    if not known:
        expected = ", ".join(agent_name(name, n, len(names)) for n in names)
        raise ConfigurationError(
            f"settings: the agents of this pipeline are called {expected}, not {agent!r}", field="settings"
        )
    run = str(given.get("query_run"))[:200]
    shared = {key: given[key] for key in _OF_SITE if key in given}
    operators = {
        one: _read_site({**shared, **{key: entry[key] for key in _OF_SITE if key in entry}}, run)
        for one, entry in zip(names, entries, strict=True)
    }
    return AttachedPipeline({**plain, "query_run": run}, settings, operators, known[0])


def _read_site(given: Mapping[str, Any], run: str) -> AttachedOperator:
    cores, cap, tasks = given.get("cores_per_executor", 1), given.get("cap"), given.get("tasks")
    bounds_fit = all(bound is None or (type(bound) is int and bound >= 1) for bound in (cap, tasks))
    if type(cores) is not int or not 1 <= cores <= 4096 or not bounds_fit:
        raise ConfigurationError(
            "settings: cores_per_executor, cap and tasks have to be whole numbers", field="settings"
        )
    try:
        arrivals = Reported(given.get("arrivals") or Reported.NOTHING)
    except ValueError:
        known = ", ".join(Reported)
        raise ConfigurationError(f"settings.arrivals: has to be one of {known}", field="settings") from None
    # Without a plan to know it by, another run may be of another query.
    query = str(given.get("plan") or f"run {run}")[:200]
    return AttachedOperator(cores, cap, tasks, arrivals, query, given.get("follows_path") is True)


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
