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
