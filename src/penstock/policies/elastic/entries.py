# SPDX-License-Identifier: Apache-2.0
"""The elastic policy's place in the registry."""

from __future__ import annotations

import inspect
from typing import Any

from penstock.policies.elastic.options import MEANINGS, elastic_options
from penstock.policies.elastic.policy import ElasticPolicy
from penstock.policies.entry import PolicyEntry, PolicyOption
from penstock.ports import PolicyContext


def _build(context: PolicyContext, **options: Any) -> ElasticPolicy:
    if options.get("catch_up") is None:
        # What has to be caught up with first binds all: operators wait for each other.
        wanted = [objective for objective in context.objectives.values() if objective.statistic is None]
        options["catch_up"] = min((objective.catch_up_seconds for objective in wanted), default=None)
    return ElasticPolicy(context, elastic_options(**options))


ENTRY = PolicyEntry(
    name="elastic",
    summary="plans the cheapest executors and CPU that keep up, by the throughput each size sustains",
    build=_build,
    options=tuple(
        PolicyOption(parameter.name, parameter.default, MEANINGS[parameter.name])
        for parameter in inspect.signature(elastic_options).parameters.values()
    ),
)
