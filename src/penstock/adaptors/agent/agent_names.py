# SPDX-License-Identifier: Apache-2.0
"""How agents are called whose operators a master scales."""

from __future__ import annotations

_BETWEEN = "/"


def agent_name(pipeline: str, operator: str, operators: int) -> str:
    """How an operator's agent is called: as the pipeline, where it has no other; else with the operator's name.

    Examples
    --------
    >>> agent_name("words", "logs", 1), agent_name("words", "logs", 2)
    ('words', 'words/logs')
    """
    return pipeline if operators == 1 else f"{pipeline}{_BETWEEN}{operator}"


def pipeline_of(agent: str) -> str:
    """The pipeline that an agent speaks for: names of pipelines have no slash."""
    return agent.partition(_BETWEEN)[0]
